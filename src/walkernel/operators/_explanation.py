"""What ``K.explain()`` returns, and how it is written for operators that are made of walks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from walkernel._html import html_table
from walkernel.operators._groups import Groups
from walkernel.planning import find_polynomial
from walkernel.walks import PrunedWalks

if TYPE_CHECKING:
    from walkernel.operators._walk import FeatureOperator, WalkOperator

PAIRS = {
    "symmetric": "Both sides carry f with f * f = α",
    "lazy": "One side carries all of α, the other stays at home",
}
ENSEMBLES = {
    "debiased": "one set of walks serves both sides, and its bias on the diagonal is subtracted.",
    "independent": "each side that walks has walks of its own: unbiased, not symmetric.",
    "shared": "one set of walks serves both sides: positive semidefinite, its diagonal biased upward.",
}
SMALLEST_ERROR = 1e-12


@dataclass(frozen=True)
class Explanation:
    """What ``K.explain()`` returns; it prints as sentences.

    Attributes
    ----------
    text : str
        The sentences, one on each line.
    n_steps : int
        Steps walked, and edges that exact heads followed.
    n_bytes : int
        Memory of the operator.
    error : float or None
        Relative error ‖K̂ − K‖/‖K‖ in the Frobenius norm: estimated from the spread of groups of walks, or a
        bound for a deterministic engine; infinite where the spread drowns the kernel, None where there are
        fewer than two groups.
    polynomial_products : int or None
        Sparse products that ``polynomial_operator`` needs for K @ v to that error, or to 0.1 if it is not
        known; None where it would take more than it allows.
    """

    text: str
    n_steps: int
    n_bytes: int
    error: float | None
    polynomial_products: int | None

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [("steps", f"{self.n_steps:,}"), ("memory", megabytes(self.n_bytes))]
        if self.error is not None:
            rows.append(("relative error", f"{self.error:.2g}"))
        if self.polynomial_products is not None:
            rows.append(("products of a polynomial", str(self.polynomial_products)))
        sentences = "".join(f"<li>{escape(line)}</li>" for line in self.text.splitlines())
        return f"<ul>{sentences}</ul>{html_table('In numbers', [], rows)}"


def explain_walks(K: WalkOperator) -> Explanation:
    """Say what an operator is made of, and estimate its error from the spread of its groups of walks."""
    groups, n_steps = K.groups, K.n_steps
    error = K.accuracy().error if groups.n_groups > 1 else None
    n_bytes = feature_bytes(K.factors)
    reached = 0.1 if error is None else min(0.1, max(SMALLEST_ERROR, error))
    polynomial = find_polynomial(K.graph, K.kernel, reached)
    products = None if polynomial is None else polynomial.n_products
    note = f" ({K.note})" if K.note else ""
    per_node = n_steps / K.shape[0]
    lines = [
        f"{K.kernel} on {_extent(K)}, estimated from random walks.",
        f"{PAIRS[K.pair]}{note}; {ENSEMBLES[K.ensembles]}",
        *_stitching(K),
        *_walking(groups),
        f"{per_node:.4g} steps from each node, {n_steps} in all; {megabytes(n_bytes)}.",
        _error(error, groups.n_groups),
        *_advice(K, products, reached, per_node),
    ]
    return Explanation("\n".join(lines), n_steps, n_bytes, error, products)


def _extent(K: WalkOperator) -> str:
    n, m = K.shape
    return f"{n} nodes" if n == m else f"{n} nodes against all {m}"


def _error(error: float | None, groups: int) -> str:
    if error is None:
        return "Its error is not known: that takes two groups of walks."
    size = f"about {error:.2g}" if error < 1 else "of 1 or more: it takes more steps"
    return f"Relative error {size} (Frobenius), from the spread of {groups} groups of walks."


def _stitching(K: WalkOperator) -> list[str]:
    if K.stitches > 1:
        return [
            f"It is a product of {K.stitches} factors, estimates of K^(1/{K.stitches}): a product "
            "of short walks has less error than long ones. It has no features, and single entries cost a "
            "pass over the graph; stitches=1 has both."
        ]
    if K.pair == "symmetric" and K.shape[0] == K.graph.n_nodes:
        return ["It is one factor, so that it has features; stitches= has less error for K @ v."]
    return []


def _walking(groups: Groups) -> list[str]:
    sampler = groups.left.sampler
    head = ""
    if isinstance(sampler, PrunedWalks):
        head = f"Edges are followed up to {sampler.head} hops where that is worth it; then "
    elif sampler.head:
        hops = "hop is" if sampler.head == 1 else f"{sampler.head} hops are"
        head = f"The first {hops} exact, along every edge, as far as that is worth its cost; then "
    walks = f"{groups.left.n_walks} walks of {sampler.mean_steps:.3g} steps on average"
    size = sampler.coupling.group
    coupled = f" in groups of {size} whose draws are spread evenly" if size > 1 else ", all independent"
    return [f"{head}{walks}{coupled} ({groups.n_groups} independent groups for error bars)."]


def _advice(K: WalkOperator, products: int | None, error: float, per_node: float) -> list[str]:
    """Compare with the polynomial engine, in multiplications."""
    graph = K.graph
    if products is None:
        return ["No polynomial that polynomial_operator could apply comes near it."]
    work = max(1, products) * graph.indices.size
    if K.shape[0] < graph.n_nodes:
        walked = per_node * K.shape[0]
        if work > walked:
            return [
                f"polynomial_operator would take {products} sparse products with the whole graph for one "
                f"column: {work / max(1.0, walked):.2g} times the steps walked here."
            ]
    return [
        f"For K @ v alone polynomial_operator serves better: {products} sparse products give an error of "
        f"{error:.1g}. Walks are for features, for entries with error bars, for a few nodes, and for many "
        "kernels from one sample."
    ]


def feature_bytes(factors: Sequence[FeatureOperator]) -> int:
    """Return the memory of the features; what several have in common counts once."""
    sides = [side for factor in factors for side in (factor.left, factor.right)]
    parts = {id(part): part for side in sides for part in side.parts()}
    return sum(part.nbytes for part in parts.values())


def megabytes(n_bytes: int) -> str:
    """Return a number of bytes for people."""
    return f"{n_bytes / 2**20:.3g} MiB"
