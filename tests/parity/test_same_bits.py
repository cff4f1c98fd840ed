"""The same seed gives the same bits: threads, partitions, processes, pickles, forks, growth."""

import hashlib
import multiprocessing
import os
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import graphs
import walkernel as wk


def digest(walks):
    *walked, head = walks.deposits
    parts = [np.ascontiguousarray(array).tobytes() for array in (*walked, *head)]
    return hashlib.sha256(b"".join(parts)).hexdigest()


@pytest.fixture(params=["unweighted", "weighted", "directed", "isolated"])
def graph(request):
    return graphs.KINDS[request.param]()


@pytest.fixture(params=["independent", "head", "pruned"])
def sampler(request):
    return {
        "independent": None,
        "head": wk.CoupledWalks([1.0, 0.5, 0.1], head=2),
        "pruned": wk.PrunedWalks([1.0, 0.8, 0.5, 0.2, 0.1], 0.05, head=3, unevenness=1.0, group=4),
    }[request.param]


@pytest.mark.parametrize("n_threads", [2, 3, 7])
def test_threads(graph, sampler, n_threads):
    """30,000 walks are five tasks for one thread, and more for several."""
    calls = [], []
    one, several = (
        wk.sample_walks(
            graph, 1000, sampler=sampler or wk.IndependentWalks(0.5), seed=3, engine=wk.engines.CPU(n),
            progress=lambda done, _, own=own: own.append(done),
        )
        for n, own in zip((1, n_threads), calls, strict=True)
    )  # fmt: skip
    assert digest(several) == digest(one)
    assert 4 < len(calls[0]) < len(calls[1])


def test_any_partition_and_order(graph, sampler):
    whole = wk.sample_walks(graph, 8, sampler=sampler, seed=5)
    order = np.random.default_rng(0).permutation(graph.n_nodes)
    parts = [
        wk.sample_walks(graph, 8, sampler=sampler, seed=5, nodes=part) for part in np.array_split(order, 5)
    ]
    joined = wk.Walks.concatenate(parts)
    assert joined.nodes.tolist() == order.tolist()
    kernel = wk.Diffusion(1.5)
    left, right = joined.features(kernel), whole.features(kernel)[order]
    assert np.array_equal(left.indptr, right.indptr)
    assert np.array_equal(left.indices, right.indices)
    assert np.array_equal(left.data, right.data)


def test_more_walks_begin_with_the_fewer(graph):
    few, many = (wk.sample_walks(graph, n, seed=9) for n in (16, 32))
    for i in range(graph.n_nodes):
        a = few.deposits.nodes[few.deposits.indptr[i] : few.deposits.indptr[i + 1]]
        b = many.deposits.nodes[many.deposits.indptr[i] : many.deposits.indptr[i + 1]]
        assert np.array_equal(a, b[: a.size])


def test_seeds_streams_and_matrices_differ(graph):
    base = digest(wk.sample_walks(graph, 8, seed=1))
    assert digest(wk.sample_walks(graph, 8, seed=2)) != base
    assert digest(wk.sample_walks(graph, 8, seed=1, stream=1)) != base
    assert digest(wk.sample_walks(graph, 8, seed=1 + 2**32)) != base
    normalized, adjacency = (wk.sample_walks(graph, 8, seed=1, matrix=m) for m in ("normalized", "adjacency"))
    assert np.array_equal(normalized.deposits.nodes, adjacency.deposits.nodes), "loads differ, steps do not"


def test_pickled_graph(graph):
    copy = pickle.loads(pickle.dumps(graph))
    assert not copy.indices.flags.writeable
    assert digest(wk.sample_walks(copy, 8, seed=1)) == digest(wk.sample_walks(graph, 8, seed=1))


SCRIPT = textwrap.dedent("""
    import sys
    sys.path.insert(0, sys.argv[1])
    import graphs, test_same_bits, walkernel as wk
    print(test_same_bits.digest(wk.sample_walks(graphs.weighted(), 8, seed=21)))
""")


@pytest.mark.parametrize("hash_seed", ["0", "4242"])
def test_another_process(hash_seed):
    here = os.path.dirname(__file__)
    environment = {
        **os.environ,
        "PYTHONHASHSEED": hash_seed,
        "PYTHONPATH": here,
        "WALKERNEL_NUM_THREADS": "2",
    }
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, os.path.dirname(here)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.strip() == digest(wk.sample_walks(graphs.weighted(), 8, seed=21))


def _in_child(connection):
    connection.send(digest(wk.sample_walks(graphs.weighted(), 8, seed=21, engine=wk.engines.CPU(2))))


# newer Pythons say so, and a test in a worker of pytest-xdist is never alone in its process
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_after_a_fork():
    expected = digest(wk.sample_walks(graphs.weighted(), 8, seed=21, engine=wk.engines.CPU(2)))
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_in_child, args=(sender,))
    child.start()
    assert receiver.poll(60)
    assert receiver.recv() == expected
    child.join()


def test_frozen_bits():
    """The walks of one seed, written down once: a change of layout is a change of everyone's results."""
    unweighted, weighted = (wk.sample_walks(g, 4, seed=2024) for g in (graphs.karate(), graphs.weighted()))
    assert unweighted.n_steps == 1339
    assert unweighted.deposits.nodes[:12].tolist() == [0, 31, 25, 31, 28, 0, 10, 4, 6, 0, 12, 3]
    assert weighted.n_steps == 1229
    assert weighted.deposits.nodes[:12].tolist() == [0, 20, 12, 20, 18, 0, 13, 12, 19, 9, 19, 18]
