"""Walks, features and kernels on a device, by the names that they have in the core."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from walkernel._checks import Described, check_instance, refuse, whole_number
from walkernel._door import door
from walkernel.features import check_convergence, modulation_values
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.planning import choose_sampler
from walkernel.sampling import checked_spec
from walkernel.torch._device_walks import DeviceWalks, Walker, check_device
from walkernel.torch._sparse import csr_tensor
from walkernel.walks import Sampler

DTYPES = (torch.float32, torch.float64)


def sample_walks(
    graph: Graph,
    n_walks: int,
    *,
    sampler: Sampler | None = None,
    seed: int = 0,
    stream: int = 0,
    nodes: Any = None,
    matrix: str = "normalized",
    transpose: bool = False,
    device: torch.device | str = "cuda",
    dtype: torch.dtype = torch.float32,
) -> DeviceWalks:
    """Sample random walks on a device: the same walks as ``walkernel.sample_walks``, bit for bit.

    Parameters
    ----------
    graph, n_walks, sampler, seed, stream, nodes, matrix, transpose
        As in ``walkernel.sample_walks``.
    device : device or str
        A CUDA device; the CPU only where Triton interprets its kernels (TRITON_INTERPRET=1).
    dtype : dtype
        The dtype of the loads, float32 or float64.
    """
    owner = "walkernel.torch.sample_walks"
    spec = checked_spec(owner, graph, n_walks, sampler, seed, stream, nodes, matrix, transpose)
    return Walker(spec, check_device(owner, device), _dtype(owner, dtype)).record()


@door
def sample_features(
    graph: Graph,
    kernel: Kernel,
    n_walks: int,
    *,
    sampler: Sampler | None = None,
    seed: int = 0,
    stream: int = 0,
    nodes: Any = None,
    device: torch.device | str = "cuda",
    dtype: torch.dtype = torch.float32,
    block_size: int = 2**21,
) -> Tensor:
    """Sample walks on a device and return their features as a CSR tensor, (len(nodes), n_nodes).

    The deposits of ``block_size`` start nodes are in memory at a time: about 16 bytes per step of their
    walks.

    Parameters
    ----------
    graph, kernel, n_walks, sampler, seed, stream, nodes
        As in ``walkernel.sample_features``.
    device, dtype
        As in ``sample_walks``.
    block_size : int
        Number of start nodes whose walks are in memory together.
    """
    owner = "walkernel.torch.sample_features"
    check_instance(owner, "kernel", kernel, Kernel)
    spec = checked_spec(owner, graph, n_walks, sampler, seed, stream, nodes, kernel.matrix, False)
    where, dtype = check_device(owner, device), _dtype(owner, dtype)
    block_size = whole_number(owner, "block_size", block_size, 1)
    with explain_out_of_memory(owner, block_size):
        walker = Walker(spec, where, dtype)
        parts = [block.record().features(kernel) for _, block in walker.blocks(block_size)]
        return parts[0] if len(parts) == 1 else _stack(parts)


def _stack(parts: list[Tensor]) -> Tensor:
    """Return CSR matrices stacked vertically."""
    counts = torch.cat([part.crow_indices().diff() for part in parts]).long()
    indptr = torch.nn.functional.pad(torch.cumsum(counts, 0), (1, 0))
    columns, data = (
        torch.cat(arrays) for arrays in zip(*((p.col_indices(), p.values()) for p in parts), strict=True)
    )
    small = data.numel() < 2**31
    size = (counts.numel(), parts[0].shape[1])
    return csr_tensor(
        indptr.to(columns.dtype if small else torch.int64), columns if small else columns.long(), data, size
    )


@door
def estimate_kernel(
    graph: Graph,
    kernel: Kernel,
    n_walks: int,
    *,
    sampler: Sampler | None = None,
    seed: int = 0,
    device: torch.device | str = "cuda",
    dtype: torch.dtype = torch.float32,
    block_size: int = 2**22,
) -> DeviceKernel:
    """Estimate a kernel on a device from two independent sets of walks, which each product samples again.

    No features are stored: K̂ @ V samples walks once for Φ₂ᵀ V and once for Φ₁ (Φ₂ᵀ V), ``block_size`` start
    nodes at a time, and needs memory for the graph, V and one more matrix of the size of V.

    Parameters
    ----------
    graph, kernel, n_walks, sampler, seed
        As in ``walkernel.estimate_kernel``; the kernel needs a symmetric pair.
    device, dtype
        As in ``sample_walks``.
    block_size : int
        Number of start nodes whose walks are sampled together.
    """
    owner = "walkernel.torch.estimate_kernel"
    check_instance(owner, "graph", graph, Graph)
    check_instance(owner, "kernel", kernel, Kernel)
    check_convergence(graph, kernel)
    sampler = choose_sampler(graph, kernel, n_walks=n_walks) if sampler is None else sampler
    where, dtype = check_device(owner, device), _dtype(owner, dtype)
    block_size = whole_number(owner, "block_size", block_size, 1)
    sides = [
        checked_spec(owner, graph, n_walks, sampler, seed, stream, None, kernel.matrix, transpose)
        for stream, transpose in ((0, False), (1, graph.directed))
    ]
    with explain_out_of_memory(owner, block_size):
        left, right = (Walker(side, where, dtype) for side in sides)
    return DeviceKernel(kernel, left, right, block_size)


class DeviceKernel:
    """K̂ = Φ₁Φ₂ᵀ on a device, as products with matrices."""

    def __init__(self, kernel: Kernel, left: Walker, right: Walker, block_size: int) -> None:
        self.kernel, self._left, self._right, self._block_size = kernel, left, right, block_size
        n = left.spec.graph.n_nodes
        self.shape = (n, n)

    def __matmul__(
        self,
        V: Tensor,  # (nodes, columns)
    ) -> Tensor:  # (nodes, columns)
        """Return K̂ V."""
        if not isinstance(V, Tensor) or V.ndim != 2 or V.shape[0] != self.shape[0] or V.shape[1] == 0:
            got = Described(f"shape {tuple(V.shape)}") if isinstance(V, Tensor) else V
            refuse("DeviceKernel", "V", f"a tensor of shape ({self.shape[0]}, columns)", got, error=TypeError)
        with explain_out_of_memory("DeviceKernel", self._block_size):
            V = V.to(self._left.device, self._left.dtype).contiguous()
            middle, result = torch.zeros_like(V), torch.zeros_like(V)
            for part, walker in self._right.blocks(self._block_size):
                walker.scatter(self._modulation(walker), V[part], middle)
            for part, walker in self._left.blocks(self._block_size):
                walker.gather(self._modulation(walker), middle, result[part])
            return result

    def _modulation(self, walker: Walker) -> NDArray[np.float64]:
        return modulation_values(walker.spec, self.kernel, walker.spec.longest + 1)


@contextmanager
def explain_out_of_memory(owner: str, block_size: int) -> Iterator[None]:
    """Raise a MemoryError with advice where the memory of the device does not suffice."""
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        smaller = max(1, block_size // 4)
        raise MemoryError(
            f"{owner}: the device has too little memory for walks from {block_size} nodes at a time. Use "
            f"block_size={smaller}, or fewer walks or columns. ({error})"
        ) from error


def _dtype(owner: str, dtype: torch.dtype) -> torch.dtype:
    if dtype not in DTYPES:
        refuse(owner, "dtype", "torch.float32 or torch.float64", Described(str(dtype)))
    return dtype
