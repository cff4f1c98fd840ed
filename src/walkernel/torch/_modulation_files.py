"""Reading of modulation functions from JSON files."""

from __future__ import annotations

import json
import os
from typing import Any

import torch

from walkernel._checks import Described, refuse
from walkernel._files import existing_file
from walkernel.torch._modulation import (
    FORMAT,
    FreeModulation,
    Modulation,
    ModulationBase,
    ModulationPair,
    NeuralModulation,
    check_dtype,
)


def load_modulation(
    path: str | os.PathLike[str],
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype = torch.float64,
) -> ModulationBase:
    """Read a modulation function or a pair that ``save`` wrote.

    Parameters
    ----------
    path : str or path
        The file.
    device : device or str, optional
        Where its parameters are placed; the CPU if not given.
    dtype : dtype
        float64 or float32.

    Returns
    -------
    NeuralModulation, FreeModulation or ModulationPair
        The module, with the bits that were saved in double precision.

    Raises
    ------
    ValueError
        If the file is not one of ``save``.

    Examples
    --------
    >>> import tempfile
    >>> from walkernel.torch import FreeModulation, load_modulation
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     FreeModulation([1.0, 0.5]).save(f"{folder}/f.json")
    ...     print(load_modulation(f"{folder}/f.json").modulation(2))
    [1.  0.5]
    """
    rule = "an intact file written by a modulation's save"
    check_dtype(dtype)
    try:
        settings = dict(json.loads(existing_file(path).read_text()))
    except (ValueError, TypeError) as error:
        refuse("path", rule, Described(f"{path} ({error})"))
    settings.pop("notes", None)
    found = settings.pop("format", None)
    if found != FORMAT:
        refuse("path", f"of format {FORMAT!r}", found, "Save it again with this version.")
    try:
        return _restore(settings, {"device": device, "dtype": dtype})
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        refuse("path", rule, Described(f"{path} ({type(error).__name__}: {error})"))


def _restore(settings: dict[str, Any], options: dict[str, Any]) -> Any:
    kind = settings.pop("kind")
    if kind == "pair":
        return ModulationPair(*(_restore(dict(settings[name]), options) for name in ("first", "second")))
    parameters = settings.pop("parameters")
    module: Modulation = {"neural": NeuralModulation, "free": FreeModulation}[kind](**settings, **options)
    state = {name: torch.tensor(values, dtype=options["dtype"]) for name, values in parameters.items()}
    module.load_state_dict(state)
    if not all(tensor.isfinite().all() for tensor in state.values()):
        raise ValueError("parameters that are not numbers")
    return module
