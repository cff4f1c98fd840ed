"""Initial values of f that decay fast enough for walks to have finite variance on any matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence

from walkernel.features import second_moment_radius
from walkernel.graph import Graph
from walkernel.walks import Sampler

MARGIN = 0.85
"""Decay of a start, relative to the decay at which the variance becomes infinite."""


def moment_growth(graphs: Sequence[Graph], matrix: str, sampler: Sampler) -> float:
    """Return the largest ρ(Q₀) of the walks on some graphs: the growth of second moments per step."""
    growths = [second_moment_radius(one, sampler.transition, matrix, (False, True)) for one in graphs]
    return max(growths) or 1.0


def start_decay(graphs: Sequence[Graph], matrix: str, sampler: Sampler) -> float:
    """Return a decay for which decayˡ has finite variance: decay² ρ(Q₀) is below the law's ratio."""
    return MARGIN * math.sqrt((sampler.ratio or 1.0) / moment_growth(graphs, matrix, sampler))
