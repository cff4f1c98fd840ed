"""How loops run: Python interprets them while there is little work, numba compiles them for more.

numba takes seconds to compile the loops of a first call, and a third of a second to load those that it has
compiled before. Python runs thousands of iterations in that time, and gives the same bits. So a function that
is ``compiled`` is compiled when a process has more work for it than that; numba is not imported before.

Functions that compiled functions call are compiled with them and have no entry in numba's cache: a
``subroutine`` is compiled by itself and has no interface to Python; a ``spliced`` function becomes part of
the source of its caller, which is the cheaper of the two for a long function with one caller.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from threading import Lock
from typing import Any

import numpy as np

INTERPRETED_WORK = 2**15
"""Iterations of its innermost loop that a function is interpreted for in a process: half a second at most."""


class Loop:
    """A function whose loops are interpreted or compiled; a plain call compiles them.

    Attributes
    ----------
    function : callable
        The function as it is written.
    """

    _lock = Lock()

    def __init__(self, function: Callable[..., Any]) -> None:
        update_wrapper(self, function)
        self.function = function
        self._work_left = INTERPRETED_WORK
        self._dispatcher: Any = None

    def __call__(self, *args: Any) -> Any:
        """Call the compiled function."""
        return self.dispatcher(*args)

    def for_work(self, n: int) -> Callable[..., Any]:
        """Return what runs about so many iterations of the innermost loop in the shortest time."""
        if self._dispatcher is not None or n > self._work_left:
            return self.dispatcher  # type: ignore[no-any-return]
        self._work_left -= n
        return self._interpret

    def _interpret(self, *args: Any) -> Any:
        with np.errstate(over="ignore"):  # words are added modulo 2⁶⁴
            return self.function(*args)

    @property
    def dispatcher(self) -> Any:
        """The function that numba compiles for the types of its arguments."""
        if self._dispatcher is None:
            from walkernel.walks._numba import cached_dispatcher

            with Loop._lock:
                if self._dispatcher is None:
                    self._dispatcher = cached_dispatcher(self.function)
        return self._dispatcher


SUBROUTINES: set[Callable[..., Any]] = set()
SPLICED: set[Callable[..., Any]] = set()


def compiled(function: Callable[..., Any]) -> Loop:
    """Compile when there is work."""
    return Loop(function)


def subroutine(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile for callers that are compiled; Python calls the function as it is written."""
    SUBROUTINES.add(function)
    return function


def spliced(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile as part of each caller; Python calls the function as it is written."""
    SPLICED.add(function)
    return function
