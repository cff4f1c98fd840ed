"""Features of nodes, and entries, rows and nearest nodes of a kernel with their error bars."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from walkernel.cli._app import VariadicCommand, app, progress, say
from walkernel.cli._inputs import (
    Directed,
    GraphName,
    Json,
    KernelName,
    Matrix,
    NodeFile,
    Nodes,
    Out,
    Relabel,
    Seed,
    Tolerance,
    Walks,
    chosen_nodes,
    every_node,
    find_node,
    read_graph,
)
from walkernel.cli._kernels import read_kernel
from walkernel.cli._results import show_json, show_table

if TYPE_CHECKING:
    from walkernel.operators import KernelOperator


@app.command(cls=VariadicCommand)
def features(
    graph: GraphName,
    out: Out,
    kernel: KernelName = "diffusion",
    matrix: Matrix = "normalized",
    walks: Annotated[int, typer.Option("--walks", min=1, help="Walks from each node.")] = 64,
    seed: Seed = 0,
    node: Nodes = None,
    nodes: NodeFile = None,
    directed: Directed = None,
    relabel: Relabel = False,
) -> None:
    """Write the sparse features Φ of all nodes, or of some, for scipy.sparse.load_npz.

    Example: walkernel features karate --kernel "diffusion(sigma=2)" --walks 64 --out features.npz
    """
    import scipy.sparse

    from walkernel._files import atomic_write
    from walkernel.planning import checked_sampler
    from walkernel.sampling import sample_features

    wanted = read_kernel(kernel, matrix)
    network = read_graph(graph, directed, relabel)
    asked = chosen_nodes(network, node, nodes)
    sampler = checked_sampler(network, wanted, "symmetric", None, walks)
    with progress("walks") as report:
        rows = sample_features(
            network, wanted, walks, sampler=sampler, seed=seed, nodes=asked, progress=report
        )
    with atomic_write(out) as file:
        scipy.sparse.save_npz(file, rows, compressed=False)
    say(f"{out}: {rows.shape[0]} nodes, {rows.nnz} numbers that are not zero, of {wanted}")


@app.command(cls=VariadicCommand)
def kernel(
    graph: GraphName,
    entry: Annotated[list[str] | None, typer.Option(metavar="NODE NODE", help="An entry.")] = None,
    row: Annotated[list[str] | None, typer.Option(metavar="NODE…", help="All entries of a node.")] = None,
    top: Annotated[list[str] | None, typer.Option(metavar="NODE…", help="Its most similar nodes.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many of them.")] = 5,
    kernel: KernelName = "diffusion",
    matrix: Matrix = "normalized",
    walks: Walks = None,
    tolerance: Tolerance = None,
    seed: Seed = 0,
    json: Json = False,
    directed: Directed = None,
    relabel: Relabel = False,
) -> None:
    """Estimate entries of a kernel, whole rows, or the most similar nodes, with standard errors.

    Example: walkernel kernel karate --entry 0 33 --entry 0 1 --kernel "matern(nu=2.5)"

    Example: walkernel kernel karate --top 0 33 -k 3 --json
    """
    if not (entry or row or top):
        raise typer.BadParameter("Give at least one of --entry, --row and --top.")
    if len(entry or []) % 2:
        raise typer.BadParameter("An entry has two nodes.", param_hint="--entry")
    wanted = read_kernel(kernel, matrix)
    network = read_graph(graph, directed, relabel)
    pairs, rows, tops = ([find_node(network, name) for name in names or []] for names in (entry, row, top))
    only = None if rows or tops else list(dict.fromkeys(pairs))
    from walkernel.operators import estimate_kernel

    with progress("walks") as report:
        K = estimate_kernel(
            network, wanted, walks, seed=seed, nodes=only, tolerance=tolerance, progress=report
        )
    found = {"entries": _entries(K, pairs[::2], pairs[1::2])}
    found["rows"] = [record for node in rows for record in _row(K, node)]
    found["neighbors"] = _neighbors(K, tops, k)
    if json:
        show_json({"kernel": str(wanted), "n_steps": K.n_steps, **found})
    else:
        _show([record for records in found.values() for record in records])


def _entries(K: KernelOperator, rows: list[Hashable], columns: list[Hashable]) -> list[dict[str, Any]]:
    """Return records of entries, with bounds for those that hardly a walk contributes to."""
    if not rows:
        return []
    e = K.estimate(rows, columns)
    numbers = zip(e.value.tolist(), e.stderr.tolist(), e.rare.tolist(), e.upper.tolist(), strict=True)
    return [
        {"row": i, "column": j, "value": value, "stderr": stderr, "rare": rare, "upper": upper}
        for i, j, (value, stderr, rare, upper) in zip(rows, columns, numbers, strict=True)
    ]


def _row(K: KernelOperator, node: Hashable) -> list[dict[str, Any]]:
    columns = every_node(K.graph)
    return _entries(K, [node] * len(columns), columns)


def _neighbors(K: KernelOperator, nodes: list[Hashable], k: int) -> list[dict[str, Any]]:
    """Return records of the most similar nodes, best first; fewer than k where no others are similar."""
    if not nodes:
        return []
    best = K.estimate_topk(nodes, min(k, K.shape[0]))
    lines = zip(nodes, *(array.tolist() for array in best), strict=True)
    return [
        {"row": node, "column": column, "value": value, "stderr": stderr}
        for node, *line in lines
        for column, value, stderr in zip(*line, strict=True)
        if value > 0
    ]


def _show(records: list[dict[str, Any]]) -> None:
    def remark(record: dict[str, Any]) -> str:
        return f"few walks; at most {record['upper']:.3g}" if record.get("rare") else ""

    show_table(
        ["node", "node", "value", "standard error", ""],
        [[r["row"], r["column"], r["value"], f"± {r['stderr']:.2g}", remark(r)] for r in records],
    )
