"""Leading eigenvectors in double precision: by products with the matrix, by a sparse factor, and dense."""

import numpy as np
import pytest
import scipy.sparse

import walkernel as wk
from walkernel.datasets import grid, stochastic_block_model
from walkernel.operators import has_sparse_factor, leading_eigenvectors

GRID, BLOCKS = grid(25, 12).graph, stochastic_block_model([150, 150, 150], 0.1, 0.01).graph
PAIRS = wk.Graph.from_scipy(
    scipy.sparse.block_diag([GRID.to_scipy(), [[0, 1], [1, 0]], [[0.0]], [[0, 1], [1, 0]]]).tocsr()
)


@pytest.mark.parametrize("tolerance", [1e-4, 1e-9])
@pytest.mark.parametrize("graph", [GRID, BLOCKS, PAIRS], ids=["grid", "blocks", "components"])
def test_equal_those_of_the_dense_matrix(graph, tolerance):
    M = graph.to_scipy("normalized").toarray()
    found = leading_eigenvectors(graph, 6, tolerance)
    n_components = found.components.shape[1]
    assert np.linalg.norm(M @ found.vectors - found.vectors * found.values, axis=0).max() < 2 * tolerance
    together = np.hstack([found.components.toarray(), found.vectors])
    np.testing.assert_allclose(together.T @ together, np.eye(n_components + 6), atol=max(1e-12, tolerance))
    n_isolated = int((graph.out_degrees() == 0).sum())
    truth = np.linalg.eigvalsh(M)[::-1][n_components - n_isolated :][:6]
    np.testing.assert_allclose(found.values, truth, atol=tolerance)


def test_both_ways_are_taken():
    assert has_sparse_factor(GRID)
    path = wk.Graph.from_edges([(i, i + 1) for i in range(100_000)])
    values = leading_eigenvectors(path, 3, 1e-6).values  # 1 − cos(πj/n): far beyond Lanczos with the matrix
    np.testing.assert_allclose(1 - values, 1 - np.cos(np.pi * np.arange(1, 4) / 100_000), rtol=1e-4)


@pytest.mark.parametrize("n_nodes", [5, 100_000])
def test_graphs_without_edges_have_none(n_nodes):
    found = leading_eigenvectors(wk.Graph.from_edges(np.empty((0, 2), dtype=int), n_nodes=n_nodes), 3, 1e-6)
    assert found.vectors.shape == (n_nodes, 0)
    assert found.components.shape == (n_nodes, n_nodes)


def test_there_are_no_more_than_there_are():
    found = leading_eigenvectors(wk.Graph.from_edges([(0, 1), (1, 2), (3, 4)]), 10, 1e-6)
    np.testing.assert_allclose(found.values, [0.0, -1.0, -1.0], atol=1e-14)
