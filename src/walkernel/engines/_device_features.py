"""Features on a device: kept as CSR tensors, or walked again in each product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch import Tensor

from walkernel.engines._base import FeatureJob, Progress
from walkernel.engines._device_products import multiply, squared_norms, with_short_rows
from walkernel.engines._device_walks import DeviceRecord, Walker, check_size, coalesce, refuse_overflow
from walkernel.engines._tensors import (
    bytes_of,
    csr_tensor,
    from_scipy,
    gram,
    scale_rows,
    sparse_gram,
    stack,
    take,
    to_scipy,
    transpose,
    without_zeros,
)
from walkernel.features import (
    NO_NORMS,
    BlockedFeatures,
    Dense,
    FeatureMatrix,
    HostFeatures,
    block_edges,
    keep_reached,
)

if TYPE_CHECKING:
    from walkernel.engines._cuda import CUDA

COLUMNS_AT_ONCE = 64
"""Columns that walks which are not kept are multiplied with at a time."""
MAX_PAIRS = 2**27
"""Pairs of entries in a column that are sorted together, some 50 bytes each."""
ROWS_ON_HOST = 2**16
"""Rows of walks which are not kept that are brought to the CPU at a time."""
MIDDLING = 32
"""Binary logarithm of numbers, and of their inverses, whose products need no unit in single precision."""


def as_tensor(engine: CUDA, X: Any) -> Tensor:
    """Return an array or a tensor on the device of an engine, in its precision."""
    options: dict[str, Any] = {"dtype": getattr(torch, engine.dtype), "device": str(engine.device)}
    if isinstance(X, Tensor):
        return X.to(**options).contiguous()
    return torch.tensor(np.ascontiguousarray(X), **options)


def multiplied(engine: CUDA, X: Any, product: Callable[[Tensor], Tensor]) -> Any:
    """Return a product as the factor is given: an array for an array, a tensor for a tensor.

    In single precision, columns of double precision are multiplied in units of about their largest entry.
    Units are powers of two: they change no digit, and results neither overflow nor vanish because of the
    size of a factor.
    """
    is_single = engine.dtype == "float32"
    if isinstance(X, Tensor):
        if not (is_single and X.dtype == torch.float64 and X.numel()):
            return product(as_tensor(engine, X))
        units = units_of_columns(X)
        result = product(as_tensor(engine, X / units))
        return result.double() * units.to(result.device)
    exponents = exponents_of_columns(X) if is_single and X.size else np.zeros(1, dtype=np.int32)
    factor = as_tensor(engine, np.ldexp(X, -exponents) if exponents.any() else X)
    result = product(factor)
    check_overflow(engine, factor, result)
    found = result.cpu().double().numpy()
    return np.ldexp(found, exponents) if exponents.any() else found


def units_of_columns(X: Tensor) -> Tensor:
    """Return powers of two within a factor of two of the largest entry of each column, if it is finite."""
    least, largest = torch.aminmax(X, dim=0)
    sizes = torch.maximum(largest, -least)
    exponents = torch.frexp(torch.where(sizes.isfinite(), sizes, 1.0)).exponent
    return ((exponents.clamp(-1000, 1000).long() + 1023) << 52).view(torch.float64)


def exponents_of_columns(X: Dense) -> NDArray[np.int32]:
    """Return binary logarithms of units of columns; zeros where all columns are of middling size."""
    sizes = np.maximum(X.max(axis=0), -X.min(axis=0))
    exponents = np.frexp(np.where(np.isfinite(sizes), sizes, 1.0))[1]
    return exponents if np.abs(exponents).max(initial=0) > MIDDLING else np.zeros_like(exponents)


def check_overflow(engine: CUDA, factor: Tensor, result: Tensor) -> None:
    """Refuse a product that is not finite though its factor is."""
    if engine.dtype == "float32" and not bool(result.isfinite().all()) and bool(factor.isfinite().all()):
        refuse_overflow(engine.dtype)


class DeviceFeatures(FeatureMatrix):
    """Features as a CSR tensor on a device.

    Products with arrays are arrays of float64, those with tensors are tensors on the device.

    Parameters
    ----------
    matrix : Tensor
        The features.
    engine : CUDA
        Where they are.
    norms, n_steps
        As in ``FeatureMatrix``.
    """

    takes_tensors = True

    def __init__(self, matrix: Tensor, engine: CUDA, norms: Dense = NO_NORMS, n_steps: int = 0) -> None:
        self.matrix, self.engine, self.norms, self.n_steps = matrix, engine, norms, n_steps
        self.shape = (int(matrix.shape[0]), int(matrix.shape[1]))
        self.nnz, self.nbytes = int(matrix.values().numel()), bytes_of(matrix)

    def __getstate__(self) -> dict[str, Any]:
        made = ("_factors", "_transposed", "_transposed_factors", "_gram_factors", "_on_host")
        return {name: value for name, value in vars(self).items() if name not in made}

    @cached_property
    def _factors(self) -> list[Tensor]:
        return with_short_rows(self.matrix)

    @cached_property
    def _transposed(self) -> Tensor:
        return transpose(self.matrix)

    @cached_property
    def _transposed_factors(self) -> list[Tensor]:
        return with_short_rows(self._transposed)

    @cached_property
    def _on_host(self) -> HostFeatures:
        return HostFeatures(self.to_scipy(), n_threads=None)

    def multiply(self, X: Any) -> Any:
        """Return Φ X."""
        with self.engine.in_use():
            return multiplied(self.engine, X, lambda X: multiply(self._factors, X))

    def multiply_transposed(self, V: Any) -> Any:
        """Return Φᵀ V; Φᵀ by rows is kept once it was needed."""
        with self.engine.in_use():
            return multiplied(self.engine, V, lambda X: multiply(self._transposed_factors, X))

    @cached_property
    def _gram_factors(self) -> list[Tensor]:
        """ΦΦᵀ itself where rows meet so rarely that products take less then, otherwise Φᵀ and Φ."""
        visits = self._transposed.crow_indices().diff().long()
        if int(visits.square().sum()) <= min(MAX_PAIRS, 2 * self.nnz + self.shape[1]) and self.nnz:
            pairs = sparse_gram(self.matrix, self._transposed)
            return with_short_rows(coalesce(*pairs, (self.shape[0], self.shape[0])))
        return [*self._transposed_factors, *self._factors]

    def multiply_gram(self, V: Any) -> Any:
        """Return ΦΦᵀ V, one of many such products."""
        with self.engine.in_use():
            return multiplied(self.engine, V, lambda X: multiply(self._gram_factors, X))

    @property
    def gram_width(self) -> int:
        """Numbers that a product with ΦΦᵀ needs for each column."""
        with self.engine.in_use():
            return max(factor.shape[0] for factor in self._gram_factors)

    def held(self) -> DeviceFeatures:
        """Return the features with products in double precision."""
        if self.engine.dtype == "float64":
            return self
        own = self.matrix
        doubled = csr_tensor(own.crow_indices(), own.col_indices(), own.values().double(), self.shape)
        return DeviceFeatures(doubled, replace(self.engine, dtype="float64"))

    def gram(self, other: FeatureMatrix) -> Any:
        """Return ΦΨᵀ in double precision, as a tensor if Ψ is on the device too."""
        if not isinstance(other, DeviceFeatures):
            return super().gram(other)
        with self.engine.in_use():
            left, right = self.held(), other.held()
            return gram(left.matrix, right.matrix, right._transposed)

    def scale_rows(self, factors: Dense) -> DeviceFeatures:
        """Return diag(factors) Φ."""
        with self.engine.in_use():
            scaled = scale_rows(self.matrix, self.matrix.values().new_tensor(factors))
            return DeviceFeatures(scaled, self.engine)

    def joined(self, others: Sequence[FeatureMatrix], order: NDArray[np.int64]) -> FeatureMatrix:
        """Return the rows of these and of other features of this device, in some order."""
        with self.engine.in_use():
            return DeviceFeatures(take(stack([one.native for one in (self, *others)]), order), self.engine)

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> DeviceFeatures:
        """Return some rows as features."""
        with self.engine.in_use():
            return DeviceFeatures(take(self.matrix, np.arange(self.shape[0])[rows]), self.engine)

    def rows(self, positions: NDArray[np.int64]) -> scipy.sparse.csr_array:
        """Return some rows, in order."""
        with self.engine.in_use():
            return to_scipy(take(self.matrix, positions))

    def row_products(self, rows: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """Return R Φᵀ for some rows R, (k, n), by SciPy; a copy of Φᵀ is kept once it was needed."""
        return self._on_host.row_products(rows)

    def map_rows(self, function: Callable[..., Dense], *arrays: NDArray[Any]) -> Dense:
        """Return what a function makes of the rows, as SciPy has them, and of some arrays."""
        return self._on_host.map_rows(function, *arrays)

    def squared_norms(self) -> Dense:
        """Return ‖φ_i‖² of each row, (n,)."""
        with self.engine.in_use():
            return squared_norms(self.matrix).cpu().numpy()

    def compact(self, *others: FeatureMatrix) -> tuple[NDArray[np.int64] | None, list[FeatureMatrix]]:
        """Return the nodes that some row reaches, and features with columns for these; no cost in N."""
        reached, kept = keep_reached(self.to_scipy(), *(other.to_scipy() for other in others))
        found: list[FeatureMatrix] = []
        for own, matrix in zip((self, *others), kept, strict=True):
            about = own.norms, own.n_steps
            if isinstance(own, DeviceFeatures):
                found.append(
                    DeviceFeatures(from_scipy(matrix, own.engine.device, own.dtype), own.engine, *about)
                )
            else:
                found.append(HostFeatures(matrix, *about))
        return reached, found

    @property
    def dtype(self) -> torch.dtype:
        """What the entries are rounded to."""
        return self.matrix.values().dtype

    def to_scipy(self) -> scipy.sparse.csr_array:
        """Return all rows in the memory of this process."""
        return to_scipy(self.matrix)

    @property
    def native(self) -> Tensor:
        """The CSR tensor."""
        return self.matrix


class WalkedFeatures(BlockedFeatures):
    """Features that are not kept: products sample the walks again, some start nodes at a time.

    Products are added up in the order in which walks arrive, so that two of them differ by rounding: by about
    10⁻⁶ of the largest value in single precision, and 10⁻¹⁵ in double precision. Rows have the same bits.

    ``nnz`` is the number of deposits, since these are what a product adds up.

    Parameters
    ----------
    engine : CUDA
        Where walks are sampled.
    walker : Walker
        The walks.
    f : ndarray
        The modulation function.
    norms, n_steps, n_deposits
        What the walks have left behind when they were sampled first.
    """

    nbytes = 0
    takes_tensors = True

    def __init__(
        self,
        engine: CUDA,
        walker: Walker,
        f: NDArray[np.float64],
        norms: Dense,
        n_steps: int,
        n_deposits: int,
    ) -> None:
        self.engine, self.f = engine, f
        self.norms, self.n_steps, self.nnz = norms, n_steps, n_deposits
        self._walker, ids = walker, walker.spec.ids
        self._size = int(engine.block_size or ids.size)
        self._kept_size = min(self._size, walker.most_starts)
        self.shape = (ids.size, walker.spec.graph.n_nodes)
        self.edges = block_edges(ids.size, min(self._size, ROWS_ON_HOST))

    def multiply(self, X: Any) -> Any:
        """Return Φ X."""

        def add(columns: Tensor, result: Tensor) -> None:
            for part, walker in self._walker.blocks(self._size):
                walker.gather(self.f, columns, result[part])

        return self._some_columns_at_a_time(add, X, self.shape[0])

    def multiply_transposed(self, V: Any) -> Any:
        """Return Φᵀ V."""

        def add(columns: Tensor, result: Tensor) -> None:
            for part, walker in self._walker.blocks(self._size):
                walker.scatter(self.f, columns[part], result)

        return self._some_columns_at_a_time(add, V, self.shape[1])

    def _some_columns_at_a_time(self, add: Callable[[Tensor, Tensor], None], X: Any, n_rows: int) -> Any:
        """Return a product whose columns are made by a function that adds them to zeros."""

        def product(given: Tensor) -> Tensor:
            result = given.new_zeros(n_rows, given.shape[1])
            for first in range(0, given.shape[1], COLUMNS_AT_ONCE):
                part = slice(first, first + COLUMNS_AT_ONCE)
                if given.shape[1] <= COLUMNS_AT_ONCE:
                    add(given, result)
                else:
                    own = given.new_zeros(n_rows, given[:, part].shape[1])
                    add(given[:, part].contiguous(), own)
                    result[:, part] = own
            check_overflow(self.engine, given, result)
            return result

        with self.engine.walking():
            return multiplied(self.engine, X, product)

    def rows(self, positions: NDArray[np.int64]) -> scipy.sparse.csr_array:
        """Return some rows, in order: only they are walked from."""
        parts = np.split(positions, np.arange(self._kept_size, positions.size, self._kept_size))
        with self.engine.walking():
            found = [self._sample(self._walker.spec.ids[part]) for part in parts]
            return scipy.sparse.vstack([to_scipy(matrix) for matrix in found], format="csr")

    def _dots(self, other: FeatureMatrix, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Dense:
        return FeatureMatrix._dots(self, other, rows, columns)

    def _block(self, number: int) -> scipy.sparse.csr_array:
        return self.rows(np.arange(*self.edges[number : number + 2]))

    def held(self) -> DeviceFeatures:
        """Return the features as they are kept on the device, in double precision."""
        return DeviceFeatures(self.native, self.engine).held()

    def _sample(self, ids: NDArray[np.int64]) -> Tensor:
        """Return the features of some start nodes as a CSR tensor."""
        record = DeviceRecord(self.engine, self._walker.at(ids))
        return record.features(self.f / record.n_walks)

    @property
    def native(self) -> Tensor:
        """All features as a CSR tensor."""
        ids = self._walker.spec.ids
        with self.engine.walking():
            size = self._kept_size
            return stack([self._sample(ids[i : i + size]) for i in range(0, ids.size, size)])


class _Block(NamedTuple):
    """What the walks of some start nodes have left behind, as far as a job wants it."""

    features: Tensor | None  # none if they are not kept
    norms: Dense
    n_steps: int
    n_deposits: int


def sample_features(engine: CUDA, job: FeatureJob, progress: Progress | None) -> list[FeatureMatrix]:
    """Return the features of a job, which are sampled some start nodes at a time."""
    check_size(job.f, engine.dtype)
    walker = Walker(engine, job.spec)
    n, keep = job.spec.ids.size, engine.keep_features or job.n_groups > 1
    walked: list[list[_Block]] = [[] for _ in job.streams]
    heads: list[Tensor] = []
    for part, block in walker.blocks(min(engine.block_size or n, walker.most_starts)):
        for number, stream in enumerate(job.streams):
            walked[number].append(_sample_block(engine, block.on_stream(stream), job, keep, number == 0))
        if job.separate_heads:
            heads.append(without_zeros(block.head_features(job.f)))
        if progress is not None and n:
            progress(part.stop, n)
    found: list[FeatureMatrix] = []
    for stream, blocks in zip(job.streams, walked, strict=True):
        norms, n_steps = np.concatenate([block.norms for block in blocks]), sum(b.n_steps for b in blocks)
        kept = [block.features for block in blocks if block.features is not None]
        if keep:
            found.append(DeviceFeatures(stack(kept), engine, norms, n_steps))
        else:
            about = norms, n_steps, sum(block.n_deposits for block in blocks)
            own = walker.without_heads() if job.separate_heads else walker
            found.append(WalkedFeatures(engine, own.on_stream(stream), job.f, *about))
    return [*found, DeviceFeatures(stack(heads), engine)] if job.separate_heads else found


def _sample_block(engine: CUDA, walker: Walker, job: FeatureJob, keep: bool, is_first: bool) -> _Block:
    """Return the features of a block if they are kept, their norms, and the steps of the walks."""
    spec, norms, features = walker.spec, NO_NORMS, None
    edges = int(walker.head.edges.sum()) if is_first else 0  # those of heads are the same for all streams
    if not (keep or job.with_norms):
        n_steps = walker.count_steps()
    else:
        record = DeviceRecord(engine, walker)
        n_steps = record.n_walked
        if job.with_norms:
            norms = _norms(record.without_heads(), job.f / spec.n_walks, spec.sampler.coupling.group)
        if keep:
            own = record.without_heads() if job.separate_heads else record
            own = own.in_groups(spec.n_walks // job.n_groups) if job.n_groups > 1 else own
            features = own.features(job.f / own.n_walks)
    n_deposits = n_steps + walker.n_walkers
    n_deposits += 0 if job.separate_heads else walker.head.nodes.numel()
    return _Block(features, norms, n_steps + edges, n_deposits)


def _norms(record: DeviceRecord, f: NDArray[np.float64], group: int) -> Dense:
    """Return for each row ‖·‖² of its groups of walks, added up, and of all its walks, (n, 2)."""
    n = record.indptr.numel() - 1
    of_groups = squared_norms(record.in_groups(group).features(f)).reshape(n, -1).sum(1)
    return torch.stack([of_groups, squared_norms(record.features(f))], dim=1).cpu().numpy()
