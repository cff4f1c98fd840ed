"""Names of nodes: any hashables, numbered by first appearance, never coerced.

The addressing rule: a graph with labels takes labels only, one without takes ids only.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import Described, is_hashable, refuse, shown

NUMPY_SCALARS = (np.number, np.bool_, np.str_, np.bytes_)
"""Those that are equal to what ``item`` makes of them, with the same hash."""


class Labels:
    """Distinct hashables in the order of their ids; integers and text may be given, and kept, as an array.

    Scalars of NumPy become the equal ones of Python, so that a graph is the same, and can be saved, whichever
    of the two its labels came as.
    """

    def __init__(self, values: Sequence[Hashable] | NDArray[np.int64]) -> None:
        if isinstance(values, np.ndarray):
            values.flags.writeable = False
        elif any(isinstance(label, NUMPY_SCALARS) for label in values):
            values = [label.item() if isinstance(label, NUMPY_SCALARS) else label for label in values]
        self._given = values

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
        if (
            isinstance(labels, np.ndarray)
            and labels.dtype.kind == "i"
            and isinstance(self._given, np.ndarray)
            and self._given.dtype.kind == "i"
        ):
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
    """Return labels of an array of integers, by first appearance, and their ids in its shape."""
    values, first, inverse = np.unique(raw, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return Labels(values[order]), rank[inverse].reshape(raw.shape)


def number_hashables(raw: Sequence[Sequence[Hashable]]) -> tuple[Labels, NDArray[np.int64]]:
    """Return labels of the ends of edges, by first appearance, and their ids, (m, 2)."""
    known: dict[Hashable, int] = {}
    ids = [[known.setdefault(end, len(known)) for end in edge] for edge in raw]
    return Labels(list(known)), np.array(ids, dtype=np.int64).reshape(-1, 2)


def find_ids(nodes: Any, labels: Labels | None, n_nodes: int) -> NDArray[np.int64]:
    """Return the ids of nodes, given as labels if the graph has them, of the shape of ``nodes``."""
    if labels is None:
        return _check_ids(nodes, n_nodes)
    if is_hashable(nodes) and nodes in labels:
        return labels.find([nodes]).reshape(())
    array = _label_array(nodes)
    flat = array.ravel() if array.dtype.kind == "i" else array.ravel().tolist()
    odd = [] if array.dtype.kind == "i" else [x for x in flat if not is_hashable(x)]
    found = np.array([-1]) if odd else labels.find(flat)
    if (found < 0).any():
        unknown = odd[0] if odd else flat[int(np.argmax(found < 0))]
        hint = "It is not an id: a graph with labels takes labels only." if is_integer(unknown) else ""
        refuse("nodes", "labels of this graph", Described(f"the unknown {shown(unknown)}"), hint)
    return found.reshape(array.shape)


def _check_ids(nodes: Any, n_nodes: int) -> NDArray[np.int64]:
    rule = f"ids from 0 to {n_nodes - 1}"
    try:
        array = np.asarray(nodes)
    except ValueError:
        refuse("nodes", "whole-number ids in a rectangular array", nodes, error=TypeError)
    if array.size == 0:
        return np.empty(array.shape, dtype=np.int64)
    if array.dtype == object and all(is_integer(x) for x in array.flat):
        largest = max(array.flat, key=abs)
        if abs(largest) > n_nodes:
            refuse("nodes", rule, Described(f"the id {largest}"))
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        refuse("nodes", "whole-number ids (this graph has no labels)", nodes, error=TypeError)
    outside = (array < 0) | (array >= n_nodes)
    if outside.any():
        refuse("nodes", rule, Described(f"the id {array[outside].flat[0]}"))
    return array.astype(np.int64)


def _label_array(nodes: Any) -> NDArray[Any]:
    """Return labels as an array of the shape they were given in; tuples and strings are single labels."""
    if isinstance(nodes, np.ndarray) or hasattr(nodes, "to_numpy"):
        return np.asarray(nodes)
    if isinstance(nodes, (Set, Mapping)):
        refuse("nodes", "in an order: a list or an array", nodes, error=TypeError)
    if isinstance(nodes, (str, bytes)) or not isinstance(nodes, Iterable):
        return fill_objects([nodes], ())
    items = list(nodes)
    if not items or not all(isinstance(item, (list, np.ndarray)) for item in items):
        return fill_objects(items, (len(items),))
    rows = [_label_array(item) for item in items]
    if len({row.shape for row in rows}) > 1:
        refuse("nodes", "a rectangular array of labels", nodes)
    return np.stack(rows)


def fill_objects(items: Sequence[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Return an object array of the items, none of them taken apart."""
    array = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        array[i] = item
    return array.reshape(shape)


def is_integer(value: object) -> bool:
    """Tell whether ``value`` is a whole number and no bool."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_))
