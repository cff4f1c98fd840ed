"""Stitched operators: K̂ as a product of l independent estimates of K^(1/l), each from short walks.

A factor M_i = Φ_{2i} Φ_{2i+1}ᵀ has walks of its own, weighted with f = α^{*1/(2l)}, so that E[M_i] = K^(1/l)
and, as the factors are independent, E[M₁…M_l] = K. Walks are as long as K^(1/2l) is wide, and the product
makes long ones of them: an entry of K̂ averages over all ways to join a walk of each factor. With
P = M₁…M_l,

    K̂ = (P + Pᵀ) / 2       symmetric M: unbiased if the factors are (debiased or independent ensembles);
    K̂ = P                  other M, of which the right-hand side of each factor walks Mᵀ;
    K̂ = F Fᵀ, F = Φ₁…Φ_l   shared ensembles: E[F] = K^½, positive semidefinite and biased upward.

Error bars are those of the jackknife that leaves out group g of the walks of every factor at once: for
entries the G estimates K̂_(−g) are products of operators like K̂ itself, for K @ v their differences to first
order. Those of entries are at least what the law of the walks tells (``_unseen``).

Reference: Choromanski et al., "GRFs++" (2025), arXiv 2510.07716.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._checks import Described, refuse
from walkernel.features import HostFeatures, largest_norm
from walkernel.graph import Graph
from walkernel.operators._entry_errors import MAX_RELATIVE_ERROR, Estimate, with_rounding
from walkernel.operators._groups import jackknife_errors, left_out_deviations
from walkernel.operators._unseen import ELEMENTS_AT_ONCE, ratio, unseen_error, walk_laws
from walkernel.operators._walk import FeatureOperator, WalkOperator

MAX_MEMORY = 2**32
"""Bytes that the features of all groups of walks may need, about."""
MAX_PRODUCTS = 2**36
"""Multiplications that entries, a row of K̂ for each row node, may cost."""


class StitchedOperator(WalkOperator):
    """K̂ from the product of independent factors, on all nodes of a graph.

    Parameters
    ----------
    graph : Graph
        The graph.
    factors : sequence of FeatureOperator
        Independent estimates of K^(1/l), alike but for their walks.
    """

    def __init__(self, graph: Graph, factors: Sequence[FeatureOperator]) -> None:
        super().__init__(graph, np.arange(graph.n_nodes))
        self._factors, self.groups, self.note = tuple(factors), factors[0].groups, factors[0].note
        self._products = _products(self.factors, self.ensembles == "shared", self.groups.left.is_symmetric)
        self._transposed: StitchedOperator | None = None

    @property
    def factors(self) -> tuple[FeatureOperator, ...]:
        """The factors; shared ones are Φ_iΦ_iᵀ, of which the product takes Φ_i."""
        return self._factors

    def _matmat(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        result = np.zeros((self.shape[0], V.shape[1]))
        for product in self._products:
            image = V
            for operator in reversed(product):
                image = operator._matmat(image)
            result += image / len(self._products)
        return result

    def _transpose(self) -> StitchedOperator:
        if self.groups.left.is_symmetric:
            return self
        if self._transposed is None:
            transposed = StitchedOperator(self.graph, _transposed(self.factors))
            transposed._transposed, self._transposed = self, transposed
        return self._transposed

    def _row_block(self, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        block = np.zeros((positions.size, self.shape[1]))
        for begin, *rest in self._products:
            columns = begin._row_block(positions).T
            for operator in rest:
                columns = operator._transpose()._matmat(columns)
            block += columns.T / len(self._products)
        return block

    def _entries(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
        needed = np.unique(rows).size
        per_row = sum(factor.left.nnz + factor.right.nnz for factor in chain(*self._products))
        if needed * per_row > MAX_PRODUCTS:
            refuse(
                "the entries asked for",
                "in few enough rows for a product of factors",
                Described(f"{needed} rows of a graph of {self.shape[0]} nodes"),
                "Use stitches=1, whose entries and diagonal cost only their own walks.",
            )
        return super()._entries(rows, columns)

    def _entry_errors(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the jackknife's standard errors, or those of the law of the walks where it tells of more."""
        if self.groups.is_transposed:
            return self._transpose()._entry_errors(columns, rows)
        return np.maximum(self._jackknife_errors(rows, columns), self._unseen_errors(rows, columns))

    def _jackknife_errors(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
        without = np.array([K._entries(rows, columns) for K in self.without_groups()])
        return jackknife_errors(without, axis=0)

    def _entry_estimate(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64], values: NDArray[np.float64]
    ) -> Estimate:
        groups = self.groups
        errors = with_rounding(self._entry_errors(rows, columns), values.ravel(), groups)
        rare = errors > MAX_RELATIVE_ERROR * np.abs(values.ravel())
        if not walk_laws(groups)[0].is_exact:
            rare |= errors == 0  # no walk of a length that matters leads there
        limits = np.where(rare, largest_norm(self.graph, self.kernel), 0.0)
        shape, n_groups = values.shape, groups.n_groups
        return Estimate(values, errors.reshape(shape), n_groups, rare.reshape(shape), limits.reshape(shape))

    def _unseen_errors(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the least error bars of entries, from the law of the walks."""
        errors, pending = np.zeros(rows.size), [np.argsort(rows, kind="stable")]
        while pending:
            entries = pending.pop()
            nodes, where = np.unique(np.concatenate([rows[entries], columns[entries]]), return_inverse=True)
            if entries.size > 1 and nodes.size * self.shape[0] > ELEMENTS_AT_ONCE:
                pending += np.array_split(entries, 2)
                continue
            unit, moments = self._spread(nodes)
            i, j = where.reshape(2, -1)
            own = unseen_error(*(moment[i, j] for moment in moments))
            if self.groups.left.is_symmetric:  # the mean of the product and its transpose
                own = (own + unseen_error(*(moment[j, i] for moment in moments))) / 2
            errors[entries] = unit * own
        return errors

    def _spread(self, nodes: NDArray[np.int64]) -> tuple[float, list[NDArray[np.float64]]]:
        """Return a unit, and in it variance, size of the random part and jumps of entries between nodes.

        With L and R the products of the factors before and after M = ΦΨᵀ, the walks of node k change entry
        (i, j) by L_ik dφ_k·(ΨᵀR)_j + (ΦᵀLᵀ)_i·dψ_k R_kj. Where both are the same walks their standard
        deviations add up at most.
        """
        n, laws = self.shape[0], walk_laws(self.groups)
        beginnings = [law.beginnings(self.ids) for law in laws]
        f_size = max(law.size for law in laws) or 1.0
        laws = [law.in_unit(f_size) for law in laws]
        units = np.zeros((n, nodes.size))
        units[nodes, np.arange(nodes.size)] = 1.0
        before, after = (units, 1.0), [(units, 1.0)]
        for factor in self.factors[:0:-1]:
            behind, size = after[-1]
            after.append(_of_size_one(factor._matmat(behind), size))
        variance, *powers = np.zeros((4, nodes.size, nodes.size))
        first = 0.0
        for factor, (R, r_size) in zip(self.factors, reversed(after), strict=True):
            L, l_size = before
            right, left = (side.multiply_transposed(V) for side, V in ((factor.right, R), (factor.left, L)))
            v_size = max(float(np.abs(right).max()), float(np.abs(left).max())) or 1.0
            unit = f_size * l_size * r_size * v_size
            first = first or unit
            sides = zip(laws, (right, left), beginnings, strict=True)
            ahead, back = (law.spread(V / v_size, own) for law, V, own in sides)
            L_abs, R_abs, share = np.abs(L), np.abs(R), unit / first
            own = np.square(L_abs).T @ ahead.variance + back.variance.T @ np.square(R_abs)
            if self.ensembles != "independent":
                own += 2 * (L_abs * np.sqrt(back.variance)).T @ (np.sqrt(ahead.variance) * R_abs)
            variance += share**2 * own
            for power, total in enumerate(powers, start=1):
                total += share**power * ((L_abs**power).T @ ahead[power] + back[power].T @ R_abs**power)
            before = _of_size_one(factor._transpose()._matmat(L), l_size)
        sizes, square, cube = powers
        return first, [variance, sizes, ratio(cube, square)]

    def deviations(
        self, V: NDArray[np.float64], *, second_order: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return by how much groups of walks deviate in K V to first order, (n, c, n_groups), and zeros.

        Leaving out group g of every factor changes M₁…M_l V by Σ_i M₁…M_{i−1} dM_{i,g} M_{i+1}…M_l V, added
        up from the right. For shared walks, whose F has no such factors, the products are made anew.
        """
        if self.ensembles == "shared":
            without = np.array([K._matmat(V) for K in self.without_groups()])
            return left_out_deviations(without), np.zeros_like(V)
        total: NDArray[np.float64] | float = 0.0
        for product in self._products:
            image, moved = V, product[-1].deviations(V)[0]
            for before, operator in pairwise(reversed(product)):
                image = before._matmat(image)
                carried = operator._matmat(moved.reshape(self.shape[0], -1)).reshape(moved.shape)
                moved = carried + operator.deviations(image)[0]
            total = total + moved / len(self._products)
        return np.asarray(total), np.zeros_like(V)

    def without_groups(self) -> Iterator[StitchedOperator]:
        """Yield, for each group of walks, K̂ from all other groups; the factors are walked again."""
        self.groups.check_number()
        deposits = sum(factor.left.nnz + factor.right.nnz for factor in self.factors)
        needed = 16 * self.groups.n_groups * deposits
        if needed > MAX_MEMORY:
            refuse(
                "the operator",
                "small enough for the features of all groups of walks, which its error bars are made of",
                Described(f"{needed / 2**30:.0f} GiB of them"),
                "Use stitches=1, or estimate_product.",
            )
        for parts in zip(*(factor.groups.leave_one_out() for factor in self.factors), strict=True):
            factors = [
                FeatureOperator(self.graph, self.ids, *sides, groups=self.groups, correction=own)
                for sides, own in parts
            ]
            yield StitchedOperator(self.graph, factors)


def _of_size_one(values: NDArray[np.float64], unit: float) -> tuple[NDArray[np.float64], float]:
    """Return values whose largest is one, and their unit, given the unit that they are in."""
    size = float(np.abs(values).max()) or 1.0
    return values / size, unit * size


def _transposed(factors: Sequence[FeatureOperator]) -> tuple[FeatureOperator, ...]:
    """Return the factors of the transposed product."""
    return tuple(factor._transpose() for factor in reversed(factors))


def _products(
    factors: tuple[FeatureOperator, ...], shared: bool, symmetric: bool
) -> list[tuple[FeatureOperator, ...]]:
    """Return the products of operators whose mean is K̂."""
    if shared:
        one = HostFeatures(scipy.sparse.eye_array(factors[0].shape[0], format="csr"))
        halves = [
            FeatureOperator(factor.graph, factor.ids, factor.left, one, groups=factor.groups)
            for factor in factors[:-1]
        ]
        return [(*halves, factors[-1], *_transposed(halves))]
    return [factors, _transposed(factors)] if symmetric else [factors]
