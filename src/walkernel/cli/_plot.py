"""A picture of values at nodes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from walkernel.cli import _options as option
from walkernel.cli._app import app, progress, say
from walkernel.cli._inputs import read_dataset, read_drawn_labels, read_drawn_values, read_positions


@app.command()
def plot(
    graph: option.GraphName,
    values: Annotated[
        Path,
        typer.Argument(
            metavar="VALUES",
            help="A CSV file of node,value or node,value,std; the less certain a value, the smaller its dot.",
        ),
    ],
    out: option.Picture = Path("map.png"),
    labels: Annotated[
        bool, typer.Option("--labels", help="Values are labels, which get a colour each; at most eight.")
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

    Several values of a node are averaged. A header line names the values: what `walkernel regress`
    writes, node,mean,std, is drawn as it is.

    Example: walkernel plot karate labels.csv --labels --out karate.png
    """
    data = read_dataset(graph, directed, relabel)
    drawn = read_drawn_labels(values, data.graph) if labels else read_drawn_values(values, data.graph)
    places = None if positions is None else read_positions(positions, data.graph)
    os.environ["MPLBACKEND"] = "agg"  # no window is opened
    from walkernel._files import atomic_write
    from walkernel.plots import plot_nodes

    with progress("picture"):
        axes = plot_nodes(data, drawn.values, drawn.std, positions=places, label=drawn.name, title=title)
        with atomic_write(out) as file:
            kind = out.suffix.lstrip(".").lower() or "png"
            axes.figure.figure.savefig(file, format=kind, dpi=150)
    from matplotlib import pyplot

    pyplot.close(axes.figure.figure)
    say(f"Picture saved to {out}")
