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

from walkernel.torch._attention import masked_attention
from walkernel.torch._bounds import Bounds, learned_bounds
from walkernel.torch._expected import ExpectedError
from walkernel.torch._fit_kernel import KernelFit, fit_to_kernel
from walkernel.torch._fit_task import TaskFit, fit_to_task
from walkernel.torch._held_out import HeldOutErrors, held_out_errors
from walkernel.torch._losses import angular_loss, cross_entropy_loss, squared_loss
from walkernel.torch._masked_module import MaskedAttention
from walkernel.torch._modulation import FreeModulation, ModulationPair, NeuralModulation
from walkernel.torch._modulation_files import load_modulation
from walkernel.torch._training import Schedule
from walkernel.torch._walk_tensors import WalkTensors

if TYPE_CHECKING:
    from walkernel.torch._gpytorch import GRFKernel
    from walkernel.torch._graph_networks import KernelDiffusion, LaplacianEncoding, RandomWalkEncoding
    from walkernel.torch._operator import WalkCovariance

_GPYTORCH = ("GPyTorch", "gp", ("gpytorch", "linear_operator"))
_PYG = ("PyTorch Geometric", "pyg", ("torch_geometric",))
_LATE = {
    "GRFKernel": ("_gpytorch", _GPYTORCH),
    "KernelDiffusion": ("_graph_networks", _PYG),
    "LaplacianEncoding": ("_graph_networks", _PYG),
    "RandomWalkEncoding": ("_graph_networks", _PYG),
    "WalkCovariance": ("_operator", _GPYTORCH),
}
"""Names that need another package: their modules, and what this is called, its extra and its modules."""

__all__ = [
    "Bounds",
    "ExpectedError",
    "FreeModulation",
    "GRFKernel",
    "HeldOutErrors",
    "KernelDiffusion",
    "KernelFit",
    "LaplacianEncoding",
    "MaskedAttention",
    "ModulationPair",
    "NeuralModulation",
    "RandomWalkEncoding",
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
    "masked_attention",
    "squared_loss",
]


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'walkernel.torch' has no attribute {name!r}")
    module, (package, extra, roots) = _LATE[name]
    try:
        value = getattr(importlib.import_module(f"walkernel.torch.{module}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in roots:
            raise
        raise ImportError(
            f"walkernel.torch.{name} needs {package}. Install it with `pip install walkernel[{extra}]`."
        ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
