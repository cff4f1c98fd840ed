"""Scalars of NumPy in place of Python's: the same graphs, which can be saved, and the same settings."""

import json

import networkx as nx
import numpy as np
import pytest

import files
import graphs
import walkernel as wk

TEXTS = np.array(["Ada", "Ben", "Cem"])
NUMBERS = np.array([7, 3, 5])


def pairs(values):
    """Return edges between scalars of NumPy, in a list of tuples."""
    return [(values[0], values[1]), (values[1], values[2])]


def from_networkx(values):
    return wk.Graph.from_networkx(nx.Graph(pairs(values)))


def from_edges(values):
    return wk.Graph.from_edges(pairs(values), relabel=True)


@pytest.mark.parametrize("suffix", [".npz", ""])
@pytest.mark.parametrize("values", [TEXTS, NUMBERS, NUMBERS.astype(np.uint8)], ids=["text", "int64", "uint8"])
@pytest.mark.parametrize("build", [from_edges, from_networkx])
def test_labels_are_saved(build, values, suffix, tmp_path):
    graph = build(values)
    assert {type(label) for label in graph.labels} == {type(values.tolist()[0])}
    graph.save(tmp_path / f"graph{suffix}")
    again = wk.load_graph(tmp_path / f"graph{suffix}")
    assert files.same(again, graph)
    assert np.array_equal(again.ids(values), graph.ids(values))


def test_labels_of_numpy_and_of_python_are_the_same_graph(tmp_path):
    """Walks know their graph by a digest of its labels too."""
    ours, theirs = from_edges(TEXTS), from_edges(TEXTS.tolist())
    wk.sample_walks(ours, 4).save(tmp_path / "walks.npz")
    assert wk.Walks.load(tmp_path / "walks.npz", theirs).graph is theirs


def test_nodes_of_networkx_that_are_ids():
    assert from_networkx(np.arange(3)).labels is None


@pytest.mark.parametrize("label", [np.float64(0.5), np.float32(0.5), 0.5, np.bool_(True), True, (1, 2)])
def test_other_labels_are_refused_in_the_same_words(label, tmp_path):
    graph = wk.Graph.from_networkx(nx.Graph([(label, "b")]))
    with pytest.raises(TypeError, match=r"Graph.save: labels must be all text or all whole numbers .*, got"):
        graph.save(tmp_path / "graph.npz")


def test_dates_stay_what_they_are():
    days = np.array(["2024-01-01", "2024-01-02"], dtype="datetime64[ns]")
    graph = wk.Graph.from_edges([(days[0], days[1])])
    assert graph.ids(days[1]) == 1


SAMPLERS = {
    "independent": wk.IndependentWalks(np.float32(0.25)),
    "coupled": wk.CoupledWalks(np.array([1, 0.5], dtype=np.float32), group=np.int64(2), head=np.int64(1)),
}


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
def test_settings_are_saved(sampler, tmp_path):
    graph = from_edges(TEXTS)
    walks = wk.sample_walks(graph, np.int64(4), sampler=sampler, seed=np.int64(3))
    walks.save(tmp_path / "walks.npz")
    assert wk.Walks.load(tmp_path / "walks.npz", graph).sampler == sampler
    with np.load(tmp_path / "walks.npz") as archive:
        assert json.loads(str(archive["about"]))["n_walks"] == 4
    wk.sample_features(
        graph, wk.Diffusion(np.float32(1.0)), np.int64(4), sampler=sampler, directory=tmp_path / "features"
    )
    assert wk.open_features(tmp_path / "features").shape == (3, 3)


def test_notes_of_a_modulation_function_are_saved(tmp_path):
    torch = pytest.importorskip("walkernel.torch")
    f = torch.FreeModulation(3)
    f.save(tmp_path / "f.json", notes={"n_walks": np.int64(16), "sigmas": np.array([1.0, 2.0])})
    assert json.loads((tmp_path / "f.json").read_text())["notes"] == {"n_walks": 16, "sigmas": [1.0, 2.0]}
    with pytest.raises(
        TypeError, match=r"Modulation.save: notes must be text, numbers, lists and dicts, got"
    ):
        f.save(tmp_path / "g.json", notes={"graph": graphs.karate()})
    assert not (tmp_path / "g.json").exists()
