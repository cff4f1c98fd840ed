"""Certified neighbours are neighbours, most that can be told apart are certified, and estimates have no bias.

The promise of ``wk.nearest`` is a level of 95 % for all that is certified of a node's neighbours together.
"""

import networkx as nx
import numpy as np
import pytest

import walkernel as wk
from walkernel.operators import _push_setup
from walkernel.walks import read_only

KERNELS = (wk.PageRank(0.85), wk.PageRank(0.5), wk.Diffusion(np.sqrt(2)), wk.Diffusion(np.sqrt(10)))
TOLERANCES = (0.3, 0.1, 0.01)


def of(graph, weights=None):
    return wk.Graph.from_edges(np.array(graph.edges()), n_nodes=graph.number_of_nodes(), weights=weights)


def random(seed):
    return of(nx.gnm_random_graph(1500, 6000, seed=seed))


def power_law(seed):
    return of(nx.barabasi_albert_graph(1500, 3, seed=seed))


def hubs(seed):
    """Two nodes have edges to most of the others."""
    graph, rng = nx.barabasi_albert_graph(1500, 2, seed=seed), np.random.default_rng(seed)
    graph.add_edges_from((0, int(j)) for j in rng.permutation(1500)[:1200] if j)
    graph.add_edges_from((1, int(j)) for j in rng.permutation(1500)[:800] if j > 1)
    return of(graph)


def weighted(seed):
    graph = nx.gnm_random_graph(1500, 7500, seed=seed)
    return of(graph, np.random.default_rng(seed).lognormal(0, 2, 7500))


def blocks(seed):
    return of(nx.planted_partition_graph(30, 50, 0.3, 0.002, seed=seed))


def judged(graph, kernel, tolerance, method, n_nodes=20, k=10):
    """Ask for hubs and others: which rows have a wrong certified node, or are off, and what is certified."""
    degrees = np.diff(graph.indptr)
    others = np.random.default_rng(5).choice(np.flatnonzero(degrees), n_nodes, replace=False)
    nodes = np.unique(np.concatenate([np.argsort(-degrees)[: n_nodes // 2], others]))
    exact = wk.polynomial_operator(graph, kernel, tol=1e-12).rows(nodes)
    exact[np.arange(nodes.size), nodes] = -1.0
    best = wk.nearest(graph, kernel, nodes, k, tolerance=tolerance, method=method, seed=7)
    true, ordered = np.take_along_axis(exact, best.nodes, axis=1), -np.sort(-exact, axis=1)
    last, following = ordered[:, k - 1 : k], ordered[:, k : k + 1]
    is_wrong = (best.certified & (true < last * (1 - 1e-9))).any(axis=1)
    is_off = (np.abs(best.values - true) > tolerance * last + 1e-11).any(axis=1)
    is_off |= (true < (1 - tolerance) * last - 1e-11).any(axis=1)
    return is_wrong, is_off, best.certified[true > (1 + 2 * tolerance) * following]


@pytest.mark.parametrize(
    ("make", "seeds"),
    [
        *(pytest.param(make, (0,)) for make in (hubs, power_law)),
        *(
            pytest.param(make, range(1, 4), marks=pytest.mark.deep)
            for make in (random, hubs, weighted, blocks)
        ),
    ],
)
@pytest.mark.parametrize("method", ["walks", "auto"])
def test_what_is_certified_is_right(make, seeds, method):
    """20 to 30 nodes of a graph, four kernels, three tolerances: 700 queries in short, 6,000 in all."""
    found = [
        judged(make(seed), kernel, tolerance, method)
        for seed in seeds for kernel in KERNELS for tolerance in TOLERANCES
    ]  # fmt: skip
    wrong, off, certified = (np.concatenate(parts) for parts in zip(*found, strict=True))
    assert wrong.size > 200 * len(seeds)
    assert wrong.mean() <= 0.05
    assert off.mean() <= 0.05
    assert certified.size > 1000
    assert certified.mean() >= 0.9


def test_without_degrees_wrong_nodes_are_certified(monkeypatch):
    """The sabotaged twin: a bound that forgets that loads on hubs add up."""
    units = _push_setup._units
    monkeypatch.setattr(
        _push_setup, "_units", lambda *about: (np.full_like(units(*about)[0], units(*about)[0].mean()), 1.0)
    )
    found = [judged(hubs(0), kernel, tolerance, "walks") for kernel in KERNELS for tolerance in TOLERANCES]
    wrong, off, _ = (np.concatenate(parts) for parts in zip(*found, strict=True))
    assert wrong.mean() > 0.05
    assert off.mean() > 0.05


def estimates(n_seeds):
    """Errors and stated standard errors of values that walks estimated, (seeds, values) each.

    Of a node's ten neighbours those are taken that every seed finds, so that none is there by its error. The
    tolerance is large, so that all have had the same number of walks.
    """
    graph, kernel, nodes = power_law(3), wk.PageRank(0.85), np.arange(100, 140)
    exact = wk.polynomial_operator(graph, kernel, tol=1e-12).rows(nodes)
    options = {"tolerance": 0.3, "method": "walks"}
    found = [wk.nearest(graph, kernel, nodes, 10, seed=seed, **options) for seed in range(n_seeds)]
    errors, stated = [], []
    for i, row in enumerate(exact):
        for node in set.intersection(*(set(best.nodes[i].tolist()) for best in found)):
            places = [best.nodes[i].tolist().index(node) for best in found]
            errors.append([best.values[i, p] - row[node] for best, p in zip(found, places, strict=True)])
            stated.append([best.stderr[i, p] for best, p in zip(found, places, strict=True)])
    varies = [len(set(values)) == n_seeds for values in errors]
    return np.array(errors)[varies].T, np.array(stated)[varies].T


def test_estimates_have_no_bias_and_their_errors_are_those_stated():
    errors, stated = estimates(16)
    assert errors.shape[1] > 100
    spread = errors.std(axis=0, ddof=1)
    pooled = errors.mean(axis=0).sum() / np.sqrt((spread**2).sum() / len(errors))
    assert abs(pooled) < 4
    assert 0.7 < (stated**2).mean(axis=0).sum() / (spread**2).sum() < 1.4


def shares_beyond(factor):
    """Shares of the values of narrow kernels, where most walks find nothing, beyond 2 and 5 stated errors."""
    graph, nodes = of(nx.gnp_random_graph(2000, 0.005, seed=2)), np.arange(0, 2000, 10)
    z = []
    for kernel, tolerance in ((wk.Diffusion(0.5), 0.01), (wk.Diffusion(1.0), 0.1), (wk.PageRank(0.3), 0.1)):
        best = wk.nearest(graph, kernel, nodes, 10, tolerance=tolerance)
        exact = wk.polynomial_operator(graph, kernel, tol=1e-13).rows(nodes)
        errors = np.abs(best.values - np.take_along_axis(exact, best.nodes, axis=1))
        z.append(errors / (factor * best.stderr + 1e-12))
    return [(np.concatenate(z) > limit).mean() for limit in (2, 5)]


def test_walks_that_find_nothing_have_an_error():
    beyond_two, beyond_five = shares_beyond(1.0)
    assert beyond_two < 0.1
    assert beyond_five < 0.005


def test_errors_that_are_too_short_are_noticed():
    """The sabotaged twin."""
    beyond_two, beyond_five = shares_beyond(0.25)
    assert beyond_two > 0.1
    assert beyond_five > 0.005


def test_walks_that_forget_where_they_end_are_biased(monkeypatch):
    """The sabotaged twin: residues that are lighter for walks than for the bound."""
    series_of = _push_setup.series_of

    def lighter(graph, kernel):
        series = series_of(graph, kernel)
        terms = series.terms.copy()
        terms[2:] *= 0.8
        return series._replace(terms=read_only(terms))

    monkeypatch.setattr(_push_setup, "series_of", lighter)
    errors, _ = estimates(8)
    spread = errors.std(axis=0, ddof=1)
    assert errors.mean(axis=0).sum() / np.sqrt((spread**2).sum() / len(errors)) < -4
