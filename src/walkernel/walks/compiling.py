"""How loops are compiled: without the GIL, with a disk cache where one can be written."""

from __future__ import annotations

from typing import Any

import numba


def compiled(function: Any) -> Any:
    """Compile with a disk cache, or without one where no directory can be written."""
    try:
        return numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:
        return numba.njit(nogil=True)(function)
