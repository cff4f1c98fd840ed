"""The record and its products: storage, linearity, files, progress, interruption."""

from concurrent import futures

import numpy as np
import pytest

import graphs
import walkernel as wk
from walkernel.walks import _sampling, _spec, _state, sample_rows
from walkernel.walks._samplers import Coupling

SHORT = wk.IndependentWalks(0.5)
MANY = 1000  # walks, of which 34 nodes have tasks enough for some threads


def test_layout_of_the_record():
    walks = wk.sample_walks(graphs.karate(), 7, seed=1)
    record = walks.deposits
    assert record.indptr.shape == (35,)
    assert np.add.reduceat(record.lengths == 0, record.indptr[:-1]).tolist() == [7] * 34
    steps = np.diff(record.lengths)
    assert set(steps[record.lengths[1:] > 0].tolist()) == {1}
    assert walks.n_steps == (record.lengths > 0).sum()
    assert record.nodes.itemsize + record.lengths.itemsize + record.loads.itemsize <= 16
    assert "34 nodes x 7 walks" in repr(walks)


def test_layout_of_a_record_with_heads():
    graph = graphs.karate()
    walks = wk.sample_walks(graph, 7, sampler=wk.CoupledWalks([1.0, 0.5, 0.1], head=2), seed=1)
    record, head = walks.deposits, walks.deposits.head
    assert np.add.reduceat(record.lengths == 0, record.indptr[:-1]).tolist() == [7] * 34
    assert set(record.lengths.tolist()) == {0, 3, 4, 5}
    degrees = np.diff(graph.indptr)
    assert head.edges.tolist() == (degrees + graph.to_scipy() @ degrees).tolist()
    assert walks.n_steps == (record.lengths > 0).sum() + head.edges.sum()
    M, rows = graph.to_scipy("normalized").toarray(), np.repeat(np.arange(34), np.diff(head.indptr))
    for length, power in ((1, M), (2, M @ M)):
        entries, here = np.zeros((34, 34)), head.lengths == length
        entries[rows[here], head.nodes[here]] = head.loads[here]
        assert np.allclose(entries, power, rtol=0, atol=1e-15)


def test_heads_that_need_more_room_and_a_larger_table():
    spokes = np.column_stack([np.zeros(3000, dtype=int), np.arange(1, 3001)])
    graph = wk.Graph.from_edges(spokes)
    head = wk.sample_walks(graph, 1, sampler=wk.CoupledWalks([0.5], head=3), nodes=[1, 0]).deposits.head
    assert head.edges.tolist() == [1 + 3000 + 3000, 3000 + 3000 + 3000]
    assert np.bincount(head.lengths).tolist() == [0, 1 + 3000, 3000 + 1, 1 + 3000]
    assert np.allclose(head.loads[head.lengths == 2][:3000], 1 / 3000)


def test_loads_telescope_in_undirected_graphs():
    graph = graphs.weighted()
    walks = wk.sample_walks(graph, 20, seed=1)
    starts = np.repeat(np.arange(30), np.diff(walks.deposits.indptr))
    d = graph.out_degrees()
    expected = np.sqrt(d[starts] / d[walks.deposits.nodes]) / walks.sampler.survival()[walks.deposits.lengths]
    assert np.allclose(walks.deposits.loads, expected, rtol=1e-12)


def test_mean_length_follows_the_law():
    walks = wk.sample_walks(graphs.karate(), 2000, sampler=wk.IndependentWalks(0.25), seed=8)
    count = 34 * 2000
    assert walks.n_steps / count == pytest.approx(3.0, abs=4 * np.sqrt(12 / count))
    assert wk.IndependentWalks(0.25).mean_steps == pytest.approx(3.0)


def test_walks_stop_at_nodes_without_edges():
    graph = graphs.isolated()
    walks = wk.sample_walks(graph, 9, nodes=[30, 31, 32])
    assert walks.n_steps == 0
    assert walks.features(wk.Diffusion(1.0)).toarray()[0, 30] == pytest.approx(
        wk.Diffusion(1.0).modulation(1)[0]
    )


def test_kinds_of_modulation_agree():
    walks = wk.sample_walks(graphs.karate(), 8, seed=2)
    kernel = wk.RegularizedLaplacian(2, 1.0)
    from_kernel = walks.features(kernel)
    from_array = walks.features(kernel.modulation(600))
    from_callable = walks.features(lambda length: 0.5 ** (length + 1))
    for other in (from_array, from_callable):
        assert np.allclose(from_kernel.toarray(), other.toarray())
    assert walks.features(kernel, dtype=np.float32).dtype == np.float32


def test_a_short_array_is_zero_beyond_its_end():
    walks = wk.sample_walks(graphs.karate(), 8, seed=2)
    home = walks.features([1.0]).toarray()
    assert np.array_equal(home, np.eye(34))
    assert walks.features([1.0]).nnz == 34


def test_features_have_one_entry_for_each_node_reached():
    features = wk.sample_walks(graphs.karate(), 50).features(wk.Diffusion())
    for row in range(34):
        columns = features.indices[features.indptr[row] : features.indptr[row + 1]]
        assert len(set(columns.tolist())) == columns.size
    copy = features.copy()
    copy.sum_duplicates()
    assert copy.nnz == features.nnz
    assert np.array_equal(copy.toarray(), features.toarray())


@pytest.mark.parametrize("sampler", [wk.IndependentWalks(0.3, "uniform"), wk.CoupledWalks([0.5], head=1)])
def test_save_and_load(sampler, tmp_path):
    graph = graphs.weighted()
    walks = wk.sample_walks(graph, 6, seed=3, stream=2, nodes=[4, 9, 1], sampler=sampler)
    walks.save(tmp_path / "walks.npz")
    back = wk.Walks.load(tmp_path / "walks.npz", graph)
    assert [p.name for p in tmp_path.iterdir()] == ["walks.npz"]
    assert back.sampler == walks.sampler
    assert (back.seed, back.stream, back.n_walks, back.nodes.tolist()) == (3, 2, 6, [4, 9, 1])
    here, there = walks.deposits, back.deposits
    for before, after in zip((*here[:-1], *here.head), (*there[:-1], *there.head), strict=True):
        assert np.array_equal(before, after)


def test_progress_counts_nodes():
    calls = []
    wk.sample_walks(
        graphs.karate(), MANY, sampler=SHORT, engine=wk.engines.CPU(2), progress=lambda *s: calls.append(s)
    )
    assert [total for _, total in calls] == [34] * len(calls)
    done = [count for count, _ in calls]
    assert done == sorted(done)
    assert done[-1] == 34
    assert len(done) == 9


def test_an_interrupt_between_blocks_ends_the_walk():
    calls = []

    def stop(done, total):
        calls.append(done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wk.sample_walks(graphs.karate(), MANY, sampler=SHORT, engine=wk.engines.CPU(2), progress=stop)
    assert len(calls) == 1


def test_threads_from_the_environment_or_as_many_as_cpus(monkeypatch):
    counts = []

    class Counting(futures.ThreadPoolExecutor):
        def __init__(self, max_workers):
            counts.append(max_workers)
            super().__init__(max_workers)

    monkeypatch.setattr(_sampling, "ThreadPoolExecutor", Counting)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 2, 5, 7}, raising=False)
    monkeypatch.setenv("WALKERNEL_NUM_THREADS", "3")
    wk.sample_walks(graphs.karate(), MANY, sampler=SHORT)
    wk.sample_walks(graphs.karate(), MANY, sampler=SHORT, engine=wk.engines.CPU(2))
    monkeypatch.delenv("WALKERNEL_NUM_THREADS")
    wk.sample_walks(graphs.karate(), MANY, sampler=SHORT)
    assert counts == [3, 2, 4]


@pytest.mark.parametrize("head", [0, 2])
@pytest.mark.parametrize("kind", ["weighted", "isolated"])
def test_records_are_weighed_to_the_same_bits_on_any_number_of_threads(monkeypatch, kind, head):
    counts, found = [], []

    class Counting(futures.ThreadPoolExecutor):
        def __init__(self, max_workers):
            counts.append(max_workers)
            super().__init__(max_workers)

    monkeypatch.setattr("walkernel._threads.ThreadPoolExecutor", Counting)
    monkeypatch.setattr("walkernel._threads.FEW_DEPOSITS", 1)
    sampler = wk.CoupledWalks([1.0, 0.5, 0.1], head=head)
    for threads in (1, 2, 3, 40):
        monkeypatch.setenv("WALKERNEL_NUM_THREADS", str(threads))
        walks = wk.sample_walks(graphs.KINDS[kind](), 16, sampler=sampler, seed=4)
        found.append(walks.features(wk.Diffusion(0.5)))
    assert counts == [2] * 3 + [3] * 3 + [40] * 3, "terms are found, then closed up, then weighed"
    for other in found[1:]:
        assert np.array_equal(other.indptr, found[0].indptr)
        assert np.array_equal(other.indices, found[0].indices)
        assert np.array_equal(other.data, found[0].data)


def test_huge_node_ids_reach_the_counter():
    """Start nodes beyond 32 bits have streams of their own."""
    from oracles import draw64
    from walkernel.walks import _loops

    walkers, _ = _state.make_walkers(3, 2)
    key = _state.Key(np.uint64(9), np.uint64(7), np.uint64(1), np.zeros(3, dtype=np.int64), False)
    nowhere = wk.sample_walks(graphs.karate(), 1, sampler=wk.IndependentWalks(0.5)).heads()[1]
    starts = (5, 2**32 + 5, 2**47 + 5)
    for j, start in enumerate(starts):
        _loops.set_counters(j, 1, np.int64(start), j, Coupling(0, 0, 0), nowhere, walkers, key)
    _loops.fill_words(1, 3, 0, walkers, key)
    for j, start in enumerate(starts):
        assert int(walkers.even[j]) == draw64(7 | 1 << 32, 9, start, 1, 2)
        assert int(walkers.odd[j]) == draw64(7 | 1 << 32, 9, start, 1, 3)


def one_step(degree, words, alias=None):
    """Where walkers on a node of that degree go, its entries being numbered from 0."""
    from walkernel.walks import _loops

    walkers, _ = _state.make_walkers(len(words), 2)
    walkers.here[:] = 0
    packed, draws = np.array([degree], dtype=np.uint64), np.array(words, dtype=np.uint64)
    if alias is None:
        _loops.step_uniform(len(words), walkers, draws, packed, np.arange(degree, dtype=np.int32))
    else:
        _loops.step_alias(len(words), walkers, draws, packed, alias)
    return walkers.here.tolist()


def test_uniform_choice_is_fair_at_large_degrees():
    words = [0, 2**63, 2**64 - 1, 12345678901234567890]
    for degree in (1, 3, 10**6 + 3):
        assert one_step(degree, words) == [word * degree >> 64 for word in words]


def test_weighted_choice_has_the_right_probabilities():
    from walkernel.walks._alias import build_alias

    rng = np.random.default_rng(3)
    for degree in (1, 2, 7, 40):
        weights = rng.lognormal(0, 2, degree)
        words = np.empty(2 * degree, dtype=np.uint64)
        build_alias(np.array([0, degree]), np.arange(degree, dtype=np.int32), weights, words)
        shares = np.zeros(degree)
        for slot in range(degree):
            kept = int(words[2 * slot]) / 2**64
            shares[int(words[2 * slot + 1]) & 0xFFFFFFFF] += kept / degree
            shares[int(words[2 * slot + 1]) >> 32] += (1 - kept) / degree
        assert np.allclose(shares, weights / weights.sum(), rtol=1e-12, atol=0)
        draws = rng.integers(0, 2**64 - 1, 2000, dtype=np.uint64)
        found = np.bincount(one_step(degree, draws, words), minlength=degree) / 2000
        assert np.abs(found - shares).max() < 5 * np.sqrt(0.25 / 2000)


def test_direct_features_equal_those_of_the_record():
    for kind in graphs.KINDS:
        graph = graphs.KINDS[kind]()
        direct = wk.sample_features(graph, wk.Diffusion(1.5), 9, seed=6, nodes=[3, 8, 1])
        record = wk.sample_walks(graph, 9, seed=6, nodes=[3, 8, 1]).features(wk.Diffusion(1.5))
        assert np.allclose(direct.toarray(), record.toarray(), rtol=1e-13)
        assert np.array_equal(direct.indices, record.indices)


def test_long_walks_that_return_have_the_right_norms():
    graph = wk.Graph.from_edges([(0, 1), (1, 2)])
    walks = wk.sample_walks(graph, 6, sampler=wk.IndependentWalks(0.02), seed=1)
    assert walks.deposits.lengths.max() > 60
    record, f = walks.deposits, np.ones(walks.sampler.longest + 1)
    walk = np.cumsum(record.lengths == 0) - 1
    single = np.zeros((18, 3))
    np.add.at(single, (walk, record.nodes), record.loads / 6)
    (rows,) = sample_rows(walks, f, 1, None, with_norms=True, streams=[0])
    assert np.allclose(rows.norms[:, 0], (single**2).sum(axis=1).reshape(3, 6).sum(axis=1))
    assert np.allclose(rows.norms[:, 1], (single.reshape(3, 6, 3).sum(axis=1) ** 2).sum(axis=1))


def test_room_for_deposits_grows_when_it_is_too_small(monkeypatch):
    expected = wk.sample_features(graphs.karate(), wk.Diffusion(), MANY, sampler=SHORT, seed=2)
    monkeypatch.setattr(_spec.LengthLaw, "expected_deposits", lambda self, n_walks: 20)
    found = wk.sample_features(graphs.karate(), wk.Diffusion(), MANY, sampler=SHORT, seed=2)
    assert np.array_equal(found.toarray(), expected.toarray())


def test_walks_of_equal_graphs_join_and_of_others_do_not():
    import pickle

    graph = graphs.karate()
    a, b = (wk.sample_walks(graph, 3, nodes=nodes) for nodes in ([0, 1], [2]))
    joined = wk.Walks.concatenate([a, pickle.loads(pickle.dumps(b))])
    assert joined.nodes.tolist() == [0, 1, 2]
    other = wk.sample_walks(graphs.unweighted(), 3, nodes=[2])
    with pytest.raises(ValueError, match="graph must be the same"):
        wk.Walks.concatenate([a, other])


def test_saved_walks_know_the_labels_of_their_graph(tmp_path):
    abc, xyz = (wk.Graph.from_edges([(u, v), (v, w)]) for u, v, w in ("abc", "xyz"))
    wk.sample_walks(abc, 3).save(tmp_path / "walks.npz")
    with pytest.raises(ValueError, match="the graph these walks were sampled on"):
        wk.Walks.load(tmp_path / "walks.npz", xyz)


@pytest.mark.parametrize(("n_nodes", "p_halt"), [(100_000, 1e-5), (50, 1e-4)])
def test_features_of_many_columns_and_long_walks(n_nodes, p_halt):
    """More nodes in a row, and longer walks, than two bytes can count."""
    graph = wk.Graph.from_edges(
        np.column_stack([np.arange(n_nodes), (np.arange(n_nodes) + 1) % n_nodes]), directed=True
    )
    sampler = wk.IndependentWalks(p_halt)
    walks = wk.sample_walks(graph, 3, sampler=sampler, nodes=[0, 7])
    direct = wk.sample_features(graph, lambda lengths: 1 / (1.0 + lengths), 3, sampler=sampler, nodes=[0, 7])
    found = walks.features(lambda lengths: 1 / (1.0 + lengths))
    assert walks.deposits.lengths.max() > 2**16 or n_nodes < 2**16
    assert abs(found - direct).max() <= 1e-12 * direct.max()


def test_rows_beyond_sixteen_million():
    """Tags of the table of nodes must not overflow at the rows of a graph of 10⁸ nodes."""
    from walkernel.walks import _terms

    first = 2**24 - 2
    starts = np.zeros(first + 5, dtype=np.int64)
    starts[first:] = 3 * np.arange(5)
    nodes = np.array([5, 6, 5] * 4, dtype=np.int32)
    lengths, loads = np.array([0, 1, 2] * 4, dtype=np.int32), np.ones(12)
    counts, indices = np.zeros(first + 4, dtype=np.int64), np.zeros(12, dtype=np.int32)
    places, kept, weights = np.zeros(12, dtype=np.uint16), np.zeros(12, dtype=np.uint16), np.zeros(12)
    record = starts, nodes, lengths, loads
    no_head = np.zeros_like(starts), nodes[:0], lengths[:0], loads[:0]
    walks = np.ones(first + 4, dtype=np.int64)
    _terms.locate(
        first, first + 4, 1, walks, starts, *record, *no_head, counts, indices, places, kept, weights
    )
    assert counts[first:].tolist() == [2] * 4
    assert places.tolist() == [0, 1, 0] * 4


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([-1], ValueError),
        ([34], ValueError),
        ([[0]], TypeError),
        (0, TypeError),
        ([0.5], TypeError),
        ([True], TypeError),
    ],
)
def test_bad_rows(rows, error):
    walks = wk.sample_walks(wk.load_dataset("karate").graph, 4)
    with pytest.raises(error, match="features: rows must be a flat list of whole numbers from 0 to 33"):
        walks.features(wk.Diffusion(), rows=rows)


def test_rows_may_repeat_and_be_none():
    walks = wk.sample_walks(wk.load_dataset("karate").graph, 4)
    whole = walks.features(wk.Diffusion()).toarray()
    assert np.array_equal(walks.features(wk.Diffusion(), rows=[3, 0, 3]).toarray(), whole[[3, 0, 3]])
    assert walks.features(wk.Diffusion(), rows=[]).shape == (0, 34)


@pytest.mark.parametrize("matrix", ["normalized", "adjacency"])
def test_walks_end_where_no_edge_leaves(matrix):
    """All factors of steps are one on a directed path, and yet walks cannot go on from its end."""
    path = wk.Graph.from_edges([(0, 1), (1, 2)], directed=True)
    sampler = wk.IndependentWalks(0.01)
    walks = wk.sample_walks(path, 64, sampler=sampler, matrix=matrix)
    assert np.diff(walks.deposits.indptr).max() <= 3 * 64
    M = path.to_scipy(matrix).toarray()
    expected = np.eye(3) + M + M @ M
    assert np.allclose(walks.features(np.ones(3)).toarray() != 0, expected != 0)


def test_walks_that_do_not_fit_into_memory_are_refused_in_a_sentence(monkeypatch):
    def lack(self, capacity, pool):
        raise MemoryError("Unable to allocate an array")

    monkeypatch.setattr(_sampling.Joiner, "__init__", lack)
    with pytest.raises(
        MemoryError, match=r"8 walks from each of 34 nodes.* GiB\. Use fewer walks.*polynomial_op"
    ):
        wk.sample_features(graphs.karate(), wk.Diffusion(), 8)
