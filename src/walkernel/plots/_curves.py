"""Curves: modulation functions, calibration of probabilities, and errors against the number of steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from walkernel._checks import Described, refuse, whole_number
from walkernel._door import door
from walkernel.kernels import Kernel
from walkernel.plots._axes import CATEGORIES, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = "osD^v<>P"


@door
def plot_modulation(*kernels: Kernel, length: int = 16, ax: Axes | None = None) -> Axes:
    """Draw the modulation functions of kernels: f(l), the weight of walks of each length.

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
        refuse("kernels", "one Kernel or more", list(kernels), error=TypeError)
    axes: Axes = new_axes() if ax is None else ax
    for i, kernel in enumerate(kernels):
        style: dict[str, Any] = {
            "color": CATEGORIES[i % len(CATEGORIES)],
            "marker": MARKERS[i % len(MARKERS)],
        }
        axes.plot(np.arange(count), kernel.modulation(count), markersize=5, label=repr(kernel), **style)
    axes.axhline(0.0, color="0.6", linewidth=0.8)
    axes.set(xlabel="length of a walk", ylabel="f", title="Modulation function: the weight of each length")
    axes.legend(frameon=False)
    return axes


@door
def plot_reliability(y: Any, probability: Any, *, n_bins: int = 10, ax: Axes | None = None) -> Axes:
    """Draw how often nodes belong to a class, against the probability that a classifier gave.

    Parameters
    ----------
    y : array_like of bool, (n,)
        Whether each node belongs to the class.
    probability : array_like of float, (n,)
        Predicted probabilities of the class, such as a column of ``predict_proba``.
    n_bins : int
        Number of groups of equal size that nodes are sorted into by probability.
    ax : matplotlib Axes, optional
        Where to draw; new axes if not given.

    Returns
    -------
    matplotlib Axes
        Bars are two standard errors of the frequency.

    Examples
    --------
    >>> import numpy as np
    >>> from walkernel.plots import plot_reliability
    >>> p = np.random.default_rng(0).uniform(size=500)
    >>> axes = plot_reliability(np.random.default_rng(1).uniform(size=500) < p, p)
    """
    given, happened = np.asarray(probability, dtype=np.float64), np.asarray(y)
    bins = whole_number("n_bins", n_bins, minimum=1)
    if given.ndim != 1 or not given.size or not ((given >= 0) & (given <= 1)).all():
        refuse("probability", "numbers from 0 to 1 in one dimension", Described(f"shape {given.shape}"))
    if happened.shape != given.shape or not np.isin(happened, (0, 1)).all():
        refuse(
            "y", f"{given.size} truth values, one for each probability", Described(f"shape {happened.shape}")
        )
    groups = np.array_split(np.argsort(given, kind="stable"), min(bins, given.size))
    x = np.array([given[group].mean() for group in groups])
    frequency = np.array([happened[group].mean() for group in groups])
    spread = np.array([np.sqrt(np.mean(given[g] * (1 - given[g])) / g.size) for g in groups])
    axes: Axes = new_axes() if ax is None else ax
    axes.plot([0, 1], [0, 1], "--", color="0.5", linewidth=1, label="calibrated")
    axes.errorbar(x, frequency, 2 * spread, fmt="o", color=CATEGORIES[0], capsize=3, label="observed")
    axes.set(
        xlabel="predicted probability", ylabel="frequency", title=f"Reliability of {given.size} predictions"
    )
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    axes.legend(frameon=False, loc="upper left")
    return axes


@door
def plot_error_against_steps(curves: Mapping[str, Any], *, ax: Axes | None = None) -> Axes:
    """Draw errors against the number of steps walked, with logarithmic axes and a guide of slope −1/2.

    Parameters
    ----------
    curves : mapping
        For each name (steps, errors) or (steps, errors, standard errors), arrays of the same size.
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
    axes: Axes = new_axes() if ax is None else ax
    first = None
    for i, (name, curve) in enumerate(curves.items()):
        arrays = [np.asarray(each, dtype=np.float64) for each in curve]
        sizes = {each.shape for each in arrays}
        if len(arrays) not in (2, 3) or len(sizes) != 1 or arrays[0].ndim != 1 or not (arrays[0] > 0).all():
            rule = "(steps, errors) or (steps, errors, standard errors) of one size, steps positive"
            refuse(f"curves[{name!r}]", rule, Described(f"{len(arrays)} arrays of shapes {sorted(sizes)}"))
        bars = 2 * arrays[2] if len(arrays) == 3 else None
        style: dict[str, Any] = {
            "color": CATEGORIES[i % len(CATEGORIES)],
            "marker": MARKERS[i % len(MARKERS)],
        }
        axes.errorbar(arrays[0], arrays[1], bars, markersize=5, capsize=2, label=str(name), **style)
        first = first or (arrays[0], float(arrays[1].max(initial=0.0)))
    steps, largest = first  # type: ignore[misc]
    axes.plot(steps, 1.6 * largest * np.sqrt(steps.min() / steps), "k--", linewidth=1, label="slope −1/2")
    has_bars = any(len(curve) == 3 for curve in curves.values())
    title = "Error against steps" + (" (bars: two standard errors)" if has_bars else "")
    axes.set(xscale="log", yscale="log", xlabel="steps", ylabel="error", title=title)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    return axes
