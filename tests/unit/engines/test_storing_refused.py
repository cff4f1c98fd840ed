"""Directories that features are not written to, or not opened from: why, and what to do."""

import json
import os
import re
import subprocess
import sys

import pytest

import graphs
import walkernel as wk
from stored import GRAPH, KERNEL, refused, same, store
from walkernel.storage import exclusive


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"seed": 1}, ["features have seed = 1", "with seed = 0."]),
            ({"stream": 2}, ["streams = [2]", "streams = [0]."]),
            ({"block_size": 11}, ["block_size = 11", "block_size = 10."]),
            ({"nodes": [3, 1]}, ["one of the same nodes", "which differs in that."]),
            ({"transpose": True}, ["transpose = True", "transpose = False."]),
            (
                {"sampler": wk.IndependentWalks(0.2)},
                ["the same kernel, f and sampler", "which differs in that."],
            ),
        ],
        ids=str,
    )
    def test_other_arguments(self, tmp_path, options, words, walked):
        store(tmp_path)
        message = refused(ValueError, tmp_path, **options)
        assert message.startswith("sample_features: directory must be one")
        assert all(word in message for word in words), message
        assert "Use the same arguments to resume, or use another directory." in message
        assert len(walked) == 4

    @pytest.mark.parametrize(
        ("graph", "kernel", "n_walks", "word"),
        [
            (graphs.unweighted(), KERNEL, 8, "graph"),
            (GRAPH, wk.Diffusion(2.0), 8, "kernel, f and sampler"),
            (GRAPH, KERNEL, 9, "n_walks"),
            (GRAPH, wk.Diffusion(matrix="combinatorial"), 8, "matrix"),
        ],
        ids=["graph", "kernel", "walks", "matrix"],
    )
    def test_other_features(self, tmp_path, graph, kernel, n_walks, word):
        store(tmp_path)
        with pytest.raises(ValueError, match=f"(the same {word}|have {word} =)"):
            wk.sample_features(graph, kernel, n_walks, directory=tmp_path)

    def test_other_ensembles_and_stitches(self, tmp_path):
        wk.estimate_kernel(GRAPH, KERNEL, 8, directory=tmp_path)
        for options, word in (
            ({"ensembles": "shared"}, "one of the same ensembles"),
            ({"ensembles": "independent"}, "streams = [0, 1]"),
            ({"stitches": 2}, "the same kernel, f and sampler"),
        ):
            with pytest.raises(ValueError, match=re.escape(word)):
                wk.estimate_kernel(GRAPH, KERNEL, 8, directory=tmp_path, **options)

    def test_labels_tell_graphs_apart(self, tmp_path):
        edges = [("a", "b"), ("b", "c")]
        wk.sample_features(wk.Graph.from_edges(edges), KERNEL, 8, directory=tmp_path)
        with pytest.raises(ValueError, match="the same graph"):
            wk.sample_features(wk.Graph.from_edges([("x", "y"), ("y", "z")]), KERNEL, 8, directory=tmp_path)

    def test_directory_of_something_else(self, tmp_path):
        (tmp_path / "notes.txt").write_text("mine")
        message = refused(ValueError, tmp_path)
        assert "a new or empty directory, or one of stored features" in message
        assert "which contains 'notes.txt'" in message
        assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]

    @pytest.mark.parametrize("inside", ["", "deeper/down"])
    def test_file_in_place_of_a_directory(self, tmp_path, inside):
        (tmp_path / "phi").write_text("")
        message = refused(ValueError, tmp_path / "phi" / inside)
        assert f"directory must be a directory, got the file {tmp_path / 'phi'}." in message

    def test_no_path(self):
        for call in (
            lambda: store(5),
            lambda: wk.open_features(None),
            lambda: wk.estimate_kernel(GRAPH, KERNEL, 8, directory=5),
        ):
            with pytest.raises(TypeError, match="directory must be a path, got"):
                call()

    @pytest.mark.parametrize("size", [0, -1, 2.0, "5", True])
    def test_block_size(self, tmp_path, size):
        assert "block_size must be a whole number" in refused(
            (ValueError, TypeError), tmp_path, block_size=size
        )
        assert list(tmp_path.iterdir()) == []

    def test_open_nothing(self, tmp_path):
        with pytest.raises(
            FileNotFoundError, match=r"There is no set of features in .*: it has no manifest.json\."
        ):
            wk.open_features(tmp_path)

    def test_open_a_kernel(self, tmp_path):
        wk.estimate_kernel(GRAPH, KERNEL, 8, ensembles="independent", directory=tmp_path)
        with pytest.raises(ValueError, match=r"with 2, of a kernel\. Open them by repeating the call"):
            wk.open_features(tmp_path / "along-edges")

    def test_another_version(self, tmp_path):
        store(tmp_path)
        manifest = json.loads((tmp_path / "manifest.json").read_text())
        (tmp_path / "manifest.json").write_text(json.dumps(manifest | {"format": "walkernel features 2"}))
        message = refused(ValueError, tmp_path)
        assert f"{tmp_path / 'manifest.json'}: expected the format 'walkernel features 3'" in message
        assert "found 'walkernel features 2'" in message
        assert "write the set of features again, to another place" in message


class TestLock:
    def test_a_second_holder_is_refused(self, tmp_path):
        (tmp_path / "phi").mkdir()
        with exclusive(tmp_path / "phi"):
            message = refused(BlockingIOError, tmp_path / "phi")
        assert f"{tmp_path / 'phi'} is being written by process {os.getpid()} on " in message
        assert "Wait until it ends, or use another directory." in message
        assert (tmp_path / "phi" / ".lock").read_text() == ""

    def test_it_is_let_go_after_an_error(self, tmp_path, memory):
        with pytest.raises(ZeroDivisionError):
            store(tmp_path, progress=lambda done, total: 1 // 0)
        assert same(store(tmp_path).to_scipy(), memory)

    def test_finished_features_need_none(self, tmp_path, memory):
        store(tmp_path)
        with exclusive(tmp_path):
            assert same(store(tmp_path).to_scipy(), memory)
            assert same(wk.open_features(tmp_path).to_scipy(), memory)

    def test_another_process(self, tmp_path):
        script = (
            "import sys, pathlib\nfrom walkernel.storage import exclusive\n"
            "with exclusive(pathlib.Path(sys.argv[1])):\n    print('held', flush=True); sys.stdin.read()\n"
        )
        command = [sys.executable, "-c", script, str(tmp_path)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
            assert holder.stdout.readline() == "held\n"
            assert f"written by process {holder.pid} on" in refused(BlockingIOError, tmp_path)
            holder.kill()
            holder.communicate()
        assert store(tmp_path).n_blocks == 4
