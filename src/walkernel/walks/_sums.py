"""Φᵀ V by rows of Φ: a loop that goes on where another one ended, so that rows may come in parts.

SciPy's products begin with zeros, and adding up the results of parts rounds in another order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from walkernel.walks.compiling import compiled


@compiled
def add_transposed(
    first: int,
    last: int,
    indptr: Any,  # (rows + 1,)
    indices: Any,  # (entries,)
    data: NDArray[np.float64],  # (entries,)
    n_columns: int,  # c
    values: NDArray[np.float64],  # (rows · c,)
    sums: NDArray[np.float64],  # (columns · c,), added to
) -> None:
    """Add Σ_i Φ_iᵀ V_i over the rows i = first … last − 1, in this order, for V of c columns.

    Arrays are flat, and their indices unsigned: they need no checks of signs.
    """
    width = np.uint64(n_columns)
    if n_columns == 1:
        for row in range(first, last):
            value = values[row]
            for e in range(indptr[row], indptr[row + 1]):
                sums[np.uint64(indices[e])] += data[e] * value
        return
    for row in range(first, last):
        here = np.uint64(row) * width
        for e in range(indptr[row], indptr[row + 1]):
            there, value = np.uint64(indices[e]) * width, data[e]
            for c in range(width):
                sums[there + np.uint64(c)] += value * values[here + np.uint64(c)]
