"""Graphs: constructors, repeats, labels, addressing, matrices, immutability."""

import copy
import pickle
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone

import graphs
import walkernel as wk


def dense(graph, matrix="adjacency"):
    return graph.to_scipy(matrix).toarray()


class TestEdges:
    def test_ids(self):
        graph = wk.Graph.from_edges(np.array([[0, 1], [1, 2]]), n_nodes=5)
        assert (graph.n_nodes, graph.n_edges, graph.labels) == (5, 2, None)
        assert graph.indices.dtype == np.int32
        assert np.array_equal(dense(graph), dense(graph).T)

    def test_labels_are_numbered_by_first_appearance_and_never_coerced(self):
        graph = wk.Graph.from_edges([("b", (1, 2)), ((1, 2), 3), (3, "b"), (None, "b")])
        assert graph.labels == ("b", (1, 2), 3, None)
        assert [type(label) for label in graph.labels] == [str, tuple, int, type(None)]

    def test_integers_as_labels(self):
        graph = wk.Graph.from_edges([(10**9, 7), (7, 42)], relabel=True)
        assert graph.labels == (10**9, 7, 42)
        assert graph.ids([42, 10**9]).tolist() == [2, 0]
        assert graph.ids(np.array([[7], [42]])).tolist() == [[1], [2]]

    def test_generator_and_arrays_of_objects_and_frames(self):
        pairs = [(0, 1), (1, 2)]
        for edges in (
            (pair for pair in pairs),
            np.array(pairs, dtype=object),
            pd.DataFrame(pairs),
            np.uint8(pairs),
        ):
            assert wk.Graph.from_edges(edges).n_edges == 2
        assert wk.Graph.from_edges(np.array([["a", "b"]])).labels == ("a", "b")

    def test_repeats_collapse_without_weights_and_add_with_them(self):
        edges = [(0, 1), (1, 0), (0, 1), (1, 1)]
        assert dense(wk.Graph.from_edges(edges)).tolist() == [[0, 1], [1, 1]]
        summed = wk.Graph.from_edges(edges, weights=[0.1, 0.2, 0.3, 2])
        assert np.allclose(dense(summed), [[0, 0.6], [0.6, 2]])
        assert summed.n_edges == 2

    def test_sums_are_symmetric_to_the_last_bit(self):
        rng = np.random.default_rng(0)
        edges = rng.integers(0, 5, (400, 2))
        A = dense(wk.Graph.from_edges(edges, weights=rng.random(400)))
        assert np.array_equal(A, A.T)

    def test_exact_repeats_of_directed_edges_warn(self):
        with pytest.warns(UserWarning, match="1 repeated edges were collapsed"):
            graph = wk.Graph.from_edges([(0, 1), (0, 1), (1, 0)], directed=True)
        assert graph.n_edges == 2

    def test_zero_weights_are_no_edges(self):
        graph = wk.Graph.from_edges([(0, 1), (1, 2), (1, 2)], weights=[1, 2, -2])
        assert graph.n_edges == 1
        assert graph.n_nodes == 3

    def test_weights_of_one_are_not_stored(self):
        assert wk.Graph.from_edges([(0, 1)], weights=[1.0]).weights is None

    def test_no_edges(self):
        graph = wk.Graph.from_edges([], n_nodes=3)
        assert graph.n_edges == 0
        assert np.array_equal(wk.exact_kernel(graph, wk.Diffusion(1.0)), np.exp(-0.5) * np.eye(3))

    def test_self_loops_count_once(self):
        graph = wk.Graph.from_edges([(0, 0), (0, 1)], weights=[3.0, 1.0])
        assert graph.n_edges == 2
        assert graph.n_self_loops == 1
        assert graph.out_degrees().tolist() == [4, 1]


class TestOtherSources:
    @pytest.mark.parametrize("form", ["csr_array", "csc_matrix", "coo_array", "lil_array"])
    def test_scipy(self, form):
        A = graphs.random_matrix(8)
        graph = wk.Graph.from_scipy(getattr(scipy.sparse, form)(A))
        assert np.array_equal(dense(graph), A)
        assert not graph.directed

    def test_direction_is_told_by_exact_symmetry(self):
        A = np.array([[0, 1.0], [np.nextafter(1, 2), 0]])
        assert wk.Graph.from_scipy(A).directed
        assert wk.Graph.from_scipy((A + A.T) / 2).directed is False
        assert wk.Graph.from_scipy(np.eye(2), directed=True).directed

    def test_input_is_copied(self):
        A = scipy.sparse.csr_array(graphs.random_matrix(8) * 2)
        graph = wk.Graph.from_scipy(A)
        A.data[:] = 0
        assert graph.weights.min() == 2

    def test_networkx_round_trip(self):
        for G in (nx.karate_club_graph(), nx.DiGraph([("x", "y"), ("y", "z")]), nx.path_graph(4)):
            back = wk.Graph.from_networkx(G).to_networkx()
            assert set(back.edges) == set(G.edges)
            assert [d.get("weight", 1) for *_, d in back.edges(data=True)] == [
                d.get("weight", 1) for *_, d in G.edges(data=True)
            ]

    def test_networkx_labels_isolated_nodes_and_parallel_edges(self):
        G = nx.MultiGraph()
        G.add_nodes_from(["lonely", "a", "b"])
        G.add_edge("a", "b", weight=2)
        G.add_edge("a", "b")
        graph = wk.Graph.from_networkx(G)
        assert graph.labels == ("lonely", "a", "b")
        assert graph.weights.tolist() == [3, 3]
        assert wk.Graph.from_networkx(G, weight=None).weights is None
        assert wk.Graph.from_networkx(nx.path_graph(3)).labels is None

    def test_pyg_entries_are_directed_and_symmetry_is_seen(self):
        both = SimpleNamespace(
            edge_index=np.array([[0, 1, 1, 2], [1, 0, 2, 1]]),
            edge_weight=np.array([3.0, 3, 4, 4]),
            num_nodes=4,
        )
        graph = wk.Graph.from_pyg(both)
        assert (graph.directed, graph.n_nodes, graph.n_edges) == (False, 4, 2)
        assert dense(graph)[0, 1] == 3
        one_way = SimpleNamespace(edge_index=np.array([[0, 1, 1], [1, 2, 2]]))
        assert wk.Graph.from_pyg(one_way).directed
        assert wk.Graph.from_pyg(one_way).weights is None


class TestAddressing:
    def test_labels_of_every_shape(self):
        graph = wk.Graph.from_edges([("a", "b"), ("b", ("c", 1))])
        assert graph.ids("a").shape == ()
        assert graph.ids(("c", 1)).item() == 2, "a tuple that is a label is one node"
        assert graph.ids(("a", "b")).tolist() == [0, 1], "a tuple that is none is a list of nodes"
        assert graph.ids([["a"], ["b"]]).tolist() == [[0], [1]]
        assert graph.ids(pd.Series(["b", "a"])).tolist() == [1, 0]
        assert graph.names(np.array([[2, 0]])).tolist() == [[("c", 1), "a"]]

    def test_ids_of_every_shape(self):
        graph = graphs.karate()
        assert graph.ids(3).shape == ()
        assert graph.ids([[1, 2]]).tolist() == [[1, 2]]
        assert graph.ids([]).shape == (0,)
        assert graph.names(np.array([1])).tolist() == [1]

    def test_an_id_is_not_a_label(self):
        with pytest.raises(ValueError, match="labels only"):
            wk.Graph.from_edges([("a", "b")]).ids([0])


class TestMatrices:
    @pytest.mark.parametrize("kind", graphs.KINDS)
    def test_definitions(self, kind):
        graph = graphs.KINDS[kind]()
        A = dense(graph)
        d_out, d_in = np.abs(A).sum(axis=1), np.abs(A).sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            normalized = np.nan_to_num(A / np.sqrt(np.outer(d_out, d_in)))
        assert np.allclose(dense(graph, "normalized"), normalized, rtol=1e-14)
        assert np.allclose(dense(graph, "combinatorial"), np.eye(len(A)) - (np.diag(d_out) - A) / d_out.max())
        if kind != "signed":
            with np.errstate(divide="ignore", invalid="ignore"):
                P = np.nan_to_num(A / d_out[:, None])
            assert np.allclose(dense(graph, "random-walk"), P, rtol=1e-14)
            assert np.allclose(dense(graph, "random-walk").sum(axis=1), d_out > 0)

    def test_steps_with_negative_weights_are_refused(self):
        graph = graphs.signed()
        for _ in range(2):
            with pytest.raises(
                ValueError, match=r"without negative weights.*got weights down to -1.*normalized"
            ):
                graph.to_scipy("random-walk")

    @pytest.mark.parametrize("kind", graphs.KINDS)
    @pytest.mark.parametrize("matrix", ["adjacency", "normalized", "combinatorial", "random-walk"])
    def test_which_matrices_are_symmetric(self, kind, matrix):
        graph = graphs.KINDS[kind]()
        if (kind, matrix) != ("signed", "random-walk"):
            M = dense(graph, matrix)
            assert graph.is_symmetric(matrix) == np.allclose(M, M.T)

    @pytest.mark.parametrize("kind", graphs.KINDS)
    def test_norms_are_at_most_one(self, kind):
        graph = graphs.KINDS[kind]()
        assert np.linalg.norm(dense(graph, "normalized"), 2) <= 1 + 1e-12
        assert np.abs(dense(graph, "combinatorial")).sum(axis=1).max() <= 1 + 1e-12

    def test_negative_self_loops_stay_in_the_unit_disc(self):
        graph = wk.Graph.from_edges([(0, 0), (0, 1), (1, 2)], weights=[-3.0, 1.0, 2.0])
        assert np.abs(dense(graph, "combinatorial")).sum(axis=1).max() <= 1 + 1e-12


class TestDerivedGraphs:
    def test_reversed(self):
        graph = graphs.directed()
        assert np.array_equal(dense(graph.reversed()), dense(graph).T)
        assert graph.reversed().reversed() is graph
        assert graphs.karate().reversed().n_edges == 78

    def test_largest_component_keeps_names(self):
        graph = wk.Graph.from_edges([(0, 1), (4, 3), (3, 2)], n_nodes=6)
        part = graph.largest_component()
        assert part.labels == (2, 3, 4)
        assert part.n_edges == 2
        named = wk.Graph.from_edges(
            [("a", "b"), ("c", "d"), ("d", "e")], weights=[1, 2, 3]
        ).largest_component()
        assert named.labels == ("c", "d", "e")
        assert sorted(named.weights.tolist()) == [2, 2, 3, 3]
        assert graphs.karate().largest_component().labels is None

    def test_weakly_connected_if_directed(self):
        graph = wk.Graph.from_edges([(0, 1), (2, 1), (3, 4)], directed=True)
        assert graph.largest_component().labels == (0, 1, 2)


class TestProtocols:
    def test_arrays_are_read_only(self):
        for array in (graphs.weighted().indptr, graphs.weighted().indices, graphs.weighted().weights):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1

    def test_pickle_drops_what_is_derived(self):
        graph = wk.Graph.from_edges([("a", "b"), ("b", "c")], weights=[1.0, 2.0])
        graph.out_degrees()
        back = pickle.loads(pickle.dumps(graph))
        assert back._derived == {}
        assert back.labels == graph.labels
        assert back.fingerprint == graph.fingerprint
        assert not back.weights.flags.writeable

    def test_fingerprint_sees_weights_and_direction(self):
        prints = {wk.Graph.from_edges([(0, 1)], weights=[w]).fingerprint for w in (1.0, 2.0)}
        prints.add(wk.Graph.from_scipy(np.array([[0, 1], [1, 0]]), directed=True).fingerprint)
        assert len(prints) == 3

    def test_clones_and_copies_are_the_graph_itself(self):
        graph = graphs.karate()
        assert clone(graph) is graph
        assert copy.copy(graph) is graph
        assert copy.deepcopy(graph) is graph

    def test_repr_is_short(self):
        assert repr(graphs.karate()) == "Graph(n_nodes=34, n_edges=78, undirected, unweighted)"
        assert repr(graphs.directed()).endswith("directed, weighted)")
        assert repr(wk.Graph.from_edges([("a", "b")])).endswith("undirected, unweighted, labelled)")
