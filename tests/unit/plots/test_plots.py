"""Pictures show what they are given: dots at places, colours of values, edges, rings, and clear refusals."""

import numpy as np
import pytest
import scipy.sparse
from matplotlib import pyplot
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_rgba

import graphs
import walkernel as wk
from walkernel import plots
from walkernel.datasets import grid, torus_mesh
from walkernel.plots._axes import CATEGORIES

PLACES = np.random.default_rng(0).uniform(size=(34, 2))


def labelled():
    return wk.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e")])


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


@pytest.fixture
def club():
    return wk.load_dataset("karate").graph


def dots(axes):
    return [one for one in axes.collections if isinstance(one, PathCollection)]


def lines(axes):
    return [one for one in axes.collections if isinstance(one, LineCollection)]


def test_numbers_have_colours_in_order_and_edges_are_drawn_once(club):
    values = np.linspace(-3, 5, 34)
    axes = plots.plot_nodes(club, values, positions=PLACES, label="heat", title="Club")
    [found], [edges] = dots(axes), lines(axes)
    assert np.allclose(found.get_offsets(), PLACES)
    assert np.allclose(found.get_array(), values)
    assert found.get_clim() == pytest.approx(tuple(np.percentile(values, [1, 99])))
    assert len(edges.get_segments()) == club.n_edges
    i, j = (scipy.sparse.triu(club.to_scipy(), 1).tocoo().coords[k][0] for k in (0, 1))
    assert np.allclose(edges.get_segments()[0], PLACES[[i, j]])
    assert axes.get_title() == "Club"
    assert [one.get_ylabel() for one in axes.figure.axes] == ["", "heat"]


def test_unknown_values_are_grey_and_observed_nodes_ringed(club):
    values = np.where(np.arange(34) < 3, np.nan, np.arange(34.0))
    axes = plots.plot_nodes(club, values, positions=PLACES, observed=[5, 30])
    grey, known, rings = dots(axes)
    assert np.allclose(grey.get_offsets(), PLACES[:3])
    assert np.allclose(grey.get_facecolors(), to_rgba("0.6"))
    assert len(known.get_offsets()) == 31
    assert np.allclose(rings.get_offsets(), PLACES[[5, 30]])
    assert len(rings.get_facecolors()) == 0


@pytest.mark.parametrize(
    "values", [np.arange(34) % 3, np.arange(34) < 9, np.array(["a", "b"] * 17), np.array(["a", None] * 17)]
)
def test_labels_have_colours_of_their_own(club, values):
    axes = plots.plot_nodes(club, values, positions=PLACES, label="kind")
    kinds = sorted(set(map(str, values)))
    assert sorted(text.get_text() for text in axes.get_legend().get_texts()) == kinds
    for found in dots(axes):
        own = values.astype(str) == found.get_label()
        assert np.allclose(found.get_offsets(), PLACES[own])
        assert np.allclose(found.get_facecolors(), to_rgba(CATEGORIES[kinds.index(found.get_label())]))


def test_the_less_certain_the_smaller(club):
    std = np.random.default_rng(1).uniform(size=34)
    [found] = dots(plots.plot_nodes(club, np.arange(34.0), std=std, positions=PLACES))
    assert (np.argsort(found.get_sizes()) == np.argsort(-std)).all()


def test_layouts_keep_neighbours_near_and_are_the_same_again(monkeypatch):
    city = grid(9, 6)
    assert np.array_equal(plots.node_positions(city), city.coordinates)
    for most in (1000, 10):
        monkeypatch.setattr("walkernel.plots._layout.SPRING_NODES", most)
        graph = wk.Graph.from_scipy(city.graph.to_scipy())
        places = plots.node_positions(graph)
        assert places is plots.node_positions(graph)
        A = scipy.sparse.triu(graph.to_scipy()).tocoo()
        lengths = np.linalg.norm(places[A.row] - places[A.col], axis=1)
        apart = np.linalg.norm(places[:, None] - places, axis=2)
        assert lengths.mean() < 0.4 * apart.mean()
        assert np.array_equal(places, plots.node_positions(wk.Graph.from_scipy(city.graph.to_scipy())))


@pytest.mark.parametrize("make", [graphs.directed, graphs.signed, graphs.isolated, labelled])
@pytest.mark.parametrize("most", [1000, 0])
def test_every_graph_has_a_layout(make, most, monkeypatch):
    monkeypatch.setattr("walkernel.plots._layout.SPRING_NODES", most)
    graph = make()
    places = plots.node_positions(graph)
    assert places.shape == (graph.n_nodes, 2)
    assert np.isfinite(places).all()
    plots.plot_nodes(graph, np.arange(float(graph.n_nodes))).figure.canvas.draw()


def test_bodies_are_seen_from_where_they_are_widest():
    flat = np.column_stack([np.arange(5.0), np.zeros(5), np.array([0, 3, 0, 3, 0.0])])
    seen = plots.node_positions(grid(5, 1).graph, flat)
    assert np.allclose(
        np.linalg.norm(seen[:, None] - seen, axis=2), np.linalg.norm(flat[:, None] - flat, axis=2)
    )


def test_a_row_of_a_kernel(club):
    K = wk.polynomial_operator(club, wk.Diffusion(1.0))
    axes = plots.plot_kernel_row(K, 2, positions=PLACES)
    known, ring = dots(axes)
    assert np.allclose(known.get_array(), K.rows([2])[0])
    assert np.allclose(ring.get_offsets(), PLACES[[2]])
    assert "node 2" in axes.get_title()
    with pytest.raises(ValueError, match="plot_kernel_row: K must be a KernelOperator with all nodes"):
        plots.plot_kernel_row(wk.estimate_kernel(club, wk.Diffusion(), 4, nodes=[0, 1]), 0)


def test_a_process_has_a_mean_and_a_standard_deviation():
    graph = labelled()
    nodes = list(graph.labels)
    model = wk.NodeGPRegressor(graph, wk.Diffusion(1.0), learn=()).fit(nodes[:3], [1.0, -1.0, 0.5])
    panels = plots.plot_gp(model)
    for axes, values in zip(panels, model.predict(nodes, return_std=True), strict=True):
        assert np.allclose(dots(axes)[0].get_array(), values)
        assert len(dots(axes)[1].get_offsets()) == 3
    assert len(panels[0].figure.axes) == 4
    again = plots.plot_gp(model, axes=pyplot.subplots(1, 2)[1])
    assert again[0] is not panels[0]


def test_faces_have_the_mean_of_their_corners():
    ring = torus_mesh(12, 8)
    axes = plots.plot_mesh(ring, ring.coordinates[:, 0], label="x", title="Ring")
    [surface] = axes.collections
    assert len(surface.get_facecolor()) == len(ring.faces)
    assert axes.get_title() == "Ring"
    with pytest.raises(ValueError, match="plot_mesh: mesh must be a Dataset with coordinates and faces"):
        plots.plot_mesh(grid(3, 3), np.zeros(9))


def test_modulation_functions():
    kernels = wk.Diffusion(1.0), wk.Matern(1.5, 2.0)
    axes = plots.plot_modulation(*kernels, length=7)
    for line, kernel in zip(axes.lines, kernels, strict=False):
        assert np.allclose(line.get_ydata(), kernel.modulation(7))
        assert line.get_label() == repr(kernel)


def test_reliability_shows_frequencies():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=4000)
    [bars] = plots.plot_reliability(rng.uniform(size=4000) < p, p).containers
    x, y = bars.lines[0].get_data()
    assert np.allclose(x, np.arange(0.05, 1, 0.1), atol=0.02)
    assert (abs(y - x) < 4 * np.sqrt(x * (1 - x) / 400)).all()
    [wrong] = plots.plot_reliability(rng.uniform(size=4000) < p**2, p).containers
    assert (wrong.lines[0].get_ydata() < y).mean() > 0.7


def test_errors_against_steps():
    steps, errors = np.array([1e3, 1e4, 1e5]), np.array([0.1, 0.03, 0.01])
    axes = plots.plot_error_against_steps({"one": (steps, errors, errors / 10), "two": (steps, 2 * errors)})
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["slope −1/2", "one", "two"]
    guide = axes.lines[-1].get_ydata()
    assert guide[0] / guide[1] == pytest.approx(np.sqrt(10))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda g: plots.plot_nodes("karate", np.zeros(34)), TypeError, "a Graph or a Dataset"),
        (lambda g: plots.plot_nodes(g, np.zeros(33)), ValueError, "values must be one for each of the 34"),
        (lambda g: plots.plot_nodes(g, list("abcdefghi") + ["j"] * 25), ValueError, "at most 8 kinds"),
        (lambda g: plots.plot_nodes(g, np.zeros(34), std=-np.ones(34)), ValueError, "none of them negative"),
        (lambda g: plots.plot_nodes(g, np.zeros(34), positions=PLACES[:9]), ValueError, r"shape \(34, 2\)"),
        (lambda g: plots.plot_nodes(g, np.zeros(34), positions=PLACES * np.nan), ValueError, "finite"),
        (lambda g: plots.plot_nodes(g, np.zeros(34), observed=[34]), ValueError, "34"),
        (lambda g: plots.plot_modulation(), TypeError, "one Kernel or more"),
        (lambda g: plots.plot_reliability([0, 1], [0.5, 1.5]), ValueError, "numbers from 0 to 1"),
        (lambda g: plots.plot_reliability([0, 2], [0.5, 0.5]), ValueError, "truth values"),
        (lambda g: plots.plot_error_against_steps({"a": ([1], [2, 3])}), ValueError, "of one size"),
        (lambda g: plots.plot_error_against_steps([]), TypeError, "a mapping"),
        (lambda g: plots.plot_gp(wk.NodeGPRegressor(g)), ValueError, "not fitted"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn(club, call, error, words):
    with pytest.raises(error, match=words):
        call(club)


def test_without_matplotlib(monkeypatch, club):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"walkernel\[plot\]"):
        plots.plot_modulation(wk.Diffusion())
