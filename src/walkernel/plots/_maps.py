"""Values at the nodes of a graph as maps: colours of dots along edges, or of the faces of a surface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from walkernel._checks import Described, refuse
from walkernel._door import door
from walkernel.datasets import Dataset
from walkernel.graph import Graph
from walkernel.operators import KernelOperator
from walkernel.plots._axes import CATEGORIES, colour_limits, new_axes
from walkernel.plots._layout import node_positions
from walkernel.tasks import NodeGPRegressor

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_EDGES = 10**6
"""Edges of larger graphs are not drawn: they would cover the nodes."""
LARGEST_DOT, SMALLEST_DOT = 80.0, 1.0
"""Areas of dots in square points: the largest for few nodes, the smallest for many."""
MAX_CATEGORIES = len(CATEGORIES)


@door
def plot_nodes(
    graph: Graph | Dataset,
    values: Any,
    *,
    std: Any = None,
    positions: Any = None,
    observed: Any = None,
    label: str | None = None,
    title: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw values at all nodes of a graph.

    Parameters
    ----------
    graph : Graph or Dataset
        The coordinates of a data set are where its nodes are drawn.
    values : array_like, (n_nodes,)
        One value for each node, in the order of ids; NaN is drawn in grey. Numbers have one colour scale,
        from the first to the 99th percentile. Labels, truth values, and integers of at most eight kinds
        have colours of their own.
    std : array_like, (n_nodes,), optional
        Standard deviations: the smaller that of a node, the larger its dot.
    positions : array_like, (n_nodes, 2) or (n_nodes, 3), optional
        Where nodes are drawn; see ``node_positions`` for what is done without.
    observed : sequence of nodes, optional
        Nodes that get a black ring, such as those that a model was fitted to.
    label, title : str, optional
        What the colours mean, and what is seen.
    ax : matplotlib Axes, optional
        Where to draw; new axes if not given.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import walkernel as wk
    >>> from walkernel.plots import plot_nodes
    >>> club = wk.load_dataset("karate")
    >>> axes = plot_nodes(club, club.graph.out_degrees(), label="friends", title="Zachary's karate club")
    """
    network = graph.graph if isinstance(graph, Dataset) else graph
    places = node_positions(graph, positions)
    found = np.asarray(values)
    n = network.n_nodes
    if found.shape != (n,):
        refuse("values", f"one for each of the {n} nodes", Described(f"an array of shape {found.shape}"))
    axes = new_axes() if ax is None else ax
    draw_edges(axes, network, places)
    areas = _areas(n, std)
    if _is_categorical(found):
        kinds = found.astype(str) if found.dtype == object else found
        _draw_categories(axes, places, kinds, areas, label)
    else:
        numbers = found.astype(np.float64)
        _draw_numbers(axes, places, numbers, areas, label)
    if observed is not None:
        at = places[network.ids(observed)]
        axes.scatter(
            at[:, 0], at[:, 1], s=1.6 * areas.max() + 8, facecolors="none", edgecolors="k", linewidths=0.9
        )
    axes.set_aspect("equal")
    axes.set_axis_off()
    if title is not None:
        axes.set_title(title)
    return axes


def draw_edges(axes: Axes, graph: Graph, places: NDArray[np.float64]) -> None:
    """Draw the edges of a graph as thin grey lines, unless there are too many."""
    from matplotlib.collections import LineCollection

    A = graph.to_scipy().tocoo()
    once = A.row != A.col if graph.directed else A.row < A.col
    if once.sum() <= MAX_EDGES:
        ends = np.column_stack([A.row, A.col])[once]
        width = float(np.clip(60 / max(1.0, np.sqrt(len(ends))), 0.15, 0.8))
        lines = LineCollection(places[ends], colors="0.75", linewidths=width, zorder=1)
        lines.set_rasterized(len(ends) > 10**4)
        axes.add_collection(lines)


def _areas(n_nodes: int, std: Any) -> NDArray[np.float64]:
    """Return the areas of dots, smaller where there are more nodes and where values are less certain."""
    area = float(np.clip(4e4 / max(1, n_nodes), SMALLEST_DOT, LARGEST_DOT))
    if std is None:
        return np.full(n_nodes, area)
    spread = np.asarray(std, dtype=np.float64)
    if spread.shape != (n_nodes,) or not (spread >= 0).all():
        rule = f"{n_nodes} standard deviations, none of them negative or NaN"
        refuse("std", rule, Described(f"an array of shape {spread.shape}"))
    largest = spread.max(initial=0.0) or 1.0
    return area * (0.15 + 1.7 * (1 - spread / largest))


def _is_categorical(values: NDArray[Any]) -> bool:
    if values.dtype.kind in "bUSO":
        if np.unique(values.astype(str)).size > MAX_CATEGORIES:
            refuse("values", f"numbers, or labels of at most {MAX_CATEGORIES} kinds", Described("more"))
        return True
    return values.dtype.kind in "iu" and np.unique(values).size <= MAX_CATEGORIES


def _draw_numbers(
    axes: Axes,
    places: NDArray[np.float64],
    values: NDArray[np.float64],
    areas: NDArray[np.float64],
    label: str | None,
) -> None:
    known = np.isfinite(values)
    if not known.all():
        axes.scatter(places[~known, 0], places[~known, 1], s=areas[~known], c="0.6", linewidths=0, zorder=2)
    low, high, extend = colour_limits(values[known])
    dots = axes.scatter(
        places[known, 0], places[known, 1], c=values[known], s=areas[known], linewidths=0, zorder=2,
        cmap="viridis", vmin=low, vmax=high, rasterized=len(places) > 10**4,
    )  # fmt: skip
    axes.figure.colorbar(dots, ax=axes, label=label or "", extend=extend, shrink=0.8)


def _draw_categories(
    axes: Axes,
    places: NDArray[np.float64],
    values: NDArray[Any],
    areas: NDArray[np.float64],
    label: str | None,
) -> None:
    for kind, colour in zip(np.unique(values), CATEGORIES, strict=False):
        own = values == kind
        axes.scatter(
            places[own, 0], places[own, 1], s=areas[own], c=colour, linewidths=0, zorder=2, label=str(kind),
            rasterized=len(places) > 10**4,
        )  # fmt: skip
    legend = axes.legend(title=label, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    for handle in legend.legend_handles:
        handle.set_sizes([40.0])  # type: ignore[union-attr]


@door
def plot_kernel_row(K: KernelOperator, node: Any, *, positions: Any = None, ax: Axes | None = None) -> Axes:
    """Draw what a kernel says of one node: its row K(node, ·), at all nodes.

    Parameters
    ----------
    K : KernelOperator
        From ``estimate_kernel`` or ``polynomial_operator``, with all nodes as columns.
    node : node
        The node, which gets a black ring.
    positions, ax
        As in ``plot_nodes``.

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
    row = K.rows([node])[0]
    title = f"Row of the kernel at node {node}"
    return plot_nodes(
        K.graph, row, positions=positions, observed=[node], label=f"K({node}, ·)", title=title, ax=ax
    )


@door
def plot_gp(
    estimator: NodeGPRegressor, *, positions: Any = None, axes: Sequence[Axes] | None = None
) -> NDArray[Any]:
    """Draw the posterior mean of a Gaussian process and its standard deviation, side by side.

    Parameters
    ----------
    estimator : NodeGPRegressor
        A fitted one, of a single output and without attributes; the nodes it has observed get a ring.
    positions : array_like, (n_nodes, 2) or (n_nodes, 3), optional
        Where nodes are drawn; see ``node_positions``.
    axes : two matplotlib Axes, optional
        Where to draw; new ones if not given.

    Returns
    -------
    ndarray of two matplotlib Axes

    Examples
    --------
    >>> import walkernel as wk
    >>> from walkernel.plots import plot_gp
    >>> club = wk.load_dataset("karate").graph
    >>> left, right = plot_gp(wk.NodeGPRegressor(club, wk.Diffusion(1.0)).fit([0, 33, 2], [1.0, -1.0, 0.4]))
    """
    check_is_fitted(estimator, "_fitted_graph")
    graph = estimator.graph
    panels = new_axes(2) if axes is None else np.asarray(axes)
    if panels.shape != (2,):
        refuse("axes", "two matplotlib Axes", axes)
    nodes = range(graph.n_nodes) if graph.labels is None else list(graph.labels)
    mean, std = estimator.predict(nodes, return_std=True)
    if mean.ndim != 1:
        refuse("estimator", "a process of one output", Described(f"one of {mean.shape[1]}"))
    observed = graph.names(np.unique(estimator._observed_ids))
    titles = "Posterior mean, observed nodes ringed", "Posterior standard deviation"
    for one, values, title, label in zip(
        panels, (mean, std), titles, ("mean", "standard deviation"), strict=True
    ):
        plot_nodes(graph, values, positions=positions, observed=observed, label=label, title=title, ax=one)
    return panels


@door
def plot_mesh(
    mesh: Dataset, values: Any, *, label: str | None = None, title: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw values at the corners of a surface as the colours of its faces.

    Parameters
    ----------
    mesh : Dataset
        A data set with coordinates in space and faces.
    values : array_like of float, (n_nodes,)
        One value for each node; a face has the mean of its corners.
    label, title : str, optional
        What the colours mean, and what is seen.
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
    found = np.asarray(values, dtype=np.float64)
    if found.shape != (mesh.graph.n_nodes,):
        rule = f"one for each of the {mesh.graph.n_nodes} nodes"
        refuse("values", rule, Described(f"an array of shape {found.shape}"))
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    axes: Any = new_axes(projection="3d") if ax is None else ax
    low, high, extend = colour_limits(found[np.isfinite(found)])
    scale = ScalarMappable(Normalize(low, high), colormaps["viridis"])
    colours = scale.to_rgba(found[mesh.faces].mean(axis=1))
    corners = mesh.coordinates[mesh.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True) + 1e-300
    colours[:, :3] *= (0.7 + 0.3 * np.abs(normals @ [0.27, -0.53, 0.8]))[:, None]
    surface = axes.plot_trisurf(*mesh.coordinates.T, triangles=mesh.faces, linewidth=0.2)
    surface.set(facecolor=colours, edgecolor=colours)
    axes.set_box_aspect(np.ptp(mesh.coordinates, axis=0), zoom=1.3)
    axes.set_axis_off()
    axes.figure.colorbar(scale, ax=axes, label=label or "", extend=extend, shrink=0.7)
    if title is not None:
        axes.set_title(title)
    return axes  # type: ignore[no-any-return]
