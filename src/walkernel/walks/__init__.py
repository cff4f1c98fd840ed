"""Random walks as plain arrays: this layer knows graphs and samplers, never a kernel or a modulation."""

from walkernel.walks._heads import (
    MAX_SHIFT,
    Head,
    count_walks,
    follow_front,
    head_rule,
    measure_heads,
    no_heads,
)
from walkernel.walks._laws import MARGIN, LengthLaw, ResidueWorth, matched_survival
from walkernel.walks._rewalk import Starts, report_walks, rewalk
from walkernel.walks._samplers import (
    GROUPS,
    SAMPLERS,
    CoupledWalks,
    IndependentWalks,
    PrunedWalks,
    Sampler,
    sampler_fields,
    sampler_from,
)
from walkernel.walks._sampling import Deposits, Rows, concatenate, sample_deposits, sample_rows
from walkernel.walks._spec import MAX_WALKS, NO_NODES, WalkSpec, identity
from walkernel.walks._state import read_only
from walkernel.walks._tables import StepLaw, hop_table, step_law, walk_table
from walkernel.walks._weighing import Terms, sort_terms

__all__ = [
    "GROUPS",
    "MARGIN",
    "MAX_SHIFT",
    "MAX_WALKS",
    "NO_NODES",
    "SAMPLERS",
    "CoupledWalks",
    "Deposits",
    "Head",
    "IndependentWalks",
    "LengthLaw",
    "PrunedWalks",
    "ResidueWorth",
    "Rows",
    "Sampler",
    "Starts",
    "StepLaw",
    "Terms",
    "WalkSpec",
    "concatenate",
    "count_walks",
    "follow_front",
    "head_rule",
    "hop_table",
    "identity",
    "matched_survival",
    "measure_heads",
    "no_heads",
    "read_only",
    "report_walks",
    "rewalk",
    "sample_deposits",
    "sample_rows",
    "sampler_fields",
    "sampler_from",
    "sort_terms",
    "step_law",
    "walk_table",
]
