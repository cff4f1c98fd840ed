"""The compiled loops equal the line-by-line Algorithm 1, walk for walk."""

import itertools

import numpy as np
import pytest

import graphs
import walkernel as wk
from depth import crossed
from oracles import algorithm_one, headed_walks, pruned_head, unequal_number, whole_head


def split_walks(walks, position):
    """Return the walks of one start node as lists of (node, length, load)."""
    record = walks.deposits
    part = slice(record.indptr[position], record.indptr[position + 1])
    rows = list(
        zip(
            record.nodes[part].tolist(),
            record.lengths[part].tolist(),
            record.loads[part].tolist(),
            strict=True,
        )
    )
    opens = [i for i, (_, length, _) in enumerate(rows) if length == 0] + [len(rows)]
    return [rows[a:b] for a, b in itertools.pairwise(opens)]


@pytest.mark.parametrize("kind", [*graphs.KINDS, "dangling"])
@pytest.mark.parametrize("transition", ["weights", "uniform"])
@pytest.mark.parametrize("matrix", ["normalized", "adjacency"])
def test_walk_for_walk(kind, transition, matrix):
    graph = dangling() if kind == "dangling" else graphs.KINDS[kind]()
    sampler = wk.IndependentWalks(p_halt=0.2, transition=transition)
    seed, stream = 2**40 + 7, 3
    walks = wk.sample_walks(graph, 5, sampler=sampler, seed=seed, stream=stream, matrix=matrix)
    A, M = graph.to_scipy().toarray(), graph.to_scipy(matrix).toarray()
    assert_same(walks, A, M, transition)


KINDS = ["unweighted", "weighted", "directed", "isolated", "dangling"]
LAW = 0.8 ** np.arange(1, 40) * (1 - np.arange(39) / 40)
COUPLINGS = [
    {},
    {"lengths": "antithetic"},
    {"lengths": "independent"},
    {"first_step": "independent"},
    {"later_steps": "independent"},
    {"group": 8},
    {"group": 2},
    {"lengths": "independent", "first_step": "independent", "later_steps": "independent"},
]


@pytest.mark.parametrize(("kind", "coupling"), crossed(KINDS, COUPLINGS))
def test_coupled_walks_too(kind, coupling):
    graph = dangling() if kind == "dangling" else graphs.KINDS[kind]()
    sampler = wk.CoupledWalks(LAW, **coupling)
    walks = wk.sample_walks(graph, 37, sampler=sampler, seed=2**40 + 7, stream=3)
    A, M = graph.to_scipy().toarray(), graph.to_scipy("normalized").toarray()
    assert_same(walks, A, M, "weights")


@pytest.mark.parametrize("coupling", [{}, COUPLINGS[-1]], ids=str)
@pytest.mark.parametrize("kind", [*graphs.KINDS, "dangling"])
@pytest.mark.parametrize(("head", "transition"), [(1, "weights"), (2, "weights"), (3, "uniform")])
def test_walks_after_a_head(kind, coupling, head, transition):
    graph = dangling() if kind == "dangling" else graphs.KINDS[kind]()
    sampler = wk.CoupledWalks(LAW, transition, head=head, **coupling)
    walks = wk.sample_walks(graph, 21, sampler=sampler, seed=2**40 + 7, stream=3)
    A, M = graph.to_scipy().toarray(), graph.to_scipy("normalized").toarray()
    assert_same(walks, A, M, transition)


SIZES = (1.0, 0.8, 0.5, 0.3, 0.15, 0.07, 0.03)


@pytest.mark.parametrize("kind", [*graphs.KINDS, "dangling"])
@pytest.mark.parametrize(("threshold", "unevenness"), [(0.0, 0.0), (0.05, 0.0), (0.05, 1.0), (0.3, 0.7)])
@pytest.mark.parametrize(("matrix", "transition"), [("normalized", "weights"), ("random-walk", "uniform")])
def test_walks_after_a_pruned_head(kind, threshold, unevenness, matrix, transition):
    graph = dangling() if kind == "dangling" else graphs.KINDS[kind]()
    if matrix == "random-walk" and kind == "signed":
        pytest.skip("random walks have no signs")
    sampler = wk.PrunedWalks(SIZES, threshold, head=3, unevenness=unevenness, transition=transition, group=4)
    walks = wk.sample_walks(graph, 12, sampler=sampler, seed=2**40 + 7, stream=3, matrix=matrix)
    assert_same(walks, graph.to_scipy().toarray(), graph.to_scipy(matrix).toarray(), transition)


def test_combinatorial_steps_follow_the_matrix_itself():
    graph = graphs.weighted()
    M = graph.to_scipy("combinatorial").toarray()
    walks = wk.sample_walks(graph, 5, sampler=wk.IndependentWalks(0.2), seed=11, matrix="combinatorial")
    assert_same(walks, M, M, "weights")
    assert np.allclose(walks.deposits.loads * walks.sampler.survival()[walks.deposits.lengths], 1)


@pytest.mark.parametrize("kind", ["unweighted", "weighted", "self-loops", "isolated", "directed", "dangling"])
@pytest.mark.parametrize("transition", ["weights", "uniform"])
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("head", [0, 2])
def test_walks_on_the_random_walk_matrix(kind, transition, transpose, head):
    graph = dangling() if kind == "dangling" else graphs.KINDS[kind]()
    sampler = wk.CoupledWalks(LAW, transition, head=head)
    options = {"matrix": "random-walk", "transpose": transpose}
    walks = wk.sample_walks(graph, 5, sampler=sampler, seed=13, **options)
    A, M = graph.to_scipy().toarray(), graph.to_scipy("random-walk").toarray()
    assert_same(walks, *((A.T, M.T) if transpose else (A, M)), transition)
    if transition == "weights" and not (transpose or head):
        loads = walks.deposits.loads * walks.law.survival[0, walks.deposits.lengths]
        assert np.allclose(loads, 1, rtol=0, atol=1e-14)


@pytest.mark.parametrize("matrix", ["normalized", "adjacency", "combinatorial"])
def test_transposed_walks_go_against_the_edges(matrix):
    graph = graphs.directed()
    M = graph.to_scipy(matrix).toarray().T
    A = M if matrix == "combinatorial" else graph.to_scipy().toarray().T
    walks = wk.sample_walks(graph, 5, sampler=wk.IndependentWalks(0.2), seed=5, matrix=matrix, transpose=True)
    assert_same(walks, A, M, "weights")


def assert_same(walks, A, M, transition):
    for start in range(len(A)):
        settings = {
            "seed": walks.seed, "stream": walks.stream, "transition": transition,
            "shares": walks.sampler.coupling,
        }  # fmt: skip
        if isinstance(walks.sampler, wk.PrunedWalks):
            first = walks.table.first[start]
            _, edges, places = pruned_head(A, M, start, walks.sampler, first)
            assert edges == walks.deposits.head.edges[start]
            number, share, _, settings["shares"] = unequal_number(walks.sampler, first, places, walks.n_walks)
            expected = headed_walks(A, M, start, number, places, share=share, **settings)
        elif walks.sampler.head:
            _, _, places = whole_head(A, M, start, walks.sampler)
            expected = headed_walks(A, M, start, walks.n_walks, places, **settings)
        else:
            thresholds = [int(x) for x in walks.sampler.thresholds()]
            expected = algorithm_one(A, M, start, walks.n_walks, thresholds, **settings)
        found = split_walks(walks, start)
        assert [[d[:2] for d in walk] for walk in found] == [[d[:2] for d in walk] for walk in expected]
        loads = [d[2] * walks.scale ** d[1] for walk in found for d in walk]
        tiny = 1e-14 if walks.sampler.head else 0  # where paths of a head cancel
        assert np.allclose(loads, [d[2] for walk in expected for d in walk], rtol=1e-12, atol=tiny)


def dangling():
    """A directed graph whose last node cannot be left."""
    return wk.Graph.from_edges([(0, 1), (1, 2), (2, 0), (1, 3), (2, 3)], directed=True)
