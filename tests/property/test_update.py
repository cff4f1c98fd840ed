"""Walks that are brought to a changed graph are those of a fresh sample, bit for bit."""

from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import walkernel as wk
from walkernel.walks import _rewalk as _update

LAW = (1.0, 0.7, 0.7, 0.4, 0.2)
FREE = {"lengths": "independent", "first_step": "independent", "later_steps": "independent"}
SAMPLERS = [
    wk.IndependentWalks(0.3),
    wk.IndependentWalks(0.3, "uniform"),
    wk.CoupledWalks(LAW),
    wk.CoupledWalks(LAW, "uniform", group=4),
    wk.CoupledWalks(LAW, lengths="antithetic", group=2),
    wk.CoupledWalks(LAW, head=1),
    wk.CoupledWalks(LAW, "uniform", head=2, group=4),
    wk.CoupledWalks(LAW, head=2, **FREE),
    wk.PrunedWalks(LAW, 0.05, head=3, group=4),
    wk.PrunedWalks(LAW, 0.05, head=2, transition="uniform", unevenness=1.0, group=4),
]
F = np.array([1.0, -0.7, 0.5, 0.3, -0.2, 0.1])


def bits(walks):
    """All arrays of a record, with their types."""
    *walked, head = walks.deposits
    return [(array.dtype, array.tobytes()) for array in (walks.ids, *walked, *head)]


def matrices(rng, n_nodes, n_graphs, *, directed, kinds, grows):
    """Adjacency matrices, each with some entries inserted, deleted or weighted anew; sparse ones."""
    n = n_nodes
    A = np.where(rng.random((n, n)) < 1.5 / n, 1.0, 0.0)
    for kind in kinds[:n_graphs]:
        for _ in range(rng.integers(0, 4)):
            i, j = rng.integers(0, n, 2)
            A[i, j] = rng.choice([0.0, 0.0, 1.0, 2.5, 0.3])
        if grows and rng.random() < 0.5:
            n = max(1, n + int(rng.integers(-2, 3)))
            larger = np.zeros((n, n))
            m = min(n, A.shape[0])
            larger[:m, :m] = A[:m, :m]
            larger[rng.integers(0, n), n - 1] = 1.0
            A = larger
        B = A if directed else np.maximum(np.triu(A), np.triu(A).T)
        signs = np.where((np.add.outer(np.arange(n), np.arange(n)) % 5 == 0), -1.0, 1.0)
        yield {"plain": (B != 0).astype(float), "weighted": B, "signed": B * signs}[kind]


def same_as_fresh(walks, graph, n_threads, **settings):
    fresh = wk.sample_walks(graph, **settings)
    assert walks.update(graph) is walks
    assert walks.graph is graph
    assert bits(walks) == bits(fresh)
    ours, theirs = walks.features(F), fresh.features(F)
    for name in ("indptr", "indices", "data"):
        assert getattr(ours, name).tobytes() == getattr(theirs, name).tobytes()
    assert walks.n_steps == fresh.n_steps


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(SAMPLERS),
    st.sampled_from(["normalized", "adjacency", "combinatorial", "random-walk"]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["plain", "weighted", "signed", "mixed"]),
    st.sampled_from(["all", "all, other sizes", "chosen"]),
    st.sampled_from([1, 3, 16, 20]),
    st.sampled_from([0.3, 1.0]),
)
def test_an_update_gives_the_bits_of_a_fresh_sample(
    seed, sampler, matrix, directed, transpose, kind, nodes, n_walks, most
):
    rng = np.random.default_rng(seed)
    n, count = int(rng.integers(2, 40)), 4
    kinds = rng.choice(["plain", "weighted", "signed"], count) if kind == "mixed" else [kind] * count
    if matrix == "random-walk":  # takes no signs
        kinds = ["weighted" if each == "signed" else each for each in kinds]
    grows = nodes == "all, other sizes"
    found = matrices(rng, n, count, directed=directed, kinds=kinds, grows=grows)
    first, *others = [wk.Graph.from_scipy(A, directed=directed) for A in found]
    chosen = rng.permutation(n)[: int(rng.integers(1, n))] if nodes == "chosen" else None
    n_walks *= sampler.group if getattr(sampler, "unevenness", 0) else 1
    options = {"n_walks": n_walks, "sampler": sampler, "matrix": matrix, "transpose": transpose}
    options |= {"nodes": chosen, "seed": seed, "stream": seed % 7}
    walks = wk.sample_walks(first, **options)
    walks.features(F)
    with mock.patch.object(_update, "MAX_REWALKED", most):
        for graph in others:
            same_as_fresh(walks, graph, int(rng.integers(1, 3)), **options)


@st.composite
def rings(draw):
    """Separate triangles, and a few of their edges that are cut, of less than three tenths of them."""
    n = 3 * draw(st.integers(11, 30))
    edges = [(i, i - i % 3 + (i + 1) % 3) for i in range(n)]
    cut = draw(st.lists(st.integers(0, n - 1), max_size=3, unique=True))
    return n, edges, cut


@given(rings(), st.integers(0, 2**64 - 1), st.integers(1, 9))
def test_walks_are_walked_again_if_they_touched_a_changed_node_and_no_others(ring, seed, n_walks):
    n, edges, cut = ring
    before = wk.Graph.from_edges(edges, n_nodes=n)
    after = wk.Graph.from_edges([e for k, e in enumerate(edges) if k not in cut], n_nodes=n)
    walks = wk.sample_walks(before, n_walks, seed=seed)
    changed = {node for k in cut for node in edges[k]}
    paths = np.split(walks.deposits.nodes, np.flatnonzero(walks.deposits.lengths == 0)[1:])
    expected = sum(not changed.isdisjoint(path.tolist()) for path in paths)
    assert walks.update(after).n_rewalked == expected
    assert bits(walks) == bits(wk.sample_walks(after, n_walks, seed=seed))
