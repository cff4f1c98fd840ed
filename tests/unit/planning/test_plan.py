"""What ``estimate_kernel`` decides when it is not told: every option by itself and with others."""

import time
import tracemalloc

import numpy as np
import pytest

import graphs
import walkernel as wk
from walkernel.kernels import SquaredSeries
from walkernel.planning import Request, make_plan

HEAT = wk.Diffusion(1.5)
WIDE = wk.Diffusion(30.0)
SAMPLER = wk.CoupledWalks((1.0, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.005), head=1, group=4)


def plan(graph, kernel=HEAT, **options):
    request = dict.fromkeys(("ensembles", "n_walks", "budget", "sampler", "stitches"))
    request |= {"pair": "auto", "local": False, **options}
    request["ids"] = np.arange(graph.n_nodes) if "ids" not in options else options["ids"]
    return make_plan(Request(graph=graph, kernel=kernel, **request))


@pytest.mark.parametrize(
    ("options", "stitches"),
    [({}, 1), ({"n_walks": 64}, 1), ({"budget": 34 * 400}, 6), ({"budget": 34 * 400, "stitches": 2}, 2),
     ({"n_walks": 64, "stitches": 3}, 3), ({"stitches": 4}, 4),
     ({"budget": 34 * 400, "local": True}, 1), ({"budget": 34 * 400, "pair": "lazy"}, 1),
     ({"budget": 34 * 12}, 3)],
)  # fmt: skip
def test_factors(options, stitches):
    found = plan(graphs.karate(), **options)
    assert found.weights.stitches == stitches
    assert found.n_walks >= 3
    assert found.n_walks == options.get("n_walks", found.n_walks)


@pytest.mark.parametrize("kind", ["weighted", "directed"])
@pytest.mark.parametrize("pair", ["auto", "lazy"])
@pytest.mark.parametrize("ensembles", [None, "independent", "shared", "debiased"])
def test_ensembles(kind, pair, ensembles):
    graph = graphs.KINDS[kind]()
    if ensembles in ("shared", "debiased") and (kind == "directed" or pair == "lazy"):
        for how in ({"n_walks": 8}, {}, {"n_walks": 8, "sampler": SAMPLER}):
            with pytest.raises(ValueError, match="ensembles must be None or 'independent'"):
                plan(graph, pair=pair, ensembles=ensembles, **how)
        return
    one_set = kind == "weighted" and pair == "auto"
    for how in ({"n_walks": 8}, {}, {"budget": 30 * 400}, {"n_walks": 8, "sampler": SAMPLER}):
        found = plan(graph, pair=pair, ensembles=ensembles, **how)
        assert found.ensembles == ensembles or (
            ensembles is None and found.ensembles == ("debiased" if one_set else "independent")
        )


def test_many_walks_afford_a_head():
    heads = [plan(graphs.karate(), n_walks=n).sampler.head for n in (1, 64, 4096)]
    assert heads == sorted(heads)
    assert heads[1] > 0
    factors = [plan(graphs.karate(), n_walks=16, stitches=n).sampler.head for n in (1, 8)]
    assert factors[0] <= factors[1]


def test_one_walk_cannot_be_debiased():
    graph = graphs.karate()
    assert plan(graph, n_walks=1).ensembles == "independent"
    assert plan(graph, n_walks=2).ensembles == "debiased"
    assert plan(graph, n_walks=4, sampler=SAMPLER).ensembles == "independent"
    assert plan(graph, n_walks=5, sampler=SAMPLER).ensembles == "debiased"
    for options in ({"n_walks": 1}, {"n_walks": 4, "sampler": SAMPLER}):
        with pytest.raises(ValueError, match=r"n_walks must be at least \d for ensembles='debiased'"):
            plan(graph, ensembles="debiased", **options)


BUDGETED = {
    "default": {},
    "lazy": {"pair": "lazy"},
    "independent": {"ensembles": "independent"},
    "one factor": {"stitches": 1},
    "sampler": {"sampler": wk.IndependentWalks(0.2)},
    "sampler, two sides": {"sampler": wk.IndependentWalks(0.2), "ensembles": "independent"},
    "head": {"sampler": wk.CoupledWalks((1.0, 0.7, 0.4, 0.2), head=2)},
    "head, factors": {"sampler": wk.CoupledWalks((1.0, 0.7, 0.4, 0.2), head=2), "stitches": 2},
}


@pytest.mark.parametrize("case", BUDGETED)
@pytest.mark.parametrize("kind", ["weighted", "directed", "signed", "self-loops"])
@pytest.mark.filterwarnings("ignore::walkernel.InfiniteVarianceWarning")
def test_budgets_are_kept(case, kind):
    """85 to 104 % of the steps, over 10 seeds on average."""
    graph = graphs.KINDS[kind]()
    budget = 500 * graph.n_nodes
    steps = [
        wk.estimate_kernel(graph, HEAT, budget=budget, seed=s, **BUDGETED[case]).n_steps for s in range(10)
    ]
    assert 0.85 < np.mean(steps) / budget < 1.04


@pytest.mark.parametrize("matrix", ["adjacency", "combinatorial"])
def test_budgets_on_other_matrices_and_for_some_nodes(matrix):
    graph, kernel = graphs.weighted(), wk.Diffusion(0.4, matrix=matrix)
    for nodes in (None, [3, 1, 20, 21]):
        budget = 500 * (30 if nodes is None else 4)
        found = [wk.estimate_kernel(graph, kernel, budget=budget, nodes=nodes, seed=s) for s in range(10)]
        assert 0.85 < np.mean([K.n_steps for K in found]) / budget < 1.04


def test_steps_are_those_of_all_sets_of_walks():
    """Heads, the same in all sets of walks that go in one direction, are followed once for each direction."""
    for graph in (graphs.weighted(), graphs.directed()):
        K = wk.estimate_kernel(graph, HEAT, 16, sampler=SAMPLER, ensembles="independent", stitches=2)
        sets = [
            wk.sample_walks(graph, 16, sampler=SAMPLER, stream=s, transpose=bool(s % 2)) for s in range(4)
        ]
        walked = sum(walks.deposits.nodes.size - 16 * 30 for walks in sets)
        heads = [int(walks.deposits.head.edges.sum()) for walks in sets]
        assert K.n_steps == walked + (heads[0] + heads[1] if graph.directed else heads[0])
        assert all(factor.n_steps == K.n_steps for factor in K.factors)


@pytest.mark.parametrize("kernel", [WIDE, wk.Diffusion(60.0)], ids=str)
def test_kernels_that_are_wider_than_the_default_have_three_walks(kernel):
    K = wk.estimate_kernel(graphs.karate(), kernel)
    assert K.groups.left.n_walks == 3
    assert K.ensembles == "debiased"
    with pytest.raises(ValueError, match=r"budget must be at least (\d+) steps, 2 walks from each node"):
        wk.estimate_kernel(graphs.karate(), kernel, budget=34 * 100)


@pytest.mark.parametrize("ensembles", [None, "independent"])
@pytest.mark.parametrize("sampler", [None, wk.IndependentWalks(0.05)])
def test_the_budget_that_a_refusal_names_is_enough(sampler, ensembles):
    graph, options = graphs.karate(), {"sampler": sampler, "ensembles": ensembles, "stitches": 1}
    with pytest.raises(ValueError, match="budget must be at least") as refused:
        wk.estimate_kernel(graph, HEAT, budget=20, **options)
    least = int(str(refused.value).split("at least ")[1].split()[0])
    assert wk.estimate_kernel(graph, HEAT, budget=least, **options).shape == (34, 34)
    with pytest.raises(ValueError, match="budget must be at least"):
        wk.estimate_kernel(graph, HEAT, budget=0.98 * least, **options)


def test_a_long_given_sampler_is_walked_by_default():
    K = wk.estimate_kernel(graphs.karate(), HEAT, sampler=wk.IndependentWalks(0.001))
    assert K.groups.left.n_walks == 3


BAD = {
    "zero": ({"budget": 0}, "budget must be a finite number greater than 0, got 0"),
    "negative": ({"budget": -3.0}, "budget must be a finite number greater than 0, got -3"),
    "nan": ({"budget": np.nan}, "budget must be a finite number"),
    "infinite": ({"budget": np.inf}, "budget must be a finite number"),
    "text": ({"budget": "many"}, "budget must be a finite number greater than 0, got 'many'"),
    "bool": ({"budget": True}, "budget must be a finite number"),
    "two": ({"budget": 100, "n_walks": 4}, "budget must be None if n_walks is given, got 100. Give one of"),
    "no walks": ({"n_walks": 0}, "n_walks must be a whole number from 1"),
    "half a walk": ({"n_walks": 2.5}, "n_walks must be a whole number from 1"),
    "stitches": ({"stitches": 2.5}, "stitches must be a whole number from 1 to 16, got 2.5"),
    "few": ({"budget": 20, "stitches": 3}, r"at least 216 steps, 2 walks from each node, got 20\. Give"),
    "few, two sides": ({"budget": 20, "ensembles": "independent"}, r"one walk from each node"),
    "few, debiased": (
        {"budget": 40, "sampler": wk.CoupledWalks((1.0, 0.5), group=4), "ensembles": "debiased"},
        r"at least 255 steps, 5 walks from each node",
    ),
    "head": (
        {"budget": 200, "sampler": wk.CoupledWalks((0.5,), head=3)},
        "budget must be enough for the edges of exact heads of 3 hops, got 200",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
@pytest.mark.filterwarnings("ignore::walkernel.InfiniteVarianceWarning")
def test_bad_input(case):
    options, message = BAD[case]
    with pytest.raises((ValueError, TypeError), match=f"estimate_kernel: .*{message}"):
        wk.estimate_kernel(graphs.karate(), wk.Diffusion(1.0), **options)


EXACT = [wk.PowerSeries([1.0]), wk.PowerSeries([1.0, 2.0, 1.0]), wk.PStepRandomWalk(2),
         wk.PStepRandomWalk(4, 3.0)]  # fmt: skip


@pytest.mark.parametrize("kernel", EXACT, ids=str)
@pytest.mark.parametrize("kind", ["weighted", "directed", "isolated"])
@pytest.mark.parametrize("options", [{}, {"per_node": 600}, {"ensembles": "independent"}])
def test_short_polynomials_are_exact(kernel, kind, options):
    graph = graphs.KINDS[kind]()
    options = {**options}
    if "per_node" in options:
        options["budget"] = options.pop("per_node") * graph.n_nodes
    K = wk.estimate_kernel(graph, kernel, **options)
    assert K.stitches == 1
    assert np.allclose(K.to_dense(), wk.exact_kernel(graph, kernel), rtol=1e-10, atol=1e-12)
    assert K.groups.left.n_walks == 16
    product = K.estimate_product(np.ones(graph.n_nodes))
    assert (product.stderr <= 1e-12 * np.abs(product.value).max()).all()


def test_factors_of_infinite_variance_are_not_chosen():
    """(1 + x)^(5/2) has a finite variance, its sixth root has not."""
    K = wk.estimate_kernel(graphs.karate(), wk.PStepRandomWalk(5, 2.0), budget=34 * 400)
    assert K.stitches == 1


@pytest.mark.parametrize(("pair", "length"), [("symmetric", 4), ("lazy", 8)])
def test_the_last_step_counts(pair, length):
    """On one edge walks of a fixed length are all alike: K is exact if they are as long as its sequence."""
    edge, kernel = wk.Graph.from_edges([(0, 1)]), wk.PStepRandomWalk(8, 3.0)
    K = wk.estimate_kernel(edge, kernel, 2, pair=pair, sampler=wk.CoupledWalks((1.0,) * length, group=1))
    assert np.allclose(K.to_dense(), wk.exact_kernel(edge, kernel), rtol=1e-12)


def test_walks_are_as_long_as_numbers_tell():
    """f is a geometric series; at most 2**-60 of it is left to no walk."""
    kernel = wk.RegularizedLaplacian(2, 2.0)
    f = kernel.modulation(1024)
    for options in ({"n_walks": 64}, {}, {"budget": 34 * 400, "stitches": 1}):
        longest = plan(graphs.karate(), kernel, **options).sampler.longest
        assert f[longest + 1 :].sum() < 2.0**-60 * f.sum()


def test_walks_suit_both_directions():
    """Against the edges into a hub, loads vary far more than along them: reversed, the same walks suit."""
    edges = [(i, 0) for i in range(1, 60)] + [(0, 1)] + [(i, i % 59 + 1) for i in range(1, 60)]
    kernel, reverse = wk.Diffusion(0.5, matrix="adjacency"), [(v, u) for u, v in edges]
    along, against = (wk.Graph.from_edges(one, directed=True) for one in (edges, reverse))
    assert plan(along, kernel, n_walks=16).sampler == plan(against, kernel, n_walks=16).sampler
    lazy = [plan(graph, kernel, n_walks=16, pair="lazy").sampler for graph in (along, against)]
    assert lazy[0].survival()[-1] != lazy[1].survival()[-1], "walks of one direction are another matter"


def test_factors_that_are_longer_than_any_walk_are_not_chosen():
    """f = 1 + cz is walked in one step; its roots, for c this near to 1, are longer than any series."""
    K = wk.estimate_kernel(graphs.karate(), SquaredSeries([1.0, 0.9999]), budget=34 * 400)
    assert K.stitches == 1


TINY = {
    "a node": wk.Graph.from_edges(np.empty((0, 2), dtype=int), n_nodes=1),
    "a loop": wk.Graph.from_scipy(np.ones((1, 1))),
    "an edge": wk.Graph.from_edges([(0, 1)]),
    "no edges": wk.Graph.from_edges(np.empty((0, 2), dtype=int), n_nodes=5),
    "loops": wk.Graph.from_scipy(np.eye(4)),
    "an arrow": wk.Graph.from_scipy(np.array([[0.0, 1.0], [0.0, 0.0]])),
}


@pytest.mark.parametrize("graph", TINY.values(), ids=TINY)
@pytest.mark.parametrize("kernel", [HEAT, wk.RegularizedLaplacian(2, 1.0), wk.InverseCosine(),
                                    wk.PowerSeries([0.0, 1.0])], ids=str)  # fmt: skip
def test_tiny_graphs(graph, kernel):
    """On one and two nodes walks have a single way to go: all but their lengths is exact."""
    exact = wk.exact_kernel(graph, kernel)
    for options in ({}, {"n_walks": 64}, {"budget": 300 * graph.n_nodes}):
        found = [wk.estimate_kernel(graph, kernel, seed=s, **options) for s in range(3)]
        mean = np.mean([K.to_dense() for K in found], axis=0)
        assert np.allclose(mean, exact, rtol=0, atol=0.1 * max(1.0, np.abs(exact).max()))
        assert np.isfinite(found[0].estimate_row_sums().stderr).all()
        assert "None" not in found[0].explain().text
        if not graph.indices.size:
            assert np.allclose(mean, exact, rtol=0, atol=1e-12)


def test_planning_takes_no_time():
    """Milliseconds on a small graph, and hardly more, in time and memory, on a large one."""
    for kernel in (HEAT, wk.RegularizedLaplacian(1, 10.0), wk.Matern(1.5, 2.0)):
        for options in ({}, {"n_walks": 64}, {"budget": 34 * 400}):
            for _ in range(4):  # loops are interpreted before they are compiled
                plan(graphs.karate(), kernel, **options)
            times = []
            for _ in range(3):
                begin = time.process_time()
                plan(graphs.karate(), kernel, **options)
                times.append(time.process_time() - begin)
            assert min(times) < 0.05
    n = 1_000_000
    graph = wk.Graph.from_edges(np.random.default_rng(0).integers(0, n, (3 * n, 2)), n_nodes=n)
    ids = np.arange(0, n, 10_000)
    given = {"sampler": wk.CoupledWalks((1.0, 0.5, 0.1), head=1), "budget": 1e5}
    for options in ({}, {"budget": 1e5}, {"n_walks": 64}, given):
        plan(graph, ids=ids, local=True, **options)
        tracemalloc.start()
        begin = time.process_time()
        plan(graph, ids=ids, local=True, **options)
        assert time.process_time() - begin < 0.3
        assert tracemalloc.get_traced_memory()[1] < 6e6, "an array of one double for each node has 8 MB"
        tracemalloc.stop()
