"""Sums over groups of walks on a device, which error bars are made of, in double precision.

Features of groups are multiplied where they are, some start nodes at a time, and only sums leave the device.
Exact heads are left out: all groups of a start node have them in common.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from walkernel.engines._base import FeatureJob
from walkernel.engines._device_features import as_tensor
from walkernel.engines._device_products import multiply, with_short_rows
from walkernel.engines._device_walks import DeviceRecord, Walker
from walkernel.engines._tensors import csr_of_counts, rows_of, take, transpose
from walkernel.features import Dense

if TYPE_CHECKING:
    from walkernel.engines._cuda import CUDA

DEPOSITS_AT_ONCE = 2**26
"""Deposits that are in memory together, about; each takes some 100 bytes while its row is sorted."""


def project(
    engine: CUDA,
    job: FeatureJob,
    u: Dense,  # (c, columns), or empty
    v: Dense,  # (starts, c), or empty
    reached: NDArray[np.int64] | None,
) -> tuple[Dense, Dense]:
    """Return what ``Engine.project`` does, for an engine of double precision."""
    G, starts = job.n_groups, job.spec.ids.size
    n_columns = job.spec.graph.n_nodes if reached is None else reached.size
    gathered = np.empty((starts, u.shape[0], G) if u.size else (0, 0, 0))
    factor, weights = as_tensor(engine, u.T), as_tensor(engine, v)
    scattered = weights.new_zeros((G, n_columns, v.shape[1]) if v.size else (0, 0, 0))
    for part, features in _blocks(engine, job, G, reached):
        if u.size:
            products = multiply(with_short_rows(features), factor).view(-1, G, u.shape[0])
            gathered[part] = products.transpose(1, 2).cpu().numpy()
        for g, total in enumerate(scattered):
            rows = np.arange(g, features.shape[0], G)
            total += multiply(with_short_rows(transpose(take(features, rows))), weights[part])
    return gathered, np.ascontiguousarray(scattered.permute(2, 0, 1).cpu().numpy())


def group_spread(
    engine: CUDA,
    job: FeatureJob,
    sizes: Dense,  # (c, columns)
    others: NDArray[np.float32],  # (c, columns, others), within [-1, 1]
    reached: NDArray[np.int64] | None,
) -> Dense:
    """Return what ``Engine.group_spread`` does, for an engine of double precision."""
    few = job.n_groups - others.shape[2]
    result = np.empty((job.spec.ids.size, len(sizes)))
    for part, features in _blocks(engine, job, few, reached):
        factors = with_short_rows(features)
        for c, (size, other) in enumerate(zip(sizes, others, strict=True)):
            factor = as_tensor(engine, size)[:, None] * as_tensor(engine, other)
            products = multiply(factors, factor).view(-1, few, other.shape[1])
            products -= products.mean(dim=1, keepdim=True)
            flat = products.flatten(1)
            unit = flat.abs().amax(dim=1)
            unit[unit == 0] = 1.0
            spread = unit * (flat / unit[:, None]).square_().sum(dim=1).sqrt_()
            result[part, c] = spread.cpu().numpy()
    return result


def _blocks(
    engine: CUDA, job: FeatureJob, few: int, reached: NDArray[np.int64] | None
) -> Iterator[tuple[slice, Tensor]]:
    """Yield some start nodes at a time, and features of their first groups, (starts · few, columns)."""
    size = job.spec.n_walks // job.n_groups
    spec = job.spec.first_walks(few * size)
    deposits = spec.n_walks * (1 + spec.sampler.mean_steps)
    at_once = max(1, min(engine.block_size or spec.ids.size, int(DEPOSITS_AT_ONCE / deposits)))
    walker = Walker(engine, spec).without_heads()
    columns = None if reached is None else torch.tensor(reached, device=walker.device)
    for part, block in walker.blocks(at_once):
        features = DeviceRecord(engine, block).in_groups(size).features(job.f / size)
        yield part, features if columns is None else _columns_of(features, columns)


def _columns_of(matrix: Tensor, columns: Tensor) -> Tensor:
    """Return some columns of a CSR tensor, which are distinct."""
    numbers = torch.full((matrix.shape[1],), -1, device=columns.device)
    numbers[columns] = torch.arange(columns.numel(), device=columns.device)
    found = numbers[matrix.col_indices().long()]
    kept = found >= 0
    counts = torch.bincount(rows_of(matrix.crow_indices())[kept], minlength=matrix.shape[0])
    return csr_of_counts(counts, found[kept], matrix.values()[kept], (matrix.shape[0], columns.numel()))
