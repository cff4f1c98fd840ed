"""Axes to draw on, and colours that people who see few colours can tell apart."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import Described, real_number, refuse

CATEGORIES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
"""The colours of Okabe and Ito."""
SEQUENTIAL, UNCERTAINTY, DIVERGING = "viridis", "cividis", "coolwarm"
MISSING = "0.6"
"""Colour of what has no value."""
PANEL_INCHES, BAR_INCHES = 4.8, 1.2
"""The larger side of a picture, and the space for the bar of its colours."""


def new_axes(count: int = 1, aspect: float = 1.0, **options: Any) -> Any:
    """Return new matplotlib axes, or an array of several beside each other; ``aspect`` is width / height."""
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise ImportError(
            "walkernel.plots needs matplotlib. Install it with `pip install walkernel[plot]`."
        ) from error
    width, height = PANEL_INCHES * min(1.0, max(aspect, 0.6)), PANEL_INCHES / max(1.0, min(aspect, 2.0))
    size = (width + BAR_INCHES) * count, height + 0.6
    _, axes = pyplot.subplots(1, count, figsize=size, layout="constrained", subplot_kw=options or None)
    return axes


def check_axes(parameter: str, axes: Any, *, in_space: bool = False) -> Any:
    """Return matplotlib axes, or refuse what is none, or what has another number of dimensions."""
    if not hasattr(axes, "transData"):
        remedy = "Pass one of the axes that `pyplot.subplots` returns."
        refuse(parameter, "matplotlib Axes", axes, remedy, TypeError)
    if (axes.name == "3d") != in_space:
        kinds = 'axes in the plane, of `projection="rectilinear"`', 'axes in space, of `projection="3d"`'
        refuse(parameter, kinds[in_space], Described(f"axes of projection {axes.name!r}"))
    return axes


class Scale(NamedTuple):
    """A map of colours, the values of its ends, and which ends of its bar are pointed: values lie beyond.

    Nodes whose values are further from ``origin`` are drawn later, if there is one.
    """

    colours: str
    low: float
    high: float
    extend: str
    origin: float | None = None


def colour_scale(
    values: NDArray[np.float64],
    vmin: float | None,
    vmax: float | None,
    center: float | None,
    colours: str = SEQUENTIAL,
) -> Scale:
    """Return the scale of values, from the smallest to the largest one unless its ends are given.

    Around ``center`` the scale is diverging, and its ends are as far from there on both sides.
    """
    finite = values[np.isfinite(values)]
    smallest, largest = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    low = smallest if vmin is None else real_number("vmin", vmin)
    high = largest if vmax is None else real_number("vmax", vmax)
    if center is not None:
        middle = real_number("center", center)
        reach = max(abs(low - middle), abs(high - middle))
        colours, low, high = DIVERGING, middle - reach, middle + reach
    if low > high and (vmin is None or vmax is None):  # all values lie beyond the end that is given
        low, high = (low, low) if vmax is None else (high, high)
    if low > high:
        refuse("vmin", f"at most vmax = {vmax}", vmin)
    beyond = bool((values < low).any()), bool((values > high).any())
    if low == high:
        reach = 0.1 * abs(low) or 1.0
        low, high = low - reach, high + reach
    extend = {(False, False): "neither", (True, False): "min", (False, True): "max"}.get(beyond, "both")
    return Scale(colours, low, high, extend, center)
