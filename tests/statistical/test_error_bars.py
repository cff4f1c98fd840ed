"""Standard errors of entries: 95 % intervals cover what they should, cell by cell and pooled."""

import numpy as np
import pytest
from scipy.stats import t as student

import graphs
import walkernel as wk

KERNELS = [wk.Diffusion(1.0), wk.Diffusion(3.0), wk.RegularizedLaplacian(2, 1.0), wk.Matern(1.5, 1.0)]
GRAPHS = {**graphs.KINDS, "karate": graphs.karate}
REPEATS = 30


def coverage(graph, kernel, ensembles, sampler):
    """Which intervals hold the exact entry, among entries whose relative spread is at most a quarter.

    Intervals as they are, and with errors of two thirds. The spread is that over all repeats: whether walks
    reached an entry in one of them plays no part. Of the two entries of a pair of nodes of an undirected
    graph there is one, above the diagonal and below it in turn.
    """
    i, j = (part.ravel() for part in np.indices((graph.n_nodes,) * 2))
    once = graph.directed | (i == j) | ((i < j) == ((i + j) % 2 == 0))
    i, j = i[once], j[once]
    exact = wk.exact_kernel(graph, kernel)[i, j]
    estimates = [
        wk.estimate_kernel(graph, kernel, 256, ensembles=ensembles, sampler=sampler, seed=seed).estimate(i, j)
        for seed in range(REPEATS)
    ]
    values, errors = (np.array([getattr(one, name) for one in estimates]) for name in ("value", "stderr"))
    wide = student.isf(0.025, estimates[0].n_groups - 1)
    judged = values.std(axis=0, ddof=1) <= 0.25 * np.abs(exact)
    judged &= errors.max(axis=0) > 0
    off, rounding = np.abs(values - exact)[:, judged], 1e-12 * np.abs(exact).max()
    return tuple(off <= shrink * wide * errors[:, judged] + rounding for shrink in (1, 2 / 3))


@pytest.mark.parametrize(
    ("ensembles", "coupled", "kinds"),
    [
        ("debiased", True, ["karate"]),
        *[
            pytest.param(*way, list(GRAPHS), marks=pytest.mark.deep)
            for way in [("independent", False), ("debiased", False), ("debiased", True)]
        ],
    ],
)
def test_intervals_cover(ensembles, coupled, kinds):
    """93–97 % pooled, 90–98.5 % in each cell of graphs × kernels; with errors of two thirds: neither."""
    cells, twins = [], []
    for kind in kinds:
        graph = GRAPHS[kind]()
        if graph.directed and ensembles == "debiased":
            continue
        for kernel in KERNELS:
            sampler = wk.CoupledWalks(wk.matched_law(graph, kernel)) if coupled else None
            cell, twin = coverage(graph, kernel, ensembles, sampler)
            cells.append(cell)
            if kind == "karate":
                twins.append(twin)
    shares = np.array([cell.mean() for cell in cells])
    assert 0.93 < np.concatenate([cell.ravel() for cell in cells]).mean() < 0.97
    assert shares.min() > 0.90, shares
    assert shares.max() < 0.985, shares
    assert np.concatenate([cell.ravel() for cell in twins]).mean() < 0.90


def test_lazy_and_directed_entries_too():
    """Without an exact head: what it leaves to the single walks of a lazy pair is rare."""
    kernel = wk.InverseCosine()
    for graph in (graphs.karate(), graphs.directed()):
        cell, _ = coverage(graph, kernel, None, wk.IndependentWalks(0.1))
        assert 0.92 < cell.mean() < 0.98
