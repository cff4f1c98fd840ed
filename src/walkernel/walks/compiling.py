"""How loops are compiled: without the GIL, with a disk cache where one can be written, and announced.

Python calls functions that are ``compiled``. The functions that these call are compiled with them and have no
entry in the cache: a ``subroutine`` is compiled by itself and has no interface to Python, where it runs as it
is written; a ``spliced`` function becomes part of the source of its caller, which is the cheaper of the two
for a long function with one caller.

Compiling is what the first call in a new installation spends its time on. Four things keep it short. numba
compiles a function again for each combination of argument types, and a read-only array has a type of its own,
so that all inputs are made read-only. Loops over elements compile faster than expressions on arrays.
Assignments of one slice to another are avoided: their error messages alone take more than a second. The
collector of cyclic garbage is off meanwhile, since the compiler makes millions of objects that it keeps.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
from typing import Any

import numba
from numba.core import event


def compiled(function: Any) -> Any:
    """Compile with a disk cache, or without one where no directory can be written."""
    try:
        return numba.njit(nogil=True, cache=True, no_cfunc_wrapper=True)(function)
    except RuntimeError:
        return numba.njit(nogil=True, no_cfunc_wrapper=True)(function)


def subroutine(function: Any) -> Any:
    """Compile for callers that are compiled; Python calls the function as it is written."""
    options = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return numba.extending.register_jitable(**options)(function)


def spliced(function: Any) -> Any:
    """Compile as part of each caller."""
    return numba.njit(inline="always")(function)


NOTICE = "walkernel: compiling what was not compiled before: a few seconds"


class Compilation(event.Listener):  # type: ignore[misc]
    """Watches over the compiling of this package's functions.

    It is announced on stderr, once in a process; nothing is written when functions are loaded from the cache,
    in the worker processes of ``multiprocessing`` and joblib, or if the environment variable
    ``WALKERNEL_QUIET`` is set. numba compiles under a lock, in one thread at a time.
    """

    def __init__(self) -> None:
        self.is_due = not os.environ.get("WALKERNEL_QUIET") and multiprocessing.parent_process() is None
        self.depth = 0
        self.collects = False

    def on_start(self, event_: Any) -> None:
        """Write the announcement before the first function is compiled, and stop the collector."""
        if not self.depth and not event_.data["dispatcher"].py_func.__module__.startswith("walkernel."):
            return
        if self.is_due and sys.stderr is not None:
            self.is_due = False
            print(NOTICE, file=sys.stderr, flush=True)
        if not self.depth:
            self.collects = gc.isenabled()
            gc.disable()
        self.depth += 1

    def on_end(self, event_: Any) -> None:
        """Start the collector again when the function that was asked for is compiled."""
        if self.depth:
            self.depth -= 1
            if not self.depth and self.collects:
                gc.enable()


event.register("numba:compile", Compilation())
