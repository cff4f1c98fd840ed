"""A CUDA device: the same walks as on the CPU, features as CSR tensors."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from walkernel._checks import Described, check_flag, refuse, shown, whole_number
from walkernel.engines._base import Engine, FeatureJob, Progress
from walkernel.engines._cpu import CPU
from walkernel.features import FeatureMatrix
from walkernel.walks import WalkSpec

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from walkernel.engines._device_features import DeviceFeatures
    from walkernel.engines._device_walks import DeviceRecord

DEVICES = "'cuda', or 'cuda:' and a number"
DTYPES = ("float32", "float64")
BLOCK_SIZE = 2**21
"""Start nodes whose walks are in memory together if the engine does not say."""
REMEDY = "On the CPU use walkernel.engines.CPU()."


@dataclass(frozen=True)
class CUDA(Engine):
    """A CUDA device of this machine, by PyTorch and Triton.

    The walks are those of ``CPU``, node by node; loads are rounded to ``dtype``. Polynomials are computed in
    double precision. Walks of error bars, which need all digits, are sampled on the CPU.

    Parameters
    ----------
    device : str or torch.device, optional
        "cuda", which is the default, or "cuda:1" and so on. "cpu" serves tests: it works only where Triton
        interprets its kernels (TRITON_INTERPRET=1).
    dtype : {"float32", "float64"} or torch.dtype
        What loads and features are rounded to.
    keep_features : bool
        Whether a kernel keeps its features. If not, each product samples the walks again, and needs memory
        for the graph, the factor and the result only.
    block_size : int, optional
        Start nodes whose walks are in memory together, 2²¹ if not given: about 16 bytes for each step.

    Examples
    --------
    >>> import walkernel as wk
    >>> wk.engines.CUDA("cuda:1", "float64")
    CUDA(device='cuda:1', dtype='float64', keep_features=True, block_size=2097152)
    """

    multiplies_matrices = True
    product_speed = 256.0

    device: str | None = None
    dtype: str = "float32"
    keep_features: bool = True
    block_size: int | None = None

    def __post_init__(self) -> None:
        check_flag("keep_features", self.keep_features)
        size = BLOCK_SIZE if self.block_size is None else self.block_size
        values = {
            "device": _device_name("cuda" if self.device is None else self.device),
            "dtype": _dtype_name(self.dtype),
            "keep_features": bool(self.keep_features),
            "block_size": whole_number("block_size", size, 1),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def precision(self) -> str:  # type: ignore[override]
        """The device and what its numbers are rounded to."""
        return f"cuda {self.dtype}"

    @property
    def local(self) -> Engine:
        """The CPU: error bars are differences of groups of walks, which take all digits."""
        return CPU()

    def record(self, spec: WalkSpec, progress: Progress | None = None) -> DeviceRecord:
        """Sample walks and keep their deposits on the device."""
        with self.in_use():
            from walkernel.engines._device_walks import DeviceRecord, Walker

            record = DeviceRecord(self, Walker(self, spec).at(spec.ids))
            if progress is not None:
                progress(spec.ids.size, spec.ids.size)
            return record

    def features(self, job: FeatureJob, progress: Progress | None = None) -> list[FeatureMatrix]:
        """Return the features of a job, or what walks again in each product."""
        with self.in_use():
            from walkernel.engines._device_features import sample_features

            return sample_features(self, job, progress)

    def hold(self, matrix: csr_array) -> DeviceFeatures:
        """Return a sparse matrix on the device, in double precision whatever loads are rounded to."""
        with self.in_use():
            import torch

            from walkernel.engines._device_features import DeviceFeatures
            from walkernel.engines._tensors import from_scipy

            held = from_scipy(matrix, str(self.device), torch.float64)
            return DeviceFeatures(held, replace(self, dtype="float64"))

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Check that the device is there, and explain where its memory does not suffice."""
        self._check_available()
        import torch

        try:
            yield
        except torch.cuda.OutOfMemoryError as error:
            smaller = max(1, (self.block_size or BLOCK_SIZE) // 4)
            raise MemoryError(
                f"{self.device} has too little memory for walks from {self.block_size} nodes at a time. Use "
                f"CUDA(block_size={smaller}), fewer walks or columns, or CUDA(keep_features=False), which "
                f"samples walks again in each product. ({error})"
            ) from error

    def _check_available(self) -> None:
        """Refuse a device that is not there, and say what to install where something is missing."""
        missing = [name for name in ("torch", "triton") if not _is_installed(name)]
        if missing:
            what = "PyTorch" if missing[0] == "torch" else "Triton"
            raise ImportError(
                f"walkernel.engines.CUDA needs {what}. Install it with `pip install walkernel[torch]`. "
                f"{REMEDY}"
            )
        import torch

        device = str(self.device)
        if device == "cpu":
            if os.environ.get("TRITON_INTERPRET") != "1":
                refuse("device", "a CUDA device", Described(device), REMEDY)
            return
        if not torch.cuda.is_available():
            got = Described(f"{device}, but no CUDA device was found")
            refuse("device", "an available device", got, REMEDY)
        count, number = torch.cuda.device_count(), int(device.partition(":")[2] or 0)
        if number >= count:
            got = Described(f"{device}, but there {'is' if count == 1 else 'are'} {count}")
            refuse("device", "an available device", got)


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # None stands for it in sys.modules
        return False


def _device_name(device: Any) -> str:
    """Return the name of a device, as PyTorch writes it."""
    if not isinstance(device, str) and type(device).__module__ != "torch":
        refuse("device", DEVICES, device, error=TypeError)
    name = str(device)
    if not re.fullmatch(r"cuda(:(0|[1-9]\d*))?|cpu", name):
        refuse("device", DEVICES, Described(shown(name)), REMEDY)
    return name


def _dtype_name(dtype: Any) -> str:
    """Return the name of a dtype, without that of PyTorch."""
    name = str(dtype).removeprefix("torch.")
    is_known = isinstance(dtype, str) or type(dtype).__module__ == "torch"
    if not is_known or name not in DTYPES:
        refuse("dtype", " or ".join(map(repr, DTYPES)), dtype)
    return name
