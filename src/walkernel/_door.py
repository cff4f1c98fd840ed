"""Public calls: errors and warnings have their name; a warning comes once in each, at the line of the caller.

The stack knows which of our functions the user has called: ``public_call`` reads its name there, so that no
function passes on the name of another. Every public function and method that may warn is a ``door``. All
warnings go through ``warn``; those of work that is only tried are kept back by ``without_warnings``.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from types import FrameType
from typing import Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

IN_BETWEEN = frozenset(
    [
        "walkernel",
        "sklearn",
        "joblib",
        "scipy",
        "torch",
        "torch_geometric",
        "gpytorch",
        "linear_operator",
        "contextlib",
        "functools",
        "json",
    ]
)
"""Packages whose frames lie between the code that warns and the user's: ours, and those that call ours."""

OURS = "walkernel"
COMMANDS = "walkernel.cli"

_given: ContextVar[set[object] | None] = ContextVar("walkernel_warnings_given", default=None)
"""What has been warned of in the public call under way; None if there is none."""
_kept_back: ContextVar[tuple[type[Warning], ...]] = ContextVar("walkernel_warnings_kept_back", default=())


def door(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function a public call; within another one it is a part of that."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if _given.get() is not None:
            return function(*args, **kwargs)
        token = _given.set(set())
        try:
            return function(*args, **kwargs)
        except RuntimeError as error:
            if "out of memory" not in str(error).lower():
                raise
            remedy = "Use fewer nodes, walks or columns at a time, or walkernel.engines.CPU()."
            raise MemoryError(f"The device has too little memory. {remedy} ({error})") from error
        finally:
            _given.reset(token)

    return call


def all_or_nothing(method: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """Make a method a public call that leaves its object as it was where it fails or is interrupted."""

    @wraps(method)
    def call(self: T, /, *args: P.args, **kwargs: P.kwargs) -> R:
        before = dict(vars(self))
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return door(call)


def public_call() -> str:
    """Return the name of the function, method or class of ours that the user has called.

    Commands of the command line are users too, and so are functions that the user has passed to us.
    """
    frame: FrameType | None = sys._getframe(1)
    name = ""
    while frame is not None and _package(frame) in IN_BETWEEN and not _is_module(frame, COMMANDS):
        if _package(frame) == OURS and not _is_module(frame, __name__):
            name = _call_name(frame)
        frame = frame.f_back
    return name


def _call_name(frame: FrameType) -> str:
    """Return "function", "Class.method", or "Class" for methods that others call, such as ``__init__``."""
    code = frame.f_code
    first = code.co_varnames[0] if code.co_argcount else ""
    if first not in ("self", "cls"):
        return code.co_qualname.rpartition("<locals>.")[2]
    called_on = frame.f_locals[first]
    kind = called_on if isinstance(called_on, type) else type(called_on)
    name = getattr(kind, "_public_name", kind.__name__)
    return name if code.co_name.startswith("_") else f"{name}.{code.co_name}"


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn in the name of the public call, at the line of its caller, unless it was given already.

    A category of its own says one thing, and comes once, with the first message; plain warnings come once
    from each line of ours, whatever numbers are in their messages.
    """
    frame = sys._getframe(1)
    subject = category if category is not UserWarning else (frame.f_code.co_filename, frame.f_lineno)
    given = _given.get()
    if issubclass(category, _kept_back.get()) or (given is not None and subject in given):
        return
    if given is not None:
        given.add(subject)
    caller = _first_outside(frame)
    names = caller.f_globals
    warnings.warn_explicit(
        f"{public_call()}: {message}",
        category,
        filename=caller.f_code.co_filename,
        lineno=caller.f_lineno,
        module=names.get("__name__"),
        registry=names.setdefault("__warningregistry__", {}),
    )


def has_warned() -> bool:
    """Return whether the public call under way has given a warning."""
    return bool(_given.get())


@contextmanager
def without_warnings(category: type[Warning]) -> Iterator[None]:
    """Keep back the warnings of a category, which do not count as given."""
    token = _kept_back.set((*_kept_back.get(), category))
    try:
        yield
    finally:
        _kept_back.reset(token)


def _first_outside(frame: FrameType) -> FrameType:
    """Return the first frame of the user's code; the outermost one if there is none."""
    while frame.f_back is not None and _package(frame) in IN_BETWEEN:
        frame = frame.f_back
    return frame


def _is_module(frame: FrameType, name: str) -> bool:
    """Tell whether the frame is of a module, or of one in a package."""
    return f"{frame.f_globals.get('__name__')}.".startswith(f"{name}.")


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]
