"""What the compiled loops hand around: keys, couplings, fronts and the walkers of a block."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Front(NamedTuple):
    """Where the heads of some start nodes end and walks begin; of depth 0, at the start nodes themselves."""

    depth: int
    ends: NDArray[np.int64]  # (starts + 1,): the front of start node i is at ends[i] : ends[i + 1]
    nodes: Any  # (places,)
    cuts: NDArray[np.uint64]  # (places,): a walk begins at the first place whose cut is above its draw
    loads: NDArray[np.float64]  # (places,): what a walk from there carries
    laws: NDArray[np.int32]  # (places,): the law of its length
    shifts: NDArray[np.int32]  # (starts,): binary logarithms of how many times as many walks; or empty
    guide: NDArray[np.int32]  # (2 · places,): by the first bits of a draw, how far from ends[i] to look


class Key(NamedTuple):
    """What the randomness of a sample depends on besides the start node."""

    stream: np.uint64
    k0: np.uint64
    k1: np.uint64
    first_walks: NDArray[np.int64]  # (starts,): the number of the first walk from each start node of a task
    is_single: bool  # whether there is one walk from each, whatever shifts say


class Walkers(NamedTuple):
    """State of the walkers of one block, (walkers,) each."""

    lengths: NDArray[np.int32]  # in the order of start nodes and walks; all others longest walk first
    here: NDArray[np.int64]
    walk: NDArray[np.uint64]
    low: NDArray[np.uint64]
    high: NDArray[np.uint64]
    words: NDArray[np.uint64]
    even: NDArray[np.uint64]
    odd: NDArray[np.uint64]
    bits: NDArray[np.uint64]  # binary logarithm of how many share its draws, if numbers of walks are unequal
    load: NDArray[np.float64]
    law: NDArray[np.int64]
    place: NDArray[np.int64]
    origin: NDArray[np.int64]  # place in the order of start nodes and walks


class Order(NamedTuple):
    """How the walkers of a block are ordered by length."""

    active: NDArray[np.int64]  # (longest length + 2,): walks of at least t steps
    rank: NDArray[np.int64]  # (longest length + 2,): where the next walk of t steps goes


def make_walkers(count: int, n_lengths: int) -> tuple[Walkers, Order]:
    """Return room for a block of walkers of up to so many lengths."""
    types = [np.int32, np.int64, *[np.uint64] * 7, np.float64, *[np.int64] * 3]
    walkers = Walkers._make([np.empty(count, dtype=t) for t in types])
    active, rank = np.empty((2, n_lengths), dtype=np.int64)
    return walkers, Order(active, rank)


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that cannot be written to; numba compiles a loop anew for arrays that can."""
    view = array.view()
    view.flags.writeable = False
    return view
