"""Stitched operators: E[K̂] = K, and intervals that cover; each with a twin that must fail."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student

import graphs
import walkernel as wk
from judges import verdict, within_two_hops
from walkernel.engines import CPU
from walkernel.operators import _estimate

KERNEL = wk.Diffusion(1.5)
WAYS = {
    "two": ("unweighted", {"stitches": 2}),
    "three": ("weighted", {"stitches": 3}),
    "independent": ("signed", {"stitches": 2, "ensembles": "independent"}),
    "directed": ("directed", {"stitches": 2}),
    "coupled": ("isolated", {"stitches": 2, "n_walks": 64, "coupled": True}),
}


def judge(way, kernel=KERNEL, n_repeats=200):
    kind, options = WAYS[way]
    graph = graphs.KINDS[kind]()
    options = {"n_walks": 32, "sampler": wk.IndependentWalks(0.1), **options}
    if options.pop("coupled", False):
        options["sampler"] = wk.CoupledWalks(wk.matched_law(graph, kernel, stitches=options["stitches"]))
    estimates = [
        wk.estimate_kernel(graph, kernel, seed=1000 + i, engine=wk.engines.CPU(1), **options).to_dense()
        for i in range(n_repeats)
    ]
    return verdict(np.array(estimates), wk.exact_kernel(graph, kernel), within_two_hops(graph))


@pytest.mark.parametrize("way", WAYS)
def test_unbiased(way):
    holds, statistics = judge(way)
    assert holds, statistics


def test_unbiased_for_another_kernel():
    holds, statistics = judge("two", wk.RegularizedLaplacian(1, 1.0))
    assert holds, statistics


# sabotage -----------------------------------------------------------------------------------------


def same_walks_for_every_factor(monkeypatch):
    """Reuse the streams of the first factor.

    With walks of its own for each side the bias is too small for the judges; which streams those factors
    walk is tested by hand (``unit/test_stitched``).
    """
    original = CPU.features

    def first(self, job, *rest):
        return original(self, replace(job, streams=tuple(stream % 2 for stream in job.streams)), *rest)

    monkeypatch.setattr(CPU, "features", first)


def diagonal_uncorrected(monkeypatch):
    """Leave the bias of shared walks on the diagonal of each factor."""
    monkeypatch.setattr(_estimate, "debiasing", lambda n_walks, group, norms: np.zeros(len(norms)))


def edges_not_turned(monkeypatch):
    """Let the right-hand sides walk with the edges."""
    original = CPU.features

    def forward(self, job, *rest):
        return original(self, replace(job, spec=replace(job.spec, transpose=False)), *rest)

    monkeypatch.setattr(CPU, "features", forward)


def root_of_one_factor(monkeypatch):
    """Weight with f = α^{*1/2}, as if there were one factor."""
    original = wk.Diffusion.modulation
    monkeypatch.setattr(wk.Diffusion, "modulation", lambda self, n, stitches=1: original(self, n))


@pytest.mark.filterwarnings("ignore::walkernel.InfiniteVarianceWarning")  # of a wrong f
@pytest.mark.parametrize(
    ("sabotage", "way"),
    [
        (same_walks_for_every_factor, "two"),
        (same_walks_for_every_factor, "three"),
        (diagonal_uncorrected, "two"),
        (edges_not_turned, "directed"),
        (root_of_one_factor, "directed"),
    ],
)
def test_sabotage_is_caught(monkeypatch, sabotage, way):
    sabotage(monkeypatch)
    holds, statistics = judge(way)
    assert not holds, statistics


# intervals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stitches", [2, 3])
def test_intervals_cover(stitches):
    """95 % intervals of row sums, of entries and of the diagonal; with errors of two thirds, none."""
    graph, kernel = wk.datasets.erdos_renyi(200, 0.04, seed=2).graph, wk.Diffusion(2.5)
    sampler = wk.CoupledWalks(wk.matched_law(graph, kernel, stitches=stitches))
    exact, scores = wk.exact_kernel(graph, kernel), {"entries": [], "diagonal": [], "sums": []}
    for seed in range(8):
        K = wk.estimate_kernel(graph, kernel, 256, sampler=sampler, seed=seed, stitches=stitches)
        dense, without = K.to_dense(), np.array([part.to_dense() for part in K.without_groups()])
        errors = np.sqrt(15 * without.var(axis=0))
        scores["entries"].append(np.abs(dense - exact) / errors)
        scores["diagonal"].append(np.diag(scores["entries"][-1]))
        sum_errors = np.sqrt(15 * without.sum(axis=2).var(axis=0))
        scores["sums"].append(np.abs((dense - exact).sum(axis=1)) / sum_errors)
    jackknife = K._jackknife_errors(np.array([3, 4, 5]), np.array([4, 4, 9]))
    assert np.allclose(jackknife, errors[[3, 4, 5], [4, 4, 9]])
    wide = student.isf(0.025, 15)
    for name, lowest in (("entries", 0.91), ("diagonal", 0.93), ("sums", 0.93)):
        inside, narrow = (np.mean(np.array(scores[name]) <= factor * wide) for factor in (1, 2 / 3))
        assert lowest < inside < 0.97, (name, inside)
        assert narrow < 0.90, (name, narrow)
