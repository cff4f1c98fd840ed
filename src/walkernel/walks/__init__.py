"""Random walks as plain arrays: this layer knows graphs and samplers, never a kernel or a modulation."""

from walkernel.walks._samplers import IndependentWalks
from walkernel.walks._sampling import Deposits, Request, concatenate, sample_deposits
from walkernel.walks._tables import WalkTable, walk_table

__all__ = [
    "Deposits",
    "IndependentWalks",
    "Request",
    "WalkTable",
    "concatenate",
    "sample_deposits",
    "walk_table",
]
