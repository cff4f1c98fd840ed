"""Features of nodes, and entries, rows and nearest nodes of a kernel with their error bars."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from walkernel.cli import _options as option
from walkernel.cli._app import Interrupted, VariadicCommand, app, progress, say
from walkernel.cli._clusters import Scheduler, connect
from walkernel.cli._inputs import chosen_nodes, every_node, find_node, read_graph
from walkernel.cli._kernels import read_kernel
from walkernel.cli._results import show_json, show_table, write_csv

if TYPE_CHECKING:
    from walkernel.operators import EstimatedNeighbors, KernelOperator


@app.command(cls=VariadicCommand)
def features(
    graph: option.GraphName,
    out: option.FeaturesOut,
    kernel: option.KernelName = "diffusion",
    matrix: option.Matrix = None,
    walks: option.Walks = 64,
    seed: option.Seed = 0,
    node: option.Nodes = None,
    nodes: option.NodeFile = None,
    scheduler: Scheduler = None,
    block_size: Annotated[
        int | None, typer.Option("--block-size", min=1, help="Nodes per block, for folders and clusters.")
    ] = None,
    directed: option.Directed = None,
    relabel: option.Relabel = False,
) -> None:
    """Write the sparse features Φ of all nodes, or of some: a file for scipy.sparse.load_npz, or a folder.

    A folder, for walkernel.open_features, may hold features larger than memory; an interrupted command
    resumes. With --scheduler, the workers of a Dask cluster compute the features, and this process writes
    them.

    Example: walkernel features karate --kernel "diffusion(sigma=2)" --walks 64 --out features.npz

    Example: walkernel features karate --out features --block-size 10
    """
    import scipy.sparse

    from walkernel._files import atomic_write
    from walkernel.engines import sample_features
    from walkernel.features import Symmetric
    from walkernel.planning import checked_sampler

    if block_size is not None and scheduler is None and out.suffix:
        raise typer.BadParameter("Blocks are for folders and clusters only.", param_hint="--block-size")
    wanted = read_kernel(kernel, matrix)
    network = read_graph(graph, directed, relabel)
    asked = chosen_nodes(network, node, nodes)
    sampler = checked_sampler(network, Symmetric(wanted), None, walks)
    with connect(scheduler) as client, progress("walks") as report:
        options: dict[str, Any] = {"sampler": sampler, "seed": seed, "nodes": asked, "progress": report}
        if client is not None:
            from walkernel.engines import Dask

            options["engine"] = Dask(client, block_size)
        if not out.suffix:
            options |= {"directory": out, "block_size": block_size}
        try:
            rows: Any = sample_features(network, wanted, walks, **options)
        except Interrupted:
            if not out.suffix:
                say(f"The finished blocks are kept in {out}. Run the same command again to resume.")
            raise
        if out.suffix:
            rows = rows if client is None else rows.to_scipy()
            with atomic_write(out) as file:
                scipy.sparse.save_npz(file, rows, compressed=False)
    say(f"{out}: {rows.shape[0]} nodes, {rows.nnz} nonzero entries, of {wanted}")


@app.command(cls=VariadicCommand)
def kernel(
    graph: option.GraphName,
    entry: Annotated[list[str] | None, typer.Option(metavar="NODE NODE", help="An entry.")] = None,
    row: Annotated[list[str] | None, typer.Option(metavar="NODE…", help="All entries of a node.")] = None,
    top: Annotated[list[str] | None, typer.Option(metavar="NODE…", help="Its most similar nodes.")] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="How many of them.")] = 5,
    kernel: option.KernelName = "diffusion",
    matrix: option.Matrix = None,
    walks: option.OptionalWalks = None,
    tolerance: option.Tolerance = None,
    seed: option.Seed = 0,
    json: option.Json = False,
    directed: option.Directed = None,
    relabel: option.Relabel = False,
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


@app.command(cls=VariadicCommand)
def nearest(
    graph: option.GraphName,
    k: Annotated[int, typer.Option("-k", min=1, help="How many neighbours of each node.")] = 10,
    kernel: option.KernelName = "diffusion",
    matrix: option.Matrix = None,
    tolerance: Annotated[
        float, typer.Option("--tolerance", help="Error of a value, relative to the k-th largest.")
    ] = 0.01,
    node: option.Nodes = None,
    nodes: option.NodeFile = None,
    out: option.OptionalOut = None,
    json: option.Json = False,
    directed: option.Directed = None,
    relabel: option.Relabel = False,
) -> None:
    """Find the nodes of the largest kernel values, for some nodes or for all, to a tolerance.

    Values of the kernel pagerank are those of personalised PageRank. The tolerance holds, and certified
    neighbours are among the k nearest, at a level of 95 % for all of a row together. --out writes
    node,neighbor,value,stderr,certified.

    Example: walkernel nearest karate --node 0 33 -k 3 --kernel "pagerank(damping=0.9)"

    Example: walkernel nearest karate -k 5 --out neighbors.csv
    """
    wanted = read_kernel(kernel, matrix)
    network = read_graph(graph, directed, relabel)
    asked = chosen_nodes(network, node, nodes) or every_node(network)
    from walkernel.operators import nearest

    with progress("nodes") as report:
        count = min(k, max(1, network.n_nodes - 1))
        best = nearest(network, wanted, asked, count, tolerance=tolerance, progress=report)
    records = _neighbor_records(asked, best)
    few = int((~(best.values > 0)).any(axis=1).sum())
    if few:
        say(f"{few} of {len(asked)} nodes have fewer than {count} neighbours of positive value.")
    if out is not None:
        titles = ["node", "neighbor", "value", "stderr", "certified"]
        write_csv(out, titles, (list(record.values()) for record in records))
        say(f"{out}: {len(records)} neighbours of {len(asked)} nodes")
    if json:
        show_json({"kernel": str(wanted), "neighbors": records})
    elif out is None:
        _show(records)


def _entries(K: KernelOperator, rows: list[Hashable], columns: list[Hashable]) -> list[dict[str, Any]]:
    """Return records of entries, with upper bounds for those to which hardly any walk contributes."""
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
    """Return records of the most similar nodes, best first; fewer than k if fewer are positive."""
    if not nodes:
        return []
    return _neighbor_records(nodes, K.estimate_topk(nodes, min(k, K.shape[0])))


def _neighbor_records(nodes: list[Hashable], best: EstimatedNeighbors) -> list[dict[str, Any]]:
    """Return a record for each neighbour of each node; those that are missing are left out."""
    columns = (array.tolist() for array in (best.nodes, best.values, best.stderr, best.certified))
    lines = zip(nodes, *columns, strict=True)
    return [
        {"node": node, "neighbor": other, "value": value, "stderr": stderr, "certified": certified}
        for node, *line in lines
        for other, value, stderr, certified in zip(*line, strict=True)
        if value > 0
    ]


def _show(records: list[dict[str, Any]]) -> None:
    def remark(record: dict[str, Any]) -> str:
        if record.get("rare"):
            return f"few walks; at most {record['upper']:.3g}"
        return "" if record.get("certified", True) else "other nodes may be nearer"

    show_table(
        ["node", "node", "value", "standard error", ""],
        [[*list(r.values())[:3], f"± {r['stderr']:.2g}", remark(r)] for r in records],
    )
