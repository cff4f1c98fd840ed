"""Kernels by name: ``diffusion``, ``"diffusion(sigma=2)"``, or the JSON file of a learned f."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NoReturn

import typer

if TYPE_CHECKING:
    from walkernel.kernels import Kernel

CLASSES = {
    "diffusion": "Diffusion",
    "regularized-laplacian": "RegularizedLaplacian",
    "matern": "Matern",
    "p-step": "PStepRandomWalk",
    "inverse-cosine": "InverseCosine",
    "pagerank": "PageRank",
}
CALL = re.compile(r"\s*([A-Za-z_-]+)\s*(?:\((.*)\))?\s*")


def read_kernel(text: str, matrix: str | None) -> Kernel:
    """Return the kernel that a text names; the library's own spelling, as in ``repr``, is understood too.

    The matrix is the kernel's own default if none is given.

    Examples
    --------
    >>> read_kernel("matern(nu=2.5)", "normalized")
    Matern(nu=2.5, kappa=1.0)
    """
    if text.endswith(".json"):
        return _learned(text, matrix)
    from walkernel import kernels

    found = CALL.fullmatch(text)
    name = _class_name(found[1]) if found else None
    if found is None or name is None:
        _refuse(
            f"{text!r} is not a kernel. Use one of {', '.join(CLASSES)}, or the .json file of a learned f"
        )
    kind = getattr(kernels, name)
    known = [field.name for field in fields(kind) if field.name != "matrix"]
    parameters: dict[str, Any] = _parameters(found[2] or "", known, found[1])
    parameters |= {} if matrix is None else {"matrix": matrix}
    try:
        return kind(**parameters)  # type: ignore[no-any-return]
    except (TypeError, ValueError) as error:
        _refuse(str(error))


def _class_name(text: str) -> str | None:
    def bare(word: str) -> str:
        return word.replace("-", "").replace("_", "").lower()

    spelled = {bare(word): name for short, name in CLASSES.items() for word in (short, name)}
    return spelled.get(bare(text))


def _parameters(text: str, known: list[str], owner: str) -> dict[str, float]:
    """Read ``name=number`` pairs between commas."""
    found: dict[str, float] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or name not in known or name in found:
            _refuse(
                f"{part!r} is not a parameter of {owner}. Write {owner}({', '.join(f'{k}=…' for k in known)})"
            )
        try:
            found[name] = int(value) if re.fullmatch(r"[+-]?[0-9]+", value) else float(value)
        except ValueError:
            _refuse(f"{name} of {owner} must be a number, got {value!r}")
    return found


def _learned(path: str, matrix: str | None) -> Kernel:
    import json
    from pathlib import Path

    from walkernel.torch import load_modulation

    modulation = load_modulation(path)
    notes = json.loads(Path(path).read_text()).get("notes")
    learned_for = notes.get("matrix") if isinstance(notes, dict) else None
    wanted = matrix or "normalized"
    if learned_for is not None and learned_for != wanted:
        _refuse(f"{path} was not learned for the matrix {wanted!r}. Use --matrix {learned_for}")
    return modulation.as_kernel(matrix=wanted)


def _refuse(message: str) -> NoReturn:
    raise typer.BadParameter(message, param_hint="--kernel")
