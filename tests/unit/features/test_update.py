"""Walks.update: what it refuses and what it writes to, start nodes that come and go, interrupts."""

import copy
import pickle
from types import SimpleNamespace

import numpy as np
import pytest

import graphs
import walkernel as wk
from walkernel.walks import _rewalk as _update
from walkernel.walks import count_walks, sample_deposits

KERNEL = wk.Diffusion(1.5)
PATH = [(i, i + 1) for i in range(19)]
MANY = 1500  # walks, of which 20 nodes have several tasks, whole or in an update
HEADS = [
    wk.IndependentWalks(0.4),
    wk.CoupledWalks([1.0, 0.5, 0.2], head=1, group=4),
    wk.PrunedWalks(0.8 ** np.arange(30), 0.05, head=2, unevenness=1.0, group=4),
]


def bits(walks):
    *walked, head = walks.deposits
    return [(array.dtype, array.tobytes()) for array in (walks.ids, *walked, *head)]


def path(*more, without=(), **options):
    """A path of 20 nodes with some further edges."""
    return wk.Graph.from_edges([*(e for e in PATH if e not in without), *more], **options)


def ring(n):
    return [(i, (i + 1) % n) for i in range(n)]


@pytest.mark.parametrize("sampler", HEADS, ids=["walks", "heads", "unequal"])
def test_a_walk_can_be_walked_alone(sampler):
    walks = wk.sample_walks(graphs.directed(), 8, sampler=sampler, seed=4)
    opens = np.append(np.flatnonzero(walks.deposits.lengths == 0), walks.deposits.nodes.size)
    rng = np.random.default_rng(0)
    firsts = np.concatenate([[0], np.cumsum(count_walks(8, walks.deposits.head.shifts, 30))])
    starts = rng.integers(0, 30, 10_000)  # tasks of two blocks
    numbers = rng.integers(0, np.diff(firsts)[starts])
    alone = sample_deposits(walks.at(starts).first_walks(1), 1, None, numbers)
    which = firsts[starts] + numbers
    begins, sizes = opens[which], np.diff(opens)[which]
    assert np.array_equal(np.diff(alone.indptr), sizes)
    own = np.repeat(begins - alone.indptr[:-1], sizes) + np.arange(sizes.sum())
    for name in ("nodes", "lengths", "loads"):
        assert getattr(alone, name).tobytes() == getattr(walks.deposits, name)[own].tobytes()


def test_the_walks_themselves_change():
    walks = wk.sample_walks(path(), 6)
    old, arrays = copy.deepcopy(walks), walks.deposits
    assert walks.n_rewalked == 0
    before = walks.features(KERNEL).toarray()
    assert walks.update(path((0, 2))) is walks
    assert walks.deposits.nodes is arrays.nodes, "no copy of the record is made"
    assert walks.deposits.loads is arrays.loads
    assert 0 < walks.n_rewalked < 6 * 20
    assert np.array_equal(old.features(KERNEL).toarray(), before)
    assert not np.array_equal(walks.features(KERNEL).toarray(), before)
    assert bits(walks) == bits(wk.sample_walks(path((0, 2)), 6))
    assert bits(walks.update(old.graph)) == bits(old)


def test_an_equal_graph_changes_nothing():
    walks = wk.sample_walks(path((0, 2)), 6)
    before = bits(walks)
    assert walks.update(path((0, 2))).n_rewalked == 0
    assert bits(walks) == before
    walks.update(path())
    assert walks.update(walks.graph).n_rewalked == 0


def test_what_is_kept_of_the_old_walks_is_dropped():
    """Features that were sorted, and the length of the longest walk."""
    alone = wk.Graph.from_edges([(0, 1)], n_nodes=4)
    walks = wk.sample_walks(alone, 3, nodes=[2, 3])
    assert walks.modulation(np.exp).size == 1
    graph = wk.Graph.from_edges([(0, 1), (1, 2), (2, 3)])
    fresh = wk.sample_walks(graph, 3, nodes=[2, 3])
    assert walks.update(graph).modulation(np.exp).size == fresh.modulation(np.exp).size > 1
    assert np.array_equal(walks.features(KERNEL).toarray(), fresh.features(KERNEL).toarray())


def test_groups_keep_their_walks():
    walks = wk.sample_walks(path(), 6)
    groups, whole = walks.in_groups(3), walks.in_groups(1)
    before = bits(groups)
    walks.update(path((0, 2)))
    assert bits(groups) == before
    with pytest.raises(ValueError, match=r"Walks\.update: the walks must be from distinct start nodes"):
        groups.update(path((0, 2)))
    assert bits(whole.update(path((0, 2)))) == bits(walks)
    assert bits(groups) == before


def test_arrays_of_others_are_not_written_to():
    walks = wk.sample_walks(path(), 6)
    fixed = pickle.loads(pickle.dumps(walks))
    for array in fixed.deposits[:4]:
        array.flags.writeable = False
    old = fixed.deposits.nodes.copy()
    kept = fixed.deposits.nodes
    assert bits(fixed.update(path((0, 2)))) == bits(walks.update(path((0, 2))))
    assert np.array_equal(kept, old)


@pytest.mark.parametrize("sampler", HEADS, ids=["walks", "heads", "unequal"])
def test_an_interrupted_update_changes_nothing(sampler):
    walks = wk.sample_walks(path(), MANY, sampler=sampler)
    graph, before = walks.graph, bits(walks)
    features, calls = walks.features(KERNEL).toarray(), []

    def stop(done, total):
        calls.append((done, total))
        if len(calls) == 2:
            raise KeyboardInterrupt

    for new in (path((0, 2)), path((0, 2), n_nodes=23), path(directed=True)):
        calls.clear()
        with pytest.raises(KeyboardInterrupt):
            walks.update(new, progress=stop)
        assert (walks.graph, walks.n_rewalked, bits(walks)) == (graph, 0, before)
        assert np.array_equal(walks.features(KERNEL).toarray(), features)


@pytest.mark.parametrize("sampler", HEADS, ids=["walks", "heads", "unequal"])
def test_progress_counts_walks(sampler):
    walks, calls = wk.sample_walks(path(), MANY, sampler=sampler), []
    walks.update(path((0, 2)), progress=lambda *state: calls.append(state))
    done = [count for count, _ in calls]
    assert {total for _, total in calls} == {walks.n_rewalked}
    assert done == sorted(set(done))
    assert len(done) > 1
    assert done[-1] == walks.n_rewalked


def test_threads_share_the_work(monkeypatch):
    monkeypatch.setattr("walkernel._threads.FEW_DEPOSITS", 1)
    for sampler in HEADS:
        for new in (path((0, 2)), path(without=[(4, 5)], n_nodes=22), path((3, 9), without=[(18, 19)])):
            walks = wk.sample_walks(path(), 4, sampler=sampler, engine=wk.engines.CPU(3))
            walks.update(new)
            assert bits(walks) == bits(wk.sample_walks(new, 4, sampler=sampler))


@pytest.mark.parametrize("sampler", HEADS, ids=["walks", "heads", "unequal"])
def test_nodes_that_come_and_go(sampler):
    walks = wk.sample_walks(path(), 4, sampler=sampler)
    for edges in ([*PATH, (19, 20), (20, 22)], PATH[:-3], [*PATH[:-3], (0, 5)], [(0, 1)]):
        graph = wk.Graph.from_edges(edges)
        assert bits(walks.update(graph)) == bits(wk.sample_walks(graph, 4, sampler=sampler))
        assert walks.features(KERNEL).shape == (graph.n_nodes, graph.n_nodes)


def test_new_nodes_are_few_walks():
    walks = wk.sample_walks(path(n_nodes=20), 4)
    assert walks.update(path(n_nodes=22)).n_rewalked == 8, "nodes without edges that nothing else knows of"
    assert walks.update(path(n_nodes=20)).n_rewalked == 0


def test_chosen_nodes_stay_chosen():
    nodes = [7, 3, 0]
    walks = wk.sample_walks(path(), 4, nodes=nodes)
    graph = path((0, 2), n_nodes=25)
    assert bits(walks.update(graph)) == bits(wk.sample_walks(graph, 4, nodes=nodes))
    assert walks.nodes.tolist() == nodes
    small = wk.Graph.from_edges(PATH[:6])
    before = bits(walks)
    with pytest.raises(ValueError, match=r"new_graph must be a graph with all nodes .* without the node 7\."):
        walks.update(small)
    assert bits(walks) == before
    assert walks.graph is graph


LABELLED = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "f"), ("f", "g")]


def test_labels_in_the_same_order():
    edges = [(chr(97 + i), chr(98 + i)) for i in range(20)]
    graph, sampler = wk.Graph.from_edges([*edges, ("a", "c"), ("u", "v")]), wk.IndependentWalks(0.6)
    walks = wk.sample_walks(wk.Graph.from_edges(edges), 4, sampler=sampler)
    assert bits(walks.update(graph)) == bits(wk.sample_walks(graph, 4, sampler=sampler))
    assert 4 < walks.n_rewalked < 4 * 11
    assert walks.nodes.tolist() == [chr(97 + i) for i in range(22)]


@pytest.mark.parametrize("nodes", [None, ["d", "b"]], ids=["all", "chosen"])
def test_labels_in_another_order(nodes):
    turned = wk.Graph.from_edges([*LABELLED[::-1], ("c", "new")])
    walks = wk.sample_walks(wk.Graph.from_edges(LABELLED), 4, nodes=nodes)
    names = [*"abcdefg", "new"] if nodes is None else nodes
    assert bits(walks.update(turned)) == bits(wk.sample_walks(turned, 4, nodes=names))
    assert walks.nodes.tolist() == names
    assert walks.n_rewalked == 4 * len(names)
    later = wk.Graph.from_edges([*LABELLED[::-1], ("c", "new"), ("c", "newer")])
    walks.update(later)
    assert walks.nodes.tolist() == (names if nodes else [*names, "newer"])
    assert bits(walks) == bits(wk.sample_walks(later, 4, nodes=walks.nodes))


def test_a_label_that_is_gone():
    with pytest.raises(ValueError, match="without the node 'a'"):
        wk.sample_walks(wk.Graph.from_edges(LABELLED), 4, nodes=["b", "a"]).update(
            wk.Graph.from_edges(LABELLED[1:])
        )
    with pytest.raises(ValueError, match="without the node 'a'"):
        wk.sample_walks(wk.Graph.from_edges(LABELLED), 4).update(path())
    walks = wk.sample_walks(wk.Graph.from_edges(LABELLED), 4)
    assert walks.update(wk.Graph.from_edges(LABELLED[1:])).nodes.tolist() == list("bcdefg")


def test_ids_that_become_labels():
    """A NetworkX graph on 0 … n−1 that loses a node."""
    walks = wk.sample_walks(path(), 4)
    graph = wk.Graph.from_edges([e for e in PATH if 3 not in e], relabel=True)
    assert bits(walks.update(graph)) == bits(wk.sample_walks(graph, 4))
    assert walks.nodes.tolist() == [i for i in range(20) if i != 3]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (([(0, 1)],), TypeError, "new_graph must be a Graph"),
        ((path(), {"progress": 3}), TypeError, "progress must be"),
    ],
)
def test_refusals(arguments, error, text):
    graph, *options = arguments
    with pytest.raises(error, match=f"Walks.update: {text}"):
        wk.sample_walks(path(), 2).update(graph, **(options[0] if options else {}))


def chords(weight=1.0, **options):
    """A ring of 40 nodes, all weights one, one edge of another weight."""
    edges = [*ring(40), (0, 20)]
    return wk.Graph.from_edges(edges, weights=[1.0] * 40 + [weight], **options)


HEAVY = wk.Graph.from_edges(ring(40), weights=[3.0] + [1.0] * 39)
UNIFORM = wk.IndependentWalks(0.3, "uniform")
GLOBAL = {
    "scale": ("adjacency", None, chords(1.0), chords(500.0), lambda t: t.scale),
    "largest degree": ("combinatorial", None, chords(1.0), chords(3.0), lambda t: t.alias.tobytes()),
    "inner": ("normalized", UNIFORM, wk.Graph.from_edges(ring(40)), chords(3.0), lambda t: t.inner.size),
    "alias": ("normalized", None, wk.Graph.from_edges(ring(40)), chords(3.0), lambda t: t.alias.size),
    "edge": ("normalized", UNIFORM, wk.Graph.from_edges(ring(40)), chords(3.0), lambda t: t.edge.size),
    "signs": ("normalized", None, chords(2.0), chords(-2.0), lambda t: t.is_plain),
    "dead ends": (
        "normalized", None, chords(directed=True), wk.Graph.from_edges(ring(40)[:-1], directed=True),
        lambda t: t.is_plain or t.packed[-1],
    ),
    "last by degree": ("normalized", None, chords(3.0), HEAVY, lambda t: t.last_by_degree),
}  # fmt: skip


@pytest.mark.parametrize("name", GLOBAL)
def test_what_all_nodes_share_may_change(monkeypatch, name):
    monkeypatch.setattr(_update, "MAX_REWALKED", 1.0)
    matrix, sampler, a, b, shared = GLOBAL[name]
    for before, after in ((a, b), (b, a)):
        walks = wk.sample_walks(before, 4, matrix=matrix, sampler=sampler)
        here = walks.table
        walks.update(after)
        assert shared(here) != shared(walks.table)
        assert bits(walks) == bits(wk.sample_walks(after, 4, matrix=matrix, sampler=sampler))


def test_a_weight_in_a_graph_without_weights_touches_few_walks():
    """Rows of equal weights are walked as rows without weights are."""
    walks = wk.sample_walks(wk.Graph.from_edges([*ring(40), (0, 20)]), 4, sampler=wk.IndependentWalks(0.5))
    assert 0 < walks.update(chords(3.0)).n_rewalked < 80


def test_rows_that_change_while_the_list_of_all_entries_does_not():
    """The row of node 1 is another of the same size; entries one after the other are the same."""
    edges = [(0, 1), (0, 2), (1, 3), (2, 4)], [(0, 1), (1, 2), (2, 3), (2, 4)]
    before, after = (wk.Graph.from_edges(e, directed=True, n_nodes=19) for e in edges)
    assert np.array_equal(before.indices, after.indices)
    walks = wk.sample_walks(before, 3, matrix="adjacency")
    assert bits(walks.update(after)) == bits(wk.sample_walks(after, 3, matrix="adjacency"))
    assert walks.n_rewalked == 9


def test_directions_are_walked_anew():
    walks = wk.sample_walks(path(), 4, transpose=True)
    graph = path(directed=True)
    assert walks.update(graph).n_rewalked == 80
    assert bits(walks) == bits(wk.sample_walks(graph, 4, transpose=True))


def test_files_and_pickles(tmp_path):
    walks = wk.sample_walks(path(), 4, sampler=HEADS[1], seed=2).update(path((0, 2)))
    again = pickle.loads(pickle.dumps(walks))
    assert again.n_rewalked == walks.n_rewalked > 0
    walks.save(tmp_path / "walks.npz")
    loaded = wk.Walks.load(tmp_path / "walks.npz", path((0, 2)))
    new = path((0, 5), without=[(7, 8)])
    expected = bits(wk.sample_walks(new, 4, sampler=HEADS[1], seed=2))
    for each in (walks, again, loaded):
        assert bits(each.update(new)) == expected


def one_bit_off(array, place):
    found = array.copy()
    found.view(np.uint64)[place] ^= np.uint64(1)
    return found


@pytest.mark.parametrize("sampler", [wk.CoupledWalks([1.0, 0.5], t, head=1) for t in ("weights", "uniform")])
def test_one_bit_of_anything_that_is_read_of_a_node_marks_it(sampler):
    walks = wk.sample_walks(graphs.directed(), 2, sampler=sampler)
    node = 11
    begin, end = walks.graph.indptr[node : node + 2]
    places = {key: [node] for key in ("first", "inner", "last", "leave", "enter", "totals")}
    places |= {key: [begin, end - 1] for key in ("edge", "values")} | {"alias": [2 * begin, 2 * end - 1]}
    read = 0
    for part in ("table", "hops"):
        arrays = getattr(walks, part)
        for name in set(arrays._fields) & set(places):
            for place in places[name] if getattr(arrays, name).size else []:
                other = arrays._replace(**{name: one_bit_off(getattr(arrays, name), place)})
                both = SimpleNamespace(**{"table": walks.table, "hops": walks.hops, part: other})
                changed = _update.changed_nodes(walks, both, 1)
                assert np.flatnonzero(changed).tolist() == [node], name
                read += 1
    assert read == 10
