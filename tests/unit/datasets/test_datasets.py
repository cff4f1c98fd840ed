"""Data sets: built in, drawn at random, and from files where WALKERNEL_DATA names them."""

import dataclasses
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.sparse.csgraph

import walkernel as wk
from data_sets import DATA, needs_data
from walkernel import datasets
from walkernel.datasets import _random_graphs as _random
from walkernel.datasets import _sources
from walkernel.io import read_file

CLASSES = {
    **{"dolphins": 2, "polbooks": 3, "football": 12, "databases": 7, "eurosis": 13, "cora": 7, "citeseer": 6},
    **{"pubmed": 3, "facebook_pages": 4, "lastfm_asia": 18},
}
SIZES = {
    "dolphins": (62, 159),
    "polbooks": (105, 441),
    "football": (115, 613),
    "databases": (1046, 3186),
    "eurosis": (1272, 6454),
    "cora": (2485, 5069),
    "citeseer": (3327, 4552),
    "pubmed": (19717, 44324),
    "facebook_pages": (22470, 170823),
    "lastfm_asia": (7624, 27806),
    "wiki_chameleon": (2277, 31371),
    "minnesota": (2642, 3303),
    "road_fla": (1070376, 1343951),
    "soc_epinions": (75879, 405740),
}
MESHES = {
    "cylinder": (210, 624),
    "teapot": (480, 1373),
    "idler-riser": (782, 2358),
    "busted": (1941, 5817),
    "torus": (4350, 13050),
    "cycloidal": (21384, 64810),
}
ORIGINALS = ["cylinder.stl", "teapot.stl", "idler_riser.STL", "busted.STL", "torus.STL", "cycloidal.ply"]


def size(graph):
    return graph.n_nodes, graph.n_edges


def is_simple(graph):
    return graph.n_self_loops == 0 and graph.weights is None and not graph.directed


class TestBuiltIn:
    def test_karate_is_zacharys(self):
        data = wk.load_dataset("karate")
        reference = nx.karate_club_graph()
        assert set(data.graph.to_networkx().edges) == set(reference.edges)
        assert data.graph.weights is None
        assert data.labels.tolist() == [int(reference.nodes[i]["club"] != "Mr. Hi") for i in range(34)]

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("binary-tree", (127, 126)),
            ("d-regular", (100, 200)),
            ("grid", (400, 760)),
            ("barabasi-albert", (100, 196)),
            ("torus-mesh", (800, 2400)),
            ("cylinder-mesh", (290, 864)),
        ],
    )
    def test_sizes(self, name, expected):
        assert size(wk.load_dataset(name).graph) == expected

    def test_names_in_any_spelling(self):
        assert wk.load_dataset("Binary_Tree").name == "binary-tree"

    def test_default_parameters(self):
        assert wk.load_dataset("erdos-renyi").graph.fingerprint == (
            datasets.erdos_renyi(100, 0.04, seed=0).graph.fingerprint
        )
        assert set(wk.load_dataset("d-regular").graph.out_degrees()) == {4}

    def test_frozen(self):
        data = wk.load_dataset("karate")
        with pytest.raises(dataclasses.FrozenInstanceError):
            data.name = "other"
        with pytest.raises(ValueError, match="read-only"):
            data.labels[0] = 5
        assert repr(data).endswith("unweighted), labels, label_names)")

    def test_binary_tree(self):
        expected = nx.balanced_tree(2, 4)
        assert set(datasets.binary_tree(4).graph.to_networkx().edges) == set(expected.edges)
        assert size(datasets.binary_tree(0).graph) == (1, 0)

    def test_grid(self):
        data = datasets.grid(3, 4)
        expected = nx.relabel_nodes(nx.grid_2d_graph(3, 4), lambda place: 4 * place[0] + place[1])
        assert {frozenset(e) for e in data.graph.to_networkx().edges} == {
            frozenset(e) for e in expected.edges
        }
        rows, columns = data.graph.to_scipy().nonzero()
        steps = data.coordinates[rows] - data.coordinates[columns]
        assert np.array_equal(np.abs(steps).sum(axis=1), np.ones(len(steps)))


class TestRandom:
    @pytest.mark.parametrize(("n_nodes", "p_edge"), [(30, 0.1), (12, 0.9)])
    def test_erdos_renyi_has_the_right_law(self, n_nodes, p_edge):
        draws = [datasets.erdos_renyi(n_nodes, p_edge, seed=seed).graph for seed in range(400)]
        assert all(is_simple(graph) for graph in draws)
        mean = sum(graph.to_scipy().toarray() for graph in draws) / len(draws)
        pairs = mean[np.triu_indices(n_nodes, 1)]
        z = (pairs - p_edge) / np.sqrt(p_edge * (1 - p_edge) / len(draws))
        assert abs(z.sum() / np.sqrt(z.size)) < 4
        assert 0.7 < (z**2).mean() < 1.3

    def test_erdos_renyi_ends(self):
        assert size(datasets.erdos_renyi(50, 0).graph) == (50, 0)
        assert size(datasets.erdos_renyi(50, 1).graph) == (50, 1225)
        assert size(datasets.erdos_renyi(1, 0.5).graph) == (1, 0)

    def test_pairs_are_numbered_without_gaps(self):
        ranks = np.arange(500 * 499 // 2)
        expected = np.array([(j, i) for i in range(500) for j in range(i)])
        assert np.array_equal(_random._pairs(ranks), expected)
        far = np.array([2**52 + 12345])
        ((low, high),) = _random._pairs(far).tolist()
        assert high * (high - 1) // 2 + low == far[0]
        assert 0 <= low < high

    @pytest.mark.parametrize(
        ("n_nodes", "degree"), [(2, 1), (5, 2), (6, 3), (7, 6), (60, 29), (60, 40), (9, 0)]
    )
    def test_random_regular(self, n_nodes, degree):
        for seed in range(10):
            graph = datasets.random_regular(n_nodes, degree, seed=seed).graph
            assert is_simple(graph)
            assert np.array_equal(graph.out_degrees(), np.full(n_nodes, degree))

    def test_random_regular_is_close_to_uniform(self):
        """There are 70 cubic graphs on six labelled nodes: 10 of K₃,₃'s shape, 60 prisms."""
        bipartite = sum(
            nx.is_bipartite(datasets.random_regular(6, 3, seed=seed).graph.to_networkx())
            for seed in range(700)
        )
        assert 60 < bipartite < 160

    def test_barabasi_albert(self):
        graph = datasets.barabasi_albert(3000, 3, seed=1).graph
        assert is_simple(graph)
        assert size(graph) == (3000, 3 * (3000 - 3))
        assert scipy.sparse.csgraph.connected_components(graph.to_scipy())[0] == 1
        assert graph.out_degrees().max() > 60

    def test_stochastic_block_model(self):
        data = datasets.stochastic_block_model((200, 100), 0.1, 0.02, seed=2)
        assert data.labels.tolist() == [0] * 200 + [1] * 100
        assert is_simple(data.graph)
        rows, columns = scipy.sparse.triu(data.graph.to_scipy()).nonzero()
        inside = data.labels[rows] == data.labels[columns]
        trials = np.array([200 * 199 / 2 + 100 * 99 / 2, 200 * 100])
        chance = np.array([0.1, 0.02])
        z = (np.array([inside.sum(), (~inside).sum()]) - trials * chance) / np.sqrt(trials * chance)
        assert np.abs(z).max() < 4

    @pytest.mark.parametrize(
        "draw",
        [
            lambda seed: datasets.erdos_renyi(60, 0.1, seed=seed),
            lambda seed: datasets.random_regular(60, 3, seed=seed),
            lambda seed: datasets.barabasi_albert(60, 2, seed=seed),
            lambda seed: datasets.stochastic_block_model((30, 30), 0.3, 0.1, seed=seed),
        ],
    )
    def test_the_seed_decides(self, draw):
        assert draw(5).graph.fingerprint == draw(5).graph.fingerprint
        assert draw(5).graph.fingerprint != draw(6).graph.fingerprint

    def test_a_hundred_thousand_nodes(self):
        assert datasets.random_regular(10**5, 4).graph.n_edges == 2 * 10**5
        assert abs(datasets.erdos_renyi(10**5, 1e-4).graph.n_edges - 5e5) < 5 * np.sqrt(5e5)

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: datasets.erdos_renyi(0, 0.5), "n_nodes must be a whole number of at least 1, got 0"),
            (lambda: datasets.erdos_renyi(5, 1.5), "p_edge must be a probability from 0 to 1, got 1.5"),
            (lambda: datasets.erdos_renyi(5, -0.1), "p_edge must be .* of at least 0, got -0.1"),
            (lambda: datasets.erdos_renyi(5, 0.1, seed=-1), "seed must be .* at least 0, got -1"),
            (lambda: datasets.random_regular(5, 3), "n_nodes × degree must be even.* got 5 × 3"),
            (lambda: datasets.random_regular(5, 5), "degree must be a whole number from 0 to 4, got 5"),
            (lambda: datasets.barabasi_albert(5, 5), "n_links must be a whole number from 1 to 4, got 5"),
            (lambda: datasets.stochastic_block_model((3, 0)), r"sizes\[1\] must be .* at least 1, got 0"),
            (lambda: datasets.stochastic_block_model((3,), 2), "p_within must be a probability"),
            (lambda: datasets.binary_tree(-1), "depth must be a whole number from 0 to 30, got -1"),
            (lambda: datasets.grid(0, 3), "n_rows must be a whole number of at least 1, got 0"),
            (lambda: datasets.torus_mesh(2, 3), "n_major must be .* at least 3, got 2"),
            (lambda: datasets.cylinder_mesh(3, 1), "n_along must be .* at least 2, got 1"),
        ],
    )
    def test_bad_parameters(self, call, message):
        with pytest.raises(ValueError, match=message):
            call()

    def test_sizes_must_be_a_list(self):
        with pytest.raises(TypeError, match="sizes must be a non-empty list"):
            datasets.stochastic_block_model(30)


class TestSurfaces:
    @pytest.mark.parametrize(
        ("data", "euler", "volume"),
        [
            (datasets.torus_mesh(200, 100), 0, 2 * np.pi**2 * 0.4**2),
            (datasets.torus_mesh(3, 3), 0, None),
            (datasets.cylinder_mesh(200, 4), 2, 2 * np.pi),
            (datasets.cylinder_mesh(3, 2), 2, None),
        ],
    )
    def test_closed_and_facing_outward(self, data, euler, volume):
        assert data.graph.n_nodes - data.graph.n_edges + len(data.faces) == euler
        assert 3 * len(data.faces) == 2 * data.graph.n_edges
        corners = data.coordinates[data.faces]
        enclosed = np.einsum("fi,fi->", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])) / 6
        assert enclosed > 0
        if volume:
            assert enclosed == pytest.approx(volume, rel=2e-3)
        assert np.allclose(np.linalg.norm(data.normals, axis=1), 1)

    def test_normals(self):
        torus = datasets.torus_mesh(120, 60)
        ring = torus.coordinates * [1, 1, 0]
        ring /= np.linalg.norm(ring, axis=1, keepdims=True)
        exact = (torus.coordinates - ring) / 0.4
        assert np.einsum("ni,ni->n", exact, torus.normals).min() > 0.999
        cylinder = datasets.cylinder_mesh(24, 5)
        assert np.allclose(cylinder.normals[-2:], [[0, 0, -1], [0, 0, 1]])
        middle = slice(2 * 24, 3 * 24)
        assert np.allclose(cylinder.normals[middle], cylinder.coordinates[middle], atol=1e-12)


class TestNames:
    def test_unknown_names_are_told_the_known(self):
        with pytest.raises(ValueError, match=r"'karate'.*'idler-riser'.*got the unknown 'karat'"):
            wk.load_dataset("karat")
        with pytest.raises(TypeError, match="name must be the name of a data set or a path, got 3"):
            wk.load_dataset(3)

    def test_files(self, tmp_path, monkeypatch):
        (tmp_path / "edges.csv").write_text("a,b\n")
        monkeypatch.chdir(tmp_path)
        for name in ("edges.csv", Path("edges.csv"), str(tmp_path / "edges.csv")):
            data = wk.load_dataset(name)
            assert (data.name, data.graph.labels) == ("edges.csv", ("a", "b"))
        with pytest.raises(FileNotFoundError, match=r"nowhere\.csv"):
            wk.load_dataset("nowhere.csv")

    def test_list(self, monkeypatch, tmp_path):
        monkeypatch.delenv("WALKERNEL_DATA", raising=False)
        monkeypatch.setenv("WALKERNEL_CACHE", str(tmp_path))
        entries = {entry.name: entry for entry in datasets.available()}
        assert len(entries) == 9 + 14 + 6
        assert entries["karate"][1:4] == (True, 34, 78)
        assert entries["cora"][1:] == (False, 2485, 5069, "MIT (repository)", None)
        (tmp_path / "graphs").mkdir()
        (tmp_path / "graphs" / "cora.npz").touch()
        assert {entry.name: entry.present for entry in datasets.available()}["cora"]

    def test_every_source_has_its_facts(self):
        expected = SIZES | MESHES
        assert {s.name: (s.n_nodes, s.n_edges) for s in _sources.SOURCES} == expected
        hashes = [sha256 for source in _sources.SOURCES for sha256 in source.originals.values()]
        assert len(set(hashes)) == len(hashes) == 22
        assert all(len(bytes.fromhex(value)) == 32 for value in hashes)


class TestFiles:
    pytestmark = needs_data

    @pytest.mark.parametrize("name", SIZES)
    def test_graphs(self, name):
        data = wk.load_dataset(name)
        assert size(data.graph) == SIZES[name]
        assert is_simple(data.graph)
        if name in CLASSES:
            assert set(data.labels[data.labels >= 0]) == set(range(CLASSES[name]))
            assert data.label_names is None or len(data.label_names) == CLASSES[name]

    @pytest.mark.parametrize("name", MESHES)
    def test_meshes(self, name):
        data = wk.load_dataset(name)
        assert size(data.graph) == MESHES[name]
        assert data.coordinates.shape == data.normals.shape == (MESHES[name][0], 3)
        assert wk.load_dataset(name.replace("-", "_")).graph.fingerprint == data.graph.fingerprint

    def test_what_is_known_of_nodes(self):
        assert wk.load_dataset("wiki_chameleon").targets[:2].tolist() == [[171], [8089]]
        assert wk.load_dataset("minnesota").coordinates.shape == (2642, 2)
        assert wk.load_dataset("pubmed").test_mask.sum() == 1000
        assert np.sum(wk.load_dataset("eurosis").edge_values == 2) == 50
        assert np.sum(wk.load_dataset("citeseer").labels >= 0) == 2800
        assert wk.load_dataset("minnesota").licence.startswith("BSD")

    @pytest.mark.parametrize("name", ORIGINALS)
    def test_original_meshes_give_the_same(self, name):
        original = read_file(Path(DATA, "meshes", name))
        stored = wk.load_dataset(Path(name).stem)
        assert original.graph.fingerprint == stored.graph.fingerprint
        for key in ("coordinates", "normals", "faces"):
            assert np.allclose(original.data[key], getattr(stored, key), rtol=0, atol=1e-12)
