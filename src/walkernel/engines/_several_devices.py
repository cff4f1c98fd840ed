"""Start nodes that are divided between several devices, which walk and multiply at the same time.

The walks are those of one device. Features that are kept are brought to the first device; walks that are not
kept are sampled again by each device, for its own start nodes, and sums over nodes are added in order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch import Tensor

from walkernel.engines._base import FeatureJob, Progress
from walkernel.engines._device_features import DeviceFeatures, WalkedFeatures, sample_features
from walkernel.engines._tensors import stack as stack_tensors
from walkernel.features import Dense, FeatureMatrix, by_block, stack

if TYPE_CHECKING:
    from walkernel.engines._cuda import CUDA

Result = TypeVar("Result")


def sample_on_all(engine: CUDA, job: FeatureJob, progress: Progress | None) -> list[FeatureMatrix]:
    """Return the features of a job, whose start nodes are divided between the devices of an engine."""
    engines, n = engine.single, job.spec.ids.size
    edges = [n * i // len(engines) for i in range(len(engines) + 1)]
    done, lock = [0] * len(engines), threading.Lock()

    def told(number: int, count: int, _: int) -> None:
        with lock:
            done[number] = count
            if progress is not None:
                progress(sum(done), n)

    def sample(i: int) -> list[FeatureMatrix]:
        return sample_features(engines[i], job.part(edges[i], edges[i + 1]), partial(told, i))

    found = at_the_same_time(engine, [partial(sample, i) for i in range(len(engines))])
    return [_together(parts) for parts in zip(*found, strict=True)]


def at_the_same_time(engine: CUDA, calls: Sequence[Callable[[], Result]]) -> list[Result]:
    """Return the results of a call for each device; Triton's interpreter makes them one after the other."""
    with ThreadPoolExecutor(1 if "cpu" in engine.devices else len(calls)) as threads:
        return [each.result() for each in [threads.submit(call) for call in calls]]


def _together(parts: Sequence[Any]) -> FeatureMatrix:
    if isinstance(parts[0], WalkedFeatures):
        return DividedFeatures(parts)
    first, norms = parts[0].engine, np.concatenate([part.norms for part in parts])
    matrices = [part.matrix.to(parts[0].matrix.device) for part in parts]
    return DeviceFeatures(stack_tensors(matrices), first, norms, sum(part.n_steps for part in parts))


class DividedFeatures(FeatureMatrix):
    """Features that are not kept, of start nodes that are divided between devices.

    Parameters
    ----------
    parts : sequence of WalkedFeatures
        The features of consecutive start nodes, each on a device of its own.
    """

    nbytes = 0
    takes_tensors = True

    def __init__(self, parts: Sequence[WalkedFeatures]) -> None:
        self._shares = parts
        self._edges = np.cumsum([0, *(part.shape[0] for part in parts)])
        self.shape = (int(self._edges[-1]), parts[0].shape[1])
        self.norms = np.concatenate([part.norms for part in parts])
        self.n_steps, self.nnz = sum(part.n_steps for part in parts), sum(part.nnz for part in parts)

    def multiply(self, X: Any) -> Any:
        """Return Φ X."""
        found = self._of_parts(lambda part, _: part.multiply(X))
        return torch.cat(_on_one_device(found)) if isinstance(X, Tensor) else np.concatenate(found)

    def multiply_transposed(self, V: Any) -> Any:
        """Return Φᵀ V."""
        return sum(_on_one_device(self._of_parts(lambda part, rows: part.multiply_transposed(V[rows]))))

    def rows(self, positions: NDArray[np.int64]) -> scipy.sparse.csr_array:
        """Return some rows, in order: only they are walked from."""
        if not positions.size:
            return self._shares[0].rows(positions)
        found = by_block(self._edges, positions)
        rows = [self._shares[number].rows(inside) for number, _, inside in found]
        return stack(np.argsort(np.concatenate([places for _, places, _ in found])), *rows)

    def row_products(self, rows: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """Return R Φᵀ for some rows R, (k, n)."""
        return scipy.sparse.hstack([part.row_products(rows) for part in self._shares], format="csr")

    def map_rows(self, function: Callable[..., Dense], *arrays: NDArray[Any]) -> Dense:
        """Return what a function makes of the rows and of some arrays, one below the other."""
        return np.concatenate([part.map_rows(function, *arrays) for part in self._shares])

    def held(self) -> DeviceFeatures:
        """Return the features as they are kept on the first device, in double precision."""
        return DeviceFeatures(self.native, self._shares[0].engine).held()

    @property
    def native(self) -> Tensor:
        """All features as a CSR tensor on the first device."""
        return stack_tensors(_on_one_device(self._of_parts(lambda part, _: part.native)))

    def to_scipy(self) -> scipy.sparse.csr_array:
        """Return all rows in the memory of this process."""
        return scipy.sparse.vstack([part.to_scipy() for part in self._shares], format="csr")

    def _of_parts(self, work: Callable[[WalkedFeatures, slice], Result]) -> list[Result]:
        slices = [slice(i, k) for i, k in zip(self._edges[:-1], self._edges[1:], strict=True)]
        calls = [partial(work, part, rows) for part, rows in zip(self._shares, slices, strict=True)]
        return at_the_same_time(self._shares[0].engine, calls)


def _on_one_device(results: list[Any]) -> list[Any]:
    """Return tensors on the device of the first of them, and arrays as they are."""
    return [each.to(results[0].device) if isinstance(each, Tensor) else each for each in results]
