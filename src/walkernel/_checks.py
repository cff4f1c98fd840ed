"""Checks at the door: every refusal has one shape and is worded here.

A message names the public call and the parameter, the rule, the value received and, where there is one,
the remedy. Code behind the door trusts its arguments.
"""

from __future__ import annotations

import math
import numbers
import reprlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from walkernel._door import public_call

MATRICES = ("normalized", "adjacency", "combinatorial", "random-walk")
DENSE_LIMIT = 2**32
"""Bytes a single dense result may take before it is refused."""

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 60


class DivergentKernelError(ValueError):
    """The power series Σ αₖ Mᵏ of the kernel does not converge on this graph.

    Raised where a kernel is used on a graph, mostly with ``matrix="adjacency"``, whose spectral radius grows
    with the degrees. Take ``matrix="normalized"``, a smaller width or ``kernel.scaled(beta)``.

    Examples
    --------
    >>> import walkernel as wk
    >>> kernel = wk.RegularizedLaplacian(d=1, sigma=2.0, matrix="adjacency")
    >>> try:
    ...     K = wk.exact_kernel(wk.load_dataset("karate").graph, kernel)
    ... except wk.DivergentKernelError as error:
    ...     print("refused")
    refused
    """


class InfiniteVarianceWarning(UserWarning):
    """The estimate has no finite variance, in theory or for all practical purposes.

    The walks are too short for the kernel, so that averages over more walks need not come closer to it: do
    not use the value or its error bar. Leave ``pair`` and ``sampler`` out of ``estimate_kernel`` and of
    estimators, which then choose both for the kernel. The default walks of ``sample_walks`` and
    ``sample_features`` are the same for every kernel: give ``sampler=choose_sampler(graph, kernel)``. A
    kernel whose symmetric pair has no finite variance with any walks, such as ``InverseCosine()``, is for
    ``estimate_kernel`` and ``polynomial_operator``. :ref:`The messages and remedies <infinite-variance>`.

    Examples
    --------
    >>> import warnings, walkernel as wk
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     K = wk.estimate_kernel(wk.load_dataset("karate").graph, wk.InverseCosine(), 8, pair="symmetric")
    >>> caught[0].category.__name__
    'InfiniteVarianceWarning'
    """


def shown(value: object) -> str:
    """Describe a received value in a few words."""
    if isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0:
        value = value.item()
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    return _short.repr(value)


def refuse(
    parameter: str, rule: str, received: object, remedy: str = "", error: type[Exception] = ValueError
) -> NoReturn:
    """Raise ``error`` with the one message shape: who, what, rule, value received, remedy."""
    got = received if isinstance(received, Described) else shown(received)
    raise error(f"{public_call()}: {parameter} must be {rule}, got {got}.{' ' + remedy if remedy else ''}")


class Described(str):
    """A received value that is already put into words."""


def whole_number(parameter: str, value: object, minimum: int = 0, maximum: int | None = None) -> int:
    """Return ``value`` as an int, or refuse it: bools and floats are not counts."""
    rule = f"a whole number of at least {minimum}"
    if maximum is not None:
        rule = f"a whole number from {minimum} to {maximum}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        refuse(parameter, rule, value, error=TypeError if _is_not_number(value) else ValueError)
    number = int(value)
    if number < minimum or (maximum is not None and number > maximum):
        refuse(parameter, rule, value)
    return number


def real_number(
    parameter: str,
    value: object,
    *,
    above: float = -math.inf,
    below: float = math.inf,
    minimum: float = -math.inf,
) -> float:
    """Return ``value`` as a float with ``above < value < below`` and ``value >= minimum``."""
    bounds = [f"greater than {above:g}"] if above > -math.inf else []
    bounds += [f"of at least {minimum:g}"] if minimum > -math.inf else []
    bounds += [f"less than {below:g}"] if below < math.inf else []
    rule = " ".join(["a finite number", " and ".join(bounds)]).rstrip()
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        refuse(parameter, rule, value, error=TypeError)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not (math.isfinite(number) and above < number < below and number >= minimum):
        refuse(parameter, rule, value)
    return number


def one_of(parameter: str, value: object, options: Iterable[str | None]) -> Any:
    """Return ``value`` if it is one of ``options``."""
    allowed = list(options)
    if not (isinstance(value, str) or value is None) or value not in allowed:
        refuse(parameter, "one of " + ", ".join(map(repr, allowed)), value)
    return value


def check_instance(parameter: str, value: object, kind: type, remedy: str = "") -> None:
    """Refuse ``value`` unless it is an instance of ``kind``."""
    if not isinstance(value, kind):
        what = Described(f"{shown(value)} of type {type(value).__name__}")
        article = "an" if kind.__name__[0] in "AEIO" else "a"
        refuse(parameter, f"{article} {kind.__name__}", what, remedy, TypeError)


def real_array(
    parameter: str, value: object, *, ndim: int | None = None, finite: bool = True
) -> NDArray[np.float64]:
    """Return ``value`` as a float64 array of ``ndim`` dimensions with finite entries."""
    try:
        array = np.asarray(value)
    except ValueError:
        refuse(parameter, "a rectangular array of numbers", value)
    if array.dtype.kind == "c":
        refuse(parameter, "real", array, "Take the real or the imaginary part.", TypeError)
    if array.dtype.kind not in "biuf":
        refuse(parameter, "an array of numbers", value, error=TypeError)
    if ndim is not None and array.ndim != ndim:
        refuse(parameter, f"{ndim}-dimensional", array)
    result = array.astype(np.float64, copy=False)
    if finite and not np.isfinite(result).all():
        where = int(np.flatnonzero(~np.isfinite(result.ravel()))[0])
        refuse(parameter, "finite", Described(f"{result.ravel()[where]} at position {where}"))
    return result


def check_flag(parameter: str, value: object) -> None:
    """Refuse ``value`` unless it is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        refuse(parameter, "True or False", value, error=TypeError)


def is_hashable(value: object) -> bool:
    """Tell whether ``value``, with all that it holds, can be a label."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def check_distinct(
    parameter: str, ids: NDArray[np.int64], names: Callable[[NDArray[np.int64]], NDArray[Any]]
) -> None:
    """Refuse an empty list of nodes and one that names a node twice."""
    if ids.ndim != 1 or ids.size == 0:
        refuse(parameter, "a non-empty, flat list of nodes", ids)
    values, counts = np.unique(ids, return_counts=True)
    if values.size < ids.size:
        twice = Described(f"{shown(names(values[counts > 1])[0])} more than once")
        refuse(parameter, "a list of distinct nodes", twice)


def one_kind(parameter: str, labels: Sequence[Any]) -> None:
    """Refuse labels some of which are text and others are not: NumPy would take 1 and "1" for the same."""
    texts = [isinstance(label, str) for label in labels]
    if any(texts) and not all(texts):
        two = Described(" and ".join(shown(labels[texts.index(kind)]) for kind in (True, False)))
        remedy = f"Convert them, for instance with [str(label) for label in {parameter}]."
        refuse(parameter, "labels of one kind, all text or all numbers", two, remedy, TypeError)


def fits_in_memory(shape: tuple[int, ...], remedy: str) -> None:
    """Refuse a dense float64 result of more than ``DENSE_LIMIT`` bytes."""
    size = 8 * math.prod(shape)
    if size > DENSE_LIMIT:
        raise ValueError(
            f"{public_call()}: a dense array of shape {shape} would need {size / 2**30:.0f} GiB "
            f"(the limit is {DENSE_LIMIT / 2**30:.0f} GiB). {remedy}"
        )


def progress_callback(progress: object) -> Callable[[int, int], object] | None:
    """Return ``progress`` if it can be called with (done, total)."""
    if progress is not None and not callable(progress):
        refuse("progress", "None or a function of (done, total)", progress, error=TypeError)
    return progress


def _is_not_number(value: object) -> bool:
    return isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Number)
