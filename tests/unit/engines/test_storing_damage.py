"""Damaged features in files: said with the file's name, never a wrong number."""

import json
import os
import shutil

import pytest

import graphs
import walkernel as wk
from stored import GRAPH, KERNEL, blocks_of, same, store
from walkernel.engines import CPU
from walkernel.storage import digest_of_json

SMALL = wk.Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])


def store_small(folder, seed=0):
    return wk.sample_features(SMALL, KERNEL, 4, directory=folder, seed=seed, block_size=2)


def contents(features):
    """Return all that is in some features, bit by bit."""
    whole = features.to_scipy()
    return [
        features.ids.tobytes(),
        *(getattr(whole, name).tobytes() for name in ("indptr", "indices", "data")),
    ]


def said_or_same(folder, name, intact):
    """Tell whether opening and reading says that a file is damaged; it must, or give the same."""
    try:
        found = contents(wk.open_features(folder))
    except ValueError as error:
        assert name in str(error), error  # noqa: PT017
        assert str(folder) in str(error)  # noqa: PT017
        return True
    assert found == intact
    return False


FILES = ["ids.npy", "indptr.0.npy", "indices.0.npy", "data.0.npy", "norms.0.npy"]


def unseen_flips(folder, path, bit, intact):
    """Return the positions of bytes of a file whose change is not said."""
    before, unseen = path.read_bytes(), []
    for at, byte in enumerate(before):
        path.write_bytes(before[:at] + bytes([byte ^ bit]) + before[at + 1 :])
        if not said_or_same(folder, path.name, intact):
            unseen.append(at)
            if path.suffix == ".json":  # blanks, or the last of 17 digits, which few numbers need
                assert json.loads(path.read_bytes()) == json.loads(before)
    path.write_bytes(before)
    assert contents(wk.open_features(folder)) == intact
    return len(unseen) / len(before)


class TestFlippedBytes:
    @pytest.mark.deep
    @pytest.mark.parametrize("bit", [0x01, 0x80])
    @pytest.mark.parametrize("number", [0, 1])
    def test_every_byte_of_a_block(self, tmp_path, number, bit):
        intact = contents(store_small(tmp_path))
        block = blocks_of(tmp_path)[number]
        assert {path.name for path in block.iterdir()} == {*FILES, "manifest.json"}
        for name in FILES:
            assert unseen_flips(tmp_path, block / name, bit, intact) == 0

    @pytest.mark.deep
    @pytest.mark.parametrize("bit", [0x01, 0x20])
    @pytest.mark.parametrize("name", ["manifest.json", "block-000001/manifest.json"])
    def test_every_byte_of_a_manifest(self, tmp_path, name, bit):
        intact = contents(store_small(tmp_path))
        assert unseen_flips(tmp_path, tmp_path / name, bit, intact) < 1 / 3

    @pytest.mark.parametrize("name", FILES)
    def test_bit_rot(self, tmp_path, name):
        """Bytes are compared with their digest even if the modification time is the recorded one."""
        intact = contents(store_small(tmp_path))
        path = blocks_of(tmp_path)[0] / name
        before, data = path.stat(), path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert said_or_same(tmp_path, f"block-000000/{name}", intact)

    def test_norms(self, tmp_path):
        """They are what the diagonal of debiased walks is corrected by."""
        K = wk.estimate_kernel(SMALL, KERNEL, 4, directory=tmp_path)
        path = tmp_path / "along-edges" / "block-000000" / "norms.0.npy"
        data = path.read_bytes()
        assert K.correction.any()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(ValueError, match=r"block-000000/norms\.0\.npy is damaged: its contents do not"):
            wk.estimate_kernel(SMALL, KERNEL, 4, directory=tmp_path)


def exchange(name, folder):
    """Put a block of other features in the place of one."""
    shutil.rmtree(folder / "one" / name)
    shutil.copytree(folder / "other" / name, folder / "one" / name)


class TestBlocks:
    @pytest.mark.parametrize("name", [*FILES, "manifest.json"])
    @pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.999])
    def test_truncated(self, tmp_path, share, name):
        store(tmp_path)
        path = blocks_of(tmp_path)[2] / name
        os.truncate(path, int(share * path.stat().st_size))
        with pytest.raises(
            ValueError, match=rf"block-000002/{name} is damaged: .* Delete its folder and repeat the call"
        ):
            wk.open_features(tmp_path)

    def test_longer(self, tmp_path):
        store(tmp_path)
        with (blocks_of(tmp_path)[3] / "ids.npy").open("ab") as file:
            file.write(b"more")
        with pytest.raises(ValueError, match=r"block-000003/ids.npy is damaged: it must have \d+ bytes and"):
            wk.open_features(tmp_path)

    def test_missing(self, tmp_path):
        store(tmp_path)
        shutil.rmtree(blocks_of(tmp_path)[3])
        with pytest.raises(
            FileNotFoundError, match=r"block-000003 is missing in .*, of 4 blocks\. Repeat the"
        ):
            wk.open_features(tmp_path)
        shutil.rmtree(blocks_of(tmp_path)[1])
        with pytest.raises(
            FileNotFoundError, match=r"block-000001 and 1 more are missing in .*, of 4 blocks"
        ):
            wk.open_features(tmp_path)

    def test_deleted_as_advised(self, tmp_path):
        intact = contents(store(tmp_path))
        os.truncate(blocks_of(tmp_path)[2] / "ids.npy", 7)
        shutil.rmtree(blocks_of(tmp_path)[2])
        assert contents(store(tmp_path)) == intact

    @pytest.mark.parametrize("name", FILES)
    def test_a_file_is_missing(self, tmp_path, name):
        store(tmp_path)
        (blocks_of(tmp_path)[1] / name).unlink()
        for call in (wk.open_features, store):
            with pytest.raises(FileNotFoundError, match=f"block-000001/{name} is missing. Delete its folder"):
                call(tmp_path)

    def test_without_a_manifest_it_is_made_again(self, tmp_path, walked):
        intact = contents(store(tmp_path))
        (blocks_of(tmp_path)[1] / "manifest.json").unlink()
        with pytest.raises(FileNotFoundError, match="block-000001 is missing in"):
            wk.open_features(tmp_path)
        assert contents(store(tmp_path)) == intact
        assert len(walked) == 5
        assert len(blocks_of(tmp_path)) == 4

    @pytest.mark.parametrize("options", [{"seed": 1}, {"stream": 1}, {"nodes": [*range(33, -1, -1)]}])
    def test_of_another_run(self, tmp_path, options):
        store(tmp_path / "one")
        store(tmp_path / "other", **options)
        exchange("block-000001", tmp_path)
        with pytest.raises(
            ValueError, match=r"one/block-000001/manifest.json is damaged: it is not of the rows"
        ):
            wk.open_features(tmp_path / "one")
        with pytest.raises(ValueError, match=r"one/block-000001/manifest.json is damaged"):
            store(tmp_path / "one")

    def test_of_another_kernel(self, tmp_path):
        store(tmp_path / "one")
        wk.sample_features(GRAPH, wk.Diffusion(1.1), 8, directory=tmp_path / "other", block_size=10)
        exchange("block-000002", tmp_path)
        with pytest.raises(
            ValueError, match=r"one/block-000002/manifest.json is damaged: it is not of the rows"
        ):
            wk.open_features(tmp_path / "one")

    def test_exchanged(self, tmp_path):
        store(tmp_path)
        first, second = blocks_of(tmp_path)[:2]
        first.rename(tmp_path / "x")
        second.rename(first)
        (tmp_path / "x").rename(second)
        rows = "it is not of the rows 0 to 10 of these features"
        with pytest.raises(ValueError, match=rf"block-000000/manifest.json is damaged: {rows}"):
            wk.open_features(tmp_path)

    def test_of_another_size(self, tmp_path):
        store(tmp_path / "one")
        store(tmp_path / "other", block_size=12)
        exchange("block-000000", tmp_path)
        with pytest.raises(
            ValueError, match=r"block-000000/manifest.json is damaged: it is not of the rows 0 to 10"
        ):
            wk.open_features(tmp_path / "one")


class TestAfterOpening:
    def test_replaced(self, tmp_path):
        """A view of the file that was opened must not become one of another file of the same name."""
        stored = store(tmp_path / "phi")
        _ = stored[0]
        shutil.rmtree(tmp_path / "phi")
        store(tmp_path / "phi", seed=1)
        with pytest.raises(ValueError, match=r"phi/block-000000/.* is damaged: .* If it was replaced after"):
            _ = stored[0]

    def test_replaced_by_the_same(self, tmp_path, memory):
        stored = store(tmp_path / "phi")
        _ = stored[0]
        shutil.rmtree(tmp_path / "phi")
        store(tmp_path / "phi")
        assert same(stored[:], memory)

    def test_written_to(self, tmp_path):
        stored = store(tmp_path)
        _ = stored[0]
        path = blocks_of(tmp_path)[0] / "data.0.npy"
        before = path.stat()
        with path.open("r+b") as file:
            file.seek(-100, 2)
            file.write(b"x")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
        with pytest.raises(ValueError, match=r"data\.0\.npy is damaged: its contents do not match"):
            _ = stored[0]

    def test_gone(self, tmp_path):
        stored = store(tmp_path)
        shutil.rmtree(blocks_of(tmp_path)[0])
        assert stored[11].shape == (1, 34)
        with pytest.raises(FileNotFoundError, match=r"block-000000/indptr.0.npy is missing"):
            _ = stored[0]

    @pytest.mark.parametrize("name", ["indptr.0", "indices.0", "data.0"])
    def test_each_array_is_checked_once(self, tmp_path, name):
        """Bit rot that no time tells of is seen by those who have not read the array before."""
        stored = store(tmp_path)
        first = stored[33]
        path = blocks_of(tmp_path)[-1] / f"{name}.npy"
        before, data = path.stat(), bytearray(path.read_bytes())
        data[-32] ^= 1
        with path.open("r+b") as file:
            file.write(data)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        for _ in range(2):
            assert stored[33].shape == first.shape
        with pytest.raises(ValueError, match=rf"{name}\.npy is damaged: its contents do not match"):
            _ = wk.open_features(tmp_path)[33]


EDITS = {
    "format": "walkernel features 9", "arrays": {"ids": {}},
    "graph": "0", "n_nodes": 35, "nodes": "0", "n_rows": 33,
    "matrix": "adjacency", "transpose": True, "sampler": {}, "n_walks": 9, "seed": 1, "streams": [1],
    "f": [1.0], "with_norms": True, "precision": "float32",
    "head_apart": True, "block_size": 17,
}  # fmt: skip


class TestManifest:
    @pytest.mark.parametrize("key", EDITS)
    def test_edited_by_hand(self, tmp_path, key):
        store(tmp_path)
        path = tmp_path / "manifest.json"
        manifest = json.loads(path.read_text())
        assert manifest[key] != EDITS[key]
        path.write_text(json.dumps(manifest | {key: EDITS[key]}))
        for call in (lambda: wk.open_features(tmp_path), lambda: store(tmp_path)):
            with pytest.raises(ValueError, match=r"manifest\.json") as caught:
                call()
            assert "block-" not in str(caught.value)

    @pytest.mark.parametrize("key", [key for key in EDITS if key not in ("format", "arrays")])
    def test_edited_by_one_who_knows_how(self, tmp_path, key):
        """The blocks have what the manifest said when they were made."""
        store(tmp_path)
        path = tmp_path / "manifest.json"
        manifest = json.loads(path.read_text()) | {key: EDITS[key]}
        del manifest["digest"]
        path.write_text(json.dumps(manifest | {"digest": digest_of_json(manifest)}))
        with pytest.raises(
            ValueError, match=r"block-00000[03]/manifest.json is damaged: it is not of the rows"
        ):
            wk.open_features(tmp_path)

    def test_every_field_is_covered(self, tmp_path):
        store(tmp_path)
        assert set(json.loads((tmp_path / "manifest.json").read_text())) == {*EDITS, "digest"}

    @pytest.mark.parametrize("text", ["", "{", "[]", "5", '"format"', "null", "{}", '{"format": 1}', "\xff"])
    def test_nonsense(self, tmp_path, text):
        store(tmp_path)
        (tmp_path / "manifest.json").write_text(text, encoding="latin-1")
        with pytest.raises(ValueError, match=r"manifest\.json"):
            wk.open_features(tmp_path)

    def test_deleted_as_advised(self, tmp_path, monkeypatch):
        intact = contents(store(tmp_path))
        (tmp_path / "manifest.json").write_text("{")
        with pytest.raises(ValueError, match=r"manifest.json is damaged: .* Delete it and repeat the call"):
            store(tmp_path)
        (tmp_path / "manifest.json").unlink()
        monkeypatch.setattr(CPU, "features", None)  # nothing is made again
        assert contents(store(tmp_path)) == intact

    def test_of_another_run(self, tmp_path):
        store(tmp_path / "one")
        store(tmp_path / "other", seed=1)
        shutil.copy(tmp_path / "other" / "manifest.json", tmp_path / "one")
        with pytest.raises(
            ValueError, match=r"one/block-000000/manifest.json is damaged: it is not of the rows"
        ):
            wk.open_features(tmp_path / "one")
        with pytest.raises(ValueError, match=r"block-000000/manifest\.json is damaged"):
            store(tmp_path / "one", seed=1)
        with pytest.raises(ValueError, match="have seed = 0"):
            store(tmp_path / "one")

    def test_a_kernel_of_two_directions(self, tmp_path):
        K = wk.estimate_kernel(graphs.directed(), KERNEL, 8, directory=tmp_path)
        assert K.pair == "symmetric"
        (tmp_path / "along-edges").rename(tmp_path / "x")
        (tmp_path / "against-edges").rename(tmp_path / "along-edges")
        (tmp_path / "x").rename(tmp_path / "against-edges")
        with pytest.raises(ValueError, match="directory must be one whose features have transpose = False"):
            wk.estimate_kernel(graphs.directed(), KERNEL, 8, directory=tmp_path)
