"""Information about data sets, versions, threads and folders."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer

from walkernel import __version__
from walkernel.cli import _options as option
from walkernel.cli._app import app
from walkernel.cli._inputs import read_graph
from walkernel.cli._results import show_json, show_table

PACKAGES = (
    *("numpy", "scipy", "numba", "scikit-learn", "typer", "rich"),
    *("networkx", "pooch", "trimesh", "matplotlib", "torch", "triton", "gpytorch", "torch-geometric"),
    *("dask", "distributed"),
)
"""The dependencies, and those of the extras."""
VARIABLES = (
    *("CUDA_VISIBLE_DEVICES", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"),
    "TRITON_INTERPRET",
)
"""Environment variables of the dependencies that a report shows; those of this package and numba are too."""


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
    """Describe this installation, as a report of an error needs it, or a graph.

    Every byte of a graph in a folder is compared with a checksum.

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
    from walkernel.engines._base import resolve

    cache = cache_folder()
    files = [] if cache is None else [path for path in cache.rglob("*") if path.is_file()]
    return {
        "walkernel": __version__,
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "platform": platform.platform(),
        **{name: _version(name) for name in PACKAGES},
        "blas": _attempt(_blas),
        "cpus": os.cpu_count(),
        "threads": _attempt(lambda: thread_count(None)),
        "engine": _attempt(lambda: str(resolve(None))),
        **_gpu(),
        **_numba_cache(),
        "cache_folder": None if cache is None else str(cache),
        "cache_bytes": sum(path.stat().st_size for path in files),
        "data_folder": os.environ.get("WALKERNEL_DATA") or None,
        "variables": [f"{name}={os.environ[name]}" for name in sorted(os.environ) if _is_relevant(name)],
    }


def _attempt(question: Callable[[], Any]) -> Any:
    """Return an answer, or the reason why there is none: what is broken is what a report is about."""
    try:
        return question()
    except Exception as error:  # a damaged installation raises anything
        return f"{type(error).__name__}: {error}"


def _is_relevant(name: str) -> bool:
    """Return whether an environment variable may change what this package does."""
    return name.startswith(("WALKERNEL_", "NUMBA_")) or name in VARIABLES


def _blas() -> list[str]:
    """Return the linear algebra libraries that NumPy and SciPy have loaded, with their threads."""
    import scipy.linalg  # noqa: F401 (loads its library)
    from threadpoolctl import threadpool_info

    found = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return sorted({f"{b['internal_api']} {b['version']} ({b['num_threads']} threads)" for b in found})


def _numba_cache() -> dict[str, Any]:
    """Return where numba keeps what it compiled for this package, and whether files can be written there."""

    def folder() -> str | None:
        from walkernel.walks._loops import walk_task

        path = walk_task.dispatcher.stats.cache_path
        return None if path is None else str(path)

    path = _attempt(folder)
    return {"numba_cache": path, "numba_cache_writable": path is not None and _is_writable(Path(path))}


def _is_writable(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


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


def _gpu() -> dict[str, Any]:
    """Return the GPUs that PyTorch finds, the CUDA that it was built for, and the driver of this machine."""

    def devices() -> list[str] | None:
        import torch

        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        return names if names and torch.cuda.is_available() else None

    def cuda() -> str | None:
        import torch

        return torch.version.cuda

    if _version("torch") is None:
        return {"gpu": None, "cuda": None, "gpu_driver": _attempt(_driver)}
    return {"gpu": _attempt(devices), "cuda": _attempt(cuda), "gpu_driver": _attempt(_driver)}


def _driver() -> str | None:
    """Return the version of NVIDIA's driver, or None where there is no driver."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return None
    command = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    return ", ".join(sorted(set(found.stdout.split()))) or None


def _words(value: object) -> str:
    if value is None or value == []:
        return "none"
    if isinstance(value, list):
        return ", ".join(value)
    return str(value) if not isinstance(value, bool) else "yes" if value else "no"
