"""Least error bars of entries, from the law of the walks: by hand, with signs, on parts of a graph."""

from functools import reduce

import numpy as np
import pytest
import scipy.sparse

import graphs
import walkernel as wk
from walkernel.operators._groups import EntryFeatures
from walkernel.operators._unseen import _heaviest, unseen_errors, walk_laws

KERNEL = wk.Diffusion(1.5)
ROWS, COLUMNS = (indices.ravel() for indices in np.indices((30, 30)))


def uneven():
    W = np.triu(np.random.default_rng(7).lognormal(0, 3, (30, 30)), 1)
    return wk.Graph.from_scipy(graphs.random_matrix(seed=7) * (W + W.T))


def among_many(graph):
    """Return a graph with so many further nodes, without edges, that only parts of it are looked at."""
    A = graph.to_scipy().copy()
    A.resize(4097, 4097)
    return wk.Graph.from_scipy(A)


def least_errors(K, rows=ROWS, columns=COLUMNS):
    """Return the least error bars of entries, and where they are known."""
    return unseen_errors(K.groups, *(side.means() for side in K.groups.of_entries(rows, columns)))


@pytest.mark.parametrize("ensembles", ["independent", "debiased", "shared"])
@pytest.mark.parametrize("n_walks", [4, 256])
def test_least_error_bars_by_hand(ensembles, n_walks):
    """The same walks on both sides of the diagonal move it twice: σ, jumps and τ are doubled."""
    K = wk.estimate_kernel(uneven(), KERNEL, n_walks, ensembles=ensembles, sampler=wk.IndependentWalks(0.2))
    law = walk_laws(K.groups)[0]
    beginnings = law.beginnings(np.arange(30))
    left, right = (side.to_scipy().toarray() for side in (K.left, K.right))
    ahead, back = law.spread(right.T, beginnings), law.spread(left.T, beginnings)
    variance, size, square, cube = (own + other.T for own, other in zip(ahead, back, strict=True))
    deviation, jump = np.sqrt(variance), cube / square
    if ensembles != "independent":
        np.fill_diagonal(deviation, 2 * np.sqrt(ahead.variance.diagonal()))
        np.fill_diagonal(jump, 2 * jump.diagonal())
    lengths = np.array([deviation, 1.5 * jump, size / 1.96])
    shortest = lengths.argmin(axis=0)
    assert set(shortest.ravel()) == ({0, 2} if n_walks == 4 else {0, 1, 2})
    assert set(shortest.diagonal()) == ({0, 2} if n_walks == 4 else {1})
    errors, known = least_errors(K)
    assert np.allclose(errors.reshape(30, 30), lengths.min(axis=0), rtol=1e-9, atol=0)
    assert known.all()


@pytest.mark.parametrize("ensembles", ["independent", "debiased"])
@pytest.mark.parametrize("n_walks", [4, 256])
def test_least_error_bars_of_products_by_hand(ensembles, n_walks):
    """Walks of node k of a factor ΦΨᵀ change L ΦΨᵀ R by L_ik dφ_k·(ΨᵀR)_j and (ΦᵀLᵀ)_i·dψ_k R_kj."""
    options = {"stitches": 3, "ensembles": ensembles, "sampler": wk.IndependentWalks(0.2)}
    K = wk.estimate_kernel(uneven(), KERNEL, n_walks, **options)
    law = walk_laws(K.factors[0].groups)[0]
    beginnings, factors = law.beginnings(np.arange(30)), [factor.to_dense() for factor in K.factors]
    variance, size, square, cube = np.zeros((4, 30, 30))
    for place, factor in enumerate(K.factors):
        L, R = (reduce(np.matmul, part, np.eye(30)) for part in (factors[:place], factors[place + 1 :]))
        left, right = (side.to_scipy().toarray() for side in (factor.left, factor.right))
        ahead, back = law.spread(right.T @ R, beginnings), law.spread(left.T @ L.T, beginnings)
        own = np.abs(L)[:, :, None] * np.sqrt(ahead.variance)[None]  # (i, k, j)
        other = np.sqrt(back.variance).T[:, :, None] * np.abs(R)[None]
        together = own**2 + other**2 if ensembles == "independent" else (own + other) ** 2
        variance += together.sum(axis=1)
        size += np.abs(L) @ ahead.size + back.size.T @ np.abs(R)
        square += L**2 @ ahead.square + back.square.T @ R**2
        cube += np.abs(L) ** 3 @ ahead.cube + back.cube.T @ np.abs(R) ** 3
    lengths = np.array([np.sqrt(variance), 1.5 * cube / square, size / 1.96])
    assert set(lengths.argmin(axis=0).ravel()) == {0, 1, 2}
    least = lengths.min(axis=0)
    errors = K._unseen_errors(ROWS, COLUMNS).reshape(30, 30)
    assert np.allclose(errors, (least + least.T) / 2, rtol=1e-9, atol=0)


def test_walks_without_a_choice_have_no_variance():
    """All walks along the one edge are alike; what rounding leaves of their variance may be negative."""
    edge = wk.Graph.from_edges([(0, 1)])
    sampler = wk.CoupledWalks((1.0,) * 5, group=1)
    law = walk_laws(wk.estimate_kernel(edge, wk.PStepRandomWalk(8, 3.0), 4, sampler=sampler).groups)[0]
    v = np.random.default_rng(0).random((2, 50))
    spread = law.spread(v, law.beginnings(np.arange(2)))
    assert (spread.variance == 0).all()
    assert (spread.square > 0).all()


def test_signs_do_not_shorten_what_walks_add():
    """Of deposits of both signs the absolute values count, as those of a graph without signs do."""
    signed, v = graphs.signed(), np.random.default_rng(0).standard_normal((30, 2))
    laws = []
    for graph in (signed, wk.Graph.from_scipy(abs(signed.to_scipy()))):
        K = wk.estimate_kernel(graph, KERNEL, 4, sampler=wk.IndependentWalks(0.2))
        laws.append(walk_laws(K.groups)[0])
    found = laws[0].spread(v, laws[0].beginnings(np.arange(30)))
    absolute = laws[1].spread(np.abs(v), laws[1].beginnings(np.arange(30)))
    assert np.allclose(found[1:], absolute[1:], rtol=1e-12)
    assert np.allclose(laws[1].spread(v, laws[1].beginnings(np.arange(30)))[1:], absolute[1:], rtol=1e-12)


def test_parts_of_a_graph_tell_all_only_if_no_edge_leads_out():
    """Of many nodes, 15 have edges only among each other; those of a connected graph have others."""
    rows, columns = np.arange(5), np.arange(1, 6)
    separate, connected = among_many(graphs.isolated()), among_many(graphs.unweighted())
    walked = {"n_walks": 64, "sampler": wk.IndependentWalks(0.1), "nodes": np.arange(6)}
    assert least_errors(wk.estimate_kernel(separate, KERNEL, **walked), rows, columns)[1].all()
    few = {"n_walks": 2, "sampler": wk.IndependentWalks(0.5), "nodes": np.arange(6)}
    errors, known = least_errors(wk.estimate_kernel(connected, KERNEL, **few), rows, columns)
    assert (errors > 0).any()
    assert not known.any()


def test_parts_of_a_graph_hold_the_nodes_of_the_entries():
    """Nodes 2 and 9 have hardly a deposit of their own, and all others have more."""
    values = np.random.default_rng(0).uniform(1, 5, (2, 5000))
    values[:, [2, 9]] = 0
    sides = [
        EntryFeatures(np.array([node]), np.zeros(1, dtype=np.int64), scipy.sparse.csr_array(values[[side]]))
        for side, node in enumerate((9, 2))
    ]
    kept = _heaviest(np.arange(5000), *sides)
    shares = (values / values.sum(axis=1, keepdims=True)).sum(axis=0)
    shares[[2, 9]] = np.inf
    assert kept.tolist() == sorted(np.argsort(-shares)[:4096])
