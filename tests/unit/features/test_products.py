"""Products with features: one tree of sums, whatever threads and blocks there are."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import scipy.sparse

from blocks import KeptBlocks, LaterBlocks, random_features
from walkernel.features import HostFeatures, SumFeatures, block_edges, multiply_transposed
from walkernel.features import _products as products
from walkernel.features._products import leaves

N_ROWS, N_COLUMNS = 3400, 23
EDGES = {
    "one": [0, 3400],
    "rows": [*range(300), 3400],
    "hundreds": [*range(0, 3400, 100), 3400],
    "at leaves": [0, 261, 784, 1569, 2353, 3400],
    "uneven": [0, 1, 2, 1900, 1901, 3399, 3400],
    "empty ones": [0, 0, 784, 784, 784, 1300, 3400, 3400],
}
MATRIX = random_features(np.random.default_rng(0), N_ROWS, N_COLUMNS)
HOST = HostFeatures(MATRIX)
V = np.random.default_rng(1).normal(size=(N_ROWS, 4))


def by_the_tree(matrix, V, i, k, starts):
    """Return the sum as the module's docstring has it, in Python."""
    if k - i == 1:
        total = np.zeros((matrix.shape[1], V.shape[1]))
        for row in range(starts[i], starts[k]):
            for e in range(matrix.indptr[row], matrix.indptr[row + 1]):
                total[matrix.indices[e]] = total[matrix.indices[e]] + matrix.data[e] * V[row]
        return total
    j = (i + k) // 2
    return by_the_tree(matrix, V, i, j, starts) + by_the_tree(matrix, V, j, k, starts)


def plain_sum(blocks, V):
    """Return the sum of the blocks' products as they come: not what is promised."""
    parts = zip(blocks.kept, np.split(V, blocks.edges[1:-1]), strict=True)
    return sum(block.T @ part for block, part in parts)


@cache
def reference():
    """Return the sum over 13 leaves: a tree that is not balanced."""
    total = by_the_tree(MATRIX, V, 0, 13, N_ROWS * np.arange(14) // 13)
    total.flags.writeable = False
    return total


class TestLeaves:
    @pytest.mark.parametrize("n", [1, 255, 256, 511, 512, 600, 5000, 10**6, 2**24, 40 * 2**20, 10**8])
    def test_they_cover_all_rows(self, n):
        starts = leaves(n)
        sizes = np.diff(starts)
        assert starts[0] == 0
        assert starts[-1] == n
        assert sizes.min() >= min(n, 256)
        assert sizes.max() - sizes.min() <= 1
        assert starts.size - 1 <= 64

    def test_counts(self):
        counts = {n: leaves(n).size - 1 for n in (511, 512, 4096, 10**7, 20 * 2**20, 10**9)}
        assert counts == {511: 1, 512: 2, 4096: 16, 10**7: 16, 20 * 2**20: 20, 10**9: 64}

    @pytest.mark.parametrize(
        ("n", "size", "edges"), [(7, 3, [0, 3, 6, 7]), (6, 3, [0, 3, 6]), (2, 9, [0, 2])]
    )
    def test_edges_of_blocks(self, n, size, edges):
        assert block_edges(n, size).tolist() == edges


class TestSums:
    @pytest.mark.parametrize("n_threads", [1, 2, 3, 5, 8, 64])
    def test_threads(self, n_threads):
        """With so many columns that more than one thread is worth it."""
        assert 27 * 4 * MATRIX.nnz > 2**20
        found = multiply_transposed(MATRIX, np.tile(V, 27), n_threads)
        assert np.array_equal(found, np.tile(reference(), 27))

    @pytest.mark.parametrize("kind", [KeptBlocks, LaterBlocks])
    @pytest.mark.parametrize("edges", EDGES)
    def test_blocks(self, kind, edges):
        assert np.array_equal(kind(MATRIX, EDGES[edges]).multiply_transposed(V), reference())

    @pytest.mark.parametrize("edges", EDGES)
    def test_one_column(self, edges):
        found = KeptBlocks(MATRIX, EDGES[edges]).multiply_transposed(V[:, :1])
        assert np.array_equal(found, reference()[:, :1])

    @pytest.mark.parametrize("edges", ["one", "uneven"])
    @pytest.mark.parametrize("columns", [1, 2, 3])
    def test_some_columns_at_a_time(self, edges, columns, monkeypatch):
        monkeypatch.setattr(products, "SUMS_AT_ONCE", columns * N_COLUMNS)
        for features in (HOST, KeptBlocks(MATRIX, EDGES[edges])):
            assert np.array_equal(features.multiply_transposed(V), reference())

    def test_no_columns(self):
        for features in (HOST, KeptBlocks(MATRIX, EDGES["hundreds"])):
            assert features.multiply_transposed(V[:, :0]).shape == (N_COLUMNS, 0)
            assert features.multiply(np.empty((N_COLUMNS, 0))).shape == (N_ROWS, 0)

    def test_other_memory_orders(self):
        for order in (np.asfortranarray(V), np.repeat(V, 2, axis=1)[:, ::2]):
            assert np.array_equal(multiply_transposed(MATRIX, order, 1), reference())
            found = KeptBlocks(MATRIX, EDGES["hundreds"]).multiply_transposed(order)
            assert np.array_equal(found, reference())

    def test_wide_indices(self):
        wide = random_features(np.random.default_rng(0), N_ROWS, N_COLUMNS, dtype=np.int64)
        assert wide.indices.dtype == np.int64
        for features in (HostFeatures(wide), KeptBlocks(wide, EDGES["hundreds"])):
            assert np.array_equal(features.multiply_transposed(V), reference())

    def test_it_is_the_sum(self):
        """In exact arithmetic, for one column of it."""
        exact = [Fraction(0)] * N_COLUMNS
        for row in range(N_ROWS):
            for e in range(MATRIX.indptr[row], MATRIX.indptr[row + 1]):
                exact[MATRIX.indices[e]] += Fraction(MATRIX.data[e]) * Fraction(V[row, 0])
        size = (abs(MATRIX).T @ abs(V))[:, 0]
        error = np.abs(reference()[:, 0] - np.array([float(x) for x in exact]))
        assert (error <= 40 * np.finfo(float).eps * size).all()

    @pytest.mark.parametrize("edges", ["hundreds", "at leaves", "uneven"])
    def test_a_plain_sum_differs(self, edges):
        """The twin: sums of blocks as they come depend on the blocks."""
        found = plain_sum(KeptBlocks(MATRIX, EDGES[edges]), V)
        assert not np.array_equal(found, reference())
        assert np.allclose(found, reference(), rtol=1e-9, atol=1e-6)

    def test_another_tree_differs(self):
        assert not np.array_equal(by_the_tree(MATRIX, V, 0, 1, [0, N_ROWS]), reference())

    def test_each_block_of_many_leaves_is_asked_for_once_by_each_branch(self):
        blocks = KeptBlocks(MATRIX, EDGES["one"])
        blocks.multiply_transposed(V)
        assert blocks.asked == [0]
        blocks = KeptBlocks(MATRIX, range(N_ROWS + 1))
        blocks.multiply_transposed(V)
        assert blocks.asked == list(range(N_ROWS))


@pytest.mark.parametrize("kind", [KeptBlocks, LaterBlocks])
@pytest.mark.parametrize("edges", EDGES)
class TestBlocks:
    def test_product(self, kind, edges):
        X = np.random.default_rng(2).normal(size=(N_COLUMNS, 3))
        assert np.array_equal(kind(MATRIX, EDGES[edges]).multiply(X), MATRIX @ X)

    def test_rows(self, kind, edges):
        positions = np.array([3399, 0, 0, 1900, 783, 784, 1901, 3])
        found, wanted = kind(MATRIX, EDGES[edges]).rows(positions), MATRIX[positions]
        for name in ("indptr", "indices", "data"):
            assert np.array_equal(getattr(found, name), getattr(wanted, name))
        assert kind(MATRIX, EDGES[edges]).rows(positions[:0]).shape == (0, N_COLUMNS)

    def test_row_products(self, kind, edges):
        rows = MATRIX[[5, 3350, 5]]
        found = kind(MATRIX, EDGES[edges]).row_products(rows)
        assert np.array_equal(found.toarray(), (rows @ MATRIX.T.tocsr()).toarray())

    def test_squared_norms(self, kind, edges):
        found = kind(MATRIX, EDGES[edges]).squared_norms()
        assert np.array_equal(found, (MATRIX**2).sum(axis=1))

    @pytest.mark.parametrize("other", ["matrix", "same blocks", "other blocks"])
    def test_entries(self, kind, edges, other):
        second = random_features(np.random.default_rng(3), N_ROWS, N_COLUMNS)
        rng = np.random.default_rng(4)
        rows, columns = rng.integers(0, N_ROWS, (2, 40))
        columns[::2] = rows[::2]
        wanted = HOST.dots(HostFeatures(second), rows, columns)
        left = kind(MATRIX, EDGES[edges])
        right = {
            "matrix": HostFeatures(second),
            "same blocks": kind(second, EDGES[edges]),
            "other blocks": kind(second, [0, 1100, 3400]),
        }[other]
        assert np.array_equal(left.dots(right, rows, columns), wanted)
        assert np.array_equal(HOST.dots(right, rows, columns), wanted)
        assert left.shape == MATRIX.shape


@pytest.mark.parametrize("kind", [KeptBlocks, LaterBlocks])
def test_more_entries_than_are_made_at_once(kind):
    rows, columns = np.random.default_rng(4).integers(0, N_ROWS, (2, 70_000))
    features = kind(MATRIX, EDGES["uneven"])
    found = features.dots(HOST, rows, columns)
    parts = [HOST.dots(HOST, *pair) for pair in np.split(np.array([rows, columns]), 7, axis=1)]
    assert np.array_equal(found, np.concatenate(parts))
    assert np.array_equal(HOST.dots(features, rows, columns), found)


class TestSumFeatures:
    HEAD = random_features(np.random.default_rng(5), N_ROWS, N_COLUMNS, 3)

    def test_it_is_the_sum_of_its_parts(self):
        shared = SumFeatures(HostFeatures(self.HEAD), HOST)
        assert shared.shape == MATRIX.shape
        assert shared.nnz == self.HEAD.nnz + MATRIX.nnz
        assert np.array_equal(shared.to_scipy().toarray(), (self.HEAD + MATRIX).toarray())

    @pytest.mark.parametrize("edges", EDGES)
    def test_parts_in_blocks(self, edges):
        kept = SumFeatures(HostFeatures(self.HEAD), HOST)
        there = SumFeatures(KeptBlocks(self.HEAD, EDGES[edges]), LaterBlocks(MATRIX, EDGES[edges]))
        rows = np.array([3, 3399, 1900])
        X = np.ones((N_COLUMNS, 2))
        assert np.array_equal(there.multiply(X), kept.multiply(X))
        assert np.array_equal(there.multiply_transposed(V), kept.multiply_transposed(V))
        assert np.array_equal(there.to_scipy().toarray(), kept.to_scipy().toarray())
        assert np.array_equal(there.dots(there, rows, rows[::-1]), kept.dots(kept, rows, rows[::-1]))


def test_rows_are_read_where_they_are():
    blocks = KeptBlocks(MATRIX, EDGES["hundreds"])
    blocks.rows(np.array([120, 1010, 190]))
    assert blocks.asked == [1, 10]


@pytest.mark.parametrize("size", [None, 10, 1])
def test_an_entry_does_not_depend_on_those_beside_it(size):
    """Some rows are sorted and some are not, which SciPy goes through in different orders."""
    n = 157
    matrix = random_features(np.random.default_rng(6), n, N_COLUMNS, N_COLUMNS)
    for row in range(0, n, 2):
        part = slice(matrix.indptr[row], matrix.indptr[row + 1])
        order = np.argsort(matrix.indices[part])
        matrix.indices[part], matrix.data[part] = matrix.indices[part][order], matrix.data[part][order]
    features = HostFeatures(matrix) if size is None else KeptBlocks(matrix, block_edges(n, size))
    rows, columns = np.arange(n), np.arange(n)[::-1] // 2 * 2
    together = HostFeatures(matrix).dots(HostFeatures(matrix), rows, columns)
    alone = [features.dots(features, rows[[k]], columns[[k]])[0] for k in range(n)]
    assert np.array_equal(together, alone)


def test_matrices_are_left_as_they_are():
    before = MATRIX.indices.copy()
    HOST.dots(KeptBlocks(MATRIX, EDGES["hundreds"]), np.arange(50), np.arange(50))
    assert isinstance(MATRIX, scipy.sparse.csr_array)
    assert np.array_equal(MATRIX.indices, before)
