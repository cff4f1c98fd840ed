"""A picture of values at nodes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from walkernel.cli import _options as option
from walkernel.cli._app import app, progress, say
from walkernel.cli._inputs import read_dataset, read_labels, read_positions, read_values

if TYPE_CHECKING:
    from walkernel.graph import Graph


@app.command()
def plot(
    graph: option.GraphName,
    values: Annotated[Path, typer.Argument(metavar="VALUES", help="A CSV file of node,value.")],
    out: option.Picture = Path("map.png"),
    labels: Annotated[
        bool, typer.Option("--labels", help="Values are labels, which get a colour each.")
    ] = False,
    positions: Annotated[
        Path | None,
        typer.Option("--positions", help="A CSV file of node,x,y; else the data set's, or a layout."),
    ] = None,
    title: Annotated[str | None, typer.Option("--title", help="What is seen.")] = None,
    directed: option.Directed = None,
    relabel: option.Relabel = False,
) -> None:
    """Draw values at nodes on the graph; nodes without a value are grey.

    Example: walkernel plot karate labels.csv --labels --out karate.png
    """
    data = read_dataset(graph, directed, relabel)
    places = None if positions is None else read_positions(positions, data.graph)
    shown = _labels(values, data.graph) if labels else _numbers(values, data.graph)
    os.environ["MPLBACKEND"] = "agg"  # no window is opened
    from walkernel._files import atomic_write
    from walkernel.plots import plot_nodes

    with progress("picture"):
        axes = plot_nodes(data, shown, positions=places, label="value", title=title)
        with atomic_write(out) as file:
            axes.figure.figure.savefig(file, format=out.suffix.lstrip(".") or "png", dpi=150)
    say(f"Picture saved to {out}")


def _numbers(path: Path, graph: Graph) -> Any:
    import numpy as np

    nodes, found = read_values(path, graph)
    result = np.full(graph.n_nodes, np.nan)
    result[graph.ids(nodes)] = found
    return result


def _labels(path: Path, graph: Graph) -> Any:
    import numpy as np

    nodes, found = read_labels(path, graph)
    result = np.full(graph.n_nodes, "none", dtype=object)
    result[graph.ids(nodes)] = found
    return result
