"""The record and its products: storage, linearity, files, progress, interruption."""

import numpy as np
import pytest

import graphs
import walkernel as wk
from walkernel.walks import _sampling


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


def test_features_are_sorted_and_without_duplicates():
    features = wk.sample_walks(graphs.karate(), 50).features(wk.Diffusion())
    assert features.has_canonical_format
    assert features.shape == (34, 34)


def test_save_and_load(tmp_path):
    graph = graphs.weighted()
    walks = wk.sample_walks(
        graph, 6, seed=3, stream=2, nodes=[4, 9, 1], sampler=wk.IndependentWalks(0.3, "uniform")
    )
    walks.save(tmp_path / "walks.npz")
    back = wk.Walks.load(tmp_path / "walks.npz", graph)
    assert [p.name for p in tmp_path.iterdir()] == ["walks.npz"]
    assert back.sampler == walks.sampler
    assert (back.seed, back.stream, back.n_walks, back.nodes.tolist()) == (3, 2, 6, [4, 9, 1])
    for here, there in zip(walks.deposits, back.deposits, strict=True):
        assert np.array_equal(here, there)


def test_progress_counts_nodes(monkeypatch):
    monkeypatch.setattr(_sampling, "BLOCK_WALKS", 40)
    calls = []
    wk.sample_walks(graphs.karate(), 10, n_threads=2, progress=lambda *state: calls.append(state))
    assert [total for _, total in calls] == [34] * len(calls)
    done = [count for count, _ in calls]
    assert done == sorted(done)
    assert done[-1] == 34
    assert len(done) == 9


def test_an_interrupt_between_blocks_ends_the_walk(monkeypatch):
    monkeypatch.setattr(_sampling, "BLOCK_WALKS", 10)
    calls = []

    def stop(done, total):
        calls.append(done)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        wk.sample_walks(graphs.karate(), 10, n_threads=2, progress=stop)
    assert len(calls) == 1


def test_threads_from_the_environment(monkeypatch):
    expected = wk.sample_walks(graphs.karate(), 4).features(wk.Diffusion()).data
    monkeypatch.setenv("WALKERNEL_NUM_THREADS", "3")
    assert np.array_equal(wk.sample_walks(graphs.karate(), 4).features(wk.Diffusion()).data, expected)


def test_huge_node_ids_reach_the_counter():
    """Start nodes beyond 32 bits have streams of their own."""
    from oracles import draw64
    from walkernel.walks._loops import draw

    for start in (5, 2**32 + 5, 2**47 + 5):
        high, low = draw(3, 1, np.int64(start), np.uint64(9), np.uint64(7), np.uint64(1))
        assert int(high) << 32 | int(low) == draw64(7 | 1 << 32, 9, start, 1, 3)


def test_weighted_choice_at_the_edges_of_the_table():
    from walkernel.walks._loops import choose

    cdf = np.array([2**62, 2**63, 2**64 - 2048], dtype=np.uint64)
    for word, expected in ((0, 0), (2**62 - 1, 0), (2**62, 1), (2**63, 2), (2**64 - 1, 2)):
        assert choose(np.uint64(word >> 32), np.uint64(word & 0xFFFFFFFF), 0, 3, cdf) == expected


def test_uniform_choice_is_fair_at_large_degrees():
    from walkernel.walks._loops import choose

    empty = np.empty(0, dtype=np.uint64)
    for degree in (1, 3, 10**6 + 3, 2**31 - 1):
        for word in (0, 2**63, 2**64 - 1, 12345678901234567890):
            found = choose(np.uint64(word >> 32), np.uint64(word & 0xFFFFFFFF), 0, degree, empty)
            assert found == word * degree >> 64
