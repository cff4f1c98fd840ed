"""Suites that extensions inherit.

``EngineSuite`` asks an engine for the same walks, features, kernels and error bars as the CPU has.

A test class derives from ``EngineSuite`` and makes its engine; pytest finds the tests. ``rtol`` is 0 where
all bits are those of the CPU, 1e-12 where loads are rounded differently, and 1e-5 for single precision.

>>> from walkernel.engines import CPU
>>> from walkernel.testing import EngineSuite
>>> class TestCPU(EngineSuite):
...     def make_engine(self):
...         return CPU(2)
>>> TestCPU().test_features_of_some_nodes()
"""

from __future__ import annotations

import copy
import pickle
import tempfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from walkernel.engines import CPU, Engine, FeatureJob, open_features, sample_features, sample_walks
from walkernel.graph import Graph
from walkernel.kernels import Diffusion, PageRank
from walkernel.operators import Estimate, estimate_kernel, nearest, polynomial_operator
from walkernel.walks import CoupledWalks, IndependentWalks, PrunedWalks, WalkSpec

KERNEL = Diffusion(1.2)
LAW = tuple(0.7**k for k in range(1, 20))
SIZES = (1.0, 0.8, 0.5, 0.3, 0.15, 0.07, 0.03)
SAMPLERS = (
    IndependentWalks(0.2),
    CoupledWalks(LAW, group=4),
    CoupledWalks(LAW, group=4, head=2),
    PrunedWalks(SIZES, 0.05, head=3, group=4),
    PrunedWalks(SIZES, 0.05, head=3, unevenness=1.0, group=4),
)
MATRICES = ("normalized", "adjacency", "combinatorial", "random-walk")
N_WALKS = 8


def _graphs() -> dict[str, Graph]:
    """Return small graphs of all kinds; one has a node without edges, another nodes that no edge leaves."""
    rng = np.random.default_rng(0)
    edges = [*((i, (i + 1) % 11) for i in range(11)), (0, 4), (2, 7), (3, 9), (5, 5)]
    weights = rng.lognormal(0, 0.7, len(edges))
    return {
        "plain": Graph.from_edges(edges, n_nodes=12),
        "weighted": Graph.from_edges(edges, n_nodes=12, weights=weights),
        "signed": Graph.from_edges(edges, n_nodes=12, weights=weights * rng.choice([-1, 1], len(edges))),
        "directed": Graph.from_edges(edges[3:], n_nodes=12, weights=weights[3:], directed=True),
    }


GRAPHS = _graphs()


class EngineSuite:
    """Tests of an engine against the CPU; ``make_engine`` is to be written."""

    rtol = 0.0
    """Relative difference from the CPU that rounding may make; 0: none."""

    def make_engine(self) -> Engine:
        """Return the engine that is tested."""
        raise NotImplementedError

    def assert_same(self, found: Any, expected: Any, size: float = 0.0) -> None:
        """Compare arrays, sparse or dense; ``size`` is that of the numbers that theirs were computed from."""
        ours, theirs = (_dense(array) for array in (found, expected))
        assert ours.shape == theirs.shape
        if self.rtol == 0:
            assert np.array_equal(ours, theirs, equal_nan=True)
        else:
            largest = float(np.abs(theirs[np.isfinite(theirs)]).max(initial=size))
            assert np.allclose(ours, theirs, rtol=10 * self.rtol, atol=self.rtol * largest, equal_nan=True)

    def test_walks_go_the_same_ways(self) -> None:
        """Nodes and lengths are equal on every engine."""
        engine = self.make_engine()
        for graph in GRAPHS.values():
            for sampler in SAMPLERS:
                for transpose in (False, True):
                    spec = WalkSpec(graph, np.arange(12)[::-1], N_WALKS, sampler, 7, 3, transpose=transpose)
                    ours, theirs = (each.record(spec).deposits for each in (engine, CPU(1)))
                    assert np.array_equal(ours.indptr, theirs.indptr)
                    assert np.array_equal(ours.nodes, theirs.nodes)
                    assert np.array_equal(ours.lengths, theirs.lengths)
                    self.assert_same(ours.loads, theirs.loads)
                    self.assert_same(ours.head.loads, theirs.head.loads)

    def test_walks_are_weighed(self) -> None:
        """Walks know their steps and give features for any f, of all rows or of some."""
        engine = self.make_engine()
        for graph in GRAPHS.values():
            for sampler in SAMPLERS:
                ours, theirs = (
                    sample_walks(graph, N_WALKS, sampler=sampler, engine=each) for each in (engine, CPU(1))
                )
                assert ours.n_steps == theirs.n_steps
                self.assert_same(ours.features(KERNEL), theirs.features(KERNEL))
                self.assert_same(
                    ours.features([1.0, 0.5], rows=[3, 0]), theirs.features([1.0, 0.5], rows=[3, 0])
                )

    def test_features_of_some_nodes(self) -> None:
        """Features for one f are those of the CPU, for any nodes, matrix and direction."""
        engine = self.make_engine()
        for graph in GRAPHS.values():
            for options in ({"nodes": [5, 2]}, {"transpose": True}, {"stream": 2, "seed": 9}):
                ours, theirs = (
                    sample_features(graph, KERNEL, N_WALKS, engine=each, **options)  # type: ignore[arg-type]
                    for each in (engine, CPU(1))
                )
                self.assert_same(ours, theirs)

    def test_features_of_several_streams(self) -> None:
        """Streams share heads, which may be kept apart; norms and steps come with the features."""
        engine = self.make_engine()
        for graph in GRAPHS.values():
            for sampler in SAMPLERS:
                spec = WalkSpec(graph, np.arange(12), N_WALKS, sampler)
                f = KERNEL.modulation(spec.longest + 1)
                for separate in (False, True):
                    job = FeatureJob(spec, f, (0, 5), with_norms=True, separate_heads=separate)
                    ours, theirs = (each.features(job) for each in (engine, CPU(1)))
                    assert len(ours) == len(theirs) == job.n_results
                    for own, other in zip(ours, theirs, strict=True):
                        self.assert_same(own, other)
                        self.assert_same(own.norms, other.norms)
                    n_steps = [sum(each.n_steps for each in found) for found in (ours, theirs)]
                    assert n_steps[0] >= n_steps[1] > 0

    def test_groups_of_walks(self) -> None:
        """Features and sums of groups of walks, which error bars are made of: deviations are the same."""
        engine, rng = self.make_engine(), np.random.default_rng(1)
        for graph in GRAPHS.values():
            for sampler in SAMPLERS:
                spec = WalkSpec(graph, np.arange(10), N_WALKS, sampler)
                f = KERNEL.modulation(spec.longest + 1)
                job = FeatureJob(spec, f, (0,), n_groups=2)
                self.assert_same(*(each.features(job)[0].to_scipy() for each in (engine, CPU(1))))
                for reached in (None, np.array([1, 4, 7])):
                    columns = 12 if reached is None else 3
                    u, v = rng.normal(size=(2, columns)), rng.normal(size=(10, 2))
                    ours, theirs = (each.project(job, u, v, reached) for each in (engine, CPU(1)))
                    for axis, own, other in zip((2, 1), ours, theirs, strict=True):
                        found, expected = (each - each.mean(axis, keepdims=True) for each in (own, other))
                        self.assert_same(found, expected, size=float(np.abs(other).max()))

    def test_spread_of_groups(self) -> None:
        """What is doubled in error bars of products is taken from the products of groups."""
        engine, rng = self.make_engine(), np.random.default_rng(4)
        sizes, reached = rng.lognormal(size=(2, 5)), np.array([0, 1, 4, 7, 11])
        others = rng.uniform(-1, 1, size=(2, 5, 2)).astype(np.float32)
        for sampler in SAMPLERS[1:]:
            spec = WalkSpec(GRAPHS["weighted"], np.arange(10), 4 * N_WALKS, sampler)
            job = FeatureJob(spec, KERNEL.modulation(spec.longest + 1), (0,), n_groups=4)
            ours, theirs = (each.group_spread(job, sizes, others, reached) for each in (engine, CPU(1)))
            self.assert_same(ours, theirs, size=float(sizes.max()))

    def test_kernels(self) -> None:
        """Operators of all pairs, ensembles and factors: products, entries, rows, neighbours, error bars."""
        engine, v = self.make_engine(), np.random.default_rng(2).normal(size=(12, 2))
        for name in ("weighted", "directed"):
            for options in _options(name != "directed"):
                ours, theirs = (_kernel(GRAPHS[name], each, **options) for each in (engine, CPU(1)))
                part = v[: ours.shape[0]]
                self.assert_same(ours @ part, theirs @ part)
                self.assert_same(ours.T @ part, theirs.T @ part)
                self.assert_same(ours.diagonal(), theirs.diagonal())
                nodes = ours.nodes[:2]
                self.assert_same(ours.rows(nodes), theirs.rows(nodes))
                self.assert_same_estimates(
                    (ours.estimate(nodes, nodes[::-1]), theirs.estimate(nodes, nodes[::-1])),
                    (ours.estimate_product(part), theirs.estimate_product(part)),
                )
                best, expected = ours.topk(nodes[:1], 1), theirs.topk(nodes[:1], 1)
                assert np.array_equal(best.nodes, expected.nodes)
                assert ours.n_steps >= theirs.n_steps > 0

    def assert_same_estimates(self, *pairs: tuple[Estimate, Estimate]) -> None:
        """Compare values and error bars, which are differences of values."""
        for own, other in pairs:
            size = float(np.abs(other.value).max())
            self.assert_same(own.value, other.value, size=size)
            self.assert_same(own.stderr, other.stderr, size=size)

    def test_kernels_of_all_matrices(self) -> None:
        """Products, row sums, entries and the diagonal, of weights of both signs too."""
        engine = self.make_engine()
        cases = [("weighted", matrix) for matrix in MATRICES]
        cases += [("signed", matrix) for matrix in MATRICES[:3]]
        for name, matrix in cases:
            ours, theirs = (
                estimate_kernel(GRAPHS[name], Diffusion(0.8, matrix=matrix), 2 * N_WALKS, engine=each)
                for each in (engine, CPU(1))
            )
            every = np.arange(12)
            self.assert_same(ours.entries(every, every[::-1]), theirs.entries(every, every[::-1]))
            self.assert_same(ours.diagonal(), theirs.diagonal())
            self.assert_same_estimates((ours.estimate_row_sums(), theirs.estimate_row_sums()))

    def test_rows_against_all_nodes(self) -> None:
        """Rows of some nodes over all nodes, and what they tell."""
        engine = self.make_engine()
        for name in ("weighted", "directed"):
            ours, theirs = (
                estimate_kernel(GRAPHS[name], KERNEL, 4 * N_WALKS, rows=[3, 0], engine=each)
                for each in (engine, CPU(1))
            )
            self.assert_same(ours.to_scipy(), theirs.to_scipy())
            self.assert_same(ours @ np.ones(12), theirs @ np.ones(12))
            self.assert_same(ours.T @ np.ones(2), theirs.T @ np.ones(2))
            self.assert_same_estimates(
                (ours.estimate(3, [3, 4]), theirs.estimate(3, [3, 4])),
                (ours.T.estimate_product([1.0, -1.0]), theirs.T.estimate_product([1.0, -1.0])),
            )

    def test_explanations_and_nearest_nodes(self) -> None:
        """What a kernel says of itself, and which neighbours are certain."""
        engine = self.make_engine()
        for options in ({}, {"sampler": SAMPLERS[4]}, {"stitches": 2, "sampler": SAMPLERS[2]}):
            ours, theirs = (
                estimate_kernel(GRAPHS["weighted"], KERNEL, 32 * N_WALKS, engine=each, **options)
                for each in (engine, CPU(1))
            )
            found, expected = ours.explain(), theirs.explain()
            assert found.n_steps >= expected.n_steps > 0
            self.assert_same(found.error, expected.error, size=1.0)
            best, other = ours.estimate_topk([3, 8], 2), theirs.estimate_topk([3, 8], 2)
            assert np.array_equal(best.nodes, other.nodes)
            assert np.array_equal(best.certified, other.certified)
            self.assert_same(best.stderr, other.stderr, size=float(other.values.max()))

    def test_a_tolerance_is_met(self) -> None:
        """Error bars decide how many walks there are, and they decide the same on every engine."""
        ours, theirs = (
            estimate_kernel(GRAPHS["weighted"], KERNEL, tolerance=0.1, engine=each)
            for each in (self.make_engine(), CPU(1))
        )
        assert ours.groups.left.n_walks == theirs.groups.left.n_walks
        self.assert_same(ours.to_dense(), theirs.to_dense())

    def test_kernels_in_files(self) -> None:
        """Operators of features in a directory, both sides of a pair."""
        engine, v = self.make_engine(), np.arange(12.0)
        expected = estimate_kernel(GRAPHS["directed"], KERNEL, N_WALKS)
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(2):
                K = estimate_kernel(GRAPHS["directed"], KERNEL, N_WALKS, directory=folder, engine=engine)
                self.assert_same(K @ v, expected @ v)
                self.assert_same(K.diagonal(), expected.diagonal())

    def test_polynomials(self) -> None:
        """Where an engine multiplies matrices, polynomials and nearest nodes are those of the CPU."""
        engine, v = self.make_engine(), np.random.default_rng(5).normal(size=(12, 2))
        if not engine.multiplies_matrices:
            return
        for name in ("weighted", "directed"):
            ours, theirs = (
                polynomial_operator(GRAPHS[name], KERNEL, engine=each) for each in (engine, CPU(1))
            )
            self.assert_same(ours @ v, theirs @ v)
            self.assert_same(ours.T @ v, theirs.T @ v)
            best, expected = (nearest(GRAPHS[name], KERNEL, [3, 8], 2, engine=e) for e in (engine, CPU(1)))
            assert np.array_equal(best.nodes, expected.nodes)
            self.assert_same(best.values, expected.values)

    def test_kernels_of_the_random_walk_matrix(self) -> None:
        """It is not symmetric: the right-hand side walks its transpose, on undirected graphs too."""
        engine, v = self.make_engine(), np.random.default_rng(3).normal(size=(12, 2))
        for name in ("weighted", "directed"):
            ours, theirs = (
                estimate_kernel(GRAPHS[name], PageRank(0.6), N_WALKS, sampler=SAMPLERS[2], engine=each)
                for each in (engine, CPU(1))
            )
            self.assert_same(ours @ v, theirs @ v)
            self.assert_same(ours.T @ v, theirs.T @ v)
            estimates = [K.estimate([0, 4], [4, 0]) for K in (ours, theirs)]
            for own, other in zip(*estimates, strict=True):
                self.assert_same(own, other)

    def test_features_in_files(self) -> None:
        """Blocks in a directory are those in memory; a call that is repeated opens them."""
        engine, graph = self.make_engine(), GRAPHS["weighted"]
        expected = sample_features(graph, KERNEL, N_WALKS)
        with tempfile.TemporaryDirectory() as folder:
            for _ in range(2):
                options: dict[str, Any] = {"directory": folder, "block_size": 5, "engine": engine}
                found = sample_features(graph, KERNEL, N_WALKS, **options)
                assert found.n_blocks == 3
                self.assert_same(found, expected)
            self.assert_same(open_features(folder), expected)

    def test_walks_follow_a_graph_that_changes(self) -> None:
        """An update gives the walks of the new graph."""
        edges = [(i, (i + 1) % 12) for i in range(12)]
        old, new = Graph.from_edges(edges), Graph.from_edges([*edges, (0, 6)])
        walks = sample_walks(old, N_WALKS, engine=self.make_engine()).update(new)
        fresh = sample_walks(new, N_WALKS)
        assert np.array_equal(walks.deposits.nodes, fresh.deposits.nodes)
        self.assert_same(walks.features(KERNEL), fresh.features(KERNEL))

    def test_an_engine_is_a_value(self) -> None:
        """Engines are equal by their arguments; copies, clones and pickles are as good as the engine."""
        engine = self.make_engine()
        assert engine == pickle.loads(pickle.dumps(engine))
        assert hash(engine) == hash(pickle.loads(pickle.dumps(engine)))
        assert copy.deepcopy(engine) is engine
        assert engine.__sklearn_clone__() is engine
        assert engine != object()
        found = sample_features(GRAPHS["plain"], KERNEL, 4, engine=pickle.loads(pickle.dumps(engine)))
        self.assert_same(found, sample_features(GRAPHS["plain"], KERNEL, 4))


def _dense(array: Any) -> NDArray[Any]:
    """Return features or numbers of any kind as a NumPy array."""
    for convert in ("to_scipy", "toarray", "to_dense", "cpu"):  # features, SciPy, tensors
        array = getattr(array, convert)() if hasattr(array, convert) else array
    return np.asarray(array)


def _options(undirected: bool) -> list[dict[str, Any]]:
    head = {"sampler": SAMPLERS[2]}
    some: list[dict[str, Any]] = [
        {"ensembles": "independent"},
        {"ensembles": "independent", **head},
        {"pair": "lazy", **head},
        {"stitches": 2, **head},
        {"nodes": [4, 1, 8], **head},
        {"sampler": SAMPLERS[4]},
        {"nodes": [4, 1, 8], "sampler": SAMPLERS[4]},
    ]
    return [*some, {"ensembles": "shared"}, {}, head, {"budget": 3000}] if undirected else some


def _kernel(graph: Graph, engine: Engine, **options: Any) -> Any:
    n_walks = None if "budget" in options else N_WALKS
    return estimate_kernel(graph, KERNEL, n_walks, engine=engine, **options)
