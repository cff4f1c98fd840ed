"""A grid samples its walks once, within a bound on memory, and the features are those of fresh walks."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pytest

import graphs
import walkernel as wk
from walkernel.engines import CPU, Engine
from walkernel.features._record import Record
from walkernel.tasks import WalkCache
from walkernel.walks import NO_NODES, WalkSpec

KERNELS = [wk.Diffusion(s) for s in (0.5, 1.0, 2.0)] + [wk.Matern(), wk.RegularizedLaplacian(2, 0.5)]


def spec(graph, **changes):
    return replace(WalkSpec(graph, NO_NODES, 16, wk.IndependentWalks(0.1), seed=7), **changes)


@pytest.fixture
def walked(monkeypatch):
    """The nodes that were walked from, call by call."""
    calls, record = [], CPU.record

    def counted(self, spec, *rest):
        calls.append(spec.ids.tolist())
        return record(self, spec, *rest)

    monkeypatch.setattr(CPU, "record", counted)
    return calls


def same(a, b):
    return np.allclose(a.toarray(), b.toarray(), rtol=1e-13, atol=0)


@pytest.mark.parametrize("make", [graphs.karate, graphs.directed, graphs.isolated])
def test_features_are_those_of_fresh_walks(make):
    graph, cache = make(), WalkCache(2**30)
    for ids in ([3, 1, 2], [9, 3, 3, 0], list(range(graph.n_nodes))):
        for kernel in KERNELS:
            rows = cache.features(spec(graph), kernel, np.array(ids), CPU())
            fresh = wk.sample_walks(graph, 16, seed=7).features(kernel)[ids]
            assert same(rows, fresh)


def test_each_node_is_walked_from_once(walked):
    graph, cache = graphs.karate(), WalkCache(2**30)
    rng = np.random.default_rng(0)
    for kernel in KERNELS:
        for _ in range(5):
            cache.features(spec(graph), kernel, rng.permutation(34)[:20], CPU())
    nodes = sorted(node for call in walked for node in call)
    assert nodes == sorted(set(nodes)) == list(range(34))


def test_another_kind_of_walk_is_another_sample(walked):
    graph, cache = graphs.weighted(), WalkCache(2**30)
    kinds = [
        spec(graph),
        spec(graph, n_walks=8),
        spec(graph, seed=8),
        spec(graph, stream=1),
        spec(graph, sampler=wk.IndependentWalks(0.2)),
        spec(graph, sampler=wk.IndependentWalks(0.1, "uniform")),
        spec(graph, matrix="combinatorial"),
        spec(graphs.karate()),
        spec(graphs.directed()),
        spec(graphs.directed(), transpose=True),
    ]
    for each in kinds:
        cache.features(each, wk.Diffusion(matrix=each.matrix), np.arange(5), CPU())
    assert len(walked) == len(kinds)
    for each in kinds:
        cache.features(each, wk.Diffusion(2.0, matrix=each.matrix), np.arange(5), CPU())
    assert len(walked) == len(kinds)


def test_an_equal_graph_from_another_process_shares_the_walks(walked):
    graph, cache = graphs.karate(), WalkCache(2**30)
    cache.features(spec(graph), KERNELS[0], np.arange(34), CPU())
    cache.features(spec(pickle.loads(pickle.dumps(graph))), KERNELS[1], np.arange(34), CPU())
    assert len(walked) == 1


def test_memory_is_bounded_and_the_oldest_goes_first(walked):
    graph = graphs.karate()
    one = WalkCache(2**30)
    one.features(spec(graph), KERNELS[0], np.arange(34), CPU())
    cache = WalkCache(int(2.5 * one.n_bytes))
    for seed in (1, 2, 3, 1):
        cache.features(spec(graph, seed=seed), KERNELS[0], np.arange(34), CPU())
        assert cache.n_bytes <= cache.limit
    assert len(walked) == 5


def test_samples_that_do_not_fit_are_drawn_and_forgotten(walked):
    graph, cache = graphs.karate(), WalkCache(0)
    rows = cache.features(spec(graph), KERNELS[0], np.array([5, 5, 2]), CPU())
    assert cache.n_bytes == 0
    assert not walked
    assert same(rows, wk.sample_walks(graph, 16, seed=7, nodes=[5, 2]).features(KERNELS[0])[[0, 0, 1]])


def test_one_node_at_a_time_keeps_few_parts():
    """Parts are joined like the digits of a counter, so that many small requests cost n log n."""
    graph, cache = graphs.binary_tree(), WalkCache(2**30)
    for node in range(graph.n_nodes):
        cache.features(spec(graph), KERNELS[0], np.array([node]), CPU())
    (entry,) = cache._entries.values()
    assert len(entry.parts) <= 8
    whole = cache.features(spec(graph), KERNELS[1], np.arange(graph.n_nodes), CPU())
    assert same(whole, wk.sample_walks(graph, 16, seed=7).features(KERNELS[1]))


def test_results_are_copies_and_threads_may_share():
    graph, cache = graphs.karate(), WalkCache(2**30)
    first = cache.features(spec(graph), KERNELS[0], np.arange(34), CPU())
    kept = first.copy()
    first.data[:] = 0
    with ThreadPoolExecutor(4) as pool:
        again = list(pool.map(lambda k: cache.features(spec(graph), k, np.arange(34), CPU()), KERNELS * 4))
    assert same(again[0], kept)
    for kernel, rows in zip(KERNELS * 4, again, strict=True):
        assert same(rows, wk.sample_walks(graph, 16, seed=7).features(kernel))
    cache.clear()
    assert cache.n_bytes == 0


@dataclass(frozen=True)
class Elsewhere(Engine):
    """An engine whose walks are kept where this process does not look at their deposits."""

    name: str = "there"

    def record(self, spec, progress=None):
        return Far(CPU(1).record(spec, progress))


class Far(Record):
    def __init__(self, own):
        self.own = own

    n_steps, longest = (
        property(lambda self, name=name: getattr(self.own, name)) for name in ("n_steps", "longest")
    )

    @property
    def deposits(self):
        raise AssertionError("gathered")

    def weigh(self, f, rows=None):
        return self.own.weigh(f, rows)

    def sample_again(self, spec, progress):
        return Far(self.own.sample_again(spec, progress))


def test_walks_are_kept_by_engine_and_those_of_any_number_of_threads_are_the_same(walked):
    graph, cache = graphs.karate(), WalkCache(2**30)
    engines = CPU(), CPU(1), CPU(3), Elsewhere(), Elsewhere("here"), Elsewhere(name="there")
    rows = [cache.features(spec(graph), KERNELS[0], np.arange(34), engine) for engine in engines]
    assert len(walked) == 3
    assert all((one != rows[0]).nnz == 0 for one in rows)


def test_walks_that_are_kept_elsewhere_stay_there():
    """They are counted, joined and weighted without their deposits."""
    graph, cache, here = graphs.karate(), WalkCache(2**30), WalkCache(2**30)
    for nodes in np.array_split(np.random.default_rng(0).permutation(34), 9):
        there = cache.features(spec(graph), KERNELS[0], nodes, Elsewhere())
        assert (there != here.features(spec(graph), KERNELS[0], nodes, CPU())).nnz == 0
        assert cache.n_bytes == here.n_bytes
    (entry,) = cache._entries.values()
    assert len(entry.parts) <= 5
