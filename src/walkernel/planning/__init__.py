"""What is chosen for the user: pair, length law, head, number of walks, factors, polynomial degree."""

from walkernel.planning._allocation import MANY_GROUPS, RARELY, Sizes, is_exact, matched_after, walk_variance
from walkernel.planning._degree import check_rounding, find_polynomial, suited_polynomial
from walkernel.planning._pair import check_covariance, check_served, choose_pair, divergence
from walkernel.planning._plan import (
    Plan,
    Request,
    check_reach,
    edges_of_heads,
    is_two_sided,
    make_plan,
    settle,
    walked_sizes,
)
from walkernel.planning._sampler import (
    LAST_RESORT,
    NARROWER,
    WIDER,
    checked_sampler,
    choose_sampler,
    matched_law,
    served_kernels,
    widest_served,
)

__all__ = [
    "LAST_RESORT",
    "MANY_GROUPS",
    "NARROWER",
    "RARELY",
    "WIDER",
    "Plan",
    "Request",
    "Sizes",
    "check_covariance",
    "check_reach",
    "check_rounding",
    "check_served",
    "checked_sampler",
    "choose_pair",
    "choose_sampler",
    "divergence",
    "edges_of_heads",
    "find_polynomial",
    "is_exact",
    "is_two_sided",
    "make_plan",
    "matched_after",
    "matched_law",
    "served_kernels",
    "settle",
    "suited_polynomial",
    "walk_variance",
    "walked_sizes",
    "widest_served",
]
