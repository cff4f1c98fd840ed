"""Features in files: opened, sliced, gone on with."""

import copy
import errno
import os
import pickle
import shutil

import numpy as np
import pytest

import graphs
import walkernel as wk
from stored import GRAPH, KERNEL, blocks_of, refused, same, store
from walkernel.engines import _stored_features as storing
from walkernel.storage import Folder


@pytest.fixture
def read(monkeypatch):
    """The names of the blocks of which arrays are asked for."""
    names, array = [], Folder.array

    def counted(self, name):
        names.append(f"{self.path.name} {name}")
        return array(self, name)

    monkeypatch.setattr(Folder, "array", counted)
    return names


class TestStored:
    def test_what_is_known(self, tmp_path, memory):
        stored = store(tmp_path / "a" / "b")
        assert repr(stored) == f"StoredFeatures(34x34, 4 blocks in {tmp_path / 'a' / 'b'})"
        assert stored.shape == (34, 34)
        assert stored.n_blocks == 4
        assert stored.edges.tolist() == [0, 10, 20, 30, 34]
        assert stored.nnz == memory.nnz
        assert stored.nbytes == memory.data.nbytes + memory.indices.nbytes + memory.indptr.nbytes
        assert stored.ids.tolist() == list(range(34))
        assert not stored.ids.flags.writeable
        assert [block.shape for block in stored.blocks()] == [(10, 34)] * 3 + [(4, 34)]
        names = sorted(path.name for path in (tmp_path / "a" / "b").iterdir())
        assert names == [".lock", *(f"block-00000{i}" for i in range(4)), "manifest.json"]
        arrays = {f"{name}.npy" for name in ("ids", "indptr.0", "indices.0", "data.0", "norms.0")}
        for block in blocks_of(tmp_path / "a" / "b"):
            assert set(os.listdir(block)) == {*arrays, "manifest.json"}

    def test_opened_again(self, tmp_path, memory):
        store(tmp_path)
        assert same(wk.open_features(tmp_path).to_scipy(), memory)
        assert same(wk.open_features(str(tmp_path)).to_scipy(), memory)

    def test_order_of_nodes(self, tmp_path):
        nodes = [33, 2, 8, 0, 30]
        stored = store(tmp_path, nodes=nodes, block_size=2)
        assert stored.ids.tolist() == nodes
        assert same(stored.to_scipy(), wk.sample_features(GRAPH, KERNEL, 8, nodes=nodes))
        assert same(stored[[4]], wk.sample_features(GRAPH, KERNEL, 8, nodes=[30]))

    def test_one_block_by_default(self, tmp_path, memory):
        stored = store(tmp_path, block_size=None)
        assert stored.n_blocks == 1
        assert same(stored.to_scipy(), memory)

    def test_blocks_of_a_default_size(self, tmp_path, memory, monkeypatch):
        monkeypatch.setattr(storing, "BLOCK_BYTES", 12 * 8 * 10 * 5.5)  # five nodes of 8 walks of 9 steps
        stored = store(tmp_path, block_size=None)
        assert stored.edges.tolist() == [0, 5, 10, 15, 20, 25, 30, 34]
        assert same(stored.to_scipy(), memory)

    def test_numpy_integers(self, tmp_path, memory):
        stored = wk.sample_features(
            GRAPH, KERNEL, np.int64(8), directory=tmp_path, seed=np.uint64(0), block_size=np.int64(10)
        )
        assert stored.n_blocks == 4
        assert same(stored.to_scipy(), memory)
        assert same(store(tmp_path).to_scipy(), memory)

    def test_relative_path_stays(self, tmp_path, memory, monkeypatch):
        monkeypatch.chdir(tmp_path)
        stored = store("phi")
        monkeypatch.chdir("/")
        assert same(stored.to_scipy(), memory)

    def test_progress(self, tmp_path):
        seen = []
        store(tmp_path, progress=lambda *counts: seen.append(counts))
        assert seen == [(10, 34), (20, 34), (30, 34), (34, 34)]
        shutil.rmtree(blocks_of(tmp_path)[1])
        seen.clear()
        store(tmp_path, progress=lambda *counts: seen.append(counts))
        assert seen == [(34, 34)]

    def test_more_blocks_than_files_may_be_open(self, tmp_path, memory, monkeypatch):
        resource = pytest.importorskip("resource")
        if not os.path.isdir("/proc/self/fd"):
            pytest.skip("needs the number of open files")
        monkeypatch.setattr(storing, "default_block_size", lambda job: 1)
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 10, before[1]))
        try:
            stored = store(tmp_path / "phi", block_size=1)
            assert same(stored.to_scipy(), memory)
            assert same(stored[:], memory)
            K = wk.estimate_kernel(GRAPH, KERNEL, 8, directory=tmp_path / "K")
            found = (K @ np.ones(34), K.diagonal(), K.to_dense(), K.estimate_product(np.ones(34)).stderr)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        assert all(np.isfinite(numbers).all() for numbers in found)

    def test_a_full_disk(self, tmp_path, memory, walked, monkeypatch):
        calls, fsync = [], os.fsync

        def full(file):
            calls.append(file)
            if len(calls) == 1 + 2 * 6 + 4:  # the manifest, two blocks of six files, and some of the next
                raise OSError(errno.ENOSPC, "No space left on device")
            fsync(file)

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            store(tmp_path)
        assert [path.name for path in blocks_of(tmp_path)] == ["block-000000", "block-000001"]
        assert list(tmp_path.glob(".*.part")) == []
        assert same(store(tmp_path).to_scipy(), memory)
        assert len(walked) == 5

    @pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
    def test_pickled_by_path(self, tmp_path, memory, protocol):
        packed = pickle.dumps(store(tmp_path), protocol)
        assert len(packed) < 600
        assert same(pickle.loads(packed).to_scipy(), memory)
        assert same(copy.deepcopy(wk.open_features(tmp_path)).to_scipy(), memory)

    def test_pickled_and_replaced(self, tmp_path):
        packed = pickle.dumps(store(tmp_path / "phi"))
        (tmp_path / "phi").rename(tmp_path / "old")
        store(tmp_path / "phi", seed=1)
        with pytest.raises(ValueError, match=r"The features in .*phi were replaced by others"):
            pickle.loads(packed)

    def test_operator_is_pickled(self, tmp_path):
        K = wk.estimate_kernel(GRAPH, KERNEL, 32, directory=tmp_path)
        again = pickle.loads(pickle.dumps(K))
        assert np.array_equal(again.to_dense(), K.to_dense())

    def test_other_thread_counts_open_the_same(self, tmp_path, walked):
        store(tmp_path, engine=wk.engines.CPU(1))
        store(tmp_path, engine=wk.engines.CPU(3))
        assert len(walked) == 4


class TestRows:
    @pytest.mark.parametrize(
        "rows",
        [
            *(slice(None), slice(5, 25, 3), slice(40, 2, -7), slice(3, 3), [], [33, 0, 0, -1, 12], (1, 2)),
            *(np.arange(34) % 5 == 0, np.zeros(34, dtype=bool), np.array([9, 10], dtype=np.uint8), range(4)),
        ],
        ids=str,
    )
    def test_as_of_a_matrix(self, tmp_path, memory, rows):
        wanted = memory[np.arange(34)[list(rows) if isinstance(rows, (tuple, range)) else rows]]
        assert same(store(tmp_path)[rows], wanted)

    def test_one(self, tmp_path, memory):
        assert same(store(tmp_path)[-3], memory[[31]])
        assert same(store(tmp_path)[np.int32(3)], memory[[3]])

    def test_only_their_blocks_are_read(self, tmp_path, read):
        stored = store(tmp_path)
        read.clear()
        _ = stored[15]
        assert read == [f"block-000001 {name}.0" for name in ("indptr", "indices", "data")]
        read.clear()
        _ = stored[[33, 3]]
        assert {name.split()[0] for name in read} == {"block-000000", "block-000003"}
        read.clear()
        assert stored[[]].shape == (0, 34)
        assert read == []

    def test_opening_reads_no_entries(self, tmp_path, read):
        store(tmp_path)
        read.clear()
        wk.open_features(tmp_path)
        assert {name.split()[1] for name in read} == {"ids", "norms.0"}

    def test_entries_read_only_their_blocks(self, tmp_path, read, monkeypatch):
        monkeypatch.setattr(storing, "default_block_size", lambda job: 10)
        K = wk.estimate_kernel(GRAPH, KERNEL, 8, directory=tmp_path)
        read.clear()
        K.entries([11, 35 - 3], [12, 13])
        assert {name.split()[0] for name in read} == {"block-000001", "block-000003"}

    @pytest.mark.parametrize("rows", [34, -35, [0, 40], 1.5, [0.0], "a", True, [True, False], [[0, 1]], None])
    def test_refused(self, tmp_path, rows):
        rule = "StoredFeatures: rows must be a slice, positions from -34 to 33, or a mask of 34, got"
        with pytest.raises(IndexError, match=rule):
            _ = store(tmp_path)[rows]


class TestGoingOn:
    def test_finished_is_only_opened(self, tmp_path, walked, memory):
        store(tmp_path)
        times = [path.stat().st_mtime_ns for path in sorted(tmp_path.iterdir())]
        assert same(store(tmp_path, block_size=None).to_scipy(), memory)
        assert len(walked) == 4
        assert times == [path.stat().st_mtime_ns for path in sorted(tmp_path.iterdir())]

    @pytest.mark.parametrize("size", [10, None])
    def test_what_is_missing_is_made(self, tmp_path, walked, memory, size):
        store(tmp_path)
        walked.clear()
        kept, lost = blocks_of(tmp_path)[::2], blocks_of(tmp_path)[1::2]
        before = [path.stat() for path in kept]
        for path in lost:
            shutil.rmtree(path)
        assert same(store(tmp_path, block_size=size).to_scipy(), memory)
        assert walked == [list(range(10, 20)), list(range(30, 34))]
        after = [path.stat() for path in kept]
        assert [(a.st_ino, a.st_mtime_ns) for a in before] == [(a.st_ino, a.st_mtime_ns) for a in after]

    @pytest.mark.parametrize("stop", [0, 1, 3])
    def test_stopped_by_an_error(self, tmp_path, walked, memory, monkeypatch, stop):
        def fail(done, total):
            if done >= 10 * (stop + 1) or done == total:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            store(tmp_path, progress=fail)
        assert len(blocks_of(tmp_path)) == stop + 1
        assert [path.name for path in tmp_path.glob(".*.part")] == []
        if stop < 3:
            with pytest.raises(
                FileNotFoundError, match=f"block-00000{stop + 1} .*missing in .*, of 4 blocks"
            ):
                wk.open_features(tmp_path)
        assert same(store(tmp_path).to_scipy(), memory)
        assert len(walked) == 4

    def test_unfinished_files_are_removed(self, tmp_path, memory):
        store(tmp_path)
        shutil.rmtree(blocks_of(tmp_path)[2])
        (tmp_path / ".manifest.json.0123456789ab.part").write_bytes(b"half")
        (tmp_path / ".block-000002.0123456789ab.part").mkdir()
        (tmp_path / ".block-000002.0123456789ab.part" / "ids.npy").write_bytes(b"half")
        (tmp_path / ".mine.part").write_bytes(b"not of ours")
        assert same(store(tmp_path).to_scipy(), memory)
        assert [path.name for path in tmp_path.glob(".*.part")] == [".mine.part"]

    def test_killed_before_the_manifest(self, tmp_path, memory):
        (tmp_path / ".lock").touch()
        (tmp_path / ".manifest.json.0123456789ab.part").write_bytes(b"")
        assert same(store(tmp_path).to_scipy(), memory)
        assert len(list(tmp_path.iterdir())) == 6

    def test_manifest_is_made_again(self, tmp_path, walked, memory):
        store(tmp_path)
        text = (tmp_path / "manifest.json").read_text()
        (tmp_path / "manifest.json").unlink()
        shutil.rmtree(blocks_of(tmp_path)[1])
        assert same(store(tmp_path).to_scipy(), memory)
        assert len(walked) == 5
        assert (tmp_path / "manifest.json").read_text() == text

    @pytest.mark.parametrize("options", [{"block_size": None}, {"block_size": 9}, {"seed": 1}])
    def test_blocks_without_a_manifest_of_other_features(self, tmp_path, walked, options):
        store(tmp_path)
        (tmp_path / "manifest.json").unlink()
        message = refused(ValueError, tmp_path, **options)
        assert (
            "which contains blocks of other features and no manifest.json. Use the same arguments" in message
        )
        assert len(walked) == 4

    def test_directions_have_folders(self, tmp_path, walked):
        options = {"directory": tmp_path / "K", "ensembles": "independent"}
        wk.estimate_kernel(graphs.directed(), KERNEL, 8, **options)
        assert sorted(path.name for path in (tmp_path / "K").iterdir()) == ["against-edges", "along-edges"]
        wk.estimate_kernel(graphs.directed(), KERNEL, 8, **options)
        assert len(walked) == 2

    def test_a_damaged_block_is_said_before_walking(self, tmp_path, walked):
        store(tmp_path)
        shutil.rmtree(blocks_of(tmp_path)[0])
        os.truncate(blocks_of(tmp_path)[-1] / "data.0.npy", 100)
        assert "block-000003/data.0.npy is damaged" in refused(ValueError, tmp_path)
        assert len(walked) == 4
