"""What numba compiles: without the GIL, with a disk cache where one can be written, and announced.

Importing this module imports numba. Compiling is what the first large call in a new installation spends its
time on. Four things keep it short. numba compiles a function again for each combination of argument types,
and a read-only array has a type of its own, so that all inputs are made read-only. Loops over elements
compile faster than expressions on arrays. Assignments of one slice to another are avoided: their error
messages alone take more than a second. The collector of cyclic garbage is off meanwhile, since the compiler
makes millions of objects that it keeps.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import sys
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import numba
from numba.core import event
from numba.extending import overload

from walkernel.walks.compiling import SPLICED, SUBROUTINES

NOTICE = "walkernel: compiling what was not compiled before: a few seconds"
OPTIONS = {"nogil": True, "no_cfunc_wrapper": True}

Function = Callable[..., Any]


def cached_dispatcher(function: Function) -> Any:
    """Compile with a disk cache, or without one where no directory can be written."""
    while SUBROUTINES:
        _register(SUBROUTINES.pop())
    source = _source(function)
    try:
        dispatcher = numba.njit(cache=True, **OPTIONS)(source)
    except RuntimeError:
        return numba.njit(**OPTIONS)(source)
    _forget_other_versions(dispatcher)
    return dispatcher


def _forget_other_versions(dispatcher: Any) -> None:
    """Empty the cache of another version of this package, whose types numba would look for here."""
    cache: Any = getattr(dispatcher, "_cache", None)
    try:
        if cache is not None:
            cache._cache_file._load_index()
    except Exception:  # unpickling raises anything
        cache.flush()


def _register(function: Function) -> None:
    """Let compiled functions call one that Python calls as it is written."""

    @overload(function, jit_options=OPTIONS | {"no_cpython_wrapper": True}, strict=False)  # type: ignore[untyped-decorator]
    def implementation(*args: Any) -> Function:
        return _source(function)


@cache
def _source(function: Function) -> Function:
    """Return a function whose global names of spliced functions stand for what numba splices."""
    names = [name for name in function.__code__.co_names if function.__globals__.get(name) in SPLICED]
    if not names:
        return function
    inlined = {name: numba.njit(inline="always")(_source(function.__globals__[name])) for name in names}
    copy = FunctionType(function.__code__, {**function.__globals__, **inlined}, function.__name__)
    copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
    return copy


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
