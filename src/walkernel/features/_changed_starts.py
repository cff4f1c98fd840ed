"""Start nodes on a graph that has changed: which stay, which are gone and which are new."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import Described, refuse, shown
from walkernel.graph import Graph
from walkernel.walks import Starts


def keeps_names(old: Graph, new: Graph) -> bool:
    """Tell whether the ids that both graphs have stand for the same nodes."""
    if old.labels is None or new.labels is None:
        return old.labels is None and new.labels is None
    n = min(old.n_nodes, new.n_nodes)
    return old.labels is new.labels or old.labels[:n] == new.labels[:n]


def follow_starts(old: Graph, ids: NDArray[np.int64], new: Graph) -> Starts:
    """Return the start nodes on the new graph.

    Nodes are known by name. If all nodes of the old graph were start nodes, all of the new one are: those
    that are gone are left out, and new ones come last. Otherwise they stay, and none of them may be gone.
    """
    chosen = np.zeros(old.n_nodes, dtype=np.bool_)
    chosen[ids] = True
    n_chosen = int(chosen.sum())
    if n_chosen < ids.size:
        refuse(
            "the walks",
            "from distinct start nodes",
            Described("walks that are divided into groups"),
            "Update the walks first, and divide them into groups then.",
        )
    found = ids if keeps_names(old, new) else _find_names(old, ids, new)
    stays = (found >= 0) & (found < new.n_nodes)
    if not stays.all() and (n_chosen < old.n_nodes or not stays.any()):
        gone = shown(old.names(ids[~stays][:1])[0])
        refuse(
            "new_graph",
            "a graph with all nodes that walks start from",
            Described(f"one without the node {gone}"),
            "Sample walks from other nodes with sample_walks(new_graph, nodes=...).",
        )
    kept, origin = found[stays], np.flatnonzero(stays)
    if n_chosen < old.n_nodes:
        return Starts(kept, origin)
    added = np.ones(new.n_nodes, dtype=np.bool_)
    added[kept] = False
    fresh = np.flatnonzero(added)
    return Starts(np.concatenate([kept, fresh]), np.concatenate([origin, np.full(fresh.size, -1)]))


def _find_names(old: Graph, ids: NDArray[np.int64], new: Graph) -> NDArray[np.int64]:
    """Return the ids that nodes of the old graph have in the new one, -1 for none."""
    names: Any = range(new.n_nodes) if new.labels is None else new.labels
    known = {name: i for i, name in enumerate(names)}
    return np.array([known.get(name, -1) for name in old.names(ids)], dtype=np.int64)
