"""Linear differential equations on the nodes of a graph, x' = Gx + y(t) (Sec. 3.2).

The solution x(t) = exp(Gt) x(0) + ∫₀ᵗ exp(G(t−τ)) y(τ) dτ is a sum of kernels times vectors once the
integral is a quadrature; the kernels of all times are re-weightings of the same walks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from walkernel._checks import (
    Described,
    DivergentKernelError,
    check_distinct,
    check_instance,
    one_of,
    progress_callback,
    real_array,
    refuse,
    whole_number,
)
from walkernel._door import door, warn
from walkernel._philox import check_seed
from walkernel.engines import Engine, resolve
from walkernel.features import Lazy, Symmetric
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.operators import KernelOperator, polynomial_engine, polynomial_operator
from walkernel.planning import checked_sampler
from walkernel.tasks._generators import GENERATORS, Generator, generator, power_of_two_unit, steady_state
from walkernel.tasks._ode_walks import GROUPS, Term, WalkPlan, solve_by_walks
from walkernel.tasks._quadrature import Rule, Source, choose_n_points, gauss_legendre, monte_carlo
from walkernel.walks import SAMPLERS, Sampler, WalkSpec

DEFAULT_WALKS = 128
DEFAULT_SAMPLES = 10
PRODUCT_TOLERANCE = 1e-11
MIN_TIME = 1e-100
MAX_ODE_WALKS = 2**26
TOLERANCE = {"walks": 1e-6, "polynomial": 1e-10}
"""Error of the quadrature that is accepted with each method, relative to the integral."""


@dataclass(frozen=True, eq=False)
class ODESolution:
    """A solution of x' = Gx + y(t) at some times; ``solve_ode`` returns it.

    Attributes
    ----------
    t : ndarray of float64, (n_times,)
        The times.
    x : ndarray of float64, (n_times, n)
        The state at the requested nodes.
    stderr : ndarray of float64, (n_times, n)
        Standard error of x over walks and, with Monte Carlo quadrature, over times; 0 where the
        solution is deterministic.
    growth : float
        No solution grows faster than e^(growth · t), in one over the unit of time; 0 for diffusion.

    Examples
    --------
    >>> import walkernel as wk
    >>> path = wk.Graph.from_edges([(0, 1), (1, 2)])
    >>> solution = wk.solve_ode(path, None, [1.0, 5.0], initial=[3.0, 0.0, 0.0], matrix="combinatorial")
    >>> solution.x.round(3)
    array([[1.577, 0.95 , 0.473],
           [1.01 , 1.   , 0.99 ]])
    >>> solution.steady_state().round(3)
    array([1., 1., 1.])
    """

    t: NDArray[np.float64]
    x: NDArray[np.float64]
    stderr: NDArray[np.float64]
    growth: float
    _equation: tuple[Generator, NDArray[np.float64] | None, NDArray[np.float64]] = field(repr=False)

    def steady_state(self) -> NDArray[np.float64]:
        """Return the limit of x(t) for large t on all nodes.

        Returns
        -------
        ndarray of float64, (n_nodes,)
            The limit, in the order of the ids.

        Raises
        ------
        ValueError
            If there is no limit: solutions grow, or the source depends on time.
        """
        G, source, initial = self._equation
        if source is None:
            raise ValueError("No steady state: the source changes with time.")
        return steady_state(G, source, initial)


@dataclass(frozen=True)
class _Problem:
    G: Generator
    source: Source
    constant: NDArray[np.float64] | None  # the source, if it does not change
    initial: NDArray[np.float64]
    t: NDArray[np.float64]

    def divided(self, unit: float) -> _Problem:
        """Return the equation for x / unit."""
        constant = None if self.constant is None else self.constant / unit
        return replace(
            self, source=lambda time: self.source(time) / unit, constant=constant, initial=self.initial / unit
        )

    def kernel(self, s: float) -> Kernel:
        """Return exp(sG)."""
        return self.G.kernel(max(s, 1e-12 * float(self.t[-1])))

    def rule(self, start: float, stop: float, n_points: int | None, tol: float) -> Rule:
        """Return the Gauss–Legendre rule of an interval, by default with as many points as it needs."""
        varying = None if self.constant is not None else self.source
        n = n_points or choose_n_points(varying, start, stop, self.G.speed, tol)
        return gauss_legendre(start, stop, n)

    def terms(self, samples: Rule | None, n_points: int | None, tol: float, *, merge: bool) -> list[Term]:
        """Return x at all output times as sums of kernels times vectors.

        With ``merge``, the integral over a constant source is a single term.
        """
        terms = []
        for k, t in enumerate(self.t):
            if self.initial.any():
                terms.append(Term(k, self.kernel(t), lambda: self.initial, False))
            if self.constant is not None and not self.constant.any():
                continue
            if merge and self.constant is not None and samples is None:
                terms.append(Term(k, self.G.integral(t), partial(self.source, 0.0), False))
                continue
            rule = self.rule(0.0, t, n_points, tol) if samples is None else samples
            for tau, weight in zip(*rule, strict=True):
                if tau < t:
                    kernel = float(weight) * self.kernel(t - tau)
                    terms.append(Term(k, kernel, partial(self.source, float(tau)), samples is not None))
        return terms


@door
def solve_ode(
    graph: Graph,
    source: ArrayLike | Callable[[float], ArrayLike] | None,
    t: ArrayLike,
    *,
    initial: ArrayLike | None = None,
    matrix: str = "laplacian",
    n_walks: int | None = None,
    sampler: Sampler | None = None,
    seed: int = 0,
    nodes: Any = None,
    method: str = "auto",
    pair: str = "auto",
    quadrature: str = "gauss-legendre",
    n_points: int | None = None,
    density: Any = None,
    engine: str | Engine | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> ODESolution:
    r"""Solve a linear differential equation on the nodes of a graph: heat that spreads, with sources.

    .. math:: \frac{dx}{dt} = G x + y(t), \qquad x(t) = e^{tG} x(0) + \int_0^t e^{(t - s) G} \, y(s) \, ds

    Without further options the solution is deterministic, accurate to ten digits, and costs some tens of
    sparse products. Walks are for a few ``nodes`` of a graph that is too large for that, because their cost
    does not depend on its size, and for clusters; they give error bars. They are used where something is
    given that only they can do: ``n_walks``, ``sampler``, ``pair`` or a cluster.

    Parameters
    ----------
    graph : Graph
        The graph.
    source : array of float, (n_nodes,), or callable, or None
        y in the order of the ids (of ``graph.labels``), constant or as a function of time that returns such
        an array, in the unit of x per unit of time; None for no source.
    t : float or array of float, (n_times,)
        Output times, positive and increasing. Their unit is that of one over the entries of G.
    initial : array of float, (n_nodes,), optional
        x(0); zero if not given.
    matrix : {"laplacian", "combinatorial", "normalized", "adjacency", "positive-laplacian"}
        G, which is not the matrix of a kernel: −L = W̃ − I, −(D − A), W̃, A, or +L. Solutions of the last
        three grow. L is I at nodes without edges, which so lose their heat with "laplacian", not with
        "combinatorial".
    n_walks : int, optional
        Walks from each node, rounded up to a multiple of 16 groups above 16; at least 2, 128 if not given.
    sampler : Sampler, optional
        How walks are drawn; chosen for the last time if not given.
    seed : int
        Seed of the walks and of random times.
    nodes : list of nodes, optional
        Nodes at which x is returned; all nodes if not given.
    method : {"auto", "polynomial", "walks"}
        Deterministic sparse products, which ignore n_walks, sampler and pair, or walks with error bars.
        "auto" takes walks if n_walks, sampler, pair or a cluster is given, else the polynomial.
    pair : {"auto", "symmetric", "lazy"}
        "symmetric" walks from both ends and has less variance; "lazy" walks from the requested nodes only,
        and is the choice of "auto" if ``nodes`` are given.
    quadrature : {"gauss-legendre", "monte-carlo"}
        Rule for the integral over the source; "monte-carlo" is the paper's, with a larger error.
    n_points : int, optional
        Points of the rule; as many as a smooth source needs, or 10 Monte Carlo samples, if not given.
    density : distribution, optional
        With ``rvs`` and ``pdf`` on [0, last t], as scipy.stats has them; uniform if not given.
    engine : {None, "cpu", "cuda"} or Engine
        Where walks are sampled, and products with the matrix made: see :mod:`walkernel.engines`.
    progress : callable, optional
        Called with (parts done, parts in all).

    Returns
    -------
    ODESolution
        Times, states and standard errors.

    See Also
    --------
    Diffusion : The kernel of the equation without a source.

    Examples
    --------
    >>> import numpy as np, walkernel as wk
    >>> ring = wk.Graph.from_edges([(i, (i + 1) % 10) for i in range(10)])
    >>> exact = wk.solve_ode(ring, None, [0.5, 1.0], initial=np.eye(10)[0])
    >>> walked = wk.solve_ode(ring, None, [0.5, 1.0], initial=np.eye(10)[0], n_walks=1024)
    >>> bool((abs(walked.x - exact.x) < 5 * walked.stderr + 1e-9).all())
    True
    """
    check_instance("graph", graph, Graph, "Build one with Graph.from_edges, from_scipy or from_networkx.")
    one_of("matrix", matrix, GENERATORS)
    one_of("method", method, ("auto", "polynomial", "walks"))
    one_of("pair", pair, ("auto", "symmetric", "lazy"))
    one_of("quadrature", quadrature, ("gauss-legendre", "monte-carlo"))
    ids = np.arange(graph.n_nodes) if nodes is None else np.atleast_1d(graph.ids(nodes))
    check_distinct("nodes", ids, graph.names)
    given = _problem(graph, source, t, initial, matrix)
    unit = power_of_two_unit(given.initial, given.source(float(given.t[0])))
    problem = given.divided(unit)
    samples = _samples(problem, quadrature, n_points, density, check_seed(seed))
    count = whole_number("n_walks", DEFAULT_WALKS if n_walks is None else n_walks, 2, MAX_ODE_WALKS)
    if sampler is not None:
        check_instance("sampler", sampler, Sampler, SAMPLERS)
    if method == "auto":
        only_walks = n_walks is not None or sampler is not None or pair != "auto"
        elsewhere = engine is not None and not resolve(engine).multiplies_matrices
        method = "walks" if only_walks or elsewhere else "polynomial"
    where = polynomial_engine(engine) if method == "polynomial" else resolve(engine)
    report = progress_callback(progress)
    G = problem.G
    if G.growth > 0:
        warn(
            f"with matrix={G.name!r} solutions grow, up to e^({G.growth:.3g} t), and errors too; "
            "there is no steady state. For diffusion use matrix='laplacian'."
        )
    variance = np.zeros((problem.t.size, ids.size))
    if method == "polynomial" and samples is None:
        x = _march(problem, where, n_points, ids, report)
    elif method == "polynomial":
        terms = problem.terms(samples, None, TOLERANCE["polynomial"], merge=False)
        x, shares = _multiply_out(problem, where, terms, ids, report)
    else:
        lazy = pair == "lazy" or (pair == "auto" and nodes is not None)
        chosen = Lazy if lazy else Symmetric
        widest = problem.kernel(problem.t[-1])
        used = checked_sampler(graph, chosen(widest), sampler, count, n_sets=min(GROUPS, count))
        spec = WalkSpec(graph, ids, count, used, seed, matrix=G.matrix)
        plan = WalkPlan(spec, chosen, where, report)
        terms = problem.terms(samples, n_points, TOLERANCE["walks"], merge=lazy)
        x, variance, shares = solve_by_walks(plan, terms, problem.t.size)
    if samples is not None:
        variance = variance + _time_variance(problem.t.size, terms, shares, samples.times.size)
    equation = (G, given.constant, given.initial)
    return ODESolution(problem.t, unit * x, unit * np.sqrt(variance), G.growth, equation)


def _problem(graph: Graph, source: Any, t: ArrayLike, initial: ArrayLike | None, matrix: str) -> _Problem:
    """Check the equation and its data."""
    times = np.atleast_1d(real_array("t", t)).copy()
    if times.ndim != 1 or times.size == 0 or times[0] <= 0 or (np.diff(times) <= 0).any():
        refuse("t", "a positive time or increasing positive times", t)
    if times[0] < MIN_TIME:
        refuse("t", f"at least {MIN_TIME:g}", t)

    def state(parameter: str, values: Any) -> NDArray[np.float64]:
        array = real_array(parameter, values)
        if array.shape != (graph.n_nodes,):
            rule = f"of shape ({graph.n_nodes},), one value for each node"
            refuse(parameter, rule, Described(f"shape {array.shape}"))
        return array.copy()

    nothing = np.zeros(graph.n_nodes)
    begin = nothing if initial is None else state("initial", initial)
    if callable(source):
        checked = lru_cache(maxsize=64)(lambda time: state(f"source({time:.4g})", source(time)))
        checked(float(times[0]))
        return _Problem(generator(graph, matrix), checked, None, begin, times)
    constant = nothing if source is None else state("source", source)
    return _Problem(generator(graph, matrix), lambda time: constant, constant, begin, times)


def _samples(problem: _Problem, quadrature: str, n_points: Any, density: Any, seed: int) -> Rule | None:
    """Return the times of Monte Carlo quadrature, None for the deterministic rule."""
    if n_points is not None:
        whole_number("n_points", n_points, 1 if quadrature == "gauss-legendre" else 2, 4096)
    if quadrature == "monte-carlo":
        samples = monte_carlo(float(problem.t[-1]), n_points or DEFAULT_SAMPLES, density, seed)
        if samples.times.min() > problem.t[0]:
            warn(
                f"none of {samples.times.size} random times is before t={problem.t[0]:g}: there "
                "the source has no effect, and no error bar shows it. Use more n_points."
            )
        return samples
    if density is not None:
        refuse("density", "None unless quadrature='monte-carlo'", density)
    return None


def _operator(G: Generator, kernel: Kernel, engine: Engine) -> KernelOperator:
    """Return a deterministic operator, or refuse a time that is too long for one."""
    try:
        return polynomial_operator(G.graph, kernel, tol=PRODUCT_TOLERANCE, engine=engine)
    except DivergentKernelError:
        raise
    except ValueError:
        remedy = "Give intermediate times: the solution advances from one to the next."
        refuse("t", "reachable in steps that a polynomial can represent", kernel, remedy)


def _march(
    problem: _Problem,
    engine: Engine,
    n_points: int | None,
    ids: NDArray[np.int64],
    progress: Callable[[int, int], object] | None,
) -> NDArray[np.float64]:
    """Advance from time to time by deterministic products: x(t₂) = exp(G(t₂−t₁)) x(t₁) + ∫ …."""
    G, x, before = problem.G, problem.initial, 0.0
    states = np.zeros((problem.t.size, ids.size))
    for k, t in enumerate(problem.t):
        x = _operator(G, problem.kernel(t - before), engine) @ x
        if problem.constant is None:
            rule = problem.rule(before, t, n_points, TOLERANCE["polynomial"])
            for tau, weight in zip(*rule, strict=True):
                x += weight * (_operator(G, problem.kernel(t - tau), engine) @ problem.source(float(tau)))
        elif problem.constant.any():
            x += _operator(G, G.integral(t - before), engine) @ problem.constant
        states[k], before = x[ids], t
        if progress is not None:
            progress(k + 1, problem.t.size)
    return states


def _multiply_out(
    problem: _Problem,
    engine: Engine,
    terms: list[Term],
    ids: NDArray[np.int64],
    progress: Callable[[int, int], object] | None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sum terms by deterministic products; return x and the share of each term in it."""
    x = np.zeros((problem.t.size, ids.size))
    shares = np.zeros((len(terms), ids.size))
    for i, term in enumerate(terms):
        shares[i] = (_operator(problem.G, term.kernel, engine) @ term.vector())[ids]
        x[term.time] += shares[i]
        if progress is not None:
            progress(i + 1, len(terms))
    return x, shares


def _time_variance(
    n_times: int, terms: list[Term], shares: NDArray[np.float64], n: int
) -> NDArray[np.float64]:
    """Return the variance of x over n random times: of a sum of n values z_j, 0 for later times."""
    variance = np.zeros((n_times, shares.shape[1]))
    for time in range(n_times):
        chosen = [i for i, term in enumerate(terms) if term.time == time and term.sampled]
        z = shares[chosen]
        variance[time] = n / (n - 1) * np.maximum((z**2).sum(axis=0) - z.sum(axis=0) ** 2 / n, 0.0)
    return variance
