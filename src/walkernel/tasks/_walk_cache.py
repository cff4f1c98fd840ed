"""One set of walks for a whole grid: walks are cached by engine, graph, matrix, sampler, number and seed.

The walks of a node are sampled once, on first use; every kernel, fold and estimator that needs the same kind
of walks re-weights the same deposits. Memory is bounded: the least recently used walks are dropped, and walks
that would not fit are sampled without being kept, which gives the same features up to rounding.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._checks import whole_number
from walkernel.engines import Engine, features_job
from walkernel.features import FeatureMatrix, HostRecord, KernelOrF, Walks
from walkernel.walks import WalkSpec

BYTES_PER_DEPOSIT = 32
"""A deposit, and its copy among the sorted terms of the features."""
BLOCK = 2**15
"""Number of nodes whose features are in memory together, where those of all nodes do not fit."""


def record_bytes(spec: WalkSpec, n_nodes: int) -> float:
    """Return the expected size of the walks from ``n_nodes`` nodes."""
    return n_nodes * spec.n_walks * (1 + spec.sampler.mean_steps) * BYTES_PER_DEPOSIT


def weighted(walks: Walks, kernel: KernelOrF, rows: NDArray[np.int64] | None = None) -> FeatureMatrix:
    """Return the features of all start nodes, or of some, in double precision and where products are made."""
    return walks.record.weigh(walks.modulation(kernel) / walks.n_walks, rows).held()


class _Part:
    """Walks from some nodes."""

    def __init__(self, walks: Walks) -> None:
        self.walks = walks
        self.order = np.argsort(walks.ids)

    def positions(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row of each node, -1 for a node that is not in this part."""
        own = self.walks.ids
        place = np.minimum(np.searchsorted(own, ids, sorter=self.order), own.size - 1)
        rows = self.order[place]
        return np.where(own[rows] == ids, rows, -1)

    @property
    def n_bytes(self) -> int:
        n_deposits = self.walks.n_steps + self.walks.ids.size * self.walks.n_walks
        return n_deposits * BYTES_PER_DEPOSIT


@dataclass
class _Entry:
    """All walks of one kind, in parts of which each is less than half as large as the one before."""

    parts: list[_Part] = field(default_factory=list)

    def missing(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        for part in self.parts:
            ids = ids[part.positions(ids) < 0]
        return ids

    def add(self, walks: Walks) -> None:
        self.parts.append(_Part(walks))
        while len(self.parts) > 1 and 2 * self.parts[-1].n_bytes >= self.parts[-2].n_bytes:
            last, before = self.parts.pop(), self.parts.pop()
            one, other = before.walks, last.walks
            if isinstance(one.record, HostRecord) and isinstance(other.record, HostRecord):
                joined = Walks.concatenate([one, other])
            else:  # walks that are kept elsewhere are walked again there
                both = WalkSpec(**one.arguments()).at(np.concatenate([one.ids, other.ids]))
                joined = replace(one, ids=both.ids, record=one.record.sample_again(both, None))
            self.parts.append(_Part(joined))

    def features(self, kernel: KernelOrF, ids: NDArray[np.int64]) -> FeatureMatrix:
        found = [(part, part.positions(ids)) for part in self.parts]
        found = [(part, rows) for part, rows in found if (rows >= 0).any()]
        blocks = [weighted(part.walks, kernel, rows[rows >= 0]) for part, rows in found]
        if len(blocks) == 1:
            return blocks[0]
        where = np.concatenate([np.flatnonzero(rows >= 0) for _, rows in found])
        return blocks[0].joined(blocks[1:], np.argsort(where))

    @property
    def n_bytes(self) -> int:
        return sum(part.n_bytes for part in self.parts)


class WalkCache:
    """A cache of walks of at most ``limit`` bytes.

    Parameters
    ----------
    limit : int
        Maximum size in bytes; 0 keeps nothing.

    Examples
    --------
    >>> from walkernel.tasks import WALK_CACHE
    >>> WALK_CACHE.clear()
    >>> WALK_CACHE.n_bytes
    0
    """

    def __init__(self, limit: int) -> None:
        self.limit = whole_number("limit", limit)
        self._entries: OrderedDict[tuple[object, ...], _Entry] = OrderedDict()
        self._lock = threading.Lock()

    def features(
        self, spec: WalkSpec, kernel: KernelOrF, ids: NDArray[np.int64], engine: Engine
    ) -> scipy.sparse.csr_array:
        """Return the rows of Φ for some nodes, which may repeat, (len(ids), n_nodes)."""
        return self.held(spec, kernel, ids, engine).to_scipy()

    def held(
        self, spec: WalkSpec, kernel: KernelOrF, ids: NDArray[np.int64], engine: Engine
    ) -> FeatureMatrix:
        """Return the same features where the engine multiplies them: on a device, or in this process."""
        return self._features(spec, kernel, ids, engine, self._fits(spec, ids.size))

    def blocks(
        self, spec: WalkSpec, kernel: KernelOrF, ids: NDArray[np.int64], engine: Engine
    ) -> Iterator[tuple[slice, FeatureMatrix]]:
        """Yield such features in blocks of nodes; walks are kept only if those of all nodes fit."""
        kept = self._fits(spec, ids.size)
        for first in range(0, ids.size, BLOCK):
            part = slice(first, min(first + BLOCK, ids.size))
            yield part, self._features(spec, kernel, ids[part], engine, kept)

    def matrices(
        self, spec: WalkSpec, kernel: KernelOrF, ids: NDArray[np.int64], engine: Engine
    ) -> Iterator[tuple[slice, FeatureMatrix]]:
        """Yield the features of distinct nodes in blocks, which stay where the engine has made them."""
        kept = self._fits(spec, ids.size)
        for first in range(0, ids.size, engine.nodes_at_once):
            part = slice(first, min(first + engine.nodes_at_once, ids.size))
            if kept:
                yield part, self._features(spec, kernel, ids[part], engine, kept)
            else:
                yield part, engine.features(features_job(spec.at(ids[part]), kernel))[0]

    def _fits(self, spec: WalkSpec, n_nodes: int) -> bool:
        """Return whether the walks of ``n_nodes`` nodes fit into the cache."""
        return record_bytes(spec, n_nodes) <= self.limit

    def _features(
        self, spec: WalkSpec, kernel: KernelOrF, ids: NDArray[np.int64], engine: Engine, kept: bool
    ) -> FeatureMatrix:
        distinct, where = np.unique(ids, return_inverse=True)
        in_order = distinct.size == ids.size and bool((where == np.arange(ids.size)).all())
        if not kept:
            found = engine.features(features_job(spec.at(distinct), kernel))[0].held()
        else:
            with self._lock:
                found = self._kept(spec, distinct, engine).features(kernel, distinct)
                while self.n_bytes > self.limit:
                    self._entries.popitem(last=False)
        return found if in_order else found.joined([], where)

    def _kept(self, spec: WalkSpec, ids: NDArray[np.int64], engine: Engine) -> _Entry:
        """Return the cached walks, after sampling those of the given nodes that are missing."""
        key = (engine.cache_key, *spec.key())
        entry = self._entries.setdefault(key, _Entry())
        self._entries.move_to_end(key)
        missing = entry.missing(ids)
        if missing.size:
            entry.add(engine.walks(spec.at(missing)))
        return entry

    def clear(self) -> None:
        """Forget all walks."""
        with self._lock:
            self._entries.clear()

    @property
    def n_bytes(self) -> int:
        """Approximate size of the cached walks in bytes."""
        return sum(entry.n_bytes for entry in list(self._entries.values()))


WALK_CACHE = WalkCache(limit=2**30)
"""The walks that estimators share; set ``WALK_CACHE.limit`` to keep more or less than 1 GiB."""
