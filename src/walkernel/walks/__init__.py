"""Random walks as plain arrays: this layer knows graphs and samplers, never a kernel or a modulation."""

from walkernel.walks._samplers import IndependentWalks
from walkernel.walks._sampling import Deposits, Request, Rows, concatenate, sample_deposits, sample_rows
from walkernel.walks._tables import WalkTable, step_law, walk_table

__all__ = [
    "Deposits",
    "IndependentWalks",
    "Request",
    "Rows",
    "WalkTable",
    "concatenate",
    "sample_deposits",
    "sample_rows",
    "step_law",
    "walk_table",
]
