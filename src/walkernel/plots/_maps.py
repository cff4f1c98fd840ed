"""Values at the nodes of a graph as maps: colours of dots along edges, or of the faces of a surface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from walkernel._checks import Described, check_instance, real_array, refuse
from walkernel._door import door
from walkernel.datasets import Dataset
from walkernel.graph import Graph
from walkernel.operators import KernelOperator
from walkernel.plots._axes import (
    CATEGORIES,
    DIVERGING,
    MISSING,
    SEQUENTIAL,
    UNCERTAINTY,
    Scale,
    check_axes,
    colour_scale,
    new_axes,
)
from walkernel.plots._layout import as_graph, node_positions
from walkernel.tasks import NodeGPRegressor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]
MAX_EDGES = 10**6
"""Edges of larger graphs are not drawn: they would cover the nodes."""
MANY_DOTS = 10**4
"""Dots and lines beyond which pictures in PDF and SVG have them as pixels."""
LARGEST_DOT, SMALLEST_DOT, COVERED = 80.0, 1.5, 0.22
"""Areas of dots in square points, and the part of the map that they cover in between."""
CERTAIN, UNCERTAIN = 1.6, 0.15
"""Areas of the dots of the smallest and the largest standard deviation, as parts of a plain one."""
SMALLEST_RING = 20.0
BAR_TICKS = 6
LARGEST = 1e300
"""What is drawn in place of infinity, which matplotlib leaves out."""
MAX_CATEGORIES = len(CATEGORIES)


@door
def plot_nodes(
    graph: Graph | Dataset,
    values: Any,
    std: Any = None,
    *,
    positions: Any = None,
    observed: Any = None,
    vmin: float | None = None,
    vmax: float | None = None,
    center: float | None = None,
    label: str | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw values at the nodes of a graph: a dot for each node, whose colour is its value, and grey edges.

    A graph of 10⁵ nodes and 3 · 10⁵ edges takes about two seconds, and as much to be saved; one of 10⁶ nodes
    ten times as long.

    Parameters
    ----------
    graph : Graph or Dataset
        The coordinates of a data set are where its nodes are drawn. Directions and weights of edges are not
        drawn, nor are the edges of a graph that has more than 10⁶.
    values : array_like, (n_nodes,), or mapping
        One value for each node, in the order of ids, or a mapping of some nodes to theirs. Numbers have one
        colour scale; ±∞ has the colours of its ends. Labels, truth values, and integers of at most eight
        kinds have colours of their own (give such integers as floats for a scale). NaN and None are grey.
    std : array_like of float, (n_nodes,), optional
        Standard deviations, in the units of values: the smaller that of a node, the larger its dot.
    positions : array_like of float, (n_nodes, 2) or (n_nodes, 3), or mapping, optional
        Where nodes are drawn; see ``node_positions`` for what is done without.
    observed : sequence of nodes, optional
        Nodes that get a black ring, such as those that a model was fitted to.
    vmin, vmax : float, optional
        Ends of the colour scale, if not the smallest and the largest value.
    center : float, optional
        Makes the scale diverge from this value: 0 for differences and for values whose sign means
        something. Where dots overlap, those of values far from it are in front.
    label : str, optional
        What the colours mean, with its unit.
    title : str, optional
        What is seen; the label and the number of nodes if not given.
    ax : matplotlib Axes, optional
        Where to draw; new axes, of the proportions of the map, if not given.

    Returns
    -------
    matplotlib Axes

    See Also
    --------
    plot_gp : Mean and standard deviation side by side.

    Examples
    --------
    >>> import walkernel as wk
    >>> from walkernel.plots import plot_nodes
    >>> club = wk.load_dataset("karate")
    >>> axes = plot_nodes(club, club.graph.out_degrees(), label="friends", title="Zachary's karate club")
    """
    network = as_graph(graph)
    shown = _Values(network, values)
    spread = None if std is None else _spread(network, std)
    ringed = None if observed is None else np.unique(network.ids(observed))
    scale = None if shown.categorical else colour_scale(shown.array, vmin, vmax, center)
    if title is None:
        title = f"{(label or 'Value').capitalize()} at {network.n_nodes:,} node{'s' * (network.n_nodes != 1)}"
    places = node_positions(graph, positions)
    axes = _map_axes(places) if ax is None else check_axes("ax", ax)
    return _draw(axes, network, places, shown, spread, ringed, scale, label or "value", title)


class _Values:
    """Values of all nodes as they are drawn: numbers, or kinds; which are known; and what they are."""

    def __init__(self, graph: Graph, values: Any) -> None:
        n = graph.n_nodes
        found = _from_mapping(graph, values) if isinstance(values, Mapping) else _as_array(values)
        if found.shape != (n,):
            remedy = "Take one of its columns." if found.ndim == 2 and found.shape[0] == n else ""
            got = Described(f"an array of shape {found.shape}")
            refuse("values", f"one for each of the {n} nodes", got, remedy)
        missing = np.zeros(n, dtype=bool)
        if found.dtype.kind == "O":
            missing = np.array([_is_missing(value) for value in found], dtype=bool)
            found = _narrowed(found, missing)
        whole = found.dtype.kind in "iu" and np.unique(found[~missing]).size <= MAX_CATEGORIES
        self.categorical = whole or found.dtype.kind in "bUS"
        if self.categorical:
            self.kinds = np.unique(found[~missing])
            if self.kinds.size > MAX_CATEGORIES:
                rule = f"numbers, or labels of at most {MAX_CATEGORIES} kinds"
                refuse("values", rule, Described(f"{self.kinds.size} kinds"), "Give rare kinds one label.")
            self.array = found
        else:
            self.array = np.where(missing, np.nan, real_array("values", found, finite=False))
            missing = np.isnan(self.array)
        self.known = ~missing


def _as_array(values: Any) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError:
        refuse("values", "numbers or labels, one for each node", values, error=TypeError)


def _from_mapping(graph: Graph, values: Mapping[Any, Any]) -> NDArray[Any]:
    """Return the values of a mapping in the order of ids, None for nodes that it does not have."""
    result = np.full(graph.n_nodes, None, dtype=object)
    if values:
        ids = graph.ids(list(values))
        for i, value in zip(ids.tolist(), values.values(), strict=True):
            result[i] = value
    return result


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, (float, np.floating)) and bool(np.isnan(value)))


def _narrowed(values: NDArray[Any], missing: NDArray[np.bool_]) -> NDArray[Any]:
    """Return objects as an array of numbers or of texts; what is missing gets any value."""
    known = np.array(values[~missing].tolist())
    if known.dtype.kind not in "biufc" or known.ndim != 1:
        known = np.array([str(value) for value in values[~missing]], dtype=str)
    result = np.zeros(values.size, dtype=known.dtype)
    result[~missing] = known
    return result if known.size else np.full(values.size, np.nan)


def _spread(graph: Graph, std: Any) -> Array:
    spread = real_array("std", std)
    if spread.shape != (graph.n_nodes,) or (spread < 0).any():
        rule = f"{graph.n_nodes} standard deviations, none of them negative"
        got = f"an array of shape {spread.shape}" if (spread >= 0).all() else f"{spread.min():.3g}"
        refuse("std", rule, Described(got))
    return spread


def _map_axes(places: Array, count: int = 1) -> Any:
    """Return new axes of the proportions of a map, or an array of several."""
    width, height = np.ptp(places, axis=0) if len(places) else (1.0, 1.0)
    return new_axes(count, aspect=max(width, 1e-9) / max(height, 1e-9))


def _draw(
    axes: Axes,
    graph: Graph,
    places: Array,
    shown: _Values,
    spread: Array | None,
    ringed: NDArray[np.int64] | None,
    scale: Scale | None,
    label: str,
    title: str,
    ring_label: str = "observed",
) -> Axes:
    """Draw a map: edges, dots, rings, and what they mean."""
    from matplotlib.ticker import MaxNLocator

    _frame(axes, places)
    _draw_edges(axes, graph, places)
    plain = _plain_area(axes, len(places))
    areas = np.full(len(places), plain) if spread is None else plain * _certainty(spread)
    known, many = shown.known, len(places) > MANY_DOTS
    x, y = places.T
    style: dict[str, Any] = {"linewidths": 0, "zorder": 2, "rasterized": many}
    keys = []
    if scale is None:
        for kind, colour in zip(shown.kinds, CATEGORIES, strict=False):
            own = known & (shown.array == kind)
            axes.scatter(x[own], y[own], s=areas[own], c=colour, label=str(kind), **style)
            keys.append(_key(str(kind), color=colour))
    else:
        ids, numbers = np.flatnonzero(known), np.clip(shown.array, -LARGEST, LARGEST)
        if scale.origin is not None:
            ids = ids[np.argsort(np.abs(numbers[ids] - scale.origin), kind="stable")]
        limits: dict[str, Any] = {"cmap": scale.colours, "vmin": scale.low, "vmax": scale.high}
        outlines = {"linewidths": 0.3, "edgecolors": "0.3"} if scale.colours == DIVERGING and not many else {}
        dots = axes.scatter(x[ids], y[ids], c=numbers[ids], s=areas[ids], **limits, **style | outlines)
        if known.any():
            ticks = MaxNLocator(BAR_TICKS)  # no more of them in a longer bar, which has its place by then
            axes.figure.colorbar(dots, ax=axes, label=label, extend=scale.extend, shrink=0.8, ticks=ticks)
    if not known.all():
        axes.scatter(x[~known], y[~known], s=areas[~known], c=MISSING, **style)
        keys.append(_key("no value", color=MISSING))
    if spread is not None:
        keys += _keys_of_sizes(spread, plain)
    if ringed is not None and ringed.size:
        ring: dict[str, Any] = {"facecolors": "none", "edgecolors": "k", "linewidths": 0.9, "zorder": 3}
        size = max(SMALLEST_RING, 1.6 * areas.max() + 8)
        axes.scatter(x[ringed], y[ringed], s=size, rasterized=ringed.size > MANY_DOTS, **ring)
        keys.append(_key(ring_label, markerfacecolor="none", markeredgecolor="k"))
    if keys and scale is None:
        axes.legend(handles=keys, title=label, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    elif keys:
        beneath: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "ncols": 3}
        axes.legend(handles=keys, frameon=False, columnspacing=1.2, handletextpad=0.3, **beneath)
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_title(title)
    return axes


def _frame(axes: Axes, places: Array) -> None:
    """Set the limits of a map: its extent and a margin, which one node and a straight line need, too."""
    low, high = places.min(axis=0), places.max(axis=0)
    margin = 0.04 * (high - low) + 0.02 * (high - low).max() + (high == low).all()
    axes.set_xlim(low[0] - margin[0], high[0] + margin[0])
    axes.set_ylim(low[1] - margin[1], high[1] + margin[1])


def _draw_edges(axes: Axes, graph: Graph, places: Array) -> None:
    """Draw the edges of a graph as thin grey lines, one between two nodes, unless there are too many."""
    from matplotlib.collections import LineCollection

    ends = graph.row_indices(), graph.indices.astype(np.int64)
    low, high = np.minimum(*ends), np.maximum(*ends)
    once = np.unique(low[low < high] * graph.n_nodes + high[low < high])
    if 0 < once.size <= MAX_EDGES:
        width = float(np.clip(60 / np.sqrt(once.size), 0.15, 0.8))
        segments = places[np.column_stack(np.divmod(once, graph.n_nodes))]
        lines = LineCollection(segments, colors="0.75", linewidths=width, zorder=1)
        lines.set_rasterized(once.size > MANY_DOTS)
        axes.add_collection(lines, autolim=False)


def _plain_area(axes: Axes, n_nodes: int) -> float:
    """Return the area of a dot in square points: together they cover a part of the axes."""
    box = axes.get_window_extent()
    points = abs(box.width * box.height) * (72 / axes.figure.dpi) ** 2
    return float(np.clip(COVERED * points / max(1, n_nodes), SMALLEST_DOT, LARGEST_DOT))


def _certainty(spread: Array) -> Array:
    """Return areas of dots as parts of a plain one: the less certain a value, the smaller."""
    low, high = spread.min(initial=np.inf), spread.max(initial=0.0)
    if low >= high:
        return np.ones_like(spread)
    return CERTAIN + (UNCERTAIN - CERTAIN) * (spread - low) / (high - low)


def _keys_of_sizes(spread: Array, plain: float) -> list[Any]:
    """Return what dots of the smallest and the largest standard deviation look like."""
    ends = np.unique([spread.min(), spread.max()])
    sizes = np.sqrt(max(plain, 20.0) * _certainty(ends))
    return [
        _key(f"std {value:.2g}", color="0.3", markersize=size)
        for value, size in zip(ends, sizes, strict=True)
    ]


def _key(text: str, **style: Any) -> Any:
    """Return an entry of a legend: a dot and its meaning."""
    from matplotlib.lines import Line2D

    style = {"markersize": 6.0, "markeredgewidth": 0.9 if "markeredgecolor" in style else 0.0} | style
    return Line2D([], [], linestyle="none", marker="o", label=text, **style)


@door
def plot_kernel_row(K: KernelOperator, node: Any, *, positions: Any = None, ax: Axes | None = None) -> Axes:
    """Draw a row of a kernel: K(node, ·) at all nodes.

    The colour scale starts at 0, where nodes have nothing in common, or diverges from 0 if the row has
    negative entries. It ends at the largest entry of another node, so that the entry of the node itself does
    not hide all others; the bar is pointed if that is larger.

    Parameters
    ----------
    K : KernelOperator
        From ``estimate_kernel`` or ``polynomial_operator``, with all nodes as columns.
    node : node
        The node, which gets a black ring.
    positions : array_like of float, (n_nodes, 2) or (n_nodes, 3), or mapping, optional
        Where nodes are drawn; see ``node_positions`` for what is done without.
    ax : matplotlib Axes, optional
        Where to draw; new axes if not given.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import walkernel as wk
    >>> from walkernel.plots import plot_kernel_row
    >>> club = wk.load_dataset("karate").graph
    >>> axes = plot_kernel_row(wk.polynomial_operator(club, wk.Diffusion(1.0)), 0)
    """
    if not isinstance(K, KernelOperator) or K.shape[1] != K.graph.n_nodes:
        refuse("K", "a KernelOperator with all nodes as columns", K, "Use estimate_kernel(rows=...).")
    own = K.graph.ids(node)
    if own.ndim:
        refuse("node", "one node", node)
    row = np.asarray(K.rows([node])[0])
    places = node_positions(K.graph, positions)
    others = np.delete(row, own)
    reach = float(np.abs(others).max(initial=0.0)) or float(np.abs(row).max(initial=0.0))
    has_signs = bool((others < -1e-9 * reach).any())
    scale = colour_scale(row, -reach if has_signs else 0.0, reach, 0.0 if has_signs else None)
    scale = scale._replace(origin=0.0)
    axes = _map_axes(places) if ax is None else check_axes("ax", ax)
    values, title = _Values(K.graph, row.astype(np.float64)), f"Row of the kernel at node {node}"
    label, ring = f"K({node}, ·)", f"node {node}"
    return _draw(axes, K.graph, places, values, None, own.reshape(1), scale, label, title, ring)


@door
def plot_gp(
    estimator: NodeGPRegressor, *, positions: Any = None, axes: Sequence[Axes] | None = None
) -> NDArray[Any]:
    """Draw the posterior mean of a Gaussian process and its standard deviation, side by side.

    Both are those of ``predict(nodes, return_std=True)`` at all nodes, in the units of y, without the noise
    of an observation. Each has a colour scale of its own.

    Parameters
    ----------
    estimator : NodeGPRegressor
        A fitted one, of a single output; the nodes it has observed get a ring.
    positions : array_like of float, (n_nodes, 2) or (n_nodes, 3), or mapping, optional
        Where nodes are drawn; see ``node_positions`` for what is done without.
    axes : sequence of two matplotlib Axes, optional
        Where to draw; new ones if not given.

    Returns
    -------
    ndarray of two matplotlib Axes
        Of the mean, and of the standard deviation.

    Examples
    --------
    >>> import walkernel as wk
    >>> from walkernel.plots import plot_gp
    >>> club = wk.load_dataset("karate").graph
    >>> left, right = plot_gp(wk.NodeGPRegressor(club, wk.Diffusion(1.0)).fit([0, 33, 2], [1.0, -1.0, 0.4]))
    """
    check_instance("estimator", estimator, NodeGPRegressor, "Draw what others predict by plot_nodes.")
    check_is_fitted(estimator, "_fitted_graph")
    graph = estimator.graph
    places = node_positions(graph, positions)
    panels = None if axes is None else np.asarray(axes, dtype=object).ravel()
    if panels is not None and panels.shape != (2,):
        refuse("axes", "two matplotlib Axes", axes)
    mean, std = estimator.predict(graph.names(np.arange(graph.n_nodes)), return_std=True)
    if mean.ndim != 1:
        remedy = "Use plot_nodes(graph, mean[:, k]) for output k."
        refuse("estimator", "a process of one output", Described(f"one of {mean.shape[1]}"), remedy)
    panels = _map_axes(places, 2) if panels is None else panels
    observed = np.unique(estimator._observed_ids)
    titles = "Posterior mean", "Posterior standard deviation"
    for one, values, title, colours in zip(
        panels, (mean, std), titles, (SEQUENTIAL, UNCERTAINTY), strict=True
    ):
        scale = colour_scale(values, None, None, None, colours)
        shown, label = _Values(graph, values), title.removeprefix("Posterior ")
        _draw(check_axes("axes", one), graph, places, shown, None, observed, scale, label, title)
    return panels


@door
def plot_mesh(
    mesh: Dataset,
    values: Any,
    *,
    vmin: float | None = None,
    vmax: float | None = None,
    center: float | None = None,
    label: str | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw values at the corners of a surface in space as the colours of its faces, which are shaded.

    Parameters
    ----------
    mesh : Dataset
        A data set with coordinates in space and faces, such as ``torus_mesh``.
    values : array_like of float, (n_nodes,)
        One value for each node, in the order of ids; a face has the mean of its corners, and is grey if one
        of them is NaN or infinite.
    vmin, vmax : float, optional
        Ends of the colour scale, if not the smallest and the largest value.
    center : float, optional
        Makes the scale diverge from this value: 0 for values whose sign means something.
    label : str, optional
        What the colours mean, with its unit.
    title : str, optional
        What is seen; the label and the number of nodes if not given.
    ax : matplotlib Axes in three dimensions, optional
        Where to draw; new axes if not given.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from walkernel.datasets import torus_mesh
    >>> from walkernel.plots import plot_mesh
    >>> ring = torus_mesh(20, 10)
    >>> axes = plot_mesh(ring, ring.coordinates[:, 2], label="height")
    """
    if not isinstance(mesh, Dataset) or mesh.faces is None or mesh.coordinates is None:
        refuse("mesh", "a Dataset with coordinates and faces", mesh, "Load one, or use plot_nodes.")
    found, n_nodes = real_array("values", values, finite=False), mesh.graph.n_nodes
    if found.shape != (n_nodes,):
        refuse("values", f"one for each of the {n_nodes} nodes", found)
    found = np.where(np.isfinite(found), found, np.nan)
    scale = colour_scale(found, vmin, vmax, center)
    if title is None:
        title = f"{(label or 'Value').capitalize()} at {n_nodes:,} nodes"
    axes: Any = new_axes(projection="3d") if ax is None else check_axes("ax", ax, in_space=True)
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    colours = ScalarMappable(
        Normalize(scale.low, scale.high), colormaps[scale.colours].with_extremes(bad=MISSING)
    )
    of_faces = colours.to_rgba(np.ma.masked_invalid(found[mesh.faces].mean(axis=1)))
    corners = mesh.coordinates[mesh.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True) + 1e-300
    of_faces[:, :3] *= (0.7 + 0.3 * np.abs(normals @ [0.27, -0.53, 0.8]))[:, None]
    surface = axes.plot_trisurf(*mesh.coordinates.T, triangles=mesh.faces, linewidth=0.2)
    surface.set(facecolor=of_faces, edgecolor=of_faces)
    axes.set_box_aspect(np.ptp(mesh.coordinates, axis=0), zoom=1.3)
    axes.set_axis_off()
    axes.figure.colorbar(colours, ax=axes, label=label or "value", extend=scale.extend, shrink=0.7)
    axes.set_title(title)
    return axes  # type: ignore[no-any-return]
