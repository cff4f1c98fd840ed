"""Axes to draw on, and colours that people who see few colours can tell apart."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

CATEGORIES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
"""The colours of Okabe and Ito."""


def new_axes(count: int = 1, **options: Any) -> Any:
    """Return new matplotlib axes, or an array of several beside each other."""
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise ImportError(
            "walkernel.plots needs matplotlib. Install it with `pip install walkernel[plot]`."
        ) from error
    _, axes = pyplot.subplots(
        1, count, figsize=(5.2 * count + 1.0, 4.8), layout="constrained", subplot_kw=options or None
    )
    return axes


def colour_limits(values: NDArray[np.float64]) -> tuple[float, float, str]:
    """Return the values between which colours differ, and which ends of their bar are pointed."""
    if not values.size:
        return 0.0, 1.0, "neither"
    low, high = (float(each) for each in np.percentile(values, [1, 99]))
    if low == high:
        low, high = float(values.min()), float(values.max())
    ends = bool(values.min() < low), bool(values.max() > high)
    extend = {(False, False): "neither", (True, False): "min", (False, True): "max"}.get(ends, "both")
    return low, high, extend
