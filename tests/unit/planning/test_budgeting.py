"""How steps are spent: what heads cost, in which groups, on how many factors."""

import time

import numpy as np
import pytest

import graphs
import walkernel as wk
from walkernel.planning import Request, make_plan
from walkernel.planning._allocation import allocate_budget, allocate_walks, head_costs
from walkernel.walks import matched_survival

HEAT = wk.Diffusion(2.0)


def counted(A, hops):
    """Edges that heads follow on average: out-degrees of all nodes that paths of 0, 1, … edges end in."""
    pattern = (A != 0).astype(int)
    degrees, reached, costs = pattern.sum(axis=1), np.eye(len(A), dtype=int), [0.0]
    for _ in range(hops):
        costs.append(costs[-1] + (reached @ degrees).mean())
        reached = (reached @ pattern > 0).astype(int)
    return costs


@pytest.mark.parametrize("kind", [*graphs.KINDS, "karate"])
@pytest.mark.parametrize("directions", [(False,), (True,), (False, True)])
def test_heads_cost_the_edges_of_all_nodes_they_end_in(kind, directions):
    graph = graphs.karate() if kind == "karate" else graphs.KINDS[kind]()
    A = graph.to_scipy().toarray()
    found = head_costs(graph, np.arange(graph.n_nodes), "normalized", directions, np.inf, 4)
    ways = {turned and graph.directed for turned in directions}
    expected = np.sum([counted(A.T if turned else A, 4) for turned in ways], axis=0)
    assert np.allclose(found, expected, rtol=1e-14)


def test_heads_on_other_matrices_and_of_some_nodes():
    graph = graphs.weighted()
    ids = np.array([3, 17, 4])
    A = graph.to_scipy().toarray()
    loops = A + np.eye(30)  # the diagonal of the combinatorial matrix
    for matrix, pattern in (("adjacency", A), ("combinatorial", loops)):
        found = head_costs(graph, ids, matrix, (False,), np.inf, 2)
        degrees = (graph.to_scipy(matrix).toarray() != 0).sum(axis=1)
        assert found[1] == pytest.approx(degrees[ids].mean())
        assert len(found) == 3
        assert np.count_nonzero(pattern) >= degrees.sum()


def test_costs_are_those_that_walks_then_have():
    graph = graphs.directed()
    walks = wk.sample_walks(graph, 4, sampler=wk.CoupledWalks([0.5], head=3))
    costs = head_costs(graph, np.arange(30), "normalized", (False,), np.inf)
    assert walks.deposits.head.edges.mean() == pytest.approx(costs[3])


def test_costs_end_at_the_limit():
    graph = graphs.karate()
    whole = head_costs(graph, np.arange(34), "normalized", (False,), np.inf)
    assert len(whole) == 9
    for limit in (0.0, whole[1] - 1e-9, whole[1], whole[2] + 1):
        found = head_costs(graph, np.arange(34), "normalized", (False,), limit)
        assert found == [cost for cost in whole if cost <= limit]


def test_a_huge_hub_is_never_expanded():
    """A star of 10⁵ leaves and some paths: two hops from a leaf would be 10⁵ edges."""
    n = 10**5
    star = wk.Graph.from_edges(np.column_stack([np.zeros(n - 1, dtype=int), np.arange(1, n)]))
    head_costs(star, np.arange(n), "normalized", (False,), 50.0)
    begin = time.process_time()
    found = head_costs(star, np.arange(1, n), "normalized", (False,), 50.0)
    assert time.process_time() - begin < 0.05
    assert found == [0.0, 1.0]
    sampler = wk.estimate_kernel(star, HEAT, nodes=[1, 2, 3], budget=1000).groups.left.sampler
    assert sampler.head <= 1


def test_probes_stand_for_all_nodes():
    graph = wk.load_dataset("karate").graph
    many = wk.Graph.from_scipy(np.kron(np.eye(12), graph.to_scipy().toarray()))
    few, all_of_them = (head_costs(g, np.arange(g.n_nodes), "normalized", (False,), 200.0)
                        for g in (many, graph))  # fmt: skip
    assert np.allclose(few[1:3], all_of_them[1:3], rtol=0.1)


@pytest.mark.parametrize(
    ("n_walks", "group"),
    [(1, 1), (2, 1), (8, 2), (12, 2), (15, 1), (16, 4), (17, 1), (18, 2), (64, 4), (100, 4), (128, 8),
     (192, 8), (256, 16), (272, 16), (260, 4), (264, 8)],
)  # fmt: skip
def test_groups(n_walks, group):
    assert wk.choose_sampler(graphs.karate(), HEAT, n_walks=n_walks).group == group
    assert n_walks % group == 0


def heat_sizes(factors):
    return HEAT.modulation(128, stitches=factors)


def law_after(sizes, head):
    return matched_survival(sizes[head:])[1:]


@pytest.mark.parametrize("budget", [20, 60, 200, 1000, 1e6])
@pytest.mark.parametrize("sides", [1, 2])
def test_the_first_number_of_factors_that_has_walks_is_taken(budget, sides):
    costs = [0.0, 4.6, 40.0]
    each = {
        n: allocate_budget(heat_sizes, costs, budget, sides=sides, stitches=[n]) for n in (6, 5, 4, 3, 2, 1)
    }
    spent = allocate_budget(heat_sizes, costs, budget, sides=sides, stitches=each)
    possible = [n for n in each if each[n] is not None]
    assert spent == (each[possible[0]] if possible else None)
    for n in possible:
        own = each[n]
        assert own.stitches == n
        assert own.n_walks >= 3
        edges = costs[own.sampler.head]
        assert edges + sides * n * own.n_walks * own.sampler.mean_steps <= budget * (1 + 1e-9)
        assert edges <= 0.9 * budget
    if budget == 20:
        assert len(possible) < 6
    if budget == 1000:
        assert possible[0] == 6


def test_many_steps_are_spent_almost_wholly():
    for budget in (100, 250, 700, 1500):
        costs = [0.0, 4.6, 40.0]
        spent = allocate_budget(heat_sizes, costs, budget, sides=1, stitches=[1])
        assert costs[spent.sampler.head] + spent.n_walks * spent.sampler.mean_steps > 0.85 * budget


@pytest.mark.parametrize(("cost", "head"), [(40.0, 1), (80.0, 1), (89.0, 1), (91.0, 0)])
def test_a_head_may_take_nine_tenths_of_the_steps(cost, head):
    """What one hop leaves of a narrow kernel has 70 times less variance times steps."""

    def sizes(_):
        return wk.Diffusion(1.0).modulation(64)

    spent = allocate_budget(sizes, [0.0, cost], 100.0, sides=1, stitches=[1])
    assert spent.sampler.head == head
    scores = [
        allocate_budget(sizes, costs, 100.0, sides=1, stitches=[1]).score for costs in ([0.0], [0.0, 89.0])
    ]
    assert scores[1] < scores[0]


def test_steps_that_are_left_make_walks_longer():
    """15 walks of the matched law leave 28 % of the steps."""
    law = law_after(heat_sizes(1), 0)
    steps = 16 * law.sum() * (1 - 1e-6) / 0.9
    spent = allocate_budget(heat_sizes, [0.0], steps, sides=1, stitches=[1])
    assert spent.sampler.mean_steps > 1.05 * law.sum()
    assert (np.array(spent.sampler.law)[: law.size] >= law - 1e-15).all()
    assert spent.n_walks * spent.sampler.mean_steps <= steps


@pytest.mark.parametrize(("n_walks", "head"), [(1, 0), (16, 1), (64, 2), (256, 4), (4096, 8)])
def test_the_law_after_a_head_suits_what_is_left(n_walks, head):
    """S(k) = min(1, 1.3 |f_{r+k}| / |f_{r+1}|) for an f that falls."""
    graph, kernel = graphs.karate(), wk.Diffusion(1.0)
    given = dict.fromkeys(("ensembles", "budget", "sampler", "stitches")) | {"n_walks": n_walks}
    sampler = make_plan(Request(graph, kernel, np.arange(34), "auto", local=False, **given)).sampler
    assert sampler.head == head
    f = kernel.modulation(64)
    expected = np.minimum(1.0, 1.3 * f[head + 1 :] / f[head + 1])
    law = np.array(sampler.law)
    assert np.allclose(law, expected[: law.size], rtol=1e-12)
    assert f[head + 1 + law.size :].sum() < 2.0**-63 * f.sum()


def test_the_head_has_the_least_variance_times_steps():
    sizes, costs = heat_sizes(1), [0.0, 4.6, 40.0, 120.0]

    def score(head, law, steps):
        beyond = sizes[head + 1 :][: law.size]
        return (beyond**2 / law[: beyond.size]).sum() * steps

    for n_walks in (4, 64, 4096):
        scores = [
            score(head, law, cost + n_walks * law.sum()) / n_walks
            for head, cost in enumerate(costs)
            for law in [law_after(sizes, head)]
        ]
        chosen = allocate_walks(sizes, costs, n_walks, lambda head: law_after(sizes, head))
        assert chosen.sampler.head == int(np.argmin(scores))
        assert chosen.score == pytest.approx(min(scores))
    assert chosen.sampler.head > 1


def test_what_a_head_has_all_of_takes_no_walks():
    sizes = np.zeros(128)
    sizes[:3] = 1.0, 2.0, 1.0
    spent = allocate_budget(lambda _: sizes, [0.0, 5.0, 25.0, 90.0], 400, sides=1, stitches=[1])
    assert spent.sampler.head == 2
    assert spent.n_walks == 16
    assert spent.sampler.mean_steps < 1e-5
    assert spent.score == 0


@pytest.mark.parametrize(("p", "stitches"), [(2, 1), (3, 1), (4, 1), (12, 2), (20, 5), (35, 6)])
def test_polynomials_are_not_split_into_roots_that_decay_slower(p, stitches):
    """(2 + x)^(p/2l) ends within three hops for some l, and is not one for others."""
    kernel = wk.PStepRandomWalk(p, 3.0)
    spent = allocate_budget(
        lambda n: np.abs(kernel.modulation(256, stitches=n)), [0.0, 4.6, 40.0, 120.0], 400,
        sides=1, stitches=range(1, 7), is_polynomial=True,
    )  # fmt: skip
    assert spent.stitches == stitches


def test_too_few_steps_for_any_polynomial():
    sizes = np.ones(64)
    options = {"sides": 1, "stitches": [1, 2], "is_polynomial": True}
    assert allocate_budget(lambda _: sizes, [0.0], 3.0, **options) is None
