"""What is written where: regular files, symbolic links, pipes, devices, open descriptors; and by whom."""

import ast
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import graphs
import walkernel as wk
from commands import succeed
from walkernel._files import atomic_write, check_writable

SOURCES = Path(wk.__file__).parent
ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
NULL = (1, 3)
"""Major and minor number of the device that /dev/null is."""


def write(path, data=b"new"):
    with atomic_write(path) as file:
        file.write(data)


def read_pipe(path, received):
    received.append(path.read_bytes())


@pytest.fixture
def pipe(tmp_path):
    """A named pipe, and what its reader has received when the test asks for it."""
    path, received = tmp_path / "pipe.npz", []
    os.mkfifo(path)
    reader = threading.Thread(target=read_pipe, args=(path, received), daemon=True)
    reader.start()

    def result():
        reader.join(10)
        return received[0]

    return path, result


class TestAtomicWrite:
    def test_replaces_only_when_complete(self, tmp_path):
        path = tmp_path / "a.bin"
        path.write_bytes(b"old")
        with atomic_write(path) as file:
            file.write(b"new")
            file.flush()
            assert path.read_bytes() == b"old"
        assert path.read_bytes() == b"new"
        assert os.listdir(tmp_path) == ["a.bin"]

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
    def test_failure_leaves_the_old_file_and_nothing_else(self, tmp_path, error):
        path = tmp_path / "a.bin"
        path.write_bytes(b"old")
        with pytest.raises(error), atomic_write(path) as file:  # noqa: PT012 (the block is what fails)
            file.write(b"half")
            raise error
        assert path.read_bytes() == b"old"
        assert os.listdir(tmp_path) == ["a.bin"]

    def test_permissions_are_those_of_an_ordinary_file(self, tmp_path):
        with atomic_write(tmp_path / "a"):
            pass
        (tmp_path / "b").touch()
        assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode

    def test_folder_in_the_way(self, tmp_path):
        with pytest.raises(IsADirectoryError, match="a folder has that name"), atomic_write(tmp_path):
            pass


class TestLinks:
    def test_the_link_stays_and_its_target_is_replaced(self, tmp_path):
        target, link = tmp_path / "folder" / "a.bin", tmp_path / "link.bin"
        target.parent.mkdir()
        target.write_bytes(b"old")
        link.symlink_to("folder/a.bin")
        write(link)
        assert link.is_symlink()
        assert target.read_bytes() == b"new"
        assert sorted(os.listdir(tmp_path)) == ["folder", "link.bin"]
        assert os.listdir(target.parent) == ["a.bin"]

    def test_a_chain_of_links(self, tmp_path):
        (tmp_path / "one").symlink_to("two")
        (tmp_path / "two").symlink_to(tmp_path / "three")
        write(tmp_path / "one")
        assert (tmp_path / "three").read_bytes() == b"new"
        assert (tmp_path / "one").is_symlink()
        assert (tmp_path / "two").is_symlink()

    def test_a_failure_leaves_link_and_target(self, tmp_path):
        (tmp_path / "a").write_bytes(b"old")
        (tmp_path / "link").symlink_to("a")
        with pytest.raises(ValueError, match="stop"), atomic_write(tmp_path / "link") as file:  # noqa: PT012
            file.write(b"half")
            raise ValueError("stop")
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "a").read_bytes() == b"old"

    def test_links_in_a_circle(self, tmp_path):
        (tmp_path / "one").symlink_to("two")
        (tmp_path / "two").symlink_to("one")
        with pytest.raises(OSError, match="in a circle"):
            write(tmp_path / "one")
        assert (tmp_path / "one").is_symlink()

    def test_link_into_a_folder_that_is_missing(self, tmp_path):
        (tmp_path / "link").symlink_to("nowhere/a")
        with pytest.raises(FileNotFoundError, match=r"There is no folder .*nowhere"):
            write(tmp_path / "link")

    def test_a_saved_graph(self, tmp_path):
        (tmp_path / "link.npz").symlink_to("graph.npz")
        graphs.karate().save(tmp_path / "link.npz")
        assert (tmp_path / "link.npz").is_symlink()
        assert wk.load_graph(tmp_path / "graph.npz").n_nodes == 34


class TestSpecialFiles:
    def test_a_pipe_gets_everything(self, pipe):
        path, received = pipe
        write(path, b"x" * 200_000)
        assert received() == b"x" * 200_000
        assert stat.S_ISFIFO(path.stat().st_mode)

    def test_a_pipe_gets_a_format_that_seeks(self, pipe, tmp_path):
        path, received = pipe
        graphs.karate().save(path)
        (tmp_path / "copy.npz").write_bytes(received())
        assert wk.load_graph(tmp_path / "copy.npz").n_edges == 78

    def test_a_pipe_gets_nothing_of_a_failure(self, pipe):
        path, received = pipe
        with pytest.raises(ValueError, match="stop"), atomic_write(path) as file:  # noqa: PT012
            file.write(b"half")
            raise ValueError("stop")
        assert received() == b""

    @pytest.mark.skipif(not ROOT, reason="only root can make a device")
    def test_a_device_stays_one(self, tmp_path):
        path = tmp_path / "null"
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(*NULL))
            path.write_bytes(b"")
        except OSError:
            pytest.skip("no device can be made and written here")
        write(path)
        assert stat.S_ISCHR(path.stat().st_mode)
        assert os.listdir(tmp_path) == ["null"]

    def test_a_link_to_a_device_stays_one(self, tmp_path):
        (tmp_path / "link").symlink_to(os.devnull)
        write(tmp_path / "link")
        assert (tmp_path / "link").is_symlink()
        assert stat.S_ISCHR(os.stat(os.devnull).st_mode)

    def test_a_terminal(self, tmp_path):
        ours, theirs = os.openpty()
        write(os.ttyname(theirs), b"hello")
        assert os.read(ours, 100) == b"hello"
        os.close(ours)
        os.close(theirs)

    @pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors have no names here")
    @pytest.mark.parametrize("name", ["/dev/stdout", "/proc/self/fd/1", "/dev/fd/1"])
    def test_standard_output_goes_on_where_it_was(self, tmp_path, name):
        log = tmp_path / "log"
        log.write_text("before\n")
        code = (
            "import sys; from walkernel._files import atomic_write; print('first')\n"
            "with atomic_write(sys.argv[1]) as file: file.write(b'second\\n')\n"
            "print('third')"
        )
        with log.open("a") as file:
            subprocess.run([sys.executable, "-c", code, name], stdout=file, check=True, timeout=60)
        assert log.read_text() == "before\nfirst\nsecond\nthird\n"


def test_a_graph_in_a_pipe_is_refused(tmp_path):
    """It would be opened twice, and nobody would write to it a second time."""
    os.mkfifo(tmp_path / "edges.csv")
    with pytest.raises(
        ValueError, match=r"load_graph: path must be a regular file or a folder, got .*a pipe"
    ):
        wk.load_graph(tmp_path / "edges.csv")


@pytest.mark.parametrize(
    "command", ["cluster karate -k 2 --out", "regress karate values.csv --model ridge --out"]
)
def test_commands_write_to_what_is_no_file(command, tmp_path, monkeypatch, pipe):
    monkeypatch.chdir(tmp_path)
    Path("values.csv").write_text("0,1\n33,2\n")
    Path("nothing").symlink_to(os.devnull)
    path, received = pipe
    succeed(*command.split(), "nothing")
    assert Path("nothing").is_symlink()
    assert stat.S_ISCHR(Path("nothing").stat().st_mode)
    succeed(*command.split(), path)
    assert received().count(b"\n") == 35


class TestPermissions:
    def test_an_existing_file_keeps_them(self, tmp_path):
        path = tmp_path / "a"
        path.write_bytes(b"old")
        path.chmod(0o640)
        write(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640

    @pytest.mark.skipif(not ROOT, reason="only root can give a file to somebody else")
    def test_an_existing_file_keeps_its_owner(self, tmp_path):
        path = tmp_path / "a"
        path.write_bytes(b"old")
        os.chown(path, 12345, 54321)
        write(path)
        assert (path.stat().st_uid, path.stat().st_gid) == (12345, 54321)

    def test_a_read_only_file_is_refused(self, tmp_path, monkeypatch):
        path = tmp_path / "a"
        path.write_bytes(b"old")
        path.chmod(0o444)
        if ROOT:  # who may write everything
            monkeypatch.setattr(os, "access", lambda place, mode: Path(place) != path)
        for attempt in (write, check_writable):
            with pytest.raises(PermissionError, match="is read-only"):
                attempt(path)
        assert path.read_bytes() == b"old"


WRITERS = {"write_text", "write_bytes", "tofile", "replace", "rename", "savetxt", "to_csv", "symlink_to"}
ARRAYS = {"save", "savez", "savez_compressed", "save_npz", "savefig", "mmwrite"}
ALLOWED = {
    "_files.py": {"open", "replace", "rename"},
    "_folders.py": {"open"},  # files in a new folder, which takes its place as a whole, and the lock
    "_cached.py": {"open"},  # a mapped file in a new folder
}


def written_by(source):
    """Return the names of the calls that may write a file other than one that atomic_write has opened."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        owner = getattr(getattr(node.func, "value", None), "id", "")
        texts = [
            a.value for a in [*node.args, *(k.value for k in node.keywords)] if isinstance(a, ast.Constant)
        ]
        modes = [t for t in texts if isinstance(t, str) and 0 < len(t) <= 3 and set(t) <= set("rwxab+t")]
        if name in ("open", "fdopen") and any(set(mode) & set("wxa+") for mode in modes):
            yield "open"
        if name in WRITERS and (owner == "os" or name not in ("replace", "rename")):
            yield name
        if name in ARRAYS and owner in ("np", "sparse", "io", "figure", "pyplot"):
            first = node.args[0] if node.args else None
            if not (isinstance(first, ast.Name) and first.id == "file"):
                yield name


def test_nobody_else_writes_files():
    """Every writer goes through atomic_write, or what it refuses and follows holds for some files only."""
    found = {
        path.name: names - ALLOWED.get(path.name, set())
        for path in SOURCES.rglob("*.py")
        if (names := set(written_by(path.read_text(encoding="utf-8"))))
    }
    assert {name: names for name, names in found.items() if names} == {}
    assert set(ALLOWED) == set(found)


@pytest.mark.parametrize(
    "sabotage",
    ["path.write_text('x')", "open(p, 'w')", "np.savez(path, a=1)", "os.replace(a, b)", "p.open('xb')"],
)
def test_a_writer_of_its_own_is_found(sabotage):
    assert list(written_by(sabotage))


def test_walks_and_pictures_follow_links(tmp_path):
    walks = wk.sample_walks(graphs.karate(), 2)
    (tmp_path / "link.npz").symlink_to("walks.npz")
    walks.save(tmp_path / "link.npz")
    assert (tmp_path / "link.npz").is_symlink()
    again = wk.Walks.load(tmp_path / "walks.npz", graphs.karate())
    assert np.array_equal(again.deposits.loads, walks.deposits.loads)
