"""Damaged graph stores: said with the file's name, never a wrong number; tables in them are made again."""

import hashlib
import json
import os
import shutil
import stat

import numpy as np
import pytest

import files
import graphs
import walkernel as wk
from walkernel.graph import verify_store

ARRAYS = ["indptr.npy", "indices.npy", "weights.npy", "node_labels.npy"]
GRAPH = wk.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "longer")], weights=[1.0, 2.5, -3.0])


@pytest.fixture
def stored(tmp_path):
    GRAPH.save(tmp_path / "store")
    return tmp_path / "store"


def flip(path, at=-1, *, secretly=False):
    """Change one byte in place, as bit rot does (secretly), or as a program does."""
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(at, 0 if at >= 0 else 2)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 0x10]))
    if secretly:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def seal(folder, change):
    """Change the manifest as another program might that knows how to write one."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    manifest.pop("digest", None)
    text = json.dumps(manifest, sort_keys=True)
    manifest["digest"] = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    path.write_text(json.dumps(manifest))


def forge(folder, **arrays):
    """Write a store whose digests are right for any arrays."""
    wk.Graph.from_scipy(np.array([[0.0, 1.0], [0.0, 0.0]])).save(folder)

    def change(manifest):
        for name, array in arrays.items():
            path = folder / f"{name}.npy"
            np.save(path, array)
            manifest["arrays"][name] |= {
                "dtype": array.dtype.str,
                "shape": [*array.shape],
                "size": path.stat().st_size,
                "mtime_ns": path.stat().st_mtime_ns,
                "digest": hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest(),
            }

    seal(folder, change)


class TestArrays:
    @pytest.mark.parametrize("name", ARRAYS)
    @pytest.mark.parametrize("at", [0, 40, 90, 128, 140, -1])
    def test_flipped_byte(self, stored, name, at):
        if name == "node_labels.npy" and at == 140:
            at = 132
        flip(stored / name, at)
        message = files.refusal(stored)
        assert f"{stored / name} is damaged: its contents do not match its digest" in message
        assert "Write the store again or restore the file from a copy." in message

    @pytest.mark.parametrize("name", ARRAYS)
    @pytest.mark.parametrize("size", [0, 5, 128, -1])
    def test_truncated(self, stored, name, size):
        os.truncate(stored / name, size if size >= 0 else (stored / name).stat().st_size - 1)
        assert f"{name} is damaged: it must have" in files.refusal(stored)

    @pytest.mark.parametrize("name", ARRAYS)
    def test_garbage_at_the_end(self, stored, name):
        with (stored / name).open("ab") as file:
            file.write(b"garbage")
        assert f"{name} is damaged: it must have" in files.refusal(stored)

    @pytest.mark.parametrize("name", ARRAYS)
    def test_missing(self, stored, name):
        (stored / name).unlink()
        assert f"{name} is missing" in files.refusal(stored, FileNotFoundError)

    @pytest.mark.parametrize("name", ARRAYS)
    def test_touched_and_copied_ones_are_fine(self, stored, tmp_path, name):
        os.utime(stored / name)
        assert files.same(wk.load_graph(stored), GRAPH)
        shutil.copytree(stored, tmp_path / "copy", copy_function=shutil.copyfile)
        assert files.same(wk.load_graph(tmp_path / "copy"), GRAPH)

    def test_a_change_right_after_saving_is_seen(self, tmp_path):
        for attempt in range(20):
            GRAPH.save(tmp_path / str(attempt))
            flip(tmp_path / str(attempt) / "weights.npy")
            assert "weights.npy is damaged" in files.refusal(tmp_path / str(attempt))

    def test_exchanged_files(self, stored, tmp_path):
        wk.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "longer")], weights=[1.0, 2.5, 3.0]).save(
            tmp_path / "other"
        )
        shutil.copyfile(tmp_path / "other" / "weights.npy", stored / "weights.npy")
        assert "weights.npy is damaged" in files.refusal(stored)

    @pytest.mark.parametrize("name", ARRAYS)
    def test_only_a_full_comparison_sees_bit_rot(self, stored, name):
        flip(stored / name, -12, secretly=True)
        wk.load_graph(stored)
        with pytest.raises(ValueError, match=f"{name} is damaged"):
            verify_store(stored)

    def test_full_comparison_of_a_whole_store(self, stored):
        assert verify_store(stored) == ["manifest.json", *ARRAYS]

    def test_headers_mean_nothing_if_the_time_is_right(self, stored):
        """Type and shape are those of the manifest."""
        before = (stored / "indices.npy").stat()
        data = bytearray((stored / "indices.npy").read_bytes())
        (stored / "indices.npy").write_bytes(data.replace(b"'<i4'", b"'<u4'"))
        os.utime(stored / "indices.npy", ns=(before.st_mtime_ns, before.st_mtime_ns))
        assert files.same(wk.load_graph(stored), GRAPH)
        with pytest.raises(ValueError, match=r"indices\.npy is damaged"):
            verify_store(stored)

    def test_pickles_are_never_loaded(self, stored):
        path = stored / "node_labels.npy"
        before, size = path.stat(), path.stat().st_size
        np.save(path, np.array([Bomb()], dtype=object), allow_pickle=True)
        data = path.read_bytes()[:size].ljust(size, b"\0")
        path.write_bytes(data)
        os.utime(path, ns=(before.st_mtime_ns, before.st_mtime_ns))
        with pytest.raises(ValueError, match=r"node_labels\.npy is damaged: its contents"):
            verify_store(stored)


class Bomb:
    def __reduce__(self):
        return pytest.fail, ("a pickle was loaded",)


class TestManifest:
    def test_every_flipped_byte_is_seen(self, stored):
        path = stored / "manifest.json"
        whole = path.read_bytes()
        for at in range(len(whole)):
            changed = bytearray(whole)
            changed[at] ^= 0x10
            path.write_bytes(changed)
            if json_or_none(changed) != json_or_none(whole):  # white space has no meaning
                assert str(path) in files.refusal(stored)

    @pytest.mark.parametrize("kept", [0, 1, 100, 300])
    def test_truncated(self, stored, kept):
        os.truncate(stored / "manifest.json", kept)
        assert "manifest.json is damaged: it is not JSON" in files.refusal(stored)

    @pytest.mark.parametrize("text", ["[]", "{}", "3", '"walkernel graph store 1"'])
    def test_other_json(self, stored, text):
        (stored / "manifest.json").write_text(text)
        assert "manifest.json is damaged: it does not state its format" in files.refusal(stored)

    def test_of_another_version(self, stored):
        seal(stored, lambda manifest: manifest.update(format="walkernel graph store 2"))
        message = files.refusal(stored)
        assert "manifest.json: expected the format 'walkernel graph store 1', found" in message
        assert "another version" in message

    def test_missing(self, stored):
        (stored / "manifest.json").unlink()
        for place in (stored, stored.parent / "nothing"):
            message = files.refusal(place, FileNotFoundError)
            assert f"There is no graph store in {place}: it has no manifest.json" in message

    @pytest.mark.parametrize("key", ["n_nodes", "directed", "n_self_loops", "fingerprint"])
    def test_missing_keys(self, stored, key):
        seal(stored, lambda manifest: manifest.pop(key))
        assert "manifest.json is damaged: it does not describe a graph" in files.refusal(stored)

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (lambda m: m.update(n_nodes=5), r"indptr.npy is damaged: its shape must be (6,), not (5,)"),
            (lambda m: m.update(n_nodes="4"), "manifest.json is damaged: it does not describe a graph"),
            (lambda m: m["arrays"].pop("indices"), "it does not describe a graph"),
            (lambda m: m.pop("arrays"), "manifest.json is damaged: its list of arrays is not complete"),
            (lambda m: m["arrays"].update(other={}), "its list of arrays is not complete"),
            (lambda m: m["arrays"]["indptr"].pop("digest"), "its list of arrays is not complete"),
            (lambda m: m["arrays"]["weights"].update(dtype="<f4"), "it does not describe a graph"),
            (lambda m: m["arrays"]["indices"].update(shape=[7]), "its shape must be (7,), not (6,)"),
        ],
    )  # fmt: skip
    def test_what_cannot_be(self, stored, change, reason):
        seal(stored, change)
        assert reason in files.refusal(stored)

    def test_files_that_are_no_graph(self, tmp_path):
        """Digests are right, and the graph cannot be."""
        for name, arrays in {
            "rows": ([0, 3, 2], [0, 1]), "ends": ([0, 1, 3], [0, 1]), "nodes": ([0, 1, 2], [0, 2]),
        }.items():  # fmt: skip
            indptr, indices = np.array(arrays[0]), np.array(arrays[1], dtype=np.int32)
            forge(tmp_path / name, indptr=indptr, indices=indices)
        assert "indptr.npy is damaged: rows must go from 0 to 2" in files.refusal(tmp_path / "ends")
        with pytest.raises(ValueError, match=r"indptr\.npy is damaged: its rows overlap"):
            verify_store(tmp_path / "rows")
        with pytest.raises(ValueError, match=r"indices\.npy is damaged: nodes must be from 0 to 1"):
            verify_store(tmp_path / "nodes")


def json_or_none(data):
    try:
        return json.loads(data)
    except ValueError:
        return None


class TestMadeArrays:
    """Alias tables, which the first walks on a graph with weights leave in its store."""

    @pytest.fixture
    def expected(self):
        return wk.sample_walks(GRAPH, 16).deposits

    def check(self, stored, expected):
        found = wk.sample_walks(wk.load_graph(stored), 16).deposits
        assert np.array_equal(found.nodes, expected.nodes)
        assert np.array_equal(found.loads, expected.loads)

    def tables(self, stored):
        """The files of tables; ones that are written again are others."""
        return {path: path.stat().st_ino for path in stored.glob("alias-*/*")}

    def test_computed_once(self, stored, expected):
        self.check(stored, expected)
        tables = self.tables(stored)
        assert len(tables) == 2
        for _ in range(2):
            self.check(stored, expected)
            assert self.tables(stored) == tables
        assert len(verify_store(stored)) == 5 + 2

    @pytest.mark.parametrize("suffix", [".npy", ".json"])
    @pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
    def test_damaged_ones_are_computed_again(self, stored, expected, suffix, damage):
        self.check(stored, expected)
        (path,) = stored.glob(f"alias-*/*{suffix}")
        if damage == "flip":
            flip(path, -20)
        elif damage == "truncate":
            os.truncate(path, 50)
        else:
            path.unlink()
        self.check(stored, expected)
        tables = self.tables(stored)
        verify_store(stored)
        self.check(stored, expected)
        assert self.tables(stored) == tables
        assert len(tables) == 2

    def test_only_a_full_comparison_sees_bit_rot(self, stored, expected):
        self.check(stored, expected)
        (path,) = stored.glob("alias-*/*.npy")
        flip(path, secretly=True)
        with pytest.raises(ValueError, match=rf"{path} is damaged.*Remove its folder"):
            verify_store(stored)

    def test_of_another_graph(self, stored, expected, tmp_path):
        other = wk.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "longer")], weights=[9.0, 2.0, -3.0])
        old = wk.load_graph(stored)
        other.save(stored)
        found = wk.sample_walks(old, 16).deposits  # writes its table into the folder of another graph
        assert np.array_equal(found.loads, expected.loads)
        self.check(stored, wk.sample_walks(other, 16).deposits)

    @pytest.mark.parametrize("error", [OSError(28, "Disk full"), PermissionError(13, "Forbidden")])
    def test_where_nothing_can_be_written(self, stored, expected, monkeypatch, error):
        calls, original = [], os.posix_fallocate

        def reserve(*space):
            calls.append(1)
            if len(calls) == 1:
                raise error
            original(*space)

        monkeypatch.setattr(os, "posix_fallocate", reserve)
        self.check(stored, expected)
        assert len(calls) == 2
        assert not list(stored.glob("*alias*"))
        assert not [name for name in os.listdir(stored) if name.endswith(".part")]

    @pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
    def test_read_only_folder(self, stored, expected):
        stored.chmod(stat.S_IRUSR | stat.S_IXUSR)
        self.check(stored, expected)
        stored.chmod(stat.S_IRWXU)
        assert not list(stored.glob("*alias*"))

    def test_no_room_anywhere(self, stored, monkeypatch):
        def full(*space):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "posix_fallocate", full)
        with pytest.raises(OSError, match="No space left"):
            wk.sample_walks(wk.load_graph(stored), 4)

    def test_graphs_without_weights_need_none(self, tmp_path):
        graphs.karate().save(tmp_path / "karate")
        wk.sample_walks(wk.load_graph(tmp_path / "karate"), 4)
        assert not list((tmp_path / "karate").glob("alias*"))
