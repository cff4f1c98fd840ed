"""ΦΨᵀ by SciPy, by columns and by dense arrays: the same numbers, whatever the number of threads."""

import numpy as np
import pytest
import scipy.sparse

from walkernel.features import HostFeatures, _gram, gram

SHAPES = {"square": (40, 40), "more rows": (90, 20), "more columns": (7, 300), "one row": (1, 50)}


def features(n_rows, n_columns, seed, density=0.2):
    rng = np.random.default_rng(seed)
    return scipy.sparse.random_array((n_rows, n_columns), density=density, format="csr", rng=rng)


@pytest.fixture
def by_columns(monkeypatch):
    monkeypatch.setattr(_gram, "LITTLE_WORK", -(2**30))
    monkeypatch.setattr(_gram, "MAX_DENSE_ENTRIES", 0)
    monkeypatch.setattr(_gram, "SUMS_AT_ONCE", 60)


@pytest.mark.parametrize("n_threads", [1, 2, 7])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_equals_the_dense_product(by_columns, shape, n_threads):
    left, right = features(*shape, seed=0), features(13, shape[1], seed=1)
    for other in (left, right):
        expected = left.toarray() @ other.toarray().T
        assert np.allclose(gram(left, other, n_threads), expected, rtol=0, atol=1e-13 * expected.max())


def test_threads_change_no_bit(by_columns):
    left, right = features(50, 200, seed=0), features(30, 200, seed=1)
    for other in (left, right):
        first, *rest = [gram(left, other, n_threads) for n_threads in (1, 2, 3, 50, 64)]
        assert all(np.array_equal(one, first) for one in rest)


def test_columns_without_entries_and_unsorted_rows(by_columns):
    left = features(20, 30, seed=0, density=0.05)
    descending = np.concatenate([row[::-1] for row in np.split(left.indices, left.indptr[1:-1])])
    left = scipy.sparse.csr_array((left.data, descending, left.indptr), left.shape)
    assert np.allclose(gram(left, left), left.toarray() @ left.toarray().T, rtol=0, atol=1e-14)


def test_no_entries_at_all(by_columns):
    empty = scipy.sparse.csr_array((3, 5))
    assert np.array_equal(gram(empty, features(4, 5, seed=0)), np.zeros((3, 4)))


@pytest.mark.parametrize("way", ["LITTLE_WORK", "MAX_DENSE_ENTRIES", None])
def test_each_way_gives_the_same(monkeypatch, way):
    """SciPy serves few meetings, arrays what is nearly full, columns the rest."""
    left = features(60, 80, seed=2, density=0.9)
    monkeypatch.setattr(_gram, "LITTLE_WORK", 2**62 if way == "LITTLE_WORK" else -(2**30))
    monkeypatch.setattr(_gram, "MAX_DENSE_ENTRIES", 2**62 if way == "MAX_DENSE_ENTRIES" else 0)
    called, add_products = [], _gram.add_products
    monkeypatch.setattr(_gram, "add_products", lambda *args: called.append(add_products(*args)))
    assert np.allclose(gram(left, left), left.toarray() @ left.toarray().T, rtol=1e-13, atol=0)
    assert bool(called) == (way is None)


def test_features_know_their_threads(monkeypatch):
    given = []
    monkeypatch.setattr("walkernel.features._matrix.gram", lambda left, right, n: given.append(n))
    matrix = features(3, 4, seed=0)
    HostFeatures(matrix, n_threads=3).gram(HostFeatures(matrix))
    assert given == [3]
