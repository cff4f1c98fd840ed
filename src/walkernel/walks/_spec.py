"""Which walks: all that decides their bits, and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import refuse
from walkernel.graph import Graph
from walkernel.walks._heads import Head, HeadRoom, count_walks, follow_heads, head_rule
from walkernel.walks._laws import LengthLaw
from walkernel.walks._samplers import PrunedWalks, Sampler
from walkernel.walks._state import Front
from walkernel.walks._tables import StepLaw, WalkTable, hop_table, walk_table

if TYPE_CHECKING:
    from walkernel.walks._follow import Rule

NO_NODES = np.empty(0, dtype=np.int64)
"""Start nodes of a specification that serves any: ``spec.at(ids)`` has some."""
MAX_WALKS = 2**32 - 2
"""Walks from one node: their numbers have 32 bits, and the largest is reserved."""


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
        Whether they walk Mᵀ, against the direction of the edges; no matter where M is symmetric.
    """

    graph: Graph
    ids: NDArray[np.int64]
    n_walks: int
    sampler: Sampler
    seed: int = 0
    stream: int = 0
    matrix: str = "normalized"
    transpose: bool = False

    def __post_init__(self) -> None:
        group = self.sampler.coupling.group
        if isinstance(self.sampler, PrunedWalks) and self.sampler.unevenness and self.n_walks % group:
            rule = f"a multiple of {group}, the walks of a group, where numbers of walks are unequal"
            refuse("n_walks", rule, self.n_walks)

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

    @property
    def is_symmetric(self) -> bool:
        """Whether M is symmetric, so that walks on M are walks on Mᵀ."""
        return self.graph.is_symmetric(self.matrix)

    def opposite(self) -> Self:
        """Return the walks of the other side of a pair: on Mᵀ, with draws of their own."""
        return self._with(stream=self.stream + 1, transpose=not self.is_symmetric)

    def first_walks(self, n_walks: int) -> Self:
        """Return the first walks from each start node."""
        return self._with(n_walks=n_walks)

    def _with(self, **changes: Any) -> Self:
        """Return a copy that shares the length laws, the room for heads, and tables if they are its own."""
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
        vars(self).pop("rule", None)

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
        return self.law.longest

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

    @cached_property
    def rule(self) -> Rule | None:
        """Which edges heads follow, and where walks leave them; None without a head."""
        return None if self.hops is None else head_rule(self.sampler, self.table.first)

    def heads(self) -> tuple[Head, Front]:
        """Return the heads of the start nodes, and where walks leave them."""
        return follow_heads(self.hops, self.rule, self.ids, self.table.indices.dtype, self._room)

    def walks_from(self, front: Front) -> NDArray[np.int64]:
        """Return the number of walks from each start node whose front this is, (starts,)."""
        return count_walks(self.n_walks, front.shifts, front.ends.size - 1)


def identity(graph: Graph) -> str:
    """Return a digest of a graph's matrix and labels, the same in every process."""

    def digest() -> str:
        names = "" if graph.labels is None else repr(graph.labels)
        return graph.fingerprint + hashlib.blake2b(names.encode(), digest_size=8).hexdigest()

    return graph.derived("identity", digest)
