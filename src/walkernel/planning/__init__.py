"""What is chosen for the user: pair, length law, head, number of walks, factors, polynomial degree."""

from walkernel.planning._degree import (
    Polynomial,
    chebyshev_terms,
    check_rounding,
    find_polynomial,
    suited_polynomial,
)
from walkernel.planning._pair import check_covariance, check_symmetric, choose_pair
from walkernel.planning._plan import Plan, Request, make_plan
from walkernel.planning._sampler import (
    NARROWER,
    WIDER,
    checked_sampler,
    choose_sampler,
    matched_law,
    served_kernels,
    widest_served,
)
from walkernel.planning._tolerance import Accuracy, first_plan, refine

__all__ = [
    "NARROWER",
    "WIDER",
    "Accuracy",
    "Plan",
    "Polynomial",
    "Request",
    "chebyshev_terms",
    "check_covariance",
    "check_rounding",
    "check_symmetric",
    "checked_sampler",
    "choose_pair",
    "choose_sampler",
    "find_polynomial",
    "first_plan",
    "make_plan",
    "matched_law",
    "refine",
    "served_kernels",
    "suited_polynomial",
    "widest_served",
]
