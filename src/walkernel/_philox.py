"""Keyed randomness: Philox-4x32-10, a pure function from (key, counter) to 128 random bits.

A walk's bits depend on (seed, stream, start node, walk, step) and on nothing else, so the same seed
gives the same walks for any number of threads, any block of nodes and any machine. The layout of
the 128-bit counter, four 32-bit words, is

    word 0   slot // 2; slot 0 draws the walk's length, slot t its step t, 64 bits each
    word 1   number of the walk (0xFFFFFFFF is kept for draws shared by a group of walks)
    word 2   start node, low 32 bits
    word 3   start node, high 16 bits, then stream, 16 bits

and the key is the 64-bit seed. All arithmetic is on 64-bit integers that hold 32-bit values, so one
source serves NumPy scalars, NumPy arrays and numba alike and never overflows.

Reference: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from walkernel._checks import whole_number

MASK = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
MULTIPLIER_0 = np.uint64(0xD2511F53)
MULTIPLIER_1 = np.uint64(0xCD9E8D57)
WEYL_0 = np.uint64(0x9E3779B9)
WEYL_1 = np.uint64(0xBB67AE85)


def philox(c0: Any, c1: Any, c2: Any, c3: Any, k0: Any, k1: Any) -> tuple[Any, Any, Any, Any]:
    """Return four random 32-bit words, as uint64, for a counter and a key of 32-bit words as uint64."""
    for _ in range(10):
        p0 = c0 * MULTIPLIER_0
        p1 = c2 * MULTIPLIER_1
        c0 = (p1 >> HALF) ^ c1 ^ k0
        c1 = p1 & MASK
        c2 = (p0 >> HALF) ^ c3 ^ k1
        c3 = p0 & MASK
        k0 = (k0 + WEYL_0) & MASK
        k1 = (k1 + WEYL_1) & MASK
    return c0, c1, c2, c3


def check_seed(seed: object) -> int:
    """Return the seed as an int of at most 64 bits."""
    return whole_number("seed", seed, 0, 2**64 - 1)


def check_stream(stream: object) -> int:
    """Return the stream as an int of at most 16 bits."""
    return whole_number("stream", stream, 0, 2**16 - 1)


def key_words(seed: int) -> tuple[np.uint64, np.uint64]:
    """Split a seed into the two 32-bit words of the Philox key, low word first."""
    return np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32)
