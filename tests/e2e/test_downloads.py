"""Downloads from a real server on this machine: good files, wrong ones, half ones, and none at all."""

import hashlib
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import walkernel as wk
from data_sets import DATA, needs_data
from walkernel.datasets import _converters, _sources

CYLINDER = next(source for source in _sources.SOURCES if source.name == "cylinder")
GML = """graph [
  node [ id 0 label "a" gt "x" ]
  node [ id 1 label "b" gt "y" ]
  edge [ source 0 target 1 ]
]
"""
LINKS = b"id_1,id_2\n0,1\n1,2\n2,0\n"
CLASSES = b"id,type\n0,cat\n1,dog\n2,cat\n"


class Server(ThreadingHTTPServer):
    """Serves ``files``, a dict of paths; those in ``cut`` break off half-way."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.cut, self.requests = {}, set(), []

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append(self.path)
        content = self.server.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if self.path in self.server.cut else content)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setattr(_sources, "ADDRESS", running.address)
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.delenv("WALKERNEL_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("WALKERNEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path / "cache"


def left(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def offer(server, source, contents):
    for original, content in zip(source.originals, contents, strict=True):
        server.files["/" + source.address(original).removeprefix(server.address + "/")] = content


def toy(contents, convert, n_nodes, n_edges):
    originals = {f"folder/{name}": hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    repository = "someone/something/commit"
    return _sources.Source("toy", "graphs", n_nodes, n_edges, convert, "none", repository, originals)


def failure(call, *arguments):
    with pytest.raises(OSError, match="Could not get the data set") as caught:
        call(*arguments)
    return str(caught.value)


def test_good_files_are_converted_and_kept(server, cache, tmp_path):
    source = toy({"edges.csv": LINKS, "target.csv": CLASSES}, _converters.from_class_table, 3, 3)
    offer(server, source, [LINKS, CLASSES])
    path = _sources.download(source)
    assert path == cache / "graphs" / "toy.npz"
    assert left(tmp_path) == ["cache/graphs/toy.npz"]
    data = wk.load_dataset(path)
    assert (data.graph.n_edges, data.labels.tolist(), data.label_names) == (3, [0, 1, 0], ("cat", "dog"))
    assert _sources.find_file(source) == path
    folder = "/someone/something/commit/folder"
    assert server.requests == [f"{folder}/edges.csv", f"{folder}/target.csv"]


def test_gml(server):
    source = toy({"a.gml": GML.encode()}, _converters.from_gml, 2, 1)
    offer(server, source, [GML.encode()])
    assert wk.load_dataset(_sources.download(source)).node_names.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        pytest.param("cylinder", "cylinder.stl", marks=needs_data),
        pytest.param("idler_riser", "idler_riser.STL", marks=needs_data),
        pytest.param("cycloidal", "cycloidal.ply", marks=needs_data),
    ],
)
def test_real_meshes_by_their_names(server, cache, name, file):
    source = next(s for s in _sources.SOURCES if s.name.replace("-", "_") == name)
    offer(server, source, [Path(DATA, "meshes", file).read_bytes()])
    first = wk.load_dataset(name)
    assert left(cache) == [f"meshes/{name}.npz"]
    server.files.clear()
    again = wk.load_dataset(name)
    assert len(server.requests) == 1
    stored = wk.load_dataset(Path(DATA, "meshes", f"{name}.npz"))
    assert first.graph.fingerprint == again.graph.fingerprint == stored.graph.fingerprint
    assert abs(again.normals - stored.normals).max() < 1e-12


def test_wrong_content(server, tmp_path):
    offer(server, CYLINDER, [b"solid something else"])
    message = failure(wk.load_dataset, "cylinder")
    assert "'cylinder'" in message
    assert f"{server.address}/mikedh/trimesh/a513c0e" in message
    assert "hash" in message
    assert "$WALKERNEL_DATA/meshes/cylinder.npz" in message
    assert "WALKERNEL_DATA is not set" in message
    assert left(tmp_path) == []


@pytest.mark.parametrize("size", [100, 10**6])
def test_half_a_file(server, tmp_path, size):
    offer(server, CYLINDER, [os.urandom(size)])
    server.cut.update(server.files)
    message = failure(wk.load_dataset, "cylinder")
    assert server.address in message
    assert "$WALKERNEL_DATA/meshes/cylinder.npz" in message
    assert left(tmp_path) == []
    assert len(server.requests) == 1


def test_second_file_missing(server, tmp_path):
    source = toy({"edges.csv": LINKS, "target.csv": CLASSES}, _converters.from_class_table, 3, 3)
    offer(server, source, [LINKS, CLASSES])
    server.files.popitem()
    message = failure(_sources.download, source)
    assert "target.csv" in message
    assert "404" in message
    assert left(tmp_path) == []


def test_no_network(monkeypatch, tmp_path):
    with Server() as closed:
        address = closed.address
    monkeypatch.setattr(_sources, "ADDRESS", address)
    message = failure(wk.load_dataset, "cora")
    assert f"{address}/vlivashkin/community-graphs" in message
    assert "$WALKERNEL_DATA/graphs/cora.npz" in message
    assert str(tmp_path / "cache" / "graphs" / "cora.npz") in message
    assert left(tmp_path) == []


@pytest.mark.parametrize("sizes", [(3, 4), (4, 3)])
def test_another_size_than_stated(server, tmp_path, sizes):
    source = toy({"edges.csv": LINKS, "target.csv": CLASSES}, _converters.from_class_table, *sizes)
    offer(server, source, [LINKS, CLASSES])
    assert "it has 3 nodes and 3 edges" in failure(_sources.download, source)
    assert left(tmp_path) == []


def test_cache_that_cannot_be_written(server, monkeypatch, tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    source = toy({"a.gml": GML.encode()}, _converters.from_gml, 2, 1)
    offer(server, source, [GML.encode()])
    assert "toy" in failure(_sources.download, source)
    assert left(tmp_path) == ["cache"]


def test_pickles_are_not_downloaded(server):
    message = failure(wk.load_dataset, "pubmed")
    assert "pickles" in message
    assert "$WALKERNEL_DATA/graphs/pubmed.npz" in message
    assert server.requests == []


def test_own_folder_comes_before_the_cache(monkeypatch, tmp_path, cache):
    for folder, n_nodes in ((tmp_path / "data", 3), (cache, 5)):
        (folder / "graphs").mkdir(parents=True)
        wk.Graph.from_edges([], n_nodes=n_nodes).save(folder / "graphs" / "pubmed.npz")
    assert wk.load_dataset("pubmed").graph.n_nodes == 5
    monkeypatch.setenv("WALKERNEL_DATA", str(tmp_path / "data"))
    assert wk.load_dataset("pubmed").graph.n_nodes == 3


def test_missing_packages_are_named(server, monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(ImportError, match=r"'cora' needs networkx.*walkernel\[data\].*graphs/cora\.npz"):
        wk.load_dataset("cora")
    monkeypatch.setitem(sys.modules, "pooch", None)
    monkeypatch.delenv("WALKERNEL_CACHE")
    with pytest.raises(ImportError, match=r"'cylinder' needs pooch.*walkernel\[data\].*meshes/cylinder\.npz"):
        wk.load_dataset("cylinder")
    assert server.requests == []


def test_cache_of_the_user(monkeypatch):
    import pooch

    monkeypatch.delenv("WALKERNEL_CACHE")
    assert _sources.cache_folder() == Path(pooch.os_cache("walkernel"))
