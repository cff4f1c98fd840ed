"""Learned modulation functions: f is a parameter, features are linear in it, and walks never see it.

>>> import walkernel as wk
>>> from walkernel.torch import fit_to_kernel
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        "walkernel.torch needs PyTorch. Install it with `pip install walkernel[torch]`."
    ) from error

from walkernel.torch._modulation import FreeModulation, ModulationPair, NeuralModulation, load_modulation
from walkernel.torch._walk_tensors import WalkTensors

if TYPE_CHECKING:
    from walkernel.torch._gpytorch import GRFKernel
    from walkernel.torch._operator import FeatureOperator

_OF_GPYTORCH = {"FeatureOperator": "_operator", "GRFKernel": "_gpytorch"}

__all__ = [
    "FeatureOperator",
    "FreeModulation",
    "GRFKernel",
    "ModulationPair",
    "NeuralModulation",
    "WalkTensors",
    "load_modulation",
]


def __getattr__(name: str) -> Any:
    if name not in _OF_GPYTORCH:
        raise AttributeError(f"module 'walkernel.torch' has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(f"walkernel.torch.{_OF_GPYTORCH[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("gpytorch", "linear_operator"):
            raise
        raise ImportError(
            f"walkernel.torch.{name} needs GPyTorch. Install it with `pip install walkernel[gp]`."
        ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
