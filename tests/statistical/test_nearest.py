"""Nearest nodes that are certified are the nearest nodes, selection included."""

import networkx as nx
import numpy as np
import pytest

import walkernel as wk

K_NEAREST = 5


def of(graph, n_nodes=None, weights=None):
    return wk.Graph.from_edges(np.array(graph.edges()), n_nodes=n_nodes, weights=weights)


def random(seed, n=300):
    return of(nx.gnm_random_graph(n, 4 * n, seed=seed), n)


def hub(seed, n=300):
    """Node 0 has an edge to two thirds of the others."""
    graph = nx.barabasi_albert_graph(n, 2, seed=seed)
    graph.add_edges_from((0, int(j)) for j in np.random.default_rng(seed).permutation(n)[: 2 * n // 3] if j)
    return of(graph)


def weighted(seed, n=300, spread=2.0):
    graph = nx.gnm_random_graph(n, 5 * n, seed=seed)
    return of(graph, n, np.random.default_rng(seed).lognormal(0, spread, graph.number_of_edges()))


def blocks(seed):
    return of(nx.planted_partition_graph(10, 20, 0.5, 0.01, seed=seed), 200)


def judged(make, kernel, n_walks, seeds=4, n_rows=20, **options):
    """Return which rows are certified and which are right, and the same of single neighbours."""
    rows, neighbors = [], []
    for seed in range(seeds):
        graph = make(seed)
        exact = wk.exact_kernel(graph, kernel)
        np.fill_diagonal(exact, -np.inf)
        edges = np.diff(graph.indptr)
        chosen = np.random.default_rng(seed).choice(np.flatnonzero(edges), n_rows, replace=False)
        chosen[:2] = np.argsort(-edges)[:2]
        best = wk.estimate_kernel(graph, kernel, n_walks, seed=seed, **options).estimate_topk(
            chosen, K_NEAREST
        )
        kth = np.sort(exact[chosen], axis=1)[:, -K_NEAREST]
        found = exact[chosen[:, None], np.minimum(best.nodes, graph.n_nodes - 1)]
        right = (best.nodes < graph.n_nodes) & (found >= kth[:, None] * (1 - 1e-9))
        rows.append(np.column_stack([best.certified.all(axis=1), right.all(axis=1)]))
        neighbors.append(np.column_stack([best.certified.ravel(), right.ravel()]))
    return np.concatenate(rows).T, np.concatenate(neighbors).T


PAPER = {"sampler": wk.IndependentWalks(0.1)}
FEW, MANY = 64, 1024


@pytest.mark.deep
@pytest.mark.parametrize("make", [random, hub, weighted, blocks])
@pytest.mark.parametrize(
    ("kernel", "options"),
    [(wk.Diffusion(1.0), {}), (wk.Diffusion(3.0), {}), (wk.Diffusion(1.5), PAPER), (wk.Matern(1.5, 3.0), {})],
    ids=str,
)
def test_what_is_certified_is_right(make, kernel, options):
    """95 % is the promise for a row; the bounds are wide enough that all are right."""
    for n_walks in (FEW, MANY):
        rows, neighbors = judged(make, kernel, n_walks, **options)
        for certified, right in (rows, neighbors):
            assert right[certified].sum() >= 0.95 * certified.sum()


@pytest.mark.parametrize(("make", "least"), [(blocks, 0.8), (weighted, 0.8), (hub, 0.2)])
def test_many_walks_certify_most_rows_and_these_are_right(make, least):
    (certified, right), _ = judged(make, wk.Diffusion(1.0), MANY, seeds=2)
    assert certified.mean() > least
    assert right[certified].all()


def by_one_standard_error(estimate, there, values, k, *others):
    """Compare examined nodes by one standard error, as if they were the only ones and had not been chosen."""
    lower, upper = (np.full(values.shape, -np.inf) for _ in range(2))
    lower[there], upper[there] = estimate.value - estimate.stderr, estimate.value + estimate.stderr
    return lower[:, :k] > upper[:, k:].max(axis=1, keepdims=True)


def test_standard_errors_that_forget_the_choice_certify_wrong_nodes(monkeypatch):
    """The sabotaged twin of ``test_what_is_certified_is_right``."""
    certified, right = judged(blocks, wk.Diffusion(1.5), 256, **PAPER)[1]
    assert right.mean() < 0.8
    assert right[certified].all()
    monkeypatch.setattr("walkernel.operators._base.belonging", by_one_standard_error)
    certified, right = judged(blocks, wk.Diffusion(1.5), 256, **PAPER)[1]
    assert right[certified].sum() < 0.93 * certified.sum()


def test_a_hub_is_not_certified_and_topk_says_so():
    graph = hub(0, n=1200)
    K = wk.estimate_kernel(graph, wk.Diffusion(1.0), 64)
    assert not K.estimate_topk([0], 10).certified.all()
    with pytest.warns(UserWarning, match="topk: hardly a walk") as caught:
        found = K.topk([700, 0], 10)
    assert str(caught[0].message) == (
        "KernelOperator.topk: hardly a walk leads to the last of the 10 nodes found, and others may be "
        "nearer, for node 0. Use more walks, or estimate_topk, which tells which of them are certain."
    )
    exact = wk.polynomial_operator(graph, wk.Diffusion(1.0)).topk([0], 10)
    assert len(set(exact.nodes[0]) & set(found.nodes[1])) < 8


def test_deterministic_rows_are_certified_but_for_ties():
    star = wk.Graph.from_edges([(0, i) for i in range(1, 6)] + [(1, 6)])
    best = wk.polynomial_operator(star, wk.Diffusion(1.0)).estimate_topk([0, 2, 6], 2)
    assert best.certified.tolist() == [[False, False], [True, False], [True, True]]  # leaves 2 to 5 are alike
    nodes, values, stderr, certified = best
    assert nodes is best.nodes
    assert certified is best.certified
    assert (stderr == 0).all()
    assert (values[1:, 0] > values[1:, 1]).all()
