"""Information about data sets, versions, threads and folders."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer

from walkernel import __version__
from walkernel.cli import _options as option
from walkernel.cli._app import app
from walkernel.cli._inputs import read_graph
from walkernel.cli._results import show_json, show_table

PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "torch", "gpytorch", "triton")


@app.command()
def datasets(json: option.Json = False) -> None:
    """List the data sets: size, whether nodes have classes, licence, and whether they are on this machine.

    Example: walkernel datasets
    """
    from walkernel.datasets import available

    entries = available()
    if json:
        show_json([entry._asdict() for entry in entries])
        return
    yes_or_no = {True: "yes", False: "no", None: ""}
    show_table(
        ["name", "nodes", "edges", "labels", "here", "licence"],
        [
            [e.name, e.n_nodes, e.n_edges, yes_or_no[e.has_labels], yes_or_no[e.present], e.licence]
            for e in entries
        ],
    )


@app.command()
def info(
    graph: Annotated[
        str | None, typer.Argument(metavar="GRAPH", help="A graph's folder, file or data set's name.")
    ] = None,
    json: option.Json = False,
) -> None:
    """Describe this installation, or a graph; every byte of a graph in a folder is compared with a checksum.

    Example: walkernel info --json
    Example: walkernel info roads/
    """
    about = _about() if graph is None else _about_graph(graph)
    if json:
        show_json(about)
    else:
        show_table(
            ["name", "value"], [[name.replace("_", " "), _words(value)] for name, value in about.items()]
        )


def _about() -> dict[str, Any]:
    from walkernel._threads import thread_count
    from walkernel.datasets import cache_folder

    cache = cache_folder()
    files = [] if cache is None else [path for path in cache.rglob("*") if path.is_file()]
    return {
        "walkernel": __version__,
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
        "threads": thread_count(None),
        "gpu": _has_gpu(),
        "cache_folder": None if cache is None else str(cache),
        "cache_bytes": sum(path.stat().st_size for path in files),
        "data_folder": os.environ.get("WALKERNEL_DATA") or None,
    }


def _about_graph(name: str) -> dict[str, Any]:
    from walkernel.graph import verify_store

    graph = read_graph(name, None, False)
    files = [] if graph.store is None else verify_store(graph.store)
    return {
        "nodes": graph.n_nodes,
        "edges": graph.n_edges,
        "self_loops": graph.n_self_loops,
        "directed": graph.directed,
        "weighted": graph.weights is not None,
        "labelled": graph.labels is not None,
        "fingerprint": graph.fingerprint,
        "store": None if graph.store is None else str(graph.store),
        "bytes": None if graph.store is None else sum((graph.store / file).stat().st_size for file in files),
        "verified": files or None,
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _has_gpu() -> bool:
    """Return whether PyTorch is installed and finds a GPU."""
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


def _words(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return ", ".join(value)
    return str(value) if not isinstance(value, bool) else "yes" if value else "no"
