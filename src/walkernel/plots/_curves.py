"""Curves: modulation functions, calibration of probabilities, and errors against the number of steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import Described, real_array, refuse, whole_number
from walkernel._door import door
from walkernel.kernels import Kernel
from walkernel.plots._axes import CATEGORIES, check_axes, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]
MARKERS = "osD^v<>P"
GUIDE = 1.6
"""How far above the largest error of the first curve the guide of slope −1/2 begins."""


def curve_style(number: int) -> dict[str, Any]:
    """Return the colour and the marker of a curve."""
    return {"color": CATEGORIES[number % len(CATEGORIES)], "marker": MARKERS[number % len(MARKERS)]}


@door
def plot_modulation(*kernels: Kernel, length: int = 16, ax: Axes | None = None) -> Axes:
    """Draw the modulation functions of kernels: f(l), the weight of walks of each length l.

    f has no unit; it is the sequence with f * f = α, the coefficients of the kernel's power series.

    Parameters
    ----------
    *kernels : Kernel
        Kernels whose f are compared.
    length : int
        Number of lengths, from 0.
    ax : matplotlib Axes, optional
        Where to draw; new axes if not given.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import walkernel as wk
    >>> from walkernel.plots import plot_modulation
    >>> axes = plot_modulation(wk.Diffusion(1.0), wk.Matern(1.5, 2.0))
    """
    count = whole_number("length", length, minimum=1)
    if not kernels or not all(isinstance(kernel, Kernel) for kernel in kernels):
        remedy = "Write plot_modulation(one, other) for several."
        refuse("kernels", "one Kernel or more", list(kernels), remedy, TypeError)
    axes: Axes = new_axes() if ax is None else check_axes("ax", ax)
    from matplotlib.ticker import MaxNLocator

    for i, kernel in enumerate(kernels):
        f = kernel.modulation(count)
        axes.plot(np.arange(count), f, markersize=5, label=repr(kernel), **curve_style(i))
    axes.axhline(0.0, color="0.6", linewidth=0.8, zorder=1)
    axes.set(xlabel="length l of a walk", ylabel="f(l)", title="Modulation function: weights of walks")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(frameon=False)
    return axes


@door
def plot_reliability(y: Any, probability: Any, *, n_bins: int = 10, ax: Axes | None = None) -> Axes:
    """Draw how often nodes belong to a class, against the probability that a classifier gave.

    Each dot is a group of nodes of similar probability: its mean, and the frequency of the class. Bars reach
    two standard errors of the frequency, those of a calibrated classifier, to both sides: then about 19 of 20
    of them cross the dashed line.

    Parameters
    ----------
    y : array_like of bool, (n,)
        Whether each node belongs to the class.
    probability : array_like of float, (n,)
        Predicted probabilities of the class, from 0 to 1, such as a column of ``predict_proba``.
    n_bins : int
        Number of groups of equal size that nodes are sorted into by probability.
    ax : matplotlib Axes, optional
        Where to draw; new axes if not given.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> from walkernel.plots import plot_reliability
    >>> p = np.random.default_rng(0).uniform(size=500)
    >>> axes = plot_reliability(np.random.default_rng(1).uniform(size=500) < p, p)
    """
    given, happened = real_array("probability", probability, ndim=1), np.asarray(y)
    bins = whole_number("n_bins", n_bins, minimum=1)
    if not given.size or given.min() < 0 or given.max() > 1:
        got = f"numbers from {given.min():.3g} to {given.max():.3g}" if given.size else "none"
        refuse("probability", "numbers from 0 to 1", Described(got))
    rule = f"{given.size} truth values, one for each probability"
    if happened.shape != given.shape:
        refuse("y", rule, Described(f"shape {happened.shape}"))
    if not np.isin(happened, (0, 1)).all():
        refuse("y", rule, happened, "Compare labels with that of the class: y == label.")
    groups = np.array_split(np.argsort(given, kind="stable"), min(bins, given.size))
    x = np.array([given[group].mean() for group in groups])
    frequency = np.array([happened[group].mean() for group in groups])
    spread = np.array([np.sqrt(np.mean(given[g] * (1 - given[g])) / g.size) for g in groups])
    axes: Axes = new_axes() if ax is None else check_axes("ax", ax)
    axes.plot([0, 1], [0, 1], "--", color="0.5", linewidth=1, label="calibrated")
    label = "observed ± 2 standard errors"
    axes.errorbar(x, frequency, 2 * spread, fmt="o", color=CATEGORIES[0], capsize=3, label=label)
    title = f"Reliability of {given.size:,} predictions"
    axes.set(xlabel="predicted probability", ylabel="frequency of the class", title=title)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    axes.legend(frameon=False, loc="upper left")
    return axes


@door
def plot_error_against_steps(curves: Mapping[str, Any], *, ax: Axes | None = None) -> Axes:
    """Draw errors against the number of steps walked, with logarithmic axes and a guide of slope −1/2.

    Errors of estimates from independent walks fall as the guide does.

    Parameters
    ----------
    curves : mapping
        For each name (steps, errors) or (steps, errors, standard errors), array_like of float of one size
        (n,): steps such as ``K.n_steps``, and errors in any unit, both positive. Bars reach two standard
        errors to both sides.
    ax : matplotlib Axes, optional
        Where to draw; new axes if not given.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> from walkernel.plots import plot_error_against_steps
    >>> axes = plot_error_against_steps({"default": ([1e3, 1e4, 1e5], [0.1, 0.031, 0.0102])})
    """
    if not isinstance(curves, Mapping) or not curves:
        refuse("curves", "a mapping of names to (steps, errors)", curves, error=TypeError)
    found = {str(name): _curve(f"curves[{name!r}]", curve) for name, curve in curves.items()}
    axes: Axes = new_axes() if ax is None else check_axes("ax", ax)
    for i, (name, (steps, errors, *stderr)) in enumerate(found.items()):
        bars = 2 * stderr[0] if stderr else None
        axes.errorbar(steps, errors, bars, markersize=5, capsize=2, label=name, **curve_style(i))
    steps, errors = next(iter(found.values()))[:2]
    guide = GUIDE * errors.max() * np.sqrt(steps.min() / steps)
    axes.plot(steps, guide, "k--", linewidth=1, label="slope −1/2")
    has_bars = any(len(curve) == 3 for curve in found.values())
    title = "Error against steps" + (" (bars: two standard errors)" if has_bars else "")
    axes.set(xscale="log", yscale="log", xlabel="steps", ylabel="error", title=title)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    return axes


def _curve(name: str, curve: Any) -> list[Array]:
    """Return the arrays of a curve in the order of its steps."""
    rule = "(steps, errors) or (steps, errors, standard errors) of one size"
    if not isinstance(curve, (tuple, list)) or len(curve) not in (2, 3):
        refuse(name, rule, curve)
    arrays = [real_array(name, each, ndim=1) for each in curve]
    if len({each.size for each in arrays}) > 1 or not arrays[0].size:
        refuse(name, rule, Described(f"arrays of sizes {[each.size for each in arrays]}"))
    if min(each.min() for each in arrays[:2]) <= 0:
        refuse(name, "positive: axes are logarithmic", Described("steps or errors of 0 or less"))
    if len(arrays) == 3 and arrays[2].min() < 0:
        refuse(name, "without negative standard errors", Described(f"{arrays[2].min():.3g}"))
    order = np.argsort(arrays[0], kind="stable")
    return [each[order] for each in arrays]
