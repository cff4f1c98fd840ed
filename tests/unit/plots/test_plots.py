"""Pictures show what they are given: dots at places, colours of values, edges, rings, and clear refusals."""

import numpy as np
import pytest
import scipy.sparse
from matplotlib import pyplot
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_rgba

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


def legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def lines(axes):
    return [one for one in axes.collections if isinstance(one, LineCollection)]


def test_numbers_have_colours_in_order_and_edges_are_drawn_once(club):
    values = np.linspace(-3, 5, 34)
    axes = plots.plot_nodes(club, values, positions=PLACES, label="heat", title="Club")
    [found], [edges] = dots(axes), lines(axes)
    assert np.allclose(found.get_offsets(), PLACES)
    assert np.allclose(found.get_array(), values)
    assert found.get_clim() == (-3, 5)
    ends = np.column_stack(scipy.sparse.triu(club.to_scipy(), 1).tocsr().nonzero())
    assert np.allclose(edges.get_segments(), PLACES[ends])
    assert axes.get_title() == "Club"
    assert [one.get_ylabel() for one in axes.figure.axes] == ["", "heat"]


def test_unknown_values_are_grey_and_observed_nodes_ringed(club):
    values = np.where(np.arange(34) < 3, np.nan, np.arange(34.0))
    axes = plots.plot_nodes(club, values, positions=PLACES, observed=[5, 30])
    known, grey, rings = dots(axes)
    assert legend(axes) == ["no value", "observed"]
    assert np.allclose(grey.get_offsets(), PLACES[:3])
    assert np.allclose(grey.get_facecolors(), to_rgba("0.6"))
    assert len(known.get_offsets()) == 31
    assert np.allclose(rings.get_offsets(), PLACES[[5, 30]])
    assert len(rings.get_facecolors()) == 0


@pytest.mark.parametrize(
    "values",
    [np.arange(34) % 3, np.arange(34) < 9, np.array(["a", "b"] * 17), np.array(["a", 1] * 17, dtype=object)],
)
def test_labels_have_colours_of_their_own(club, values):
    axes = plots.plot_nodes(club, values, positions=PLACES, label="kind")
    kinds = sorted(set(map(str, values)))
    assert sorted(legend(axes)) == kinds
    for found in dots(axes):
        own = values.astype(str) == found.get_label()
        assert np.allclose(found.get_offsets(), PLACES[own])
        assert np.allclose(found.get_facecolors(), to_rgba(CATEGORIES[kinds.index(found.get_label())]))


def test_the_less_certain_the_smaller(club):
    std = np.random.default_rng(1).uniform(size=34)
    [found] = dots(plots.plot_nodes(club, np.arange(34.0), std=std, positions=PLACES))
    assert (np.argsort(found.get_sizes()) == np.argsort(-std)).all()


def test_a_row_of_a_kernel(club):
    K = wk.polynomial_operator(club, wk.Diffusion(1.0))
    axes = plots.plot_kernel_row(K, 2, positions=PLACES)
    known, ring = dots(axes)
    row = K.rows([2])[0]
    order = np.argsort(row, kind="stable")  # the largest entries are in front
    assert np.array_equal(known.get_array(), row[order])
    assert np.array_equal(known.get_offsets(), PLACES[order])
    assert known.get_clim() == (0.0, np.delete(row, 2).max())
    assert np.allclose(ring.get_offsets(), PLACES[[2]])
    assert legend(axes) == ["node 2"]
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
    assert legend(axes) == ["slope −1/2", "one", "two"]
    guide = axes.lines[-1].get_ydata()
    assert guide[0] / guide[1] == pytest.approx(np.sqrt(10))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda g: plots.plot_nodes("karate", np.zeros(34)), TypeError, "a Graph or a Dataset"),
        (lambda g: plots.plot_nodes(g, np.zeros(33)), ValueError, "values must be one for each of the 34"),
        (lambda g: plots.plot_nodes(g, np.zeros((34, 2))), ValueError, "Take one of its columns"),
        (lambda g: plots.plot_nodes(g, [[1], [2, 3]]), TypeError, "numbers or labels, one for each node"),
        (lambda g: plots.plot_nodes(g, np.zeros(34) * 1j), TypeError, "Take the real or the imaginary"),
        (lambda g: plots.plot_nodes(g, {0: 1.0, 34: 2.0}), ValueError, "34"),
        (lambda g: plots.plot_nodes(g, list("abcdefghi") + ["j"] * 25), ValueError, "at most 8 kinds"),
        (lambda g: plots.plot_nodes(g, np.zeros(34), vmin=2, vmax=1), ValueError, "vmin must be at most"),
        (lambda g: plots.plot_nodes(g, np.zeros(34), center=np.nan), ValueError, "center must be a finite"),
        (lambda g: plots.plot_nodes(g, np.zeros(34), ax="left"), TypeError, "ax must be matplotlib Axes"),
        (lambda g: plots.plot_nodes(g, np.zeros(34), ax=in_space()), ValueError, "axes in the plane"),
        (lambda g: plots.plot_nodes(g, np.zeros(34), std=np.full(34, np.nan)), ValueError, "std must be fin"),
        (lambda g: plots.plot_nodes(g, np.zeros(34), std=-np.ones(34)), ValueError, "none of them negative"),
        (lambda g: plots.plot_nodes(g, np.zeros(34), observed=[34]), ValueError, "34"),
        (lambda g: plots.plot_modulation(), TypeError, "one Kernel or more"),
        (lambda g: plots.plot_reliability([0, 1], [0.5, 1.5]), ValueError, "numbers from 0 to 1"),
        (lambda g: plots.plot_modulation([wk.Diffusion()]), TypeError, "one Kernel or more"),
        (lambda g: plots.plot_modulation(wk.Diffusion(), length=0), ValueError, "length must be"),
        (lambda g: plots.plot_reliability([0, 1], [0.5, np.nan]), ValueError, "probability must be finite"),
        (lambda g: plots.plot_reliability([], []), ValueError, "numbers from 0 to 1"),
        (lambda g: plots.plot_reliability([0, 2], [0.5, 0.5]), ValueError, "y == label"),
        (lambda g: plots.plot_reliability([0], [0.5, 0.5]), ValueError, "2 truth values"),
        (lambda g: plots.plot_error_against_steps({"a": ([1, 2], [0, 3])}), ValueError, "logarithmic"),
        (lambda g: plots.plot_error_against_steps({"a": ([1], [2], [-1])}), ValueError, "negative standard"),
        (lambda g: plots.plot_error_against_steps({"a": ([], [])}), ValueError, "of one size"),
        (lambda g: plots.plot_error_against_steps({"a": 3}), ValueError, "of one size"),
        (lambda g: plots.plot_error_against_steps({"a": ([1], [2, 3])}), ValueError, "of one size"),
        (lambda g: plots.plot_error_against_steps([]), TypeError, "a mapping"),
        (lambda g: plots.plot_gp(wk.NodeGPRegressor(g)), ValueError, "not fitted"),
        (lambda g: plots.plot_gp(wk.NodeRidge(g)), TypeError, "estimator must be a NodeGPRegressor"),
        (lambda g: plots.plot_gp(process(g, 2)), ValueError, r"Use plot_nodes\(graph, mean\[:, k\]\)"),
        (lambda g: plots.plot_gp(process(g, 1), axes=pyplot.subplots(1, 3)[1]), ValueError, "two matplotlib"),
        (lambda g: plots.plot_kernel_row(exact(g), [0, 1]), ValueError, "node must be one node"),
        (lambda g: plots.plot_mesh(torus_mesh(12, 8), np.zeros(5)), ValueError, "must be one for each of"),
        (lambda g: plots.plot_mesh(torus_mesh(12, 8), np.zeros(96), ax=pyplot.axes()), ValueError, "in spac"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn(club, call, error, words):
    with pytest.raises(error, match=words):
        call(club)


def in_space():
    return pyplot.figure().add_subplot(projection="3d")


def exact(graph):
    return wk.polynomial_operator(graph, wk.Diffusion(1.0))


def process(graph, n_outputs):
    y = np.arange(3.0 * n_outputs).reshape(3, n_outputs)
    return wk.NodeGPRegressor(graph, wk.Diffusion(1.0), learn=()).fit(
        [0, 33, 2], y if n_outputs > 1 else y[:, 0]
    )


def test_without_matplotlib(monkeypatch, club):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"walkernel\[plot\]"):
        plots.plot_modulation(wk.Diffusion())


@pytest.mark.parametrize(
    ("values", "limits", "drawn"),
    [
        (np.full(34, 2.5), (2.25, 2.75), 34),
        (np.zeros(34), (-1.0, 1.0), 34),
        (np.append(np.arange(33.0), np.inf), (0.0, 32.0), 34),
        (np.append(np.arange(33.0), -np.inf), (0.0, 32.0), 34),
        (np.append(np.arange(33.0), np.nan), (0.0, 32.0), 33),
        (np.full(34, np.inf), (0.0, 1.0), 34),
        (dict(enumerate([4.0, 8.0])), (4.0, 8.0), 2),
        (np.array([1.5, None] * 17, dtype=object), (1.35, 1.65), 17),
    ],
)
def test_scales_of_unusual_values(club, values, limits, drawn):
    axes = plots.plot_nodes(club, values, positions=PLACES)
    assert dots(axes)[0].get_clim() == pytest.approx(limits)
    assert len(dots(axes)[0].get_offsets()) == drawn
    assert (drawn < 34) == (axes.get_legend() is not None)
    bar = dots(axes)[0].colorbar
    beyond = {-np.inf: "min", np.inf: "max"}
    assert bar.extend == next((beyond[v] for v in list(values) if v in beyond), "neither")
    axes.figure.canvas.draw()


def test_without_any_value_there_is_no_bar(club):
    axes = plots.plot_nodes(club, np.full(34, np.nan), positions=PLACES)
    assert len(axes.figure.axes) == 1
    assert legend(axes) == ["no value"]
    assert legend(plots.plot_nodes(club, [None] * 34, positions=PLACES)) == ["no value"]


def test_missing_labels_are_grey(club):
    axes = plots.plot_nodes(club, ["a", None] * 17, positions=PLACES)
    assert legend(axes) == ["a", "no value"]
    assert np.allclose(dots(axes)[1].get_facecolors(), to_rgba("0.6"))


def test_scales_diverge_where_they_are_asked_to(club):
    values = np.linspace(-3, 5, 34)
    [found] = dots(plots.plot_nodes(club, values, positions=PLACES, center=0.0))
    assert found.get_clim() == (-5, 5)
    assert found.cmap.name == "coolwarm"
    [found] = dots(plots.plot_nodes(club, values, positions=PLACES, vmin=0, vmax=1))
    assert (found.get_clim(), found.colorbar.extend) == ((0, 1), "both")
    [found] = dots(plots.plot_nodes(club, values, positions=PLACES, vmin=7))
    assert found.colorbar.extend == "min"
    K = wk.polynomial_operator(club, wk.InverseCosine())
    assert dots(plots.plot_kernel_row(K, 0, positions=PLACES))[0].cmap.name == "coolwarm"


@pytest.mark.parametrize("n_nodes", [1, 2, 5])
def test_small_graphs_and_graphs_without_edges(n_nodes):
    graph = wk.Graph.from_edges(np.empty((0, 2), dtype=int), n_nodes=n_nodes)
    axes = plots.plot_nodes(graph, np.arange(float(n_nodes)), np.ones(n_nodes))
    assert not lines(axes)
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    x, y = np.transpose(plots.node_positions(graph))
    assert left < x.min() <= x.max() < right
    assert low < y.min() <= y.max() < high
    axes.figure.canvas.draw()


def test_edges_in_both_directions_are_drawn_once():
    graph = wk.Graph.from_edges([(0, 1), (1, 0), (1, 2), (2, 2)], directed=True)
    assert len(lines(plots.plot_nodes(graph, [1.0, 2.0, 3.0]))[0].get_segments()) == 2


def test_edges_that_would_cover_all_are_left_out(club, monkeypatch):
    monkeypatch.setattr("walkernel.plots._maps.MAX_EDGES", 77)
    assert not lines(plots.plot_nodes(club, np.zeros(34), positions=PLACES))


def test_nodes_with_labels():
    graph = labelled()
    places = dict(zip("edcba", PLACES[:5], strict=True))
    axes = plots.plot_nodes(graph, {"c": 1.0, "a": 2.0}, positions=places, observed=["a"])
    known, grey, ring = dots(axes)
    assert known.get_array().tolist() == [2.0, 1.0]
    assert np.array_equal(known.get_offsets(), PLACES[[4, 2]])
    assert np.array_equal(grey.get_offsets(), PLACES[[3, 1, 0]])
    assert np.array_equal(ring.get_offsets(), PLACES[[4]])
    axes = plots.plot_kernel_row(wk.polynomial_operator(graph, wk.Diffusion()), "a", positions=places)
    assert axes.get_title() == "Row of the kernel at node a"


def test_what_is_seen_is_said(club):
    axes = plots.plot_nodes(club, np.arange(34.0), np.arange(34.0), positions=PLACES)
    assert axes.get_title() == "Value at 34 nodes"
    assert axes.figure.axes[1].get_ylabel() == "value"
    assert legend(axes) == ["std 0", "std 33"]
    axes = plots.plot_nodes(club, np.arange(34.0), positions=PLACES, label="heat", title="")
    assert axes.get_title() == ""


@pytest.mark.parametrize("aspect", [0.2, 1.0, 3.0])
def test_nothing_is_clipped(club, aspect):
    places = PLACES * [aspect, 1.0]
    axes = plots.plot_nodes(club, PLACES[:, 0] * 1e5, PLACES[:, 1], positions=places, label="length in km")
    figure = axes.figure
    figure.canvas.draw()
    drawn, whole = figure.get_tightbbox(), figure.bbox_inches
    assert whole.x0 <= drawn.x0 < drawn.x1 <= whole.x1
    assert whole.y0 <= drawn.y0 < drawn.y1 <= whole.y1
    assert axes.get_aspect() == 1


def test_pictures_of_vectors_have_pixels_where_there_is_much(monkeypatch, club):
    for most in (33, 34):
        monkeypatch.setattr("walkernel.plots._maps.MANY_DOTS", most)
        axes = plots.plot_nodes(club, np.arange(34.0), positions=PLACES)
        assert dots(axes)[0].get_rasterized() == (most < 34)


def test_unknown_corners_make_grey_faces():
    ring = torus_mesh(12, 8)
    values = np.where(np.arange(96) == 5, np.nan, ring.coordinates[:, 0])
    shown = plots.plot_mesh(ring, values).collections[0].get_facecolor()
    around = (ring.faces == 5).any(axis=1)
    grey = np.ptp(shown[:, :3], axis=1) < 1e-9
    assert grey.sum() == around.sum()  # in the order of their depth
