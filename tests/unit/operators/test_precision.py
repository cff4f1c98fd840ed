"""Kernels with a sparse inverse, against dense kernels."""

import numpy as np
import pytest

import walkernel as wk
from walkernel.operators import SparsePrecision, has_sparse_factor

NOTHING = np.empty(0)
EDGES = [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 0), (3, 3)]
SIGNED = wk.Graph.from_edges(EDGES, n_nodes=8, weights=[1, 2, 0.5, 1, 3, -1, 1, 0.7])
KERNELS = [
    kernel(matrix=matrix)
    for matrix in ("normalized", "combinatorial")
    for kernel in (
        lambda matrix: wk.Matern(1, 3.0, matrix=matrix),
        lambda matrix: wk.Matern(2, 50.0, matrix=matrix),
        lambda matrix: wk.RegularizedLaplacian(3, 4.0, matrix=matrix),
        lambda matrix: wk.Matern(4, 3.0, matrix=matrix),
    )
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_equals_the_dense_kernel(kernel):
    K, precision = wk.exact_kernel(SIGNED, kernel), SparsePrecision(SIGNED, kernel)
    V, all_nodes = np.random.default_rng(0).normal(size=(8, 40)), np.arange(8)
    size = np.abs(K).max()
    np.testing.assert_allclose(precision.product(NOTHING, V), K @ V, atol=1e-10 * size)
    np.testing.assert_allclose(precision.block(NOTHING, all_nodes, all_nodes), K, atol=1e-10 * size)
    np.testing.assert_allclose(precision.block(NOTHING, all_nodes[:3], all_nodes), K[:3], atol=1e-10 * size)
    np.testing.assert_allclose(precision.diagonal(NOTHING), K.diagonal(), atol=1e-10 * size)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_draws_have_the_covariance(kernel):
    """The mean square of 4000 draws along 20 directions has a chi-squared law: all within z = 5."""
    K, n = wk.exact_kernel(SIGNED, kernel), 4000
    draws = SparsePrecision(SIGNED, kernel).draw(NOTHING, n, np.random.default_rng(1))
    directions = np.random.default_rng(2).normal(size=(20, 8))
    ratios = ((directions @ draws) ** 2).mean(axis=1) / np.einsum("ij,jk,ik->i", directions, K, directions)
    assert np.abs(ratios - 1).max() < 5 * np.sqrt(2 / n)
    wrong = ((directions @ draws[::-1]) ** 2).mean(axis=1)
    wrong /= np.einsum("ij,jk,ik->i", directions, K, directions)
    assert np.abs(wrong - 1).max() > 5 * np.sqrt(2 / n)


def test_roads_and_grids_have_a_sparse_factor_and_expanders_do_not():
    import networkx

    assert has_sparse_factor(wk.datasets.grid(60, 60).graph)
    tree = networkx.random_labeled_tree(5000, seed=0)
    assert has_sparse_factor(wk.Graph.from_networkx(tree))
    expander = networkx.random_regular_graph(4, 20000, seed=0)
    assert not has_sparse_factor(wk.Graph.from_networkx(expander))
    assert not has_sparse_factor(wk.Graph.from_edges([(0, 1), (1, 2)], directed=True))


def test_whole_powers_of_resolvents():
    assert wk.Matern(2, 4.0).resolvent_power() == (0.25, 2)
    assert wk.RegularizedLaplacian(3, 2.0).resolvent_power() == (0.25, 3)
    assert wk.Matern(1.5).resolvent_power() is None
    assert wk.Diffusion().resolvent_power() is None
