"""The right-hand sides of x' = Gx + y(t): each exp(sG) is a kernel of the core, times a number.

With M one of the core's matrices, G = rate · M + shift · I and

    exp(sG) = e^((|rate| + shift) s) · Diffusion(σ² = 2·|rate|·s)(±M), with the sign of the rate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import gammainc, gammaln, hyp1f1

from walkernel._checks import refuse
from walkernel.features import spectral_radius
from walkernel.graph import Graph
from walkernel.kernels import Diffusion, Kernel

ROUNDING = 1e-7
"""Relative share of a source in null vectors up to which it counts as rounding."""
GENERATORS = ("laplacian", "combinatorial", "normalized", "adjacency", "positive-laplacian")


class Generator(NamedTuple):
    """G = rate · M + shift · I on a graph."""

    graph: Graph
    name: str
    matrix: str
    rate: float
    shift: float
    radius: float = 1.0  # spectral radius of M

    @property
    def speed(self) -> float:
        """What no eigenvalue exceeds in absolute value."""
        return abs(self.shift) + abs(self.rate) * self.radius

    @property
    def growth(self) -> float:
        """No solution grows faster than e^(growth · t)."""
        return self.shift + abs(self.rate) * self.radius

    def kernel(self, s: float) -> Kernel:
        """Return exp(sG) for s > 0."""
        heat: Kernel = Diffusion(math.sqrt(2 * abs(self.rate) * s), matrix=self.matrix)
        if self.rate < 0:
            heat = heat.scaled(-1.0)
        excess = (abs(self.rate) + self.shift) * s
        if excess > 700:
            refuse("t", f"small enough for e^{excess:.0f} to be a number", s)
        return heat if excess == 0 else math.exp(excess) * heat

    def integral(self, t: float) -> Kernel:
        """Return ∫₀ᵗ exp(sG) ds."""
        return Integral(t, self.rate, self.shift, matrix=self.matrix)

    def to_scipy(self) -> scipy.sparse.csr_array:
        """Return G as a sparse matrix."""
        identity = scipy.sparse.eye_array(self.graph.n_nodes)
        return (self.rate * self.graph.to_scipy(self.matrix) + self.shift * identity).tocsr()


@dataclass(frozen=True, repr=False)
class Integral(Kernel):
    """∫₀ᵗ exp(s(rate · M + shift)) ds = t φ₁(t(rate · M + shift)) with φ₁(z) = (e^z − 1) / z."""

    t: float
    rate: float
    shift: float

    def coefficients(self, length: int) -> NDArray[np.float64]:
        """Return rateᵏ ∫₀ᵗ sᵏ/k! e^(shift·s) ds: incomplete gamma functions for decay, else Kummer's."""
        k, t, c = np.arange(length), self.t, abs(self.shift)
        with np.errstate(under="ignore", over="ignore"):
            if self.shift < 0:
                return np.sign(self.rate) ** k * (abs(self.rate) / c) ** k / c * gammainc(k + 1, c * t)
            logs = k * math.log(abs(self.rate)) + (k + 1) * math.log(t) - gammaln(k + 2)
            return np.sign(self.rate) ** k * np.exp(logs) * hyp1f1(k + 1, k + 2, c * t)

    def spectrum(self, eigenvalues: ArrayLike) -> NDArray[Any]:
        """Return t φ₁(t(rate · λ + shift))."""
        z = self.t * (self.rate * np.asarray(eigenvalues) + self.shift)
        small = np.abs(z) < 1e-5
        safe = np.where(small, 1.0, z)
        return np.asarray(self.t * np.where(small, 1 + z / 2 + z**2 / 6, np.expm1(safe) / safe))

    @property
    def radius(self) -> float:
        """Infinity: the function is entire."""
        return math.inf


def generator(graph: Graph, name: str) -> Generator:
    """Return a right-hand side by name."""
    if name == "laplacian":
        return Generator(graph, name, "normalized", rate=1.0, shift=-1.0)
    if name == "combinatorial":
        largest = float(graph.out_degrees().max()) or 1.0
        return Generator(graph, name, "combinatorial", rate=largest, shift=-largest)
    if name == "normalized":
        return Generator(graph, name, "normalized", rate=1.0, shift=0.0)
    if name == "adjacency":
        radius = spectral_radius(graph, "adjacency") or 1.0
        return Generator(graph, name, "adjacency", rate=1.0, shift=0.0, radius=radius)
    return Generator(graph, name, "normalized", rate=-1.0, shift=1.0)


def steady_state(
    G: Generator, source: NDArray[np.float64], initial: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return lim x(t) of x' = Gx + y for a constant y, or raise ValueError if there is none.

    −G is positive semidefinite for the two Laplacians. Its null vectors are known: one for each connected
    part that is balanced (no cycle of negative sign), with entries ±√d or ±1. A limit exists if y has no
    share in any of them; it keeps the share that x(0) has.
    """
    if G.growth > 0:
        raise ValueError(f"No steady state: with matrix={G.name!r} solutions grow without bound.")
    if G.graph.directed:
        raise ValueError("No steady state is computed for directed graphs.")
    unit = power_of_two_unit(source, initial)
    source, initial = source / unit, initial / unit
    null = null_space(G)
    fed = null.T @ source
    rising = np.abs(fed) > ROUNDING * np.linalg.norm(source)
    if rising.any():
        raise ValueError(
            f"No steady state: the source has a net flow into {rising.sum()} of {null.shape[1]} connected "
            f"components, where x grows without bound (by up to {unit * np.abs(fed).max():.3g} per unit "
            "of time along the null vector of a component)."
        )
    source = source - null @ fed
    matrix = -G.to_scipy()
    diagonal = np.where(matrix.diagonal() > 0, matrix.diagonal(), 1.0)
    scaling = LinearOperator(matrix.shape, matvec=lambda v: v / diagonal, dtype=np.float64)
    rest, failed = cg(matrix, source, rtol=1e-10, maxiter=10 * matrix.shape[0], M=scaling)
    if failed:
        raise ValueError("The steady state exists, but conjugate gradients did not reach it.")
    return np.asarray(unit * (rest + null @ (null.T @ (initial - rest))))


def power_of_two_unit(*states: NDArray[np.float64]) -> float:
    """Return the largest power of two that is not larger than the largest value; 1 if all are zero."""
    largest = max(float(np.abs(state).max()) for state in states)
    return math.ldexp(1.0, math.frexp(largest)[1] - 1) if largest > 0 else 1.0


def null_space(G: Generator) -> scipy.sparse.csr_array:
    """Return an orthonormal basis of the null space of a Laplacian, (n_nodes, parts).

    In the double cover every node has two copies, and a negative edge joins copies of different kind. A
    part is balanced if the copies of its nodes fall into two parts of the cover.
    """
    graph = G.graph
    A = graph.to_scipy()
    positive, negative = A.maximum(0), (-A).maximum(0)
    cover = scipy.sparse.block_array([[positive, negative], [negative, positive]], format="csr")
    cover.eliminate_zeros()  # which SciPy takes for edges
    _, part = scipy.sparse.csgraph.connected_components(cover, directed=False)
    n = graph.n_nodes
    plain, copy = part[:n], part[n:]
    degrees = graph.out_degrees()
    counts = (plain != copy) & ((degrees > 0) | (G.matrix == "combinatorial"))
    names, column = np.unique(np.minimum(plain, copy)[counts], return_inverse=True)
    sizes = np.sqrt(degrees[counts]) if G.matrix == "normalized" else np.ones(int(counts.sum()))
    values = np.where(plain < copy, 1.0, -1.0)[counts] * sizes
    norms = np.sqrt(np.bincount(column, weights=sizes**2, minlength=names.size))
    entries = (values / norms[column], (np.flatnonzero(counts), column))
    return scipy.sparse.csr_array(entries, shape=(n, names.size))
