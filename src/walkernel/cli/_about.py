"""What there is: data sets, versions, threads, folders."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from walkernel import __version__
from walkernel.cli._app import app
from walkernel.cli._inputs import Json
from walkernel.cli._results import show_json, show_table

PACKAGES = ("numpy", "scipy", "numba", "scikit-learn", "torch", "gpytorch", "triton")


@app.command()
def datasets(json: Json = False) -> None:
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
def info(json: Json = False) -> None:
    """Tell versions, threads, whether there is a GPU, and the folders of data.

    Example: walkernel info --json
    """
    about = _about()
    if json:
        show_json(about)
    else:
        show_table(
            ["name", "value"], [[name.replace("_", " "), _words(value)] for name, value in about.items()]
        )


def _about() -> dict[str, Any]:
    from walkernel._checks import thread_count
    from walkernel.datasets import cache_folder

    cache = cache_folder()
    files = [] if cache is None else [path for path in cache.rglob("*") if path.is_file()]
    return {
        "walkernel": __version__,
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
        "threads": thread_count("info", None),
        "gpu": _has_gpu(),
        "cache_folder": None if cache is None else str(cache),
        "cache_bytes": sum(path.stat().st_size for path in files),
        "data_folder": os.environ.get("WALKERNEL_DATA") or None,
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _has_gpu() -> bool:
    """Tell whether PyTorch is there and finds a GPU."""
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


def _words(value: object) -> str:
    if value is None:
        return "none"
    return str(value) if not isinstance(value, bool) else "yes" if value else "no"
