"""Kernel k-means (Dhillon, Guan, Kulis 2004) through products with the kernel: K is never formed.

The weighted objective Σ_c Σ_{i∈c} w_i ‖φ_i − m_c‖² needs of K only its diagonal and K Z, where column c of Z
holds the shares w_i / Σ_{j∈c} w_j that the members of a cluster have in its centre:

    ‖φ_i − m_c‖² = K_ii − 2 (K Z)_ic + (Zᵀ K Z)_cc.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

TINY = np.finfo(np.float64).tiny
NEAR = 0.5
"""Median cosine to the best centre below which distances to centres are not informative."""


class Points(NamedTuple):
    """n points, by products with their symmetric kernel, its diagonal and their weights; k clusters."""

    multiply: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    diagonal: NDArray[np.float64]
    weights: NDArray[np.float64]
    k: int

    def columns(self, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the columns of the kernel of some points, (n, len(chosen))."""
        units = np.zeros((self.weights.size, chosen.size))
        units[chosen, np.arange(chosen.size)] = 1.0
        return self.multiply(units)

    def members(self, labels: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the weight that each point has in each cluster, (n, k); points with label -1 have none."""
        members = np.zeros((labels.size, self.k))
        known = labels >= 0
        members[np.flatnonzero(known), labels[known]] = self.weights[known]
        return members

    def distances(self, labels: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ‖φ_i − m_c‖², (n, k)."""
        members = self.members(labels)
        shares = members / np.maximum(members.sum(axis=0), TINY)
        products = self.multiply(shares)
        squares = np.einsum("ic,ic->c", shares, products)
        return self.diagonal[:, None] - 2 * products + squares

    def objective(self, labels: NDArray[np.int64], distances: NDArray[np.float64]) -> float:
        """Return Σ_i w_i ‖φ_i − m_label(i)‖²."""
        return float(self.weights @ distances[np.arange(labels.size), labels])


class Run(NamedTuple):
    """Labels, the objective before the first and after each iteration, and whether the run converged."""

    labels: NDArray[np.int64]
    objectives: list[float]
    converged: bool


def lloyd(points: Points, labels: NDArray[np.int64], max_iter: int) -> Run:
    """Alternate between centres and nearest centres until no label changes, or the objective would rise."""
    rows = np.arange(labels.size)
    distances = points.distances(labels)
    objectives = [points.objective(labels, distances)]
    for _ in range(max_iter):
        nearest = distances.argmin(axis=1)
        nearest = np.where(distances[rows, nearest] < distances[rows, labels], nearest, labels)
        fill_empty(nearest, points.weights * distances[rows, nearest], points)
        if np.array_equal(nearest, labels):
            return Run(labels, objectives, True)
        moved = points.distances(nearest)
        objective = points.objective(nearest, moved)
        if objective > objectives[-1]:
            return Run(labels, objectives, True)
        labels, distances = nearest, moved
        objectives.append(objective)
    return Run(labels, objectives, False)


def fill_empty(labels: NDArray[np.int64], costs: NDArray[np.float64], points: Points) -> None:
    """Move to each empty cluster the costliest point of a cluster that has other points with weight."""
    counts_at_all = points.weights > 0
    counts = np.bincount(labels[counts_at_all], minlength=points.k)
    for cluster in np.flatnonzero(counts == 0):
        point = int(np.argmax(np.where(counts_at_all & (counts[labels] > 1), costs, -np.inf)))
        counts[labels[point]] -= 1
        counts[cluster], labels[point], costs[point] = 1, cluster, -np.inf


def first_labels(points: Points, random: np.random.RandomState) -> NDArray[np.int64]:
    """Return labels from k-means++ centres: the nearest centre if centres are near, else grown clusters.

    With a kernel that reaches only a few hops, most nodes of a large graph are orthogonal to every centre,
    and the nearest centre is the one with the smallest norm for all of them.
    """
    centres = plus_plus(points, random)
    seeds = np.full(points.weights.size, -1)
    seeds[centres] = np.arange(points.k)
    products, squares = points.columns(centres), points.diagonal[centres]
    norms = np.sqrt(np.maximum(np.outer(points.diagonal, squares), TINY))
    if weighted_median((products / norms).max(axis=1), points.weights) < NEAR:
        return grow(points, seeds)
    nearest = np.asarray((squares - 2 * products).argmin(axis=1))
    nearest[centres] = np.arange(points.k)
    return nearest


def weighted_median(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """Return the weighted median of some values."""
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(below, below[-1] / 2)]])


def grow(points: Points, labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Label points by the cluster of largest cosine, in rounds; unreached ones join the lightest cluster."""
    labels = labels.copy()
    while True:
        members = points.members(labels)
        products = points.multiply(members)
        norms = np.sqrt(np.maximum(np.einsum("ic,ic->c", members, products), TINY))
        cosines = products / norms
        reached = (labels < 0) & (cosines.max(axis=1) > 0)
        if not reached.any():
            break
        labels[reached] = cosines[reached].argmax(axis=1)
    labels[labels < 0] = points.members(labels).sum(axis=0).argmin()
    return labels


def plus_plus(points: Points, random: np.random.RandomState) -> NDArray[np.int64]:
    """Return k distinct points by greedy k-means++: each is the best of some drawn by distance."""
    diagonal, weights, k = points.diagonal, points.weights, points.k
    n, trials = weights.size, 2 + int(math.log(k))
    distance, centres = np.full(n, np.inf), np.empty(k, dtype=np.int64)
    chances = weights
    for cluster in range(k):
        candidates = random.choice(n, size=1 if cluster == 0 else trials, p=chances / chances.sum())
        to_candidates = diagonal[:, None] - 2 * points.columns(candidates) + diagonal[candidates]
        to_candidates = np.minimum(np.maximum(to_candidates, 0.0), distance[:, None])
        best = int(np.argmin(weights @ to_candidates))
        centres[cluster], distance = candidates[best], to_candidates[:, best]
        distance[centres[: cluster + 1]] = 0.0
        chances = weights * distance
        if not chances.any():  # fewer distinct points than clusters
            chances = np.ones(n)
            chances[centres[: cluster + 1]] = 0.0
        if not chances.any():
            break
    return centres
