"""Damaged features in files: said with the file's name, never a wrong number."""

import json
import os
import shutil

import numpy as np
import pytest

import graphs
import walkernel as wk
from stored import GRAPH, KERNEL, blocks_of, store
from walkernel.engines import CPU
from walkernel.storage._folders import digest_of_json

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


def padding(path):
    """Return the positions in a block that no array covers."""
    text = path.read_bytes()
    header = text.split(b"\n", 2)[1]
    arrays, covered = json.loads(header)["arrays"].values(), np.zeros(len(text), dtype=bool)
    covered[: len(text.split(b"\n", 2)[0]) + len(header) + 2] = True
    for record in arrays:
        size = np.dtype(record["dtype"]).itemsize * int(np.prod(record["shape"]))
        covered[record["offset"] : record["offset"] + size] = True
    return np.flatnonzero(~covered)


class TestFlippedBytes:
    @pytest.mark.deep
    @pytest.mark.parametrize("bit", [0x01, 0x80])
    @pytest.mark.parametrize("number", [0, 1])
    def test_every_byte_of_a_block(self, tmp_path, number, bit):
        intact = contents(store_small(tmp_path))
        path = blocks_of(tmp_path)[number]
        before, unseen = path.read_bytes(), []
        for at, byte in enumerate(before):
            path.write_bytes(before[:at] + bytes([byte ^ bit]) + before[at + 1 :])
            if not said_or_same(tmp_path, path.name, intact):
                unseen.append(at)
        path.write_bytes(before)
        assert unseen == padding(path).tolist()
        assert contents(wk.open_features(tmp_path)) == intact

    @pytest.mark.deep
    @pytest.mark.parametrize("bit", [0x01, 0x20])
    def test_every_byte_of_the_manifest(self, tmp_path, bit):
        intact = contents(store_small(tmp_path))
        path = tmp_path / "manifest.json"
        before, unseen = path.read_bytes(), []
        for at, byte in enumerate(before):
            path.write_bytes(before[:at] + bytes([byte ^ bit]) + before[at + 1 :])
            if not said_or_same(tmp_path, path.name, intact):
                unseen.append(at)  # blanks, or the last of 17 digits, which few numbers need
                assert json.loads(path.read_bytes()) == json.loads(before)
        assert len(unseen) < len(before) / 4

    def test_norms(self, tmp_path):
        """They are what the diagonal of debiased walks is corrected by."""
        K = wk.estimate_kernel(SMALL, KERNEL, 4, directory=tmp_path)
        path = tmp_path / "along-edges" / "block-000000"
        before = path.read_bytes()
        place = json.loads(before.split(b"\n", 2)[1])["arrays"]["norms.0"]["offset"]
        assert K.correction.any()
        path.write_bytes(before[:place] + bytes([before[place] ^ 1]) + before[place + 1 :])
        with pytest.raises(ValueError, match=r"block-000000 in .* is damaged: the array 'norms.0'"):
            wk.estimate_kernel(SMALL, KERNEL, 4, directory=tmp_path)


class TestBlocks:
    @pytest.mark.parametrize("share", [0, 0.1, 0.5, 0.999])
    def test_truncated(self, tmp_path, share):
        store(tmp_path)
        path = blocks_of(tmp_path)[2]
        os.truncate(path, int(share * path.stat().st_size))
        with pytest.raises(
            ValueError, match=r"block-000002 in .* is damaged: .* Delete it and repeat the call"
        ):
            wk.open_features(tmp_path)

    def test_longer(self, tmp_path):
        store(tmp_path)
        with blocks_of(tmp_path)[3].open("ab") as file:
            file.write(b"more")
        with pytest.raises(ValueError, match=r"block-000003 in .* is damaged: it has \d+ bytes instead of"):
            wk.open_features(tmp_path)

    def test_missing(self, tmp_path):
        store(tmp_path)
        blocks_of(tmp_path)[3].unlink()
        with pytest.raises(
            FileNotFoundError, match=r"block-000003 is missing in .*, of 4 blocks\. Repeat the"
        ):
            wk.open_features(tmp_path)
        blocks_of(tmp_path)[1].unlink()
        with pytest.raises(
            FileNotFoundError, match=r"block-000001 and 1 more are missing in .*, of 4 blocks"
        ):
            wk.open_features(tmp_path)

    def test_deleted_as_advised(self, tmp_path):
        intact = contents(store(tmp_path))
        os.truncate(blocks_of(tmp_path)[2], 7)
        blocks_of(tmp_path)[2].unlink()
        assert contents(store(tmp_path)) == intact

    @pytest.mark.parametrize("options", [{"seed": 1}, {"stream": 1}, {"nodes": [*range(33, -1, -1)]}])
    def test_of_another_run(self, tmp_path, options):
        store(tmp_path / "one")
        store(tmp_path / "other", **options)
        shutil.copy(tmp_path / "other" / "block-000001", tmp_path / "one")
        with pytest.raises(ValueError, match=r"block-000001 in .*one is damaged: it belongs to other"):
            wk.open_features(tmp_path / "one")
        with pytest.raises(ValueError, match=r"block-000001 in .*one is damaged"):
            store(tmp_path / "one")

    def test_of_another_kernel(self, tmp_path):
        store(tmp_path / "one")
        wk.sample_features(GRAPH, wk.Diffusion(1.1), 8, directory=tmp_path / "other", block_size=10)
        shutil.copy(tmp_path / "other" / "block-000002", tmp_path / "one")
        with pytest.raises(ValueError, match=r"block-000002 in .*one is damaged: it belongs to other"):
            wk.open_features(tmp_path / "one")

    def test_exchanged(self, tmp_path):
        store(tmp_path)
        first, second = blocks_of(tmp_path)[:2]
        first.rename(tmp_path / "x")
        second.rename(first)
        (tmp_path / "x").rename(second)
        rows = "it has the rows 10 to 20 instead of 0 to 10"
        with pytest.raises(ValueError, match=rf"block-000000 in .* is damaged: {rows}"):
            wk.open_features(tmp_path)

    def test_of_another_size(self, tmp_path):
        store(tmp_path / "one")
        store(tmp_path / "other", block_size=12)
        shutil.copy(tmp_path / "other" / "block-000000", tmp_path / "one")
        with pytest.raises(
            ValueError, match=r"block-000000 in .* is damaged: it has the rows 0 to 12 instead"
        ):
            wk.open_features(tmp_path / "one")


class TestAfterOpening:
    def test_replaced(self, tmp_path):
        """A view of the file that was opened must not become one of another file of the same name."""
        stored = store(tmp_path / "phi")
        _ = stored[0]
        shutil.rmtree(tmp_path / "phi")
        store(tmp_path / "phi", seed=1)
        with pytest.raises(
            ValueError, match=r"block-000000 in .*phi was changed or replaced after it was opened"
        ):
            _ = stored[0]

    def test_written_to(self, tmp_path):
        stored = store(tmp_path)
        _ = stored[0]
        path = blocks_of(tmp_path)[0]
        before = path.stat()
        with path.open("r+b") as file:
            file.seek(-100, 2)
            file.write(b"x")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
        with pytest.raises(ValueError, match="was changed or replaced"):
            _ = stored[0]

    def test_gone(self, tmp_path):
        stored = store(tmp_path)
        blocks_of(tmp_path)[0].unlink()
        assert stored[11].shape == (1, 34)
        with pytest.raises(FileNotFoundError, match=r"block-000000 in .* was removed after it was opened"):
            _ = stored[0]

    def test_each_array_is_checked_once(self, tmp_path, monkeypatch):
        from walkernel.storage import _blocks as _block_files

        digests, digest_of = [], _block_files.digest_of
        stored = store(tmp_path)
        monkeypatch.setattr(
            _block_files, "digest_of", lambda array: digests.append(array.size) or digest_of(array)
        )
        for _ in range(3):
            _ = stored[0]
        assert len(digests) == 3


EDITS = {
    "format": "walkernel features 9", "graph": "0", "n_nodes": 35, "nodes": "0", "n_rows": 33,
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

    @pytest.mark.parametrize("key", [key for key in EDITS if key != "format"])
    def test_edited_by_one_who_knows_how(self, tmp_path, key):
        """The blocks have what the manifest said when they were made."""
        store(tmp_path)
        path = tmp_path / "manifest.json"
        manifest = json.loads(path.read_text()) | {key: EDITS[key]}
        del manifest["digest"]
        path.write_text(json.dumps(manifest | {"digest": digest_of_json(manifest)}))
        with pytest.raises(
            ValueError, match=r"block-00000[03] in .* is damaged: it (belongs to|has the rows)"
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
        with pytest.raises(
            ValueError, match=r"manifest.json in .* is damaged: .* Delete it and repeat the call"
        ):
            store(tmp_path)
        (tmp_path / "manifest.json").unlink()
        monkeypatch.setattr(CPU, "features", None)  # nothing is made again
        assert contents(store(tmp_path)) == intact

    def test_of_another_run(self, tmp_path):
        store(tmp_path / "one")
        store(tmp_path / "other", seed=1)
        shutil.copy(tmp_path / "other" / "manifest.json", tmp_path / "one")
        with pytest.raises(ValueError, match=r"block-000000 in .*one is damaged: it belongs to other"):
            wk.open_features(tmp_path / "one")
        with pytest.raises(ValueError, match="block-000000 in"):
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
