"""Graph stores: the same graph from a folder, bit for bit, and every damage said with the file's name."""

import copy
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest

import files
import graphs
import walkernel as wk
from walkernel.graph import verify_store
from walkernel.storage import _passes as _chunks

LABELLED = {
    "text": wk.Graph.from_edges([("a", "b"), ("b", "ç"), ("ç", "longer")], weights=[1.0, 2.5, -3.0]),
    "integers": wk.Graph.from_edges([(5, -7), (-7, 2**60)], relabel=True, directed=True),
    "one node": wk.Graph.from_edges([], n_nodes=1),
    "loop": wk.Graph.from_edges([(0, 0), (0, 2)], n_nodes=5, weights=[0.5, 0.25]),
}
KINDS = {name: make() for name, make in graphs.KINDS.items()} | LABELLED


@pytest.fixture(params=KINDS)
def graph(request):
    return KINDS[request.param]


@pytest.fixture
def stored(tmp_path):
    """A labelled, weighted graph's store, with all kinds of files."""
    KINDS["text"].save(tmp_path / "store")
    return tmp_path / "store"


def refusal(path, error=ValueError):
    return files.refusal(path, error)


def flip(path, at=-1):
    """Change one byte, in place."""
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


class TestRoundTrip:
    def test_same_graph(self, graph, tmp_path):
        graph.save(tmp_path / "store")
        back = wk.load_graph(tmp_path / "store")
        assert files.same(graph, back)
        assert repr(back) == repr(graph)
        for name in ("indptr", "indices", "weights"):
            here, there = getattr(graph, name), getattr(back, name)
            assert (here is None) == (there is None)
            if here is not None:
                assert here.dtype == there.dtype
                assert np.array_equal(here, there)
                assert not there.flags.writeable
        assert back.n_self_loops == graph.n_self_loops

    def test_nothing_is_computed_at_the_opening(self, stored):
        """Entries that cannot be, written in secret, are seen by a pass over the graph only."""
        for name, kept in (("indptr", 1), ("indices", 0), ("weights", 0)):
            path = stored / f"{name}.npy"
            before = path.stat()
            array = np.load(path, mmap_mode="r+")
            array[kept : array.size - kept] = -77
            array.flush()
            del array
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        with pytest.raises(ValueError, match="is damaged"):
            verify_store(stored)
        back = wk.load_graph(stored)
        assert repr(back) == repr(KINDS["text"])
        assert back.fingerprint == KINDS["text"].fingerprint

    def test_arrays_are_mapped(self, stored):
        graph = wk.load_graph(stored)
        for array in (graph.indptr, graph.indices, graph.weights):
            assert type(array) is np.ndarray
            assert isinstance(array.base, np.memmap)
        assert graph.store == stored
        assert KINDS["text"].store is None

    def test_labels_are_found(self, stored):
        graph = wk.load_graph(stored)
        assert graph.ids(["longer", "a"]).tolist() == [3, 0]
        assert graph.names(np.array([2])).tolist() == ["ç"]
        with pytest.raises(ValueError, match="labels of this graph"):
            graph.ids(np.array([1]))

    def test_other_labels_are_refused(self, tmp_path):
        graph = wk.Graph.from_edges([((1, 2), "b")])
        with pytest.raises(TypeError, match=r"Graph\.save: labels must be"):
            graph.save(tmp_path / "store")
        assert not list(tmp_path.iterdir())

    def test_mapped_graphs_are_saved_elsewhere_and_in_place(self, stored, tmp_path):
        graph = wk.load_graph(stored)
        for place in ("elsewhere", "store", "archive.npz"):
            graph.save(tmp_path / place)
            assert files.same(wk.load_graph(tmp_path / place), KINDS["text"])
        assert files.same(graph, KINDS["text"])

    def test_direction_must_agree(self, stored):
        assert not wk.load_graph(stored, directed=False).directed
        assert "directed must be False or None" in files.refusal(stored, directed=True)
        assert "relabel must be False for folders" in files.refusal(stored, relabel=True)


@pytest.mark.parametrize("entries", [7, 2**20])
class TestSameBits:
    """Of walks and kernels, whether passes are made in small blocks or in one."""

    @pytest.fixture(autouse=True)
    def blocks(self, monkeypatch, entries):
        monkeypatch.setattr(_chunks, "ENTRIES_AT_ONCE", entries)
        monkeypatch.setattr(_chunks, "COLUMN_ENTRIES_AT_ONCE", entries)

    @pytest.fixture
    def pair(self, graph, tmp_path):
        graph.save(tmp_path / "store")
        return wk.Graph(*graph._parts()), wk.load_graph(tmp_path / "store")

    def test_degrees(self, pair, graph):
        for found in pair:
            A = abs(graph.to_scipy())
            assert np.array_equal(found.out_degrees(), A.sum(axis=1))
            assert np.array_equal(found.in_degrees(), A.T.tocsr().sum(axis=1))
            assert found.n_self_loops == np.count_nonzero(A.diagonal())

    @pytest.mark.parametrize("transition", ["weights", "uniform"])
    @pytest.mark.parametrize("matrix", ["normalized", "adjacency", "combinatorial", "random-walk"])
    def test_walks(self, pair, matrix, transition):
        if matrix == "random-walk" and pair[0].weights is not None and pair[0].weights.min() < 0:
            with pytest.raises(ValueError, match="negative weights"):
                wk.sample_walks(pair[1], 8, matrix=matrix)
            return
        sampler = wk.IndependentWalks(0.2, transition=transition)
        for transpose in (False, True):
            here, there = (
                wk.sample_walks(g, 8, sampler=sampler, matrix=matrix, transpose=transpose).deposits
                for g in pair
            )
            for name in ("indptr", "nodes", "lengths", "loads"):
                assert np.array_equal(getattr(here, name), getattr(there, name))

    @pytest.mark.parametrize("kind", ["auto", "lazy"])
    def test_kernels(self, pair, kind):
        names = pair[0].names(np.arange(min(5, pair[0].n_nodes)))
        here, there = (wk.estimate_kernel(g, wk.Diffusion(1.0), 64, nodes=names, pair=kind) for g in pair)
        assert np.array_equal(here.to_dense(), there.to_dense())
        assert repr(here) == repr(there)


class TestWhereTo:
    @pytest.mark.parametrize("name", ["store", "roads.v2/", ".hidden"])
    def test_folders(self, tmp_path, name):
        graphs.karate().save(f"{tmp_path}/{name}")
        assert sorted(os.listdir(tmp_path / name)) == ["indices.npy", "indptr.npy", "manifest.json"]
        assert files.same(wk.load_graph(f"{tmp_path}/{name}"), graphs.karate())

    def test_existing_folder_with_a_suffix(self, tmp_path):
        (tmp_path / "roads.v2").mkdir()
        graphs.karate().save(tmp_path / "roads.v2")
        graphs.weighted().save(tmp_path / "roads.v2")
        assert files.same(wk.load_graph(tmp_path / "roads.v2"), graphs.weighted())
        assert os.listdir(tmp_path) == ["roads.v2"]

    def test_archives_stay_archives(self, tmp_path):
        graphs.karate().save(tmp_path / "graph.npz")
        assert (tmp_path / "graph.npz").is_file()
        with pytest.raises(ValueError, match=r"ends in \.npz, or a folder: .*graph\.csv"):
            graphs.karate().save(tmp_path / "graph.csv")

    def test_replaced_as_a_whole(self, stored):
        wk.sample_walks(wk.load_graph(stored), 4)
        assert len(list(stored.glob("alias-*"))) == 1
        (stored / ".alias-00.1234.part").mkdir()  # left by a process that was killed
        graphs.unweighted().save(stored)
        assert sorted(os.listdir(stored)) == ["indices.npy", "indptr.npy", "manifest.json"]

    def test_a_damaged_store_can_be_written_again(self, stored):
        flip(stored / "manifest.json", -10)
        assert "manifest.json is damaged" in refusal(stored)
        KINDS["text"].save(stored)
        assert files.same(wk.load_graph(stored), KINDS["text"])

    def test_folders_of_others_are_refused(self, stored, tmp_path):
        (tmp_path / "photos").mkdir()
        (tmp_path / "photos" / "me.png").touch()
        (tmp_path / "app").mkdir()
        (tmp_path / "app" / "manifest.json").write_text("{}")
        (tmp_path / "note").write_text("mine")
        (stored / "notes.txt").touch()
        cases = {"photos": "'me.png' in it", "app": "without a manifest", "note": "the file"}
        for name, reason in (cases | {"store": "'notes.txt' in it"}).items():
            before = sorted(map(str, tmp_path.rglob("*")))
            with pytest.raises(ValueError, match=rf"Graph\.save: path must be a new folder.*{reason}"):
                graphs.karate().save(tmp_path / name)
            assert sorted(map(str, tmp_path.rglob("*"))) == before

    def test_missing_parent(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            graphs.karate().save(tmp_path / "no" / "store")

    def test_through_a_link(self, stored, tmp_path):
        (tmp_path / "link").symlink_to(stored)
        graphs.karate().save(tmp_path / "link")
        assert (tmp_path / "link").is_symlink()
        assert files.same(wk.load_graph(stored), graphs.karate())


class TestWholeOrNotThere:
    @pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
    @pytest.mark.parametrize("calls", [0, 1, 4])
    @pytest.mark.parametrize("existing", [False, True])
    def test_failure_in_the_middle(self, tmp_path, monkeypatch, error, calls, existing):
        if existing:
            graphs.karate().save(tmp_path / "store")
        left, original = [calls], os.fsync

        def sync(file):
            left[0] -= 1
            if left[0] < 0:
                raise error
            original(file)

        monkeypatch.setattr(os, "fsync", sync)
        with pytest.raises(type(error)):
            KINDS["text"].save(tmp_path / "store")
        assert os.listdir(tmp_path) == ["store"] * existing
        if existing:
            assert files.same(wk.load_graph(tmp_path / "store"), graphs.karate())

    def test_failure_in_the_renaming(self, stored, monkeypatch):
        original = os.rename

        def rename(source, target):
            if str(source).endswith(".part"):
                raise OSError(5, "Input/output error")
            original(source, target)

        monkeypatch.setattr(os, "rename", rename)
        with pytest.raises(OSError, match="Input/output"):
            graphs.karate().save(stored)
        assert os.listdir(stored.parent) == ["store"]
        assert files.same(wk.load_graph(stored), KINDS["text"])


def test_every_process_may_make_the_table(tmp_path):
    """Several at once: one table is left, and all have the same walks."""
    graphs.weighted().save(tmp_path / "store")
    code = """if True:
        import sys, walkernel as wk
        graph = wk.load_graph(sys.argv[1])
        print(graph, file=sys.stderr, flush=True)
        sys.stdin.readline()
        print(wk.sample_walks(graph, 8).deposits.loads.sum().hex())
    """
    argv = [sys.executable, "-c", code, str(tmp_path / "store")]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    processes = [subprocess.Popen(argv, text=True, **pipes) for _ in range(3)]
    for process in processes:
        process.stderr.readline()
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    found = {process.communicate(timeout=120)[0].strip() for process in processes}
    assert found == {wk.sample_walks(graphs.weighted(), 8).deposits.loads.sum().hex()}
    assert len(list((tmp_path / "store").iterdir())) == 4 + 1
    assert len(verify_store(tmp_path / "store")) == 4 + 2


class TestPickles:
    def test_only_the_path_is_sent(self, stored):
        graph = wk.load_graph(stored)
        sent = pickle.dumps(graph)
        assert len(sent) < 400
        back = pickle.loads(sent)
        assert back.store == stored
        assert files.same(back, graph)
        assert copy.copy(graph) is copy.deepcopy(graph) is graph

    def test_relative_paths_are_sent_in_full(self, stored, monkeypatch):
        monkeypatch.chdir(stored.parent)
        sent = pickle.dumps(wk.load_graph("store"))
        monkeypatch.chdir("/")
        assert files.same(pickle.loads(sent), KINDS["text"])

    def test_another_or_no_graph_there(self, stored):
        sent = pickle.dumps(wk.load_graph(stored))
        renamed = wk.Graph(*KINDS["text"]._parts()[:2], _labels("abcd"))
        for other in (graphs.karate(), renamed):
            other.save(stored)
            with pytest.raises(ValueError, match=rf"{re.escape(str(stored))} is not the one that was sent"):
                pickle.loads(sent)
        shutil.rmtree(stored)
        with pytest.raises(FileNotFoundError, match=f"no graph store in {stored}"):
            pickle.loads(sent)

    def test_in_another_process(self, stored, tmp_path):
        (tmp_path / "sent").write_bytes(pickle.dumps(wk.sample_walks(wk.load_graph(stored), 4)))
        code = "import pickle, sys; w = pickle.load(open(sys.argv[1], 'rb')); print(w.graph, w.graph.store)"
        argv = [sys.executable, "-c", code, str(tmp_path / "sent")]
        found = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        assert found == f"{KINDS['text']} {stored}\n"


def _labels(names):
    from walkernel.graph import Labels

    return Labels(list(names))


def test_manifest_says_what_there_is(stored):
    manifest = json.loads((stored / "manifest.json").read_text())
    assert manifest["format"] == "walkernel graph store 1"
    assert list(manifest["arrays"]) == ["indptr", "indices", "weights", "node_labels"]
    for name, entry in manifest["arrays"].items():
        array, found = np.load(stored / f"{name}.npy", allow_pickle=False), (stored / f"{name}.npy").stat()
        assert (array.dtype.str, list(array.shape)) == (entry["dtype"], entry["shape"])
        assert (found.st_size, found.st_mtime_ns) == (entry["size"], entry["mtime_ns"])
        assert found.st_mtime < time.time() - 5  # a change within the same tick of the clock shows
