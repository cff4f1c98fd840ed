"""Which walks: all that decides their bits, and nothing else."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from walkernel.graph import Graph
from walkernel.walks._heads import Head, HeadRoom, follow_heads
from walkernel.walks._samplers import Sampler, survival_of
from walkernel.walks._state import Front
from walkernel.walks._tables import StepLaw, WalkTable, hop_table, walk_table

NO_NODES = np.empty(0, dtype=np.int64)
"""Start nodes of a specification that serves any: ``spec.at(ids)`` has some."""
MAX_WALKS = 2**32 - 2
"""Walks from one node: their numbers have 32 bits, and the largest is reserved."""


class LengthLaw:
    """The length law of a sampler, with all that the walker derives from it."""

    def __init__(self, sampler: Sampler) -> None:
        self.sampler = sampler

    @cached_property
    def thresholds(self) -> NDArray[np.uint64]:
        """A walk makes step k after the head if its draw is below ``thresholds[k − 1]``."""
        return self.sampler.thresholds()

    @cached_property
    def survival(self) -> NDArray[np.float64]:
        """S(0) = 1, S(1), …: the probability of a deposit at length k."""
        return survival_of(self.thresholds, self.sampler.head)

    @cached_property
    def guide(self) -> NDArray[np.int32]:
        """For each value of a draw's first 8 bits, how many thresholds are above it for sure."""
        largest = (np.arange(1, 257, dtype=object) << 56) - 1
        ascending = self.thresholds[::-1]
        found = np.searchsorted(ascending, largest.astype(np.uint64), side="right")
        return (ascending.size - found).astype(np.int32)

    @cached_property
    def moments(self) -> tuple[float, float]:
        """Mean and variance of the number of steps after the head."""
        tail = self.survival[self.sampler.head + 1 :]
        mean = float(tail.sum())
        return mean, float(((2 * np.arange(1, tail.size + 1) - 1) * tail).sum()) - mean**2

    def expected_deposits(self, n_walks: int) -> int:
        """Return a number of deposits that so many walks hardly exceed: mean + 10 standard deviations."""
        mean, variance = self.moments
        return math.ceil(n_walks * (1 + mean) + 10 * math.sqrt(n_walks * max(variance, 0.0)) + 16)


@dataclass(frozen=True, eq=False)
class WalkSpec:
    """Which walks: where they start, how they are drawn and on which matrix they go.

    The walks of one start node do not depend on the others, and ``key`` is what they do depend on.

    Attributes
    ----------
    graph : Graph
        The graph.
    ids : ndarray of int64, (n,)
        Start nodes.
    n_walks : int
        Walks from each start node.
    sampler : Sampler
        How they are drawn.
    seed, stream : int
        Key of the randomness.
    matrix : str
        Name of the matrix M whose entries the loads multiply.
    transpose : bool
        Whether they walk Mᵀ, against the direction of the edges.
    """

    graph: Graph
    ids: NDArray[np.int64]
    n_walks: int
    sampler: Sampler
    seed: int = 0
    stream: int = 0
    matrix: str = "normalized"
    transpose: bool = False

    def key(self) -> tuple[Hashable, ...]:
        """Return all but the start nodes, the graph by its digest: equal keys are equal walks."""
        own = (self.n_walks, self.sampler, self.seed, self.stream, self.matrix, self.transpose)
        return (identity(self.graph), *own)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that make an equal specification."""
        return {field.name: getattr(self, field.name) for field in fields(WalkSpec)}

    def at(self, ids: NDArray[np.int64]) -> Self:
        """Return the same walks from other start nodes."""
        return self._with(ids=ids)

    def part(self, first: int, last: int) -> Self:
        """Return the same walks from some of the start nodes."""
        return self._with(ids=self.ids[first:last])

    def on_stream(self, stream: int) -> Self:
        """Return the same with independent draws."""
        return self._with(stream=stream)

    def opposite(self) -> Self:
        """Return the walks of the other side of a pair: against the edges, with draws of their own."""
        return self._with(stream=self.stream + 1, transpose=self.graph.directed)

    def first_walks(self, n_walks: int) -> Self:
        """Return the first walks from each start node."""
        return self._with(n_walks=n_walks)

    def _with(self, **changes: Any) -> Self:
        """Return a copy that shares the length law, the room for heads, and tables if they are its own."""
        _ = self.law, self._room
        other = object.__new__(type(self))
        vars(other).update(vars(self) | changes)
        if other.transpose != self.transpose:
            other.forget_tables()
        return other

    def forget_tables(self) -> None:
        """Look tables up again when they are needed next."""
        vars(self).pop("table", None)
        vars(self).pop("hops", None)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def table(self) -> WalkTable:
        """What the walker gathers from."""
        return walk_table(self.graph, self.matrix, self.sampler.transition, self.transpose)

    @cached_property
    def hops(self) -> StepLaw | None:
        """What exact heads follow; None without a head."""
        if not self.sampler.head:
            return None
        return hop_table(self.graph, self.matrix, self.sampler.transition, self.transpose)

    @property
    def longest(self) -> int:
        """Length of the longest walk that the sampler may draw, the head included."""
        return self.sampler.head + self.law.thresholds.size

    @property
    def scale(self) -> float:
        """A power of two that loads are divided by at every step; 1 but for the adjacency matrix."""
        return self.table.scale

    @cached_property
    def law(self) -> LengthLaw:
        """How long walks are."""
        return LengthLaw(self.sampler)

    @cached_property
    def _room(self) -> HeadRoom:
        return HeadRoom()

    def heads(self) -> tuple[Head, Front]:
        """Return the heads of the start nodes, and where walks leave them."""
        dtype = self.table.indices.dtype
        return follow_heads(self.hops, self.sampler.head, self.ids, dtype, self._room)


def identity(graph: Graph) -> str:
    """Return a digest of a graph's matrix and labels, the same in every process."""

    def digest() -> str:
        names = "" if graph.labels is None else repr(graph.labels)
        return graph.fingerprint + hashlib.blake2b(names.encode(), digest_size=8).hexdigest()

    return graph.derived("identity", digest)
