"""Graphs to and from files of every format but edge lists, and what is said of damaged ones."""

import os
import sys
from functools import partial
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.io
import scipy.sparse

import files
import graphs
import walkernel as wk
from files import refusal, same
from walkernel.io import read_file

PATH = wk.Graph.from_edges([(0, 1), (1, 2)])
WEIGHTED = wk.Graph.from_edges([(0, 1), (1, 2)], weights=[2.5, -3.0])
SQUARE = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1 2 3\nf 1 3 4\n"
UP = [0.0, 0.0, 1.0]


def dense(graph):
    return graph.to_scipy().toarray()


@pytest.fixture
def put(tmp_path):
    return partial(files.write, tmp_path)


class TestSave:
    @pytest.mark.parametrize(
        "graph",
        [
            graphs.karate(),
            WEIGHTED,
            wk.Graph.from_edges([(0, 1), (1, 1), (2, 0)], weights=[1, 2, 1e-300], directed=True),
            wk.Graph.from_edges([("b", "ä"), ("ä", "")]),
            wk.Graph.from_edges([(10**12, -7), (-7, 3)], relabel=True),
            wk.Graph.from_edges([], n_nodes=4),
        ],
        ids=["karate", "weighted", "directed", "text", "integers", "no-edges"],
    )
    def test_round_trip(self, graph, tmp_path):
        graph.save(tmp_path / "graph.NPZ")
        assert same(wk.load_graph(tmp_path / "graph.NPZ"), graph)
        assert os.listdir(tmp_path) == ["graph.NPZ"]

    def test_no_objects_are_stored(self, tmp_path):
        wk.Graph.from_edges([("a", "b")]).save(tmp_path / "graph.npz")
        with np.load(tmp_path / "graph.npz", allow_pickle=False) as archive:
            assert {archive[key].dtype.kind for key in archive.files} == {"U", "b", "i"}

    @pytest.mark.parametrize(
        ("labels", "error"),
        [
            ([("a", (1, 2))], TypeError),
            ([("a", 1)], TypeError),
            ([("a", None)], TypeError),
            ([(2**70, 1)], TypeError),
            ([("a\0", "b")], ValueError),
        ],
        ids=["tuples", "mixed", "none", "large", "nul"],
    )
    def test_other_labels_are_refused(self, labels, error, tmp_path):
        graph = wk.Graph.from_edges(labels, relabel=True)
        with pytest.raises(error, match=r"Graph\.save: labels must be .*Relabel the nodes first"):
            graph.save(tmp_path / "graph.npz")
        assert os.listdir(tmp_path) == []

    def test_other_suffix_is_refused(self, tmp_path):
        with pytest.raises(ValueError, match=r"ends in \.npz, or a folder: .*, got .*graph\.csv"):
            PATH.save(tmp_path / "graph.csv")
        with pytest.raises(TypeError, match=r"Graph\.save: path must be a path, got 3"):
            PATH.save(3)


class TestArchives:
    def test_scipy(self, tmp_path):
        A = scipy.sparse.csr_array(graphs.random_matrix(8))
        scipy.sparse.save_npz(tmp_path / "A.npz", A)
        assert np.array_equal(dense(wk.load_graph(tmp_path / "A.npz")), A.toarray())
        scipy.sparse.save_npz(tmp_path / "B.npz", scipy.sparse.coo_array(np.triu(A.toarray())))
        assert wk.load_graph(tmp_path / "B.npz").directed

    def test_edges_with_node_data(self, tmp_path):
        arrays = {
            "n": np.array(3),
            "edges": np.array([[1, 2], [0, 1]]),
            "labels": np.array([1, -1, 0], dtype=np.int32),
            "label_names": np.array(["x", "y"]),
            "targets": np.ones((3, 1)),
            "coords": np.zeros((3, 2)),
            "lengths": np.array([12.0, 1.0]),
        }
        np.savez(tmp_path / "data.npz", **arrays)
        data = wk.load_dataset(tmp_path / "data.npz")
        assert same(data.graph, PATH)
        assert data.labels.tolist() == [1, -1, 0]
        assert data.label_names == ("x", "y")
        assert data.lengths.tolist() == [1, 12]
        assert data.coordinates.shape == (3, 2)
        assert data.normals is None
        assert not data.labels.flags.writeable

    @pytest.mark.parametrize("kept", [0.0, 0.05, 0.5, 0.9, 0.999])
    def test_truncated(self, tmp_path, kept):
        path = tmp_path / "cut.npz"
        graphs.karate().save(path)
        path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
        message = refusal(path)
        assert "cut.npz: expected a" in message
        assert "truncated" in message or (kept == 0 and "an empty one" in message)

    def test_flipped_bit(self, tmp_path):
        path = tmp_path / "bad.npz"
        graphs.karate().save(path)
        content = bytearray(path.read_bytes())
        content[content.index(b"indices.npy") + 200] ^= 1
        path.write_bytes(content)
        assert "damaged" in refusal(path)

    def test_pickles_are_never_loaded(self, tmp_path):
        class Bomb:
            def __reduce__(self):
                return Path.touch, (tmp_path / "exploded",)

        objects = np.array([Bomb(), None], dtype=object)
        np.savez(tmp_path / "bomb.npz", edges=objects, n=np.array(2))
        assert "found pickled Python objects in 'edges'" in refusal(tmp_path / "bomb.npz")
        np.save(tmp_path / "bomb.npy", objects)
        (tmp_path / "bomb.npy").rename(tmp_path / "bomb2.npz")
        assert "expected a NumPy archive, found a file of another kind" in refusal(tmp_path / "bomb2.npz")
        assert not (tmp_path / "exploded").exists()

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"indices": np.array([1, 0, 9, 1])}, "not consistent"),
            ({"indptr": np.array([0, 3, 1, 4])}, "not consistent"),
            ({"weights": np.array([1.0, 2.0, 3.0, 4.0])}, "symmetric"),
            ({"weights": np.array([np.nan] * 4)}, "finite"),
            ({"node_labels": np.array(["a", "a", "b"])}, "3 distinct labels"),
            ({"indices": None}, "no array 'indices'"),
        ],
    )
    def test_graphs_that_cannot_be(self, tmp_path, change, reason):
        PATH.save(tmp_path / "good.npz")
        with np.load(tmp_path / "good.npz") as archive:
            arrays = {**archive, **change}
        np.savez(tmp_path / "bad.npz", **{k: v for k, v in arrays.items() if v is not None})
        message = refusal(tmp_path / "bad.npz")
        assert "bad.npz: the archive is not consistent" in message
        assert reason in message

    @pytest.mark.parametrize(
        ("arrays", "reason"),
        [
            ({"edges": [[0, 5]], "n": 3}, "ids below n_nodes=3"),
            ({"edges": [[0, 1]]}, "no array 'n'"),
            (
                {"edges": [[0, 1]], "n": 2, "labels": [1, 2, 3]},
                "labels must have one entry for each node (2)",
            ),
            ({"edges": [[0, 1]], "n": 2, "lengths": [1, 2]}, "lengths must have one entry for each edge (1)"),
            ({"x": [1]}, "found one with x"),
        ],
    )
    def test_other_archives(self, tmp_path, arrays, reason):
        np.savez(tmp_path / "bad.npz", **{key: np.array(value) for key, value in arrays.items()})
        assert reason in refusal(tmp_path / "bad.npz")


class TestMatrices:
    @pytest.mark.parametrize("name", ["A.mtx", "A.mtx.gz"])
    def test_matrix_market(self, tmp_path, put, name):
        A = graphs.random_matrix(8)
        scipy.io.mmwrite(tmp_path / "plain.mtx", scipy.sparse.coo_array(A))
        path = put(name, (tmp_path / "plain.mtx").read_bytes())
        assert np.array_equal(dense(wk.load_graph(path)), A)

    def test_direction(self, put):
        path = put("d.mtx", "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 2\n")
        assert wk.load_graph(path).directed
        assert "symmetric for directed=False" in refusal(path, directed=False)

    def test_malformed(self, put):
        bad = put("bad.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 x\n")
        assert "bad.mtx: expected a Matrix Market file, found an error in it (Line 3" in refusal(bad)
        assert "not.mtx" in refusal(put("not.mtx", "hello\n"))
        wide = put("wide.mtx", "%%MatrixMarket matrix coordinate real general\n2 3 1\n1 2 1\n")
        assert "a square matrix" in refusal(wide)
        path = put("cut.mtx.gz", "%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 1\n")
        path.write_bytes(path.read_bytes()[:-9])
        assert "truncated" in refusal(path)


class TestMarkups:
    @pytest.mark.parametrize("suffix", [".graphml", ".gml", ".GML", ".gml.gz", ".graphml.gz"])
    def test_round_trip(self, tmp_path, put, suffix):
        G = nx.Graph([("a", "b", {"weight": 2.0}), ("b", "ä", {"weight": 0.5})])
        kind = "graphml" if "graphml" in suffix else "gml"
        getattr(nx, f"write_{kind}")(G, tmp_path / "plain")
        path = put("G" + suffix, (tmp_path / "plain").read_bytes())
        assert same(wk.load_graph(path), wk.Graph.from_networkx(G))

    def test_gml_without_labels(self, put):
        path = put("ids.gml", "graph [ node [ id 0 ] node [ id 1 ] edge [ source 0 target 1 ] ]")
        assert same(wk.load_graph(path), wk.Graph.from_edges([(0, 1)]))

    @pytest.mark.parametrize(
        ("name", "text"),
        [("bad.gml", "graph [\n node [ id 0\n"), ("bad.graphml", "<graphml>"), ("e.gml", "")],
    )
    def test_malformed(self, put, name, text):
        assert f"{name}: expected a G" in refusal(put(name, text))

    def test_unusable_weights(self, put):
        text = 'graph [ node [ id 0 ] node [ id 1 ] edge [ source 0 target 1 weight "x" ] ]'
        assert "w.gml" in refusal(put("w.gml", text))


class TestMeshes:
    def test_node_data(self, put):
        contents = read_file(put("square.OBJ", SQUARE))
        assert (contents.graph.n_nodes, contents.graph.n_edges) == (4, 5)
        assert contents.data["normals"].tolist() == [UP] * 4
        data = wk.load_dataset(str(put("square.obj", SQUARE)))
        assert (data.name, data.coordinates.shape, data.faces.shape) == ("square.obj", (4, 3), (2, 3))

    def test_equal_vertices_are_merged(self, put):
        corners = [((0, 0, 0), (1, 0, 0), (1, 1, 0)), ((0, 0, 0), (1, 1, 0), (0, 1, 0))]
        facets = [
            "facet normal 0 0 1\nouter loop\n"
            + "".join("vertex {} {} {}\n".format(*corner) for corner in face)
            + "endloop\nendfacet\n"
            for face in corners
        ]
        graph = wk.load_graph(put("square.stl", "solid s\n" + "".join(facets) + "endsolid s\n"))
        assert (graph.n_nodes, graph.n_edges) == (4, 5)

    @pytest.mark.parametrize(
        ("name", "text"), [("bad.stl", "solid x\nfoo"), ("bad.ply", "ply\n"), ("points.obj", "v 0 0 0\n")]
    )
    def test_malformed(self, put, name, text):
        assert f"{name}: expected a .{name[-3:]} mesh, found" in refusal(put(name, text))


class TestDoor:
    def test_unknown_suffix_lists_the_known(self, put):
        message = refusal(put("graph.xls", ""))
        assert all(suffix in message for suffix in (".npz", ".csv.gz", ".stl", ".graphml", "graph.xls"))
        assert "graph.npz.gz" in refusal(put("graph.npz.gz", ""))

    def test_missing_file_and_folder(self, tmp_path):
        assert "nowhere.csv" in refusal(tmp_path / "nowhere.csv", FileNotFoundError)
        (tmp_path / "folder.csv").mkdir()
        assert "it is a folder" in refusal(tmp_path / "folder.csv", IsADirectoryError)
        assert "path must be a path, got 3" in refusal(3, TypeError)

    def test_options_are_checked(self, put, tmp_path):
        PATH.save(tmp_path / "graph.npz")
        assert "directed must be False or None" in refusal(tmp_path / "graph.npz", directed=True)
        assert "Only edge lists are relabelled" in refusal(tmp_path / "graph.npz", relabel=True)
        assert wk.load_graph(tmp_path / "graph.npz", directed=False).n_edges == 2
        assert "relabel must be True or False" in refusal(put("a.csv", "0,1"), TypeError, relabel="yes")
        assert "directed must be True or False" in refusal(put("a.csv", "0,1"), TypeError, directed=2)

    @pytest.mark.parametrize(
        ("name", "package", "extra"),
        [("a.stl", "trimesh", "mesh"), ("a.gml", "networkx", "data"), ("a.graphml.gz", "networkx", "data")],
    )
    def test_missing_packages_are_named(self, put, monkeypatch, name, package, extra):
        monkeypatch.setitem(sys.modules, package, None)
        suffix = Path(name.removesuffix(".gz")).suffix
        expected = (
            f"Reading {suffix} files needs {package}. Install it with `pip install walkernel[{extra}]`."
        )
        assert refusal(put(name, "x"), ImportError) == expected


def test_edge_archives_of_the_wrong_shape_are_refused(tmp_path):
    path = tmp_path / "turned.npz"
    np.savez(path, edges=np.array([[0, 1, 2], [3, 4, 5]]), n=6)
    with pytest.raises(ValueError, match="transpose"):
        wk.load_graph(path)
    np.savez(path, edges=np.array([[0, 1], [1, 2]]), n=3, directed=True)
    assert wk.load_graph(path).directed
    np.savez(path, edges=np.array([[0, 1], [1, 0], [1, 2]]), n=3, lengths=np.ones(3))
    with pytest.raises(ValueError, match="lengths"):
        wk.load_dataset(path)
