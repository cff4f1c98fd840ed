"""Options and arguments that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer


def _writable(path: Path | None) -> Path | None:
    """Refuse a file that cannot be written before any work is done."""
    from walkernel._files import check_writable

    if path is not None:
        try:
            check_writable(path)
        except OSError as error:
            raise typer.BadParameter(str(error)) from None
    return path


def _for_pictures(path: Path) -> Path:
    """Refuse a picture that cannot be written, or of another format, before any work is done."""
    if path.suffix.lower() not in (".png", ".svg", ".pdf", ""):
        raise typer.BadParameter(f"{path} ends in {path.suffix}; pictures end in .png, .svg or .pdf.")
    _writable(path)
    return path


def _for_features(path: Path) -> Path:
    """Refuse an unsuitable path for features before any work is done."""
    if not path.is_dir():
        _writable(path)
    if path.is_dir() and path.suffix:
        raise typer.BadParameter(f"{path} is a folder; the name of a folder of features has no suffix.")
    if path.is_dir() and any(path.iterdir()) and not (path / "manifest.json").is_file():
        raise typer.BadParameter(f"{path} contains other files. Name a new folder, or an .npz file.")
    if path.is_file() and not path.suffix:
        raise typer.BadParameter(f"{path} is a file. Name a new folder, or an .npz file.")
    return path


GraphName = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH",
        help="A graph's file (edge list, .mtx, .graphml, .npz, mesh …), its folder, or a data set's name.",
    ),
]
Directed = Annotated[
    bool | None,
    typer.Option("--directed", help="Edges of the file lead from their first node to the second."),
]
Relabel = Annotated[
    bool, typer.Option("--relabel", help="Treat whole numbers in an edge list as labels, not as ids.")
]
KernelName = Annotated[
    str,
    typer.Option(
        "--kernel", metavar="KERNEL", help='Such as "matern(nu=2.5)"; `walkernel --help` lists all kernels.'
    ),
]
Matrix = Annotated[
    Literal["normalized", "adjacency", "combinatorial", "random-walk"] | None,
    typer.Option(
        "--matrix",
        help="The matrix that the kernel is a function of; random-walk for pagerank, else normalized.",
    ),
]
Walks = Annotated[int, typer.Option("--walks", min=1, help="Walks from each node.")]
OptionalWalks = Annotated[
    int | None, typer.Option("--walks", min=1, help="Walks from each node; 400 steps if not given.")
]
Tolerance = Annotated[
    float | None, typer.Option("--tolerance", help="Relative error to meet, instead of --walks.")
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same walks.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Nodes = Annotated[list[str] | None, typer.Option("--node", metavar="NODE…", help="One or more nodes.")]
NodeFile = Annotated[
    Path | None,
    typer.Option("--nodes", metavar="FILE", help="A file with one node in each line, or a CSV file of them."),
]
Out = Annotated[
    Path, typer.Option("--out", metavar="FILE", dir_okay=False, callback=_writable, help="File to write.")
]
FeaturesOut = Annotated[
    Path,
    typer.Option(
        "--out",
        metavar="PATH",
        callback=_for_features,
        help="An .npz file to write, or, by a name without suffix, a folder.",
    ),
]
Picture = Annotated[
    Path,
    typer.Option(
        "--out", metavar="FILE", dir_okay=False, callback=_for_pictures, help="Picture: .png, .svg or .pdf."
    ),
]
OptionalOut = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", dir_okay=False, callback=_writable, help="CSV file to write."),
]
