"""Clusters of nodes, values at nodes from values at others, and heat that spreads."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from walkernel.cli import _options as option
from walkernel.cli._app import VariadicCommand, app, progress, say
from walkernel.cli._inputs import chosen_nodes, every_node, find_node, read_graph, read_labels, read_values
from walkernel.cli._kernels import read_kernel
from walkernel.cli._results import show_json, show_table, write_csv

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from walkernel.graph import Graph
    from walkernel.tasks import ODESolution

Equation = Annotated[
    Literal["laplacian", "combinatorial", "normalized", "adjacency", "positive-laplacian"],
    typer.Option("--equation", help="G: −L, −(D − A), W̃, A or +L."),
]
Method = Annotated[
    Literal["auto", "polynomial", "walks"],
    typer.Option("--method", help="Exact products, or walks with error bars: auto if --walks is given."),
]


EstimatorMethod = Annotated[
    Literal["auto", "polynomial", "walks"],
    typer.Option("--method", help="Exact rows of the kernel, features of walks, or whichever suits."),
]
OptionalKernel = Annotated[
    str | None,
    typer.Option(
        "--kernel", metavar="KERNEL", help='Such as "matern(nu=2.5)"; several are compared without.'
    ),
]


@app.command()
def cluster(
    graph: option.GraphName,
    k: Annotated[
        int | None, typer.Option("-k", min=1, help="Number of clusters; chosen from the graph if not given.")
    ] = None,
    kernel: option.KernelName = "diffusion(sigma=5)",
    matrix: option.Matrix = None,
    method: Annotated[
        Literal["auto", "eigenvectors", "polynomial", "walks"],
        typer.Option("--method", help="How the kernel is computed."),
    ] = "auto",
    seed: option.Seed = 0,
    out: option.OptionalOut = None,
    json: option.Json = False,
    directed: option.Directed = None,
    relabel: option.Relabel = False,
) -> None:
    """Find clusters of nodes by kernel k-means; --out writes node,cluster.

    Example: walkernel cluster karate -k 2 --out labels.csv
    """
    wanted = read_kernel(kernel, matrix)
    network = read_graph(graph, directed, relabel)
    import numpy as np

    from walkernel.tasks import KernelKMeans

    with progress("clusters"):
        model = KernelKMeans(k, kernel=wanted, method=method, random_state=seed).fit(network)
    labels = model.labels_.tolist()
    sizes = np.bincount(labels).tolist()
    names = every_node(network)
    if out is not None:
        write_csv(out, ["node", "cluster"], zip(names, labels, strict=True))
        say(f"{out}: the clusters of {len(labels)} nodes")
    if json:
        clusters = [{"node": node, "cluster": label} for node, label in zip(names, labels, strict=True)]
        result = {"kernel": str(model.kernel_), "method": model.method_, "inertia": float(model.inertia_)}
        show_json({**result, "sizes": sizes, "clusters": clusters})
    else:
        show_table(["cluster", "size"], list(enumerate(sizes)))


@app.command(cls=VariadicCommand)
def regress(
    graph: option.GraphName,
    values: Annotated[Path, typer.Argument(metavar="VALUES.csv", help="Lines of node,value.")],
    out: option.OptionalOut = None,
    model: Annotated[
        Literal["gp", "smoother", "ridge"],
        typer.Option(help="A Gaussian process, a weighted mean of the values, or kernel ridge regression."),
    ] = "gp",
    kernel: OptionalKernel = None,
    matrix: option.Matrix = None,
    method: EstimatorMethod = "auto",
    walks: option.Walks = 256,
    seed: option.Seed = 0,
    node: option.Nodes = None,
    nodes: option.NodeFile = None,
    directed: option.Directed = None,
    relabel: option.Relabel = False,
) -> None:
    """Predict values at all nodes, or at some, from values at others: lines of node,mean,std.

    Without --kernel, the best of a family of kernels is taken.

    std is the posterior standard deviation for gp, the standard error of the walks for smoother, and empty
    for ridge.
    A node may have several values for gp. Without --out the lines are printed.

    Example: walkernel regress karate values.csv --out predicted.csv
    """
    wanted = None if kernel is None else read_kernel(kernel, matrix)
    network = read_graph(graph, directed, relabel)
    known, y = read_values(values, network)
    asked = chosen_nodes(network, node, nodes) or every_node(network)
    options = {"n_walks": walks, "random_state": seed, "method": method}
    with progress("fit"):
        fitted = _fit(model, (network, wanted), options, known, y)
    with progress("prediction"):
        mean, std = _predict(fitted, asked)
    write_csv(out, ["node", "mean", "std"], zip(asked, mean, std, strict=True))
    if out is not None:
        say(f"{out}: predictions at {len(asked)} nodes")


def _fit(model: str, place: tuple[Any, Any], options: dict[str, Any], nodes: list[Hashable], y: Any) -> Any:
    """Fit a model, and print what a Gaussian process has learned."""
    from walkernel.tasks import NodeGPRegressor, NodeRidge, NodeSmoother

    if model == "ridge":
        return NodeRidge(*place, **options).fit(nodes, y)
    if model == "smoother":
        return NodeSmoother(*place, **options).fit(nodes, y)
    gp = NodeGPRegressor(*place, **options).fit(nodes, y)
    say(f"{gp.kernel_}, amplitude {gp.amplitude_:.4g}, noise {gp.noise_:.4g}")
    return gp


def _predict(model: Any, nodes: list[Hashable]) -> tuple[list[float], list[Any]]:
    """Return means and standard deviations, empty texts where the model has none."""
    from walkernel.tasks import NodeRidge

    if isinstance(model, NodeRidge):
        return model.predict(nodes).tolist(), [""] * len(nodes)
    mean, std = model.predict(nodes, return_std=True)
    return mean.tolist(), std.tolist()


@app.command(cls=VariadicCommand)
def classify(
    graph: option.GraphName,
    labels: Annotated[Path, typer.Argument(metavar="LABELS.csv", help="Lines of node,label.")],
    out: option.OptionalOut = None,
    kernel: OptionalKernel = None,
    matrix: option.Matrix = None,
    method: EstimatorMethod = "auto",
    walks: option.Walks = 256,
    seed: option.Seed = 0,
    node: option.Nodes = None,
    nodes: option.NodeFile = None,
    directed: option.Directed = None,
    relabel: option.Relabel = False,
) -> None:
    """Predict labels at all nodes, or at some, from labels at others: lines of node,label,probability.

    Without --kernel, the best of a family of kernels is taken. Without --out the lines are printed.

    Example: walkernel classify karate labels.csv --out predicted.csv
    """
    wanted = None if kernel is None else read_kernel(kernel, matrix)
    network = read_graph(graph, directed, relabel)
    known, y = read_labels(labels, network)
    asked = chosen_nodes(network, node, nodes) or every_node(network)
    from walkernel.tasks import NodeRidgeClassifier

    model = NodeRidgeClassifier(network, wanted, n_walks=walks, random_state=seed, method=method)
    with progress("fit"):
        model.fit(known, y)
    say(f"{model.kernel_}, alpha {model.alpha_:.4g}")
    with progress("prediction"):
        probabilities = model.predict_proba(asked)
    best = probabilities.argmax(axis=1)
    rows = zip(asked, model.classes_[best].tolist(), probabilities.max(axis=1).tolist(), strict=True)
    write_csv(out, ["node", "label", "probability"], rows)
    if out is not None:
        say(f"{out}: labels of {len(asked)} nodes")


@app.command(cls=VariadicCommand)
def ode(
    graph: option.GraphName,
    times: Annotated[
        list[float], typer.Option("--times", metavar="TIME…", help="Times at which the state is printed.")
    ],
    source: Annotated[list[str] | None, typer.Option(metavar="NODE…", help="Where y is 1.")] = None,
    initial: Annotated[list[str] | None, typer.Option(metavar="NODE…", help="Where x(0) is 1.")] = None,
    equation: Equation = "laplacian",
    method: Method = "auto",
    walks: Annotated[int | None, typer.Option("--walks", min=2, help="Walks from each node.")] = None,
    seed: option.Seed = 0,
    node: option.Nodes = None,
    nodes: option.NodeFile = None,
    json: option.Json = False,
    directed: option.Directed = None,
    relabel: option.Relabel = False,
) -> None:
    """Solve x' = Gx + y: what flows from a source, or from an initial state, at some times and nodes.

    Example: walkernel ode karate --source 0 --times 0.5 1 2 --node 0 1 33
    """
    if not (source or initial):
        raise typer.BadParameter("Give --source, --initial or both.")
    network = read_graph(graph, directed, relabel)
    asked = chosen_nodes(network, node, nodes)
    y, begin = (_indicator(network, names) for names in (source, initial))
    from walkernel.tasks import solve_ode

    with progress("solution") as report:
        solution = solve_ode(
            network, y, times, initial=begin, matrix=equation, n_walks=walks, seed=seed, nodes=asked,
            method=method, progress=report,
        )  # fmt: skip
    records = _states(solution, asked or every_node(network))
    if json:
        show_json({"growth": solution.growth, "states": records})
    else:
        rows = [[r["t"], r["node"], r["x"], f"± {r['stderr']:.2g}"] for r in records]
        show_table(["time", "node", "x", "standard error"], rows)


def _states(solution: ODESolution, nodes: list[Hashable]) -> list[dict[str, Any]]:
    """Return a record for each time and node."""
    return [
        {"t": t, "node": node, "x": x, "stderr": stderr}
        for t, *states in zip(solution.t.tolist(), solution.x.tolist(), solution.stderr.tolist(), strict=True)
        for node, x, stderr in zip(nodes, *states, strict=True)
    ]


def _indicator(graph: Graph, names: list[str] | None) -> NDArray[np.float64] | None:
    """Return 1 at the nodes that are named and 0 elsewhere; None if none are."""
    import numpy as np

    if not names:
        return None
    values = np.zeros(graph.n_nodes)
    values[graph.ids([find_node(graph, name) for name in names])] = 1.0
    return values
