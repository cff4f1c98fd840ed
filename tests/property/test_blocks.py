"""Products with features in blocks are those with the whole matrix, for every matrix and every cut."""

from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from blocks import KeptBlocks, LaterBlocks, random_features
from walkernel.features import HostFeatures, multiply_transposed
from walkernel.features import _products as products


@st.composite
def cut_matrices(draw):
    """Return a matrix, some edges of blocks, empty ones among them, a kind of blocks and a size of leaves."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, columns = draw(st.integers(1, 90)), draw(st.integers(1, 30))
    matrix = random_features(
        rng, n, columns, draw(st.integers(0, 8)), dtype=draw(st.sampled_from(["i4", "i8"]))
    )
    edges = [0, *sorted(draw(st.lists(st.integers(0, n), max_size=12))), n]
    return matrix, edges, draw(st.sampled_from([KeptBlocks, LaterBlocks])), draw(st.integers(1, 30)), rng


@given(cut_matrices(), st.integers(1, 4), st.integers(1, 5))
def test_sums_do_not_depend_on_blocks_and_threads(cut, n_columns, n_threads):
    matrix, edges, kind, leaf, rng = cut
    V = rng.normal(size=(matrix.shape[0], n_columns))
    with mock.patch.object(products, "LEAF_ROWS", leaf), mock.patch("walkernel._threads.SMALL", 0):
        whole = multiply_transposed(matrix, V, 1)
        assert np.array_equal(multiply_transposed(matrix, V, n_threads), whole)
        assert np.array_equal(kind(matrix, edges).multiply_transposed(V), whole)
    size = abs(matrix).T @ abs(V)
    assert (np.abs(whole - matrix.T @ V) <= 1e-13 * size).all()


@given(cut_matrices(), st.data())
def test_rows_products_and_entries(cut, data):
    matrix, edges, kind, _, rng = cut
    n, n_columns = matrix.shape
    blocks, X = kind(matrix, edges), rng.normal(size=(n_columns, 3))
    assert np.array_equal(blocks.multiply(X), HostFeatures(matrix).multiply(X))
    positions = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=20)))
    rows = blocks.rows(positions)
    assert np.array_equal(rows.indices, matrix[positions].indices)
    assert np.array_equal(rows.toarray(), matrix[positions].toarray())
    assert np.array_equal(blocks.row_products(rows).toarray(), (rows @ matrix.T.tocsr()).toarray())
    pair, host = (positions, positions[::-1]), HostFeatures(matrix)
    assert np.array_equal(blocks.dots(blocks, *pair), host.dots(host, *pair))


def test_plain_sums_do_depend_on_blocks():
    """The twin: the sum of the blocks' own products differs for some of the same matrices."""
    differs = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        matrix, V = random_features(rng, 80, 10), rng.normal(size=(80, 2))
        blocks = KeptBlocks(matrix, [0, 7, 33, 80])
        plain = sum(b.T @ part for b, part in zip(blocks.kept, np.split(V, [7, 33]), strict=True))
        differs += not np.array_equal(plain, multiply_transposed(matrix, V, 1))
    assert differs >= 18
