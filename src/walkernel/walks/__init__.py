"""Random walks as plain arrays: this layer knows graphs and samplers, never a kernel or a modulation."""

from walkernel.walks._samplers import (
    SAMPLERS,
    CoupledWalks,
    IndependentWalks,
    Sampler,
    sampler_fields,
    sampler_from,
)
from walkernel.walks._sampling import Deposits, Request, Rows, concatenate, sample_deposits, sample_rows
from walkernel.walks._tables import WalkTable, step_law, walk_table

__all__ = [
    "SAMPLERS",
    "CoupledWalks",
    "Deposits",
    "IndependentWalks",
    "Request",
    "Rows",
    "Sampler",
    "WalkTable",
    "concatenate",
    "sample_deposits",
    "sample_rows",
    "sampler_fields",
    "sampler_from",
    "step_law",
    "walk_table",
]
