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

from walkernel.torch._bounds import Bounds, learned_bounds
from walkernel.torch._expected import ExpectedError
from walkernel.torch._fit_kernel import KernelFit, fit_to_kernel
from walkernel.torch._fit_task import TaskFit, fit_to_task
from walkernel.torch._held_out import HeldOutErrors, held_out_errors
from walkernel.torch._losses import angular_loss, cross_entropy_loss, squared_loss
from walkernel.torch._modulation import FreeModulation, ModulationPair, NeuralModulation
from walkernel.torch._modulation_files import load_modulation
from walkernel.torch._training import Schedule
from walkernel.torch._walk_tensors import WalkTensors

if TYPE_CHECKING:
    from walkernel.torch._gpytorch import GRFKernel
    from walkernel.torch._operator import WalkCovariance

_GPYTORCH_NAMES = {"WalkCovariance": "_operator", "GRFKernel": "_gpytorch"}

__all__ = [
    "Bounds",
    "ExpectedError",
    "FreeModulation",
    "GRFKernel",
    "HeldOutErrors",
    "KernelFit",
    "ModulationPair",
    "NeuralModulation",
    "Schedule",
    "TaskFit",
    "WalkCovariance",
    "WalkTensors",
    "angular_loss",
    "cross_entropy_loss",
    "fit_to_kernel",
    "fit_to_task",
    "held_out_errors",
    "learned_bounds",
    "load_modulation",
    "squared_loss",
]


def __getattr__(name: str) -> Any:
    if name not in _GPYTORCH_NAMES:
        raise AttributeError(f"module 'walkernel.torch' has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(f"walkernel.torch.{_GPYTORCH_NAMES[name]}"), name)
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
