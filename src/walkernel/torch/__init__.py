"""Learned modulation functions: f is a parameter, features are linear in it, and walks never see it.

>>> import walkernel as wk
>>> from walkernel.torch import fit_to_kernel
"""

from __future__ import annotations

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

__all__ = [
    "Bounds",
    "ExpectedError",
    "FreeModulation",
    "HeldOutErrors",
    "KernelFit",
    "ModulationPair",
    "NeuralModulation",
    "Schedule",
    "TaskFit",
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
