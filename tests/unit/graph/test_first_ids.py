"""Ids that begin at 1, as in other languages: the isolated node 0 is told of."""

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.io
import scipy.sparse

import files
import walkernel as wk

FROM_ONE = [(1, 2), (2, 3), (3, 1)]
MESSAGE = (
    r"^Graph.from_edges: edges begin at the id 1, so that node 0 has no edge: ids count from 0\. Subtract 1"
)


@pytest.mark.parametrize("edges", [FROM_ONE, np.array(FROM_ONE)], ids=["list", "array"])
@pytest.mark.parametrize("directed", [False, True])
def test_edges(edges, directed):
    with pytest.warns(UserWarning, match=MESSAGE) as caught:
        graph = wk.Graph.from_edges(edges, directed=directed)
    assert graph.n_nodes == 4
    assert [warning.filename for warning in caught] == [__file__]
    assert "Pass relabel=True" in str(caught[0].message)


def test_later_first_ids():
    with pytest.warns(
        UserWarning, match=r"begin at the id 3, so that the nodes 0 to 2 have no edge.*Subtract 3"
    ):
        wk.Graph.from_edges([(3, 4)])


def test_what_was_meant_is_silent():
    assert wk.Graph.from_edges(FROM_ONE, n_nodes=4).n_nodes == 4
    assert wk.Graph.from_edges(FROM_ONE, relabel=True).n_nodes == 3
    assert wk.Graph.from_edges([(0, 1), (2, 1)]).n_nodes == 3
    assert wk.Graph.from_edges([("1", "2")]).n_nodes == 2
    assert wk.Graph.from_edges([], n_nodes=2).n_nodes == 2


def test_edge_lists(tmp_path):
    path = files.write(tmp_path, "edges.txt", "1 2\n2 3\n")
    with pytest.warns(
        UserWarning, match=r"^load_graph: the nodes of .*edges.txt begin at the id 1"
    ) as caught:
        assert wk.load_graph(path).n_nodes == 4
    assert [warning.filename for warning in caught] == [__file__]
    assert wk.load_graph(path, relabel=True).n_nodes == 3


def test_matrix_market_counts_from_one(tmp_path):
    matrix = scipy.sparse.coo_array(([1.0, 1.0], ([0, 1], [1, 0])), shape=(2, 2))
    scipy.io.mmwrite(tmp_path / "a.mtx", matrix)
    assert wk.load_graph(tmp_path / "a.mtx").n_nodes == 2


def test_archives_say_their_number_of_nodes(tmp_path):
    np.savez(tmp_path / "a.npz", edges=np.array(FROM_ONE), n=np.array(4))
    assert wk.load_graph(tmp_path / "a.npz").n_nodes == 4


def test_edge_index():
    data = SimpleNamespace(edge_index=np.array(FROM_ONE).T)
    with pytest.warns(UserWarning, match=r"Graph.from_pyg: edge_index begin at the id 1"):
        wk.Graph.from_pyg(data)
    assert wk.Graph.from_pyg(SimpleNamespace(edge_index=np.array(FROM_ONE).T, num_nodes=4)).n_nodes == 4
