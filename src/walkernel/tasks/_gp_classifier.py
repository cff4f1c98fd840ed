"""Gaussian process classification on the nodes of a graph, by regression on Dirichlet-distributed labels.

A label is read as a draw from a categorical distribution whose probabilities have a Dirichlet posterior,
α_c = ε + (number of labels c at the node). Its Gamma variables are matched by log-normal ones: for each class
an observation log α_c − s²/2 of known variance s² = log(1 + 1/α_c), and the softmax of the classes' Gaussian
processes are probabilities again. So classes share one prior, several of them are no harder than two, and
every solution is that of a regression, exact and at its scale. Laplace's method would need the square of the
number of classes in each Newton step, and variational inference inducing nodes that graphs do not have.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.special
import scipy.stats
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from walkernel._checks import real_number
from walkernel._door import all_or_nothing, door
from walkernel.engines import resolve
from walkernel.kernels import Diffusion, Kernel
from walkernel.tasks._labels import count_labels
from walkernel.tasks._learning import MAX_TRIAL_NODES, Learned, sample_nodes, sample_positions
from walkernel.tasks._leave_one_out import PENALTIES, RidgePath, penalty_unit, sharpest_loss
from walkernel.tasks._likelihood import MIN_SCALE, Hyperparameters, log_likelihood
from walkernel.tasks._moments import (
    MAX_COMPARED_NODES,
    Candidates,
    Moments,
    compare_kernels,
    kernel_family,
    lengthscales,
)
from walkernel.tasks._nodes import check_random_seed
from walkernel.tasks._observations import Array, Observations
from walkernel.tasks._polynomial_prior import NodePrior, PolynomialPrior
from walkernel.tasks._posterior import Posterior, posterior_variances
from walkernel.tasks._prior import NodeGP
from walkernel.tasks._solvers import CholeskySolver, cholesky_solver

CLASS_LEARNED = ("lengthscale", "amplitude", "modulation")
LOG_SHARPNESS = (-2.0, 3.0)
"""Range of the logarithm of the factor that calibrates the probabilities."""
VARIANCE_SHARES = (1.0, 0.3, 0.1, 0.0)
"""Factors of the variances that are tried."""
LOG_AMPLITUDES = (-3.0, 3.5)
"""Range of the logarithm of an amplitude that is learned with exact rows, for a kernel whose variance about
its mean is 1."""
MAX_SHARED_ENTRIES = 2**27
"""Covariances with labelled nodes that are held at a time."""
LOG2_DRAWS = 8
"""Binary logarithm of the number of Sobol points over which probabilities are averaged."""


@dataclass(eq=False, repr=False, kw_only=True)
class NodeGPClassifier(ClassifierMixin, NodeGP):
    r"""Gaussian process classification with calibrated probabilities, for two classes or more.

    .. math:: P(y = c \mid \text{node } i) = \frac{e^{g_c(i) + b_c}}{\sum_{c'} e^{g_{c'}(i) + b_{c'}}}, \qquad
        g_c \sim N(0, a^2 K)

    Each class has a Gaussian process g_c with covariance a²K and a constant b_c with a flat prior; the
    softmax of the processes is the distribution of the label. With exact rows, the kernel minimises the
    logarithmic loss of ridge regressions that predict each label from the others, and the amplitude maximises
    the marginal likelihood of regressions on the labels; one factorisation serves all classes. With walks,
    lengthscale and amplitude maximise that likelihood. A common factor of all processes, and one of their
    variances, maximise the leave-one-out probability of the labels, which calibrates the predicted
    probabilities.

    Parameters
    ----------
    graph : Graph
        The graph, undirected.
    kernel : Kernel, optional
        The kernel, positive semidefinite. Its lengthscale matters only if it is not learned. None compares
        Diffusion and Matérn kernels of several widths.
    method : {"auto", "polynomial", "walks"}
        How the kernel is computed: exact rows by polynomials of the matrix, or features of walks. "auto"
        takes exact rows unless there are more than 4096 labelled nodes or the graph is too large.
    n_walks : int
        Walks from each node, where walks are used. Increase it if ``fit`` warns of the error of features.
    sampler : Sampler, optional
        How walks are drawn; chosen for the kernels that are tried if not given. A sampler that is given
        implies walks.
    learn : tuple of str, optional
        Hyper-parameters to learn, among "lengthscale", "amplitude" and "modulation" (every value of f,
        instead of the others). None means the first two, without the lengthscale for a kernel that has none.
    amplitude : float
        a, where it is not learned: the prior standard deviation of g_c, in logits, if K is normalized.
    normalize : bool
        Divide the kernel by √(K_ii K_jj), so that g has the same prior variance a² at every node. With a free
        f the prior variance is ‖f‖².
    concentration : float
        ε, the pseudo-count of each class at every node before any label is seen, in labels. Larger values
        trust a single label less.
    solver : {"auto", "cholesky", "cg"}
        How linear systems are solved: by a factorisation or by conjugate gradients; "auto" chooses the
        cheaper way.
    tol : float
        Relative residual that conjugate gradients must reach.
    max_iter : int
        Maximum number of iterations of conjugate gradients; RuntimeError is raised if they do not converge.
    random_state : int, RandomState or None
        Seed of the walks, and of the nodes chosen to learn from; None is 0.
    engine : {None, "cpu", "cuda"} or Engine
        Where walks are sampled, and exact rows computed: see :mod:`walkernel.engines`.

    Attributes
    ----------
    classes_ : ndarray, (n_classes,)
        The labels, sorted.
    kernel_ : Kernel
        The kernel with the lengthscale that was found; f * f as a PowerSeries if f was learned.
    modulation_ : ndarray of float64 or None
        f, if it was learned.
    amplitude_ : float
        The amplitude a.
    sharpness_, variance_share_ : float
        Factors of all processes, and of their variances, that calibrate the probabilities.
    log_marginal_likelihood_value_ : float
        Sum over the classes, on the nodes learned from; NaN if nothing is learned.
    n_learned_from_, n_evaluations_ : int
        Number of these nodes, and number of evaluations of the likelihood.
    candidates_ : list of (kernel, score, normalize)
        The kernels that were compared, the best one first.
    method_ : str
        "polynomial" or "walks".
    sampler_ : Sampler or None
        The sampler that is used; None without walks.

    See Also
    --------
    NodeRidgeClassifier : Classification by ridge regression, the first choice for predicted classes.

    Examples
    --------
    >>> import walkernel as wk
    >>> club = wk.load_dataset("karate")
    >>> known = [0, 1, 32, 33]
    >>> model = wk.NodeGPClassifier(club.graph, wk.Diffusion(2.0)).fit(known, club.labels[known])
    >>> bool(model.score(range(34), club.labels) > 0.9), model.predict_proba([2, 8]).shape
    (True, (2, 2))
    """

    concentration: float = 0.01

    @all_or_nothing
    def fit(self, X: Any, y: ArrayLike) -> NodeGPClassifier:
        """Learn the hyper-parameters and condition on the labels.

        Parameters
        ----------
        X : nodes, (n,) or (n, 1)
            Labelled nodes: names (``graph.labels``) if the graph has them, else ids. They may repeat; their
            classes are counted.
        y : array of labels, (n,)
            Classes: numbers or text, at least two different ones.

        Returns
        -------
        self : NodeGPClassifier
            The fitted estimator.
        """
        learn = self._check_learning(CLASS_LEARNED)
        concentration = real_number("concentration", self.concentration, minimum=MIN_SCALE)
        classes, ids, counts = count_labels(self.graph, X, y)
        system = self._check_solver(classes.size)
        seed = check_random_seed(self.random_state)
        data = dirichlet_observations(ids, counts, concentration)
        posteriors: ClassPosteriors
        if self._choose_method(ids.size, self.kernel) == "polynomial" and "modulation" not in learn:
            learned, exact = self._learn_exactly(data, counts, learn)
            posteriors = SharedPosteriors(exact.at(ids), data)
            self._set(learned, exact)
            self._trust_features(exact, ids)
        else:
            learned, prior = self._learn(data, learn)
            at_labels = prior.at(ids)
            posteriors = SeparatePosteriors(prior, [Posterior(one, at_labels, 0.0, system) for one in data])
            self._set(learned, prior)
            self._trust_features(prior, ids)
        self.sharpness_, self.variance_share_ = fit_sharpness(posteriors, counts, seed)
        self.classes_, self._posteriors = classes, posteriors
        return self

    def _learn_exactly(
        self, data: list[Observations], counts: Array, learn: tuple[str, ...]
    ) -> tuple[Learned, PolynomialPrior]:
        """Choose the kernel by leave-one-out, as NodeRidgeClassifier does, and then the amplitude."""
        seed, engine, graph = check_random_seed(self.random_state), resolve(self.engine), self.graph
        positions = sample_positions(len(counts), seed, MAX_COMPARED_NODES)
        moments = Moments(graph, data[0].ids[positions], engine)
        start = self._start(self.kernel or Diffusion(), learn)
        self.candidates_ = Candidates()
        kernel = self.kernel
        if "lengthscale" in learn:
            kinds = kernel_family(graph) if kernel is None else [lengthscales(graph, kernel)]
            seen = counts[positions]

            def score(_: Kernel, K: Array, normalize: bool) -> float:
                return -leave_one_out_loss(start.normalized(K), seen)

            search = compare_kernels(moments, kinds, score, start.normalize)
            self.candidates_ = Candidates(search.candidates())
            kernel = self.candidates_[0].kernel
        assert kernel is not None
        found, value = replace(start, kernel=kernel), math.nan
        if "amplitude" in learn:
            few = sample_nodes(data, seed, MAX_TRIAL_NODES)
            K = Moments(graph, few[0].ids, engine).exact(kernel)
            found, value = amplitude_by_likelihood(found, found.normalized(K), few)
        learned = Learned(found, None, value, len(self.candidates_), positions.size, 0)
        return learned, PolynomialPrior(moments.basis(kernel.matrix), found)

    @property
    def n_iter_(self) -> int:
        """Iterations of conjugate gradients of the longest solution so far; 0 for Cholesky factors."""
        check_is_fitted(self, "_posteriors")
        return self._posteriors.n_iter

    @door
    def latent(self, X: Any) -> tuple[Array, Array]:
        """Return mean and variance of the Gaussian process of each class at some nodes.

        Parameters
        ----------
        X : nodes, (n,) or (n, 1)
            Any nodes of the graph.

        Returns
        -------
        mean, variance : ndarray of float64, (n, n_classes)
            On the scale of logits; classes in the order of ``classes_``.
        """
        ids = self._requested_ids(X)
        return self._posteriors.latent(ids)

    @door
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class at some nodes.

        Parameters
        ----------
        X : nodes, (n,) or (n, 1)
            Any nodes of the graph.

        Returns
        -------
        ndarray of float64, (n, n_classes)
            Rows sum to one; classes are in the order of ``classes_``.
        """
        mean, variance = self.latent(X)
        return sharpened_softmax(mean, self.variance_share_ * variance, self.sharpness_)

    @door
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class at some nodes.

        Parameters
        ----------
        X : nodes, (n,) or (n, 1)
            Any nodes of the graph.

        Returns
        -------
        ndarray, (n,)
            Labels, of the type that ``fit`` was given.
        """
        probabilities = self.predict_proba(X)
        return np.asarray(self.classes_[probabilities.argmax(axis=1)])


class ClassPosteriors(Protocol):
    """The posteriors of all classes."""

    @property
    def n_iter(self) -> int:
        """Iterations of the longest solution by conjugate gradients."""

    def latent(self, ids: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return means and variances at some nodes, (n, classes) each."""

    def leave_one_out(self, positions: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return means and variances at some labelled nodes, each given the others, (n, classes) each."""


class SeparatePosteriors:
    """A posterior of its own for each class, on features of walks."""

    def __init__(self, prior: Any, posteriors: list[Posterior[Any]]) -> None:
        self._prior, self._posteriors = prior, posteriors

    @property
    def n_iter(self) -> int:
        """Iterations of the longest solution by conjugate gradients."""
        return max(posterior.system.n_iter for posterior in self._posteriors)

    def latent(self, ids: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return means and variances at some nodes, (n, classes) each."""
        mean, variance = (np.empty((ids.size, len(self._posteriors))) for _ in range(2))
        for part, nodes in self._prior.blocks(ids):
            columns = np.ones((part.stop - part.start, 1))
            mean[part] = np.column_stack([one.mean(nodes, columns) for one in self._posteriors])
            variance[part] = posterior_variances(self._posteriors, nodes, columns)
        return mean, variance

    def leave_one_out(self, positions: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return means and variances at some labelled nodes, each given the others of them."""
        posteriors = self._posteriors
        whole = posteriors[0].prior
        if positions.size < whole.observed.shape[0]:
            prior = replace(whole, observed=whole.observed[positions])
            some = [posterior.observed.select_nodes(positions) for posterior in posteriors]
            posteriors = [Posterior(one, prior, 0.0, cholesky_solver) for one in some]
        found = [posterior.leave_one_out() for posterior in posteriors]
        mean, variance = (np.column_stack(part) for part in zip(*found, strict=True))
        return mean, variance


class SharedPosteriors:
    """The posteriors of all classes from one factorisation.

    Observations of class c have the variance r₀ at nodes without a label of that class, and less at its own
    nodes M. So S_c = B − EDEᵀ with B = K + r₀I and E the columns of the identity at M, and

        S_c⁻¹ = B⁻¹ + B⁻¹E (D⁻¹ − EᵀB⁻¹E)⁻¹ EᵀB⁻¹

    costs as many operations as there are labels of the class, times n².
    """

    n_iter = 0

    def __init__(self, prior: NodePrior, data: list[Observations]) -> None:
        self._prior, n = prior, prior.observed.size
        base = max(float(one.variances.max()) for one in data)
        solver = CholeskySolver(prior.covariance, np.full(n, base))
        self._inverse = inverse = solver.inverse()
        ones = np.ones(n)
        self._members, self._factors = [], []
        columns: list[tuple[Array, Array, float, float, Array]] = []
        for one in data:
            members = np.flatnonzero(one.variances < base)
            own = inverse[:, members]
            core = np.diag(1 / (base - one.variances[members])) - own[members]
            factor = scipy.linalg.cholesky(core, lower=True)
            half = scipy.linalg.solve_triangular(factor, own.T, lower=True)  # (members, n)
            target = one.sides[:, 0]
            solved = inverse @ np.column_stack([target, ones])
            solved += half.T @ (half @ np.column_stack([target, ones]))
            certainty = float(solved[:, 1].sum())
            rest = float(solved[:, 0].sum()) / certainty
            diagonal = inverse.diagonal() + (half**2).sum(axis=0) - solved[:, 1] ** 2 / certainty
            dual = solved[:, 0] - rest * solved[:, 1]
            columns.append((dual, solved[:, 1], certainty, rest + float(one.offset[0]), diagonal))
            self._members.append(members)
            self._factors.append(factor)
        duals, bases, certainties, levels, diagonals = zip(*columns, strict=True)
        self._dual, self._basis = np.column_stack(duals), np.column_stack(bases)
        self._certainty, self._beta = np.array(certainties), np.array(levels)
        self._precision = np.column_stack(diagonals)
        self._targets = np.column_stack([one.sides[:, 0] + one.offset[0] for one in data])
        self._variances = np.column_stack([one.variances for one in data])
        self._weights = prior.weights_of(self._dual)

    def leave_one_out(self, positions: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return means and variances at some labelled nodes, each given all others."""
        precision = self._precision[positions]
        mean = self._targets[positions] - self._dual[positions] / precision
        return mean, np.maximum(1 / precision - self._variances[positions], 0.0)

    def latent(self, ids: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return means and variances at some nodes, (n, classes) each."""
        prior = self._prior
        mean = prior.values(ids, self._weights) + self._beta
        variance = np.empty_like(mean)
        size = max(1, MAX_SHARED_ENTRIES // prior.observed.size)
        for first in range(0, ids.size, size):
            part = slice(first, min(first + size, ids.size))
            shared = prior.with_nodes(ids[part])  # (n, k)
            solved = self._inverse @ shared
            left = prior.estimated_variances(ids[part]) - (shared * solved).sum(axis=0)
            unexplained = 1 - shared.T @ self._basis
            variance[part] = left[:, None] + unexplained**2 / self._certainty
            for which, (members, factor) in enumerate(zip(self._members, self._factors, strict=True)):
                half = scipy.linalg.solve_triangular(factor, solved[members], lower=True)
                variance[part, which] -= (half**2).sum(axis=0)
        return mean, np.maximum(variance, 0.0)


def fit_sharpness(posteriors: ClassPosteriors, counts: Array, seed: int) -> tuple[float, float]:
    """Return factors of g and of its variance by which labels are most probable, each given the others.

    At most 2000 nodes are used. The logarithm of the first factor has a standard normal prior, which
    regularizes it for few labels, and both factors are 1 where a class was seen at one node only.
    """
    positions = sample_positions(len(counts), seed)
    if (np.count_nonzero(counts[positions], axis=0) < 2).any():
        return 1.0, 1.0
    mean, variance = posteriors.leave_one_out(positions)

    def loss(log_factor: float, share: float) -> float:
        probabilities = sharpened_softmax(mean, share * variance, math.exp(log_factor))
        fit = float((counts[positions] * np.log(np.maximum(probabilities, 1e-300))).sum())
        return log_factor**2 / 2 - fit

    found = []
    for share in VARIANCE_SHARES:
        best = scipy.optimize.minimize_scalar(
            loss, args=(share,), bounds=LOG_SHARPNESS, method="bounded", options={"xatol": 1e-2}
        )
        found.append((float(best.fun), math.exp(best.x), share))
    _, factor, share = min(found)
    return factor, share


def leave_one_out_loss(K: Array, counts: Array) -> float:
    """Return the least logarithmic loss of ridge regressions that predict each node from the others."""
    path = RidgePath(K, counts / counts.sum(axis=1, keepdims=True), counts.sum(axis=1))
    unit = penalty_unit(K)
    solved = (path.solve(unit * penalty).left_out for penalty in PENALTIES)
    return min(sharpest_loss(left_out, counts)[0] for left_out in solved)


def amplitude_by_likelihood(
    hyper: Hyperparameters, K: Array, data: list[Observations]
) -> tuple[Hyperparameters, float]:
    """Return the amplitude that maximises the summed likelihood of all classes, for K at their nodes."""
    unit = penalty_unit(K)

    def value(log_amplitude: float) -> float:
        covariance = math.exp(2 * log_amplitude) / unit * K
        return sum(log_likelihood(one, covariance, 0.0, slopes=False).value for one in data)

    found = scipy.optimize.minimize_scalar(
        lambda x: -value(x), bounds=LOG_AMPLITUDES, method="bounded", options={"xatol": 0.02}
    )
    scale = math.exp(found.x) / math.sqrt(unit)
    return replace(hyper, amplitude=scale), -float(found.fun)


def dirichlet_observations(ids: NDArray[np.int64], counts: Array, concentration: float) -> list[Observations]:
    """Return for each class an observation of log α − s²/2 with variance s² at each node."""
    alpha = counts + concentration
    variances = np.log1p(1 / alpha)
    targets = np.log(alpha) - variances / 2
    ones = np.ones((ids.size, 1))
    return [Observations.at(ids, targets[:, c], ones, variances[:, c]) for c in range(counts.shape[1])]


def sharpened_softmax(mean: Array, variance: Array, factor: float) -> Array:
    """Return the mean of softmax(factor · g) over independent Gaussians g, (n, classes)."""
    points = scipy.stats.qmc.Sobol(mean.shape[1], seed=0).random_base2(LOG2_DRAWS)
    draws = scipy.special.ndtri(np.clip(points, 1e-12, 1 - 1e-12))
    center, spread = factor * mean, factor * np.sqrt(variance)
    total = np.zeros_like(mean)
    for draw in draws:
        total += scipy.special.softmax(center + spread * draw, axis=1)
    return total / len(draws)
