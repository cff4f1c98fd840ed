"""Where training starts: f that falls off fast enough for the walks, whatever matrix they are on."""

from __future__ import annotations

import math
from collections.abc import Sequence

from walkernel.convergence import second_moment_radius
from walkernel.graph import Graph
from walkernel.walks import Sampler

MARGIN = 0.85
"""A start's decay, as a share of that from which on variances are infinite."""


def moment_growth(graphs: Sequence[Graph], matrix: str, sampler: Sampler) -> float:
    """Return the largest ρ(Q₀) of the walks on some graphs: what their second moments grow by in a step."""
    growths = [second_moment_radius(one, sampler.transition, matrix, (False, True)) for one in graphs]
    return max(growths) or 1.0


def start_decay(graphs: Sequence[Graph], matrix: str, sampler: Sampler) -> float:
    """Return a decay for which decayˡ has finite variance: decay² ρ(Q₀) is below the law's ratio."""
    return MARGIN * math.sqrt((sampler.ratio or 1.0) / moment_growth(graphs, matrix, sampler))
