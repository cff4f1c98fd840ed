"""A CUDA device: the same walks as on the CPU, features as CSR tensors."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

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
FEW_DEPOSITS = 2**22
"""Deposits of groups of walks that a CPU makes in less time than it takes to send a large graph's tables."""
REMEDY = "On the CPU use walkernel.engines.CPU()."


@dataclass(frozen=True)
class CUDA(Engine):
    """A CUDA device of this machine, by PyTorch and Triton.

    The walks are those of ``CPU``, node by node; loads are rounded to ``dtype``. Polynomials are computed in
    double precision, and so are error bars, those of a few entries on the CPU.

    Walks, features, their products and error bars have the same bits in every run on the same device. Where
    features are not kept, products are added up in the order in which walks arrive, and differ by the
    rounding of ``dtype``: by about 10⁻⁶ of the largest value in single precision, and 10⁻¹⁵ in double
    precision. So do covariances of Gaussian processes, in double precision, and gradients of what is learned.

    Parameters
    ----------
    device : str, torch.device or sequence of them, optional
        "cuda", which is the default, or "cuda:1" and so on. "cpu" serves tests: it works only where Triton
        interprets its kernels (TRITON_INTERPRET=1). Of several devices each walks from its share of the start
        nodes; features that are kept come to the first one, which does all else. The walks are the same.
    dtype : {"float32", "float64"} or torch.dtype
        What loads and features are rounded to.
    keep_features : bool
        Whether a kernel keeps its features. If not, each product samples the walks again, and needs memory
        for the graph, the factor and the result only; two runs then differ by rounding.
    block_size : int, optional
        Start nodes whose walks are in memory together at most, 2²¹ if not given: about 16 bytes for each
        step. Features of very many walks are made from fewer.

    Examples
    --------
    >>> import walkernel as wk
    >>> wk.engines.CUDA("cuda:1", "float64")
    CUDA(device='cuda:1', dtype='float64', keep_features=True, block_size=2097152)
    """

    multiplies_matrices = True
    product_speed = 256.0
    nodes_at_once = 2**18

    device: Any = None
    dtype: str = "float32"
    keep_features: bool = True
    block_size: int | None = None

    def __post_init__(self) -> None:
        check_flag("keep_features", self.keep_features)
        size = BLOCK_SIZE if self.block_size is None else self.block_size
        values = {
            "device": _device_names("cuda" if self.device is None else self.device),
            "dtype": _dtype_name(self.dtype),
            "keep_features": bool(self.keep_features),
            "block_size": whole_number("block_size", size, 1),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of the devices."""
        return (self.device,) if isinstance(self.device, str) else self.device

    @property
    def single(self) -> list[CUDA]:
        """An engine for each of the devices."""
        return [replace(self, device=name) for name in self.devices]

    @property
    def precision(self) -> str:  # type: ignore[override]
        """The device and what its numbers are rounded to."""
        return f"cuda {self.dtype}"

    def record(self, spec: WalkSpec, progress: Progress | None = None) -> DeviceRecord:
        """Sample walks and keep their deposits on the device."""
        with self.walking():
            from walkernel.engines._device_walks import DeviceRecord, Walker

            first = self.single[0]
            record = DeviceRecord(first, Walker(first, spec).at(spec.ids))
            if progress is not None:
                progress(spec.ids.size, spec.ids.size)
            return record

    def features(self, job: FeatureJob, progress: Progress | None = None) -> list[FeatureMatrix]:
        """Return the features of a job, or what walks again in each product; groups in double precision."""
        engine = self if job.n_groups == 1 else self._for_groups(job)
        if not isinstance(engine, CUDA):
            return engine.features(job, progress)
        with engine.walking():
            if len(engine.devices) > 1:
                from walkernel.engines._several_devices import sample_on_all

                return sample_on_all(engine, job, progress)
            from walkernel.engines._device_features import sample_features

            return sample_features(engine, job, progress)

    def project(
        self,
        job: FeatureJob,
        u: NDArray[np.float64],
        v: NDArray[np.float64],
        reached: NDArray[np.int64] | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return sums over the walks of each group, made on the device but for a few walks."""
        engine = self._for_groups(job)
        if not isinstance(engine, CUDA):
            return engine.project(job, u, v, reached)
        with engine.walking():
            from walkernel.engines._device_groups import project

            return project(engine.single[0], job, u, v, reached)

    def group_spread(
        self,
        job: FeatureJob,
        sizes: NDArray[np.float64],
        others: NDArray[np.float32],
        reached: NDArray[np.int64] | None = None,
    ) -> NDArray[np.float64]:
        """Return the spread of the first groups, made on the device but for a few walks."""
        engine = self._for_groups(job)
        if not isinstance(engine, CUDA):
            return engine.group_spread(job, sizes, others, reached)
        with engine.walking():
            from walkernel.engines._device_groups import group_spread

            return group_spread(engine.single[0], job, sizes, others, reached)

    def _for_groups(self, job: FeatureJob) -> Engine:
        """Return where groups are walked: here in double precision, or on the CPU if they are small."""
        spec = job.spec
        is_small = spec.ids.size * spec.n_walks * (1 + spec.sampler.mean_steps) <= FEW_DEPOSITS
        return CPU() if is_small else replace(self, dtype="float64")

    def hold(self, matrix: csr_array) -> DeviceFeatures:
        """Return a sparse matrix on the device, in double precision whatever loads are rounded to."""
        with self._explained(f"a matrix of {matrix.nnz} entries", "Use a smaller graph."):
            import torch

            from walkernel.engines._device_features import DeviceFeatures
            from walkernel.engines._tensors import from_scipy

            held = from_scipy(matrix, self.devices[0], torch.float64)
            return DeviceFeatures(held, replace(self.single[0], dtype="float64"))

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Check that the device is there, and explain where its memory does not suffice for products."""
        with self._explained(
            "a matrix and the columns it is multiplied with", "Use fewer columns at a time."
        ):
            yield

    @contextmanager
    def walking(self) -> Iterator[None]:
        """Check that the device is there, and explain where its memory does not suffice for walks."""
        smaller = max(1, (self.block_size or BLOCK_SIZE) // 4)
        remedy = (
            f"Use CUDA(block_size={smaller}), fewer walks or columns, or CUDA(keep_features=False), which "
            "samples walks again in each product."
        )
        with self._explained(f"walks from {self.block_size} nodes at a time", remedy):
            yield

    @contextmanager
    def _explained(self, purpose: str, remedy: str) -> Iterator[None]:
        """Explain what PyTorch and Triton raise for want of memory or of a driver."""
        self._check_available()
        try:
            yield
        except RuntimeError as error:
            if "out of memory" in str(error).lower() or type(error).__name__ == "OutOfMemoryError":
                raise MemoryError(
                    f"{self.device} has too little memory for {purpose}. {remedy} {REMEDY} ({error})"
                ) from error
            if "NVIDIA driver" in str(error):
                self._refuse_device(str(error))
            raise

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

        if "cpu" in self.devices:
            if os.environ.get("TRITON_INTERPRET") != "1":
                refuse("device", "a CUDA device", Described("cpu"), REMEDY)
            return
        if not torch.cuda.is_initialized():
            with warnings.catch_warnings(record=True) as told:  # PyTorch warns where CUDA does not start
                warnings.simplefilter("always")
                is_available = torch.cuda.is_available()
            if not is_available:
                self._refuse_device(" ".join(str(each.message) for each in told))
        count = torch.cuda.device_count()
        for device in self.devices:
            if int(device.partition(":")[2] or 0) >= count:
                got = Described(f"{device}, but there {'is' if count == 1 else 'are'} {count}")
                refuse("device", "an available device", got)

    def _refuse_device(self, reason: str) -> NoReturn:
        """Refuse a device that PyTorch cannot use, given what it says."""
        import torch

        found, remedy = "no CUDA device was found", REMEDY
        if "too old" in reason:
            found = "the NVIDIA driver is too old for this PyTorch"
            remedy = f"Update the driver, or install a PyTorch for it from https://pytorch.org. {REMEDY}"
        elif torch.version.cuda is None:
            found = "this PyTorch was built without CUDA"
            remedy = f"Install one with CUDA from https://pytorch.org. {REMEDY}"
        elif reason:
            remedy = f"{REMEDY} ({reason})"
        refuse("device", "an available device", Described(f"{self.device}, but {found}"), remedy)


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ValueError:  # None stands for it in sys.modules
        return False


def _device_names(device: Any) -> str | tuple[str, ...]:
    """Return the name of a device, or the names of several."""
    if not isinstance(device, (list, tuple)):
        return _device_name(device)
    names = tuple(name if ":" in name or name == "cpu" else f"{name}:0" for name in map(_device_name, device))
    if not names or (set(names) != {"cpu"} and ("cpu" in names or len(set(names)) < len(names))):
        refuse("device", "different devices, at least one", Described(shown(names)))
    return names if len(names) > 1 else names[0]


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
