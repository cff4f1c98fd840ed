"""Loops that Python interprets, where there is little work, give the bits of those that are compiled."""

import os

import numpy as np
import pytest

import graphs
import walkernel as wk
from depth import mostly_deep
from walkernel.walks.compiling import INTERPRETED_WORK, Loop, compiled

pytestmark = pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="nothing is compiled")

GRAPHS = [graphs.karate, graphs.weighted, graphs.directed, graphs.signed, graphs.self_loops, graphs.isolated]
SIZES = (1.0, 0.8, 0.5, 0.3, 0.15, 0.07, 0.03)
SAMPLERS = {
    "paper": wk.IndependentWalks(0.3),
    "coupled": wk.CoupledWalks([1.0, 0.5, 0.25, 0.1], group=4),
    "head": wk.CoupledWalks([1.0, 0.5, 0.25, 0.1], head=2, group=8),
    "pruned": wk.PrunedWalks(SIZES, 0.05, head=3, group=4),
    "unequal": wk.PrunedWalks(SIZES, 0.05, head=3, unevenness=1.0, group=4),
    "chosen": None,
}
CASES = [(graph, name) for graph in GRAPHS for name in SAMPLERS]
SHORT = [(graph, list(SAMPLERS)[i % 6]) for i, graph in enumerate(GRAPHS)]


def numbers(graph, sampler):
    """Walks, features, products, entries and error bars of few walks."""
    walks = wk.sample_walks(graph, 8, sampler=sampler or wk.choose_sampler(graph, wk.Diffusion(1.0)), seed=3)
    K = wk.estimate_kernel(graph, wk.Diffusion(1.0), 16, sampler=sampler, seed=5)
    features = wk.sample_features(graph, wk.Matern(), 8, sampler=sampler, seed=4)
    v = np.linspace(-1.0, 2.0, graph.n_nodes)
    found = [*walks.deposits[:4], walks.features(wk.Diffusion(2.0)), features, K @ v]
    found += [
        K.entries([0, 1], [2, 3]),
        *K.estimate([0, 1, 2], [0, 3, 2]),
        *K.estimate_product(v),
        K.to_dense(),
    ]
    return [np.asarray(x.data if hasattr(x, "indptr") else x) for x in found]


@pytest.mark.parametrize(("graph", "name"), mostly_deep(CASES, SHORT))
@pytest.mark.filterwarnings("ignore::walkernel.InfiniteVarianceWarning")
def test_bits_are_the_same(monkeypatch, graph, name):
    results = []
    for way in (lambda loop, n: loop._interpret, lambda loop, n: loop.dispatcher):
        monkeypatch.setattr(Loop, "for_work", way)
        results.append(numbers(graph(), SAMPLERS[name]))
    for interpreted, by_numba in zip(*results, strict=True):
        assert interpreted.dtype == by_numba.dtype
        assert interpreted.tobytes() == by_numba.tobytes()


def test_much_work_is_compiled_and_so_is_little_work_again_and_again():
    @compiled
    def last(n):
        value = 0
        for i in range(n):
            value = i
        return value

    assert last.for_work(10) == last._interpret
    assert last.for_work(10)(10) == 9
    assert last.for_work(INTERPRETED_WORK - 20) == last._interpret
    assert last.for_work(1) == last.dispatcher
    assert last(10) == last.for_work(0)(10) == 9
