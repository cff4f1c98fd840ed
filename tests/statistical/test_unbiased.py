"""E[K̂] = K: every kernel × every kind of graph × every way to combine walks; and six ways to be wrong.

Fixed seeds, the two rules of ``judges``; each sabotage breaks one factor of the method and must be caught.
"""

from dataclasses import replace

import numpy as np
import pytest

import graphs
import walkernel as wk
from depth import mostly_deep
from judges import verdict, within_two_hops
from walkernel.engines import CPU
from walkernel.operators import _estimate
from walkernel.walks import _laws, _tables

N_REPEATS = 200
N_WALKS = 32
PAPER = wk.IndependentWalks(0.1)
"""What most is estimated with here; other samplers have ``contracts/test_samplers``."""

KERNELS = {
    "diffusion": wk.Diffusion(sigma=1.0),
    "1-regularised": wk.RegularizedLaplacian(d=1, sigma=1.0),
    "2-regularised": wk.RegularizedLaplacian(d=2, sigma=0.8),
    "matern": wk.Matern(nu=1.5, kappa=1.0),
    "2-step": wk.PStepRandomWalk(p=2, alpha=2.0),
    "inverse cosine": wk.InverseCosine(scale=0.5),
    "function": wk.PowerSeries.from_function(lambda x: np.exp(0.8 * x)),
    "product + sum": 0.5 * wk.Diffusion(1.0) * wk.Matern() + wk.Diffusion(1.0).scaled(-0.5),
}
WAYS = {
    "independent": {"pair": "symmetric", "ensembles": "independent"},
    "lazy": {"pair": "lazy"},
    "debiased": {"pair": "symmetric", "ensembles": "debiased"},
}


def estimates(graph, kernel, way, n_repeats=N_REPEATS, n_walks=N_WALKS, sampler=PAPER):
    options = {"sampler": sampler, "engine": CPU(1), **WAYS[way]}
    return np.array([
        wk.estimate_kernel(graph, kernel, n_walks, seed=1000 + i, **options).to_dense()
        for i in range(n_repeats)
    ])  # fmt: skip


def judge(graph, kernel, way, **options):
    return verdict(
        estimates(graph, kernel, way, **options), wk.exact_kernel(graph, kernel), within_two_hops(graph)
    )


CASES = [
    (kind, kernel, way)
    for kind in graphs.KINDS
    for kernel in KERNELS
    for way in WAYS
    if (kind, way) != ("directed", "debiased")  # one walk set cannot serve both directions: refused
]


CASES += [(kind, "inverse cosine, scale 1", "lazy") for kind in graphs.KINDS]
SHORT = [
    (kind, list(KERNELS)[(3 * place + 2 * turn) % len(KERNELS)], way)
    for place, kind in enumerate(graphs.KINDS)
    for turn, way in enumerate(WAYS)
    if (kind, way) != ("directed", "debiased")
]
"""One kernel for each kind of graph and way to combine walks."""
OTHER_MATRICES = [
    (kind, matrix, way)
    for kind in graphs.KINDS
    for matrix in ("adjacency", "combinatorial", "random-walk")
    for way in WAYS
    if (kind, way) != ("directed", "debiased")
    if matrix != "random-walk" or not (kind == "signed" or way == "debiased")  # refused
]


@pytest.mark.parametrize(("kind", "kernel", "way"), mostly_deep(CASES, SHORT))
def test_unbiased(kind, kernel, way):
    chosen = wk.InverseCosine() if kernel == "inverse cosine, scale 1" else KERNELS[kernel]
    holds, statistics = judge(graphs.KINDS[kind](), chosen, way)
    assert holds, statistics


@pytest.mark.parametrize(("kind", "matrix", "way"), mostly_deep(OTHER_MATRICES, OTHER_MATRICES[::6]))
def test_unbiased_on_other_matrices(kind, matrix, way):
    graph = graphs.KINDS[kind]()
    scale = 0.2 if matrix == "adjacency" else 1.0
    kernel = wk.Diffusion(1.0, matrix=matrix).scaled(scale)
    # steps off the diagonal are rare where d_max is large: more walks, for z to be near normal
    holds, statistics = judge(graph, kernel, way, n_walks=256)
    assert holds, statistics


PAIRS = sorted({(kind, way) for kind, _, way in CASES})


@pytest.mark.parametrize(("kind", "way"), mostly_deep(PAIRS, PAIRS[::4]))
def test_the_default_is_unbiased(kind, way):
    """Few walks of a wide kernel, so that heads leave something to chance."""
    holds, statistics = judge(graphs.KINDS[kind](), wk.Diffusion(2.5), way, n_walks=8, sampler=None)
    assert holds, statistics


def test_unbiased_with_uniform_steps():
    graph, kernel = graphs.weighted(), wk.Diffusion(1.0)
    sampler = wk.IndependentWalks(0.1, transition="uniform")
    sample = np.array(
        [wk.estimate_kernel(graph, kernel, 64, sampler=sampler, seed=i).to_dense() for i in range(N_REPEATS)]
    )
    holds, statistics = verdict(sample, wk.exact_kernel(graph, kernel), within_two_hops(graph))
    assert holds, statistics


# sabotage -----------------------------------------------------------------------------------------


def no_survival_factor(monkeypatch):
    """Drop 1/(1−p): loads are not divided by the probability of having come that far."""
    survival = property(lambda law: np.ones((len(law.hops), law.thresholds.shape[1] + 1)))
    monkeypatch.setattr(_laws.LengthLaw, "survival", survival)


def swapped_degrees(monkeypatch):
    """Take √(d_j/d_i) for √(d_i/d_j)."""
    original = _tables._build

    def build(*arguments):
        table = original(*arguments)
        with np.errstate(divide="ignore"):
            return table._replace(first=1 / table.first, last=1 / table.last)

    monkeypatch.setattr(_tables, "_build", build)


def one_stream_for_both(monkeypatch):
    """Reuse stream 0 for the right-hand side."""
    original = CPU.features

    def first(self, job, *rest):
        return original(self, replace(job, streams=(0,) * len(job.streams)), *rest)

    monkeypatch.setattr(CPU, "features", first)


def lengths_off_by_one(monkeypatch):
    """Count the first step as the zeroth."""
    original = CPU.features

    def shifted(self, job, *rest):
        return original(self, replace(job, f=np.concatenate([job.f[:1], job.f[:-1]])), *rest)

    monkeypatch.setattr(CPU, "features", shifted)


def matrix_not_turned(monkeypatch):
    """Let the right-hand side of an undirected graph walk P for Pᵀ."""
    monkeypatch.setattr(_tables.Graph, "is_symmetric", lambda graph, matrix: not graph.directed)


def edges_not_turned(monkeypatch):
    """Let the right-hand side walk with the edges."""
    original = CPU.features

    def forward(self, job, *rest):
        return original(self, replace(job, spec=replace(job.spec, transpose=False)), *rest)

    monkeypatch.setattr(CPU, "features", forward)


def diagonal_uncorrected(monkeypatch):
    """Leave the bias of shared walks on the diagonal."""
    monkeypatch.setattr(_estimate, "debiasing", lambda n_walks, group, norms: np.zeros(len(norms)))


@pytest.mark.parametrize(
    ("sabotage", "kind", "way"),
    [
        (no_survival_factor, "unweighted", "independent"),
        (swapped_degrees, "unweighted", "independent"),
        (one_stream_for_both, "unweighted", "independent"),
        (lengths_off_by_one, "unweighted", "lazy"),
        (edges_not_turned, "directed", "independent"),
        (diagonal_uncorrected, "unweighted", "debiased"),
    ],
)
@pytest.mark.parametrize("kernel", ["diffusion", "1-regularised"])
def test_sabotage_is_caught(monkeypatch, sabotage, kind, way, kernel):
    graph = graphs.KINDS[kind]()
    exact = wk.exact_kernel(graph, KERNELS[kernel])
    sabotage(monkeypatch)
    holds, statistics = verdict(estimates(graph, KERNELS[kernel], way), exact, within_two_hops(graph))
    assert not holds, statistics


RANDOM_WALK = [
    (kind, kernel, pair)
    for kind in ("unweighted", "weighted", "self-loops", "isolated", "directed", "dangling")
    for kernel in (wk.PageRank(0.6), wk.Diffusion(1.0, matrix="random-walk"))
    for pair in ("auto", "lazy")
]


def dangling():
    """A directed graph with nodes that cannot be left."""
    A = graphs.directed().to_scipy().toarray()
    A[[3, 11, 20]] = 0
    return wk.Graph.from_scipy(A)


@pytest.mark.parametrize(("kind", "kernel", "pair"), mostly_deep(RANDOM_WALK, RANDOM_WALK[::3]))
def test_the_random_walk_matrix_is_served_by_default(kind, kernel, pair):
    """Few walks and a short head, so that much is left to chance."""
    graph = dangling() if kind == "dangling" else graphs.KINDS[kind]()
    sample = np.array(
        [wk.estimate_kernel(graph, kernel, 64, pair=pair, seed=i).to_dense() for i in range(N_REPEATS)]
    )
    holds, statistics = verdict(sample, wk.exact_kernel(graph, kernel), within_two_hops(graph))
    assert holds, statistics


@pytest.mark.parametrize(
    ("sabotage", "kind"),
    [(matrix_not_turned, "weighted"), (edges_not_turned, "weighted"), (edges_not_turned, "directed")],
)
def test_walks_on_the_wrong_side_of_the_random_walk_matrix_are_caught(monkeypatch, sabotage, kind):
    graph, kernel = graphs.KINDS[kind](), wk.PageRank(0.6)
    exact = wk.exact_kernel(graph, kernel)
    sabotage(monkeypatch)
    holds, statistics = verdict(estimates(graph, kernel, "independent"), exact, within_two_hops(graph))
    assert not holds, statistics
