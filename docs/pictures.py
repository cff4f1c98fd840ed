"""The pictures of the pages on concepts: kernels seen from one node, modulation functions, walks, errors.

``conf.py`` calls ``draw_all``, which writes them to ``docs/pictures``; git ignores that folder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib import colormaps, colors
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

import walkernel as wk
from walkernel.plots import node_positions, plot_modulation

FOLDER = Path(__file__).parent / "pictures"
BLUE, ORANGE, GREEN = "#0072B2", "#D55E00", "#009E73"
GRID, ON_GRID = wk.datasets.grid(21, 21), 220
SCALE, COLOURS = colors.LogNorm(1e-3, 1.0), colormaps["viridis"]
"""One scale for every row of a kernel, relative to its value at the node itself."""


def make_hubs(n_communities: int = 6, size: int = 16) -> wk.Dataset:
    """Return communities that are rings around a hub each, with an edge from each hub to the middle."""
    edges, places = [], [(0.0, 0.0)]
    for turn in 2 * np.pi * (np.arange(n_communities) + 0.5) / n_communities:
        hub, centre = len(places), 2.4 * np.array([np.cos(turn), np.sin(turn)])
        ring = hub + 1 + np.arange(size)
        around = turn + 2 * np.pi * (np.arange(size) + 0.5) / size
        places += [tuple(centre), *(centre + np.column_stack([np.cos(around), np.sin(around)]))]
        edges += [(0, hub), *((hub, int(one)) for one in ring)]
        edges += [(int(one), int(ring[(i + 1) % size])) for i, one in enumerate(ring)]
    return wk.Dataset(name="hubs", graph=wk.Graph.from_edges(edges), coordinates=np.array(places))


HUBS, ON_HUBS = make_hubs(), 25

Widths = tuple[tuple[str, wk.Kernel], tuple[str, wk.Kernel]]
KERNELS: dict[str, Widths] = {
    "diffusion": (("sigma = 1", wk.Diffusion(1.0)), ("sigma = 4", wk.Diffusion(4.0))),
    "matern": (("nu = 1.5, kappa = 1", wk.Matern(1.5, 1.0)), ("nu = 1.5, kappa = 8", wk.Matern(1.5, 8.0))),
    "regularized-laplacian": (
        ("d = 1, sigma = 1", wk.RegularizedLaplacian(1, 1.0)),
        ("d = 1, sigma = 4", wk.RegularizedLaplacian(1, 4.0)),
    ),
    "pagerank": (("damping = 0.5", wk.PageRank(0.5)), ("damping = 0.95", wk.PageRank(0.95))),
    "p-step": (
        ("p = 2, alpha = 2", wk.PStepRandomWalk(2, 2.0)),
        ("p = 8, alpha = 2", wk.PStepRandomWalk(8, 2.0)),
    ),
    "inverse-cosine": (("scale = 0.5", wk.InverseCosine(0.5)), ("scale = 1", wk.InverseCosine(1.0))),
    "power-series": (
        ("(I + M)²", wk.PowerSeries([1.0, 2.0, 1.0])),
        ("M⁴", wk.PowerSeries([0.0, 0.0, 0.0, 0.0, 1.0])),
    ),
}
MATRICES = (
    ("normalized", wk.Diffusion(3.0)),
    ("combinatorial", wk.Diffusion(3.0, matrix="combinatorial")),
    ("random-walk", wk.Diffusion(3.0, matrix="random-walk")),
    ("adjacency", wk.Diffusion(3.0, matrix="adjacency")),
)


def draw_all(folder: Path = FOLDER, names: Iterable[str] | None = None) -> list[Path]:
    """Write the pictures that are missing or older than this file, and return the paths of all."""
    folder.mkdir(exist_ok=True)
    paths = []
    for name in PICTURES if names is None else names:
        path = folder / f"{name}.png"
        if not path.exists() or path.stat().st_mtime < Path(__file__).stat().st_mtime:
            with matplotlib.rc_context({"font.size": 10, "axes.titlesize": 10, "figure.titlesize": 11}):
                PICTURES[name]().savefig(path, dpi=160)
        paths.append(path)
    return paths


def draw_row(axes: Any, data: wk.Dataset, node: int, kernel: wk.Kernel) -> Any:
    """Draw K(node, ·) / K(node, node): its size as a colour, negative values as crosses."""
    places = node_positions(data)
    K = wk.exact_kernel(data.graph, kernel)
    row = K[node] / abs(K[node]).max()
    lines = data.graph.to_scipy().tocoo()
    ends = np.column_stack([lines.row, lines.col])[lines.row < lines.col]
    axes.add_collection(LineCollection(places[ends], colors="0.8", linewidths=0.5, zorder=1))
    size = np.maximum(abs(row), SCALE.vmin)
    area = 17.0
    faint, below = abs(row) < SCALE.vmin, row <= -SCALE.vmin
    axes.scatter(*places[faint].T, s=5, c="0.7", linewidths=0, zorder=2)
    shown = ~faint & ~below
    dots = axes.scatter(
        *places[shown].T, s=area, c=size[shown], cmap=COLOURS, norm=SCALE, linewidths=0, zorder=3
    )
    axes.scatter(*places[below].T, s=24, c=size[below], cmap=COLOURS, norm=SCALE, marker="x", zorder=3)
    axes.scatter(*places[[node]].T, s=70, facecolors="none", edgecolors=ORANGE, linewidths=1.8, zorder=4)
    axes.set_aspect("equal")
    axes.set_axis_off()
    return dots


def add_scale(figure: Figure, dots: Any, axes: Any, crosses: bool = False) -> None:
    """Add the colour scale that all rows of kernels share."""
    bar = figure.colorbar(dots, ax=axes, location="bottom", shrink=0.8, aspect=35, extend="min", pad=0.03)
    bar.set_ticks([1e-3, 1e-2, 1e-1, 1.0], labels=["0.001", "0.01", "0.1", "1"])
    note = "; crosses: negative" if crosses else ""
    bar.set_label(f"relative to the largest value\n(grey: below 0.001{note})")


def draw_kernel(name: str, title: str) -> Figure:
    """Draw the rows of a kernel at two widths, on the grid and on the graph with hubs."""
    figure = Figure(figsize=(5.0, 5.5), layout="constrained")
    axes = figure.subplots(2, 2)
    for column, (label, kernel) in enumerate(KERNELS[name]):
        axes[0, column].set_title(label)
        for row, (data, node) in enumerate(((GRID, ON_GRID), (HUBS, ON_HUBS))):
            dots = draw_row(axes[row, column], data, node, kernel)
    figure.suptitle(f"{title}: row of the ringed node", weight="bold")
    add_scale(figure, dots, axes, crosses=name == "inverse-cosine")
    return figure


def draw_matrices() -> Figure:
    """Draw a row of exp(−4.5 L) for each matrix, on the graph with hubs."""
    figure = Figure(figsize=(5.0, 5.5), layout="constrained")
    axes = figure.subplots(2, 2)
    for one, (matrix, kernel) in zip(axes.flat, MATRICES, strict=True):
        dots = draw_row(one, HUBS, ON_HUBS, kernel)
        one.set_title(f'"{matrix}"')
    figure.suptitle("Diffusion(3) of four matrices: row of the ringed node", weight="bold")
    add_scale(figure, dots, axes)
    return figure


def draw_modulation() -> Figure:
    """Draw the modulation functions of some kernels."""
    figure = Figure(figsize=(5.0, 3.6), layout="constrained")
    axes = figure.subplots()
    kernels = wk.Diffusion(1.0), wk.Diffusion(3.0), wk.Matern(1.5, 2.0), wk.RegularizedLaplacian(1, 2.0)
    plot_modulation(*kernels, length=12, ax=axes)
    axes.set_title("Modulation functions: the weight of each length")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw_walk() -> Figure:
    """Draw one walk on a grid, with the length at which it visits each node."""
    data = wk.datasets.grid(6, 10)
    places = node_positions(data)
    steps = (1, 10, 1, 1, 10, -1, 10, 1)
    path = np.cumsum([12, *steps])
    figure = Figure(figsize=(5.0, 3.2), layout="constrained")
    axes = figure.subplots()
    lines = data.graph.to_scipy().tocoo()
    ends = np.column_stack([lines.row, lines.col])
    axes.add_collection(LineCollection(places[ends], colors="0.85", linewidths=1, zorder=1))
    axes.scatter(*places.T, s=14, c="0.7", linewidths=0, zorder=2)
    axes.plot(*places[path].T, color=BLUE, linewidth=2.2, zorder=3)
    colours = [ORANGE] + [BLUE] * len(steps)
    axes.scatter(*places[path].T, s=230, c=colours, linewidths=0, zorder=4)
    for length, visited in enumerate(path):
        style = {"color": "w", "weight": "bold", "ha": "center", "va": "center_baseline"}
        axes.text(*places[visited], str(length), fontsize=9, zorder=5, **style)
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_title("One walk: a deposit at each visit, marked with its length")
    return figure


def draw_convergence() -> Figure:
    """Draw the error against the number of walks, for each way to use them."""
    graph, kernel = wk.load_dataset("karate").graph, wk.Diffusion(3.0)
    exact, counts = wk.exact_kernel(graph, kernel), 2 ** np.arange(2, 11)
    figure = Figure(figsize=(5.0, 3.6), layout="constrained")
    axes = figure.subplots()
    ways = (
        ("shared", "one set of walks", ORANGE, "s"),
        ("independent", "two sets", BLUE, "o"),
        ("debiased", "one set, debiased", GREEN, "D"),
    )
    for ensembles, label, colour, marker in ways:
        errors = []
        for count in counts:
            found = [
                wk.estimate_kernel(
                    graph, kernel, int(count), ensembles=ensembles, stitches=1, seed=seed,
                    sampler=wk.IndependentWalks(0.1),
                ).to_dense()
                for seed in range(10)
            ]  # fmt: skip
            squares = [((one - exact) ** 2).sum() / (exact**2).sum() for one in found]
            errors.append(np.sqrt(np.mean(squares)))
        axes.loglog(counts, errors, color=colour, marker=marker, markersize=5, label=label)
    axes.loglog(counts, 1.1 * counts**-0.5, color="0.5", linestyle="--", label="slope -1/2")
    axes.set(xlabel="walks from each node", ylabel="relative error", yticks=[0.03, 0.1, 0.3])
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")
    axes.set_title("Diffusion(3) on the karate club: error of K̂")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return figure


def _picture_of(name: str, title: str) -> Callable[[], Figure]:
    return lambda: draw_kernel(name, title)


TITLES = {
    "diffusion": "Diffusion",
    "matern": "Matérn",
    "regularized-laplacian": "Regularized Laplacian",
    "pagerank": "PageRank",
    "p-step": "p-step random walk",
    "inverse-cosine": "Inverse cosine",
    "power-series": "Power series",
}
PICTURES: dict[str, Callable[[], Figure]] = {
    **{f"kernel-{name}": _picture_of(name, title) for name, title in TITLES.items()},
    "matrices": draw_matrices,
    "modulation": draw_modulation,
    "walk": draw_walk,
    "convergence": draw_convergence,
}
