"""Budgets prune heads where that has less error, keep to their steps, and leave whole heads elsewhere."""

import numpy as np
import pytest

import graphs
import walkernel as wk
from walkernel.datasets import barabasi_albert, erdos_renyi
from walkernel.planning import _plan, _pruning

HEAT = wk.Diffusion(np.sqrt(2.0))
SIZES = tuple(HEAT.modulation(20).tolist())


def sampler_of(graph, kernel=HEAT, budget=400, **options):
    K = wk.estimate_kernel(graph, kernel, budget=budget * graph.n_nodes, stitches=1, **options)
    return K.groups.left.sampler, K.n_steps / graph.n_nodes


def error(graph, kernel, budget, seeds=3):
    exact = wk.exact_kernel(graph, kernel)
    found = [wk.estimate_kernel(graph, kernel, budget=budget, stitches=1, seed=s) for s in range(seeds)]
    return np.sqrt(np.mean([np.square(K.to_dense() - exact).sum() for K in found]))


@pytest.mark.parametrize("ensembles", ["debiased", "independent"])
@pytest.mark.parametrize("kind", ["hubs", "uneven weights", "directed"])
def test_heads_are_pruned_on_uneven_graphs(kind, ensembles):
    graph = {
        "hubs": lambda: barabasi_albert(500, 4).graph,
        "uneven weights": lambda: uneven(erdos_renyi(500, 0.02).graph),
        "directed": lambda: one_way(barabasi_albert(500, 4).graph),
    }[kind]()
    if kind == "directed" and ensembles == "debiased":
        pytest.skip("directed graphs have two sets of walks")
    sampler, steps = sampler_of(graph, ensembles=ensembles)
    assert isinstance(sampler, wk.PrunedWalks)
    assert 0.9 * 400 <= steps <= 1.02 * 400


def uneven(graph):
    edges = np.argwhere(np.triu(graph.to_scipy().toarray()))
    return wk.Graph.from_edges(edges, weights=np.random.default_rng(0).lognormal(0, 1.5, len(edges)))


def one_way(graph):
    edges = np.argwhere(graph.to_scipy().toarray())
    return wk.Graph.from_edges(edges[np.random.default_rng(0).random(len(edges)) < 0.7], directed=True)


def test_pruned_heads_have_less_error(monkeypatch):
    graph = barabasi_albert(500, 4).graph
    pruned = error(graph, HEAT, 400 * 500)
    monkeypatch.setattr(_plan, "prune", lambda *arguments: arguments[6])
    assert pruned < 0.9 * error(graph, HEAT, 400 * 500)


def test_a_trial_decides(monkeypatch):
    """Where coupling gains more behind whole heads, which predictions do not know, they stay."""
    graph = barabasi_albert(500, 4).graph
    assert isinstance(sampler_of(graph)[0], wk.PrunedWalks)
    monkeypatch.setattr(
        _pruning._Heads, "trial_variance",
        lambda heads, ids, own: 1.0 + isinstance(own.sampler, wk.PrunedWalks),
    )  # fmt: skip
    assert isinstance(sampler_of(graph)[0], wk.CoupledWalks)


def test_queries_of_few_nodes_are_planned_at_once():
    K = wk.estimate_kernel(barabasi_albert(500, 4).graph, HEAT, nodes=range(50))
    assert isinstance(K.groups.left.sampler, wk.CoupledWalks)


def test_trials_tell_the_variance_of_features():
    """Within 25 %, by 30 seeds of all nodes: 5 standard errors of the trial's 100 nodes, and more."""
    graph = barabasi_albert(100, 3).graph
    for sampler in (
        wk.CoupledWalks(wk.matched_law(graph, HEAT)[1:], head=1, group=4),
        wk.PrunedWalks(SIZES, 0.01, group=4),
        wk.PrunedWalks(SIZES, 0.01, unevenness=2.0, group=4),
    ):
        heads = _pruning._Heads(graph, "normalized", [False], wk.PrunedWalks(SIZES))
        own = _plan.Allocation(sampler, 32, 1, 0.0)
        tried = heads.trial_variance(np.arange(100), own)
        features = [
            wk.sample_features(graph, np.array(SIZES), 32, sampler=sampler, seed=s).toarray()
            for s in range(30)
        ]
        true = np.var(features, axis=0, ddof=1).sum() / 100
        assert tried == pytest.approx(true, rel=0.25)


def test_numbers_of_walks_that_are_given_are_kept():
    graph = barabasi_albert(300, 4).graph
    walks = wk.estimate_kernel(graph, HEAT, n_walks=64).groups.left
    assert isinstance(walks.sampler, wk.CoupledWalks)
    assert walks.n_walks == 64


@pytest.mark.parametrize("unevenness", [0.0, 1.5])
@pytest.mark.parametrize("ensembles", ["debiased", "independent"])
def test_a_budget_counts_the_walks_of_pruned_heads(unevenness, ensembles):
    graph = barabasi_albert(300, 4).graph
    sampler = wk.PrunedWalks(SIZES, 0.01, unevenness=unevenness, group=4)
    K = wk.estimate_kernel(graph, HEAT, sampler=sampler, budget=500 * 300, ensembles=ensembles)
    assert 0.9 * 500 <= K.n_steps / 300 <= 1.03 * 500


def test_a_budget_that_heads_use_up_is_refused():
    sampler = wk.PrunedWalks(SIZES, 0.0, head=5)
    with pytest.raises(ValueError, match=r"budget must be enough for the edges that heads follow.*threshold"):
        wk.estimate_kernel(graphs.karate(), HEAT, sampler=sampler, budget=34 * 50)
