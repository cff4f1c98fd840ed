"""From original files of data sets to arrays: small files in the form of the real ones."""

import gzip
import lzma

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from walkernel.datasets import _converters as convert

GML = """graph [
  node [ id 5 label "10" gt "2" ]
  node [ id 7 label "x" gt "10" ]
  node [ id 8 label "y" ]
  edge [ source 7 target 5 value 2.0 ]
  edge [ source 8 target 7 value 1.0 ]
  edge [ source 8 target 8 value 1.0 ]
]
"""


def lists(arrays):
    return {key: value.tolist() for key, value in arrays.items()}


def test_gml(tmp_path):
    (tmp_path / "a.gml").write_text(GML)
    assert lists(convert.from_gml([tmp_path / "a.gml"])) == {
        "n": 3,
        "edges": [[0, 1], [1, 2]],
        "self_loops": [2],
        "node_names": ["10", "x", "y"],
        "labels": [0, 1, -1],
        "label_names": ["2", "10"],
        "edge_value": [2.0, 1.0],
    }


def test_gml_without_values(tmp_path):
    (tmp_path / "a.gml").write_text(GML.replace(" value 2.0", "").replace(" value 1.0", ""))
    assert "edge_value" not in convert.from_gml([tmp_path / "a.gml"])


def test_tables_of_classes(tmp_path):
    (tmp_path / "edges.csv").write_text("id_1,id_2\n2,0\n0,2\n1,1\n0,1\n")
    (tmp_path / "target.csv").write_text('id,name,type\n0,"a, b",shop\n2,c,art\n1,d,shop\n', encoding="utf-8")
    paths = [tmp_path / "edges.csv", tmp_path / "target.csv"]
    assert lists(convert.from_class_table(paths)) == {
        "n": 3,
        "edges": [[0, 1], [0, 2]],
        "self_loops": [1],
        "labels": [1, 1, 0],
        "label_names": ["art", "shop"],
    }


def test_tables_of_targets(tmp_path):
    (tmp_path / "edges.csv").write_text("id1,id2\n1,0\n")
    (tmp_path / "target.csv").write_text("id,target\n0,171\n1,8089\n")
    paths = [tmp_path / "edges.csv", tmp_path / "target.csv"]
    found = lists(convert.from_target_table(paths))
    assert found == {
        "n": 2,
        "edges": [[0, 1]],
        "targets": [[171.0], [8089.0]],
        "target_names": ["monthly_traffic"],
    }
    paths[1].write_text("id,target\n0,171\n5,8089\n")
    with pytest.raises(ValueError, match=r"target\.csv must list the nodes 0 to 1"):
        convert.from_target_table(paths)
    paths[0].write_text("id1,id2\n1,0\n1,x\n")
    paths[1].write_text("id,target\n0,171\n1,8089\n")
    with pytest.raises(ValueError, match=r"edges\.csv, line 3: expected a whole number"):
        convert.from_target_table(paths)


def test_links_with_gaps(tmp_path):
    text = "# Directed graph\n# FromNodeId\tToNodeId\n0\t40\n40\t0\n40\t7\n"
    (tmp_path / "links.txt.gz").write_bytes(gzip.compress(text.encode()))
    assert lists(convert.from_links([tmp_path / "links.txt.gz"])) == {"n": 3, "edges": [[0, 2], [1, 2]]}


def test_matlab(tmp_path):
    A = scipy.sparse.csc_array(np.array([[0, 1.0, 0], [1, 0, 2], [0, 2, 0]]))
    scipy.io.savemat(tmp_path / "m.mat", {"A": A, "xy": np.arange(6).reshape(3, 2), "labels": "x"})
    found = lists(convert.from_matlab([tmp_path / "m.mat"]))
    assert found == {"n": 3, "edges": [[0, 1], [1, 2]], "coords": [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]}


@pytest.mark.parametrize(
    "text",
    ["c hi\np tw 4 2\n1 2\nc mid\n3 2\n", "p sp 4 2\na 1 2 55\n\na 3 2 7\n", "p edge 4 2\ne 1 2\ne 2 3"],
)
def test_dimacs(tmp_path, text):
    (tmp_path / "g.gr.xz").write_bytes(lzma.compress(text.encode()))
    assert lists(convert.from_dimacs([tmp_path / "g.gr.xz"])) == {"n": 4, "edges": [[0, 1], [1, 2]]}


def test_dimacs_without_a_size(tmp_path):
    (tmp_path / "g.gr.xz").write_bytes(lzma.compress(b"1 2\n"))
    with pytest.raises(ValueError, match=r"g\.gr\.xz has no line that begins with p"):
        convert.from_dimacs([tmp_path / "g.gr.xz"])


def test_mesh(tmp_path):
    (tmp_path / "m.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    found = lists(convert.from_mesh([tmp_path / "m.obj"]))
    assert found["edges"] == [[0, 1], [0, 2], [1, 2]]
    assert found["normals"] == [[0, 0, 1]] * 3
    assert sorted(found) == ["edges", "faces", "n", "normals", "vertices"]
