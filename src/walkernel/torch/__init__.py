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

from walkernel.torch._modulation import FreeModulation, ModulationPair, NeuralModulation, load_modulation
from walkernel.torch._walk_tensors import WalkTensors

__all__ = ["FreeModulation", "ModulationPair", "NeuralModulation", "WalkTensors", "load_modulation"]
