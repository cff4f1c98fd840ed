"""Names of nodes: any hashables, numbered by first appearance, never coerced."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


class Labels:
    """Distinct hashables in the order of their ids; integers may be given, and are kept, as an array."""

    def __init__(self, values: Sequence[Hashable] | NDArray[np.int64]) -> None:
        self._given = values
        if isinstance(values, np.ndarray):
            values.flags.writeable = False

    def __len__(self) -> int:
        return len(self._given)

    @cached_property
    def values(self) -> tuple[Hashable, ...]:
        """The labels as a tuple."""
        return tuple(self._given.tolist() if isinstance(self._given, np.ndarray) else self._given)

    @cached_property
    def _ids(self) -> dict[Hashable, int]:
        return {label: i for i, label in enumerate(self.values)}

    @cached_property
    def _sorted(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        array = np.asarray(self._given)
        order = np.argsort(array)
        return array[order], order

    def __contains__(self, label: Hashable) -> bool:
        return not isinstance(label, (bool, np.bool_)) and label in self._ids

    def find(self, labels: Iterable[Hashable] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the id of each label, -1 for one that is unknown."""
        if isinstance(labels, np.ndarray) and labels.dtype.kind == "i" and isinstance(self._given, np.ndarray):
            values, order = self._sorted
            position = np.minimum(np.searchsorted(values, labels), values.size - 1)
            return np.where(values[position] == labels, order[position], -1)
        return np.array([self._ids[label] if label in self else -1 for label in labels], dtype=np.int64)

    def take(self, ids: NDArray[np.int64]) -> Labels:
        """Return the labels of some of the nodes."""
        if isinstance(self._given, np.ndarray):
            return Labels(self._given[ids])
        return Labels([self._given[i] for i in ids])

    def __getstate__(self) -> object:
        return self._given

    def __setstate__(self, state: object) -> None:
        self.__init__(state)  # type: ignore[misc, arg-type]


def number_integers(raw: NDArray[np.int64]) -> tuple[Labels, NDArray[np.int64]]:
    """Number an array of integer labels by first appearance: (labels, ids of the same shape)."""
    values, first, inverse = np.unique(raw, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return Labels(values[order]), rank[inverse].reshape(raw.shape)


def number_hashables(raw: Sequence[Sequence[Hashable]]) -> tuple[Labels, NDArray[np.int64]]:
    """Number the ends of a list of edges by first appearance: (labels, ids of shape (m, 2))."""
    known: dict[Hashable, int] = {}
    ids = [[known.setdefault(end, len(known)) for end in edge] for edge in raw]
    return Labels(list(known)), np.array(ids, dtype=np.int64).reshape(-1, 2)
