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
from typing import Any

import numpy as np
import scipy.optimize
import scipy.special
import scipy.stats
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from walkernel._checks import Described, one_kind, real_number, refuse, shown
from walkernel._door import door
from walkernel.engines import resolve
from walkernel.tasks._learning import learn_hyperparameters, sample_positions
from walkernel.tasks._likelihood import MIN_SCALE
from walkernel.tasks._nodes import check_same_length, given_targets, is_missing, node_ids
from walkernel.tasks._observations import Array, Observations
from walkernel.tasks._posterior import Posterior, posterior_variances
from walkernel.tasks._prior import NodeGP, WalkPrior
from walkernel.tasks._solvers import FeaturePrior, cholesky_solver

CLASS_LEARNED = ("lengthscale", "amplitude", "modulation")
LOG_SHARPNESS = (-2.0, 3.0)
"""Range of the logarithm of the factor that calibrates the probabilities."""
LOG2_DRAWS = 8
"""Binary logarithm of the number of Sobol points over which probabilities are averaged."""


@dataclass(eq=False, repr=False, kw_only=True)
class NodeGPClassifier(ClassifierMixin, NodeGP):
    """Gaussian process classification with calibrated probabilities, for two classes or more.

    Each class has a Gaussian process with covariance a²ΦΦᵀ and a constant with a flat prior; the softmax of
    the processes is the distribution of the label. Lengthscale and amplitude maximise the marginal likelihood
    of regressions on the labels. A common factor of all processes maximises the leave-one-out probability of
    the labels, which calibrates the predicted probabilities.

    Parameters
    ----------
    graph : Graph
        The graph, undirected.
    kernel : Kernel
        The kernel, positive semidefinite. Its lengthscale matters only if it is not learned.
    n_walks : int
        Walks from each node.
    sampler : Sampler, optional
        How walks are drawn; chosen for the kernels that are tried if not given.
    learn : tuple of str, optional
        Hyper-parameters to learn, among "lengthscale", "amplitude" and "modulation" (every value of f,
        instead of the others). None means the first two, without the lengthscale for a kernel that has none.
    amplitude : float
        a, where it is not learned.
    normalize : bool
        Scale the rows of Φ to norm 1, so that g has the same prior variance a² at every node: the kernel is
        K_ij / √(K_ii K_jj). With a free f the prior variance is |f|².
    concentration : float
        ε, the pseudo-count of each class at every node before any label is seen.
    solver : {"auto", "cholesky", "cg"}
        How linear systems are solved; "auto" chooses the cheaper way.
    tol, max_iter : float, int
        Relative residual that conjugate gradients must reach, and the maximum number of iterations;
        RuntimeError is raised if they do not converge.
    random_state : int, RandomState or None
        Seed of the walks, and of the nodes chosen to learn from; None is 0.
    engine : {None, "cpu", "cuda"} or Engine
        Where walks are sampled: see ``walkernel.engines``.

    Attributes
    ----------
    classes_ : ndarray, (n_classes,)
        The labels, sorted.
    kernel_ : Kernel
        The kernel with the lengthscale that was found; f * f as a PowerSeries if f was learned.
    modulation_ : ndarray of float64 or None
        f, if it was learned.
    amplitude_ : float
        a.
    sharpness_ : float
        The common factor of all processes that calibrates the probabilities.
    log_marginal_likelihood_value_ : float
        Sum over the classes, on the nodes learned from; NaN if nothing is learned.
    n_learned_from_, n_evaluations_ : int
        Number of these nodes, and number of evaluations of the likelihood.
    sampler_ : Sampler
        The sampler that is used.

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

    @door
    def fit(self, X: Any, y: ArrayLike) -> NodeGPClassifier:
        """Learn the hyper-parameters and condition on the labels.

        Parameters
        ----------
        X : nodes, (n,) or (n, 1)
            Nodes may repeat; their labels are counted.
        y : array of labels, (n,)
        """
        kernel, learn, spec_for = self._check_search(CLASS_LEARNED)
        engine = resolve(self.engine)
        start = self._start(kernel, learn)
        concentration = real_number("concentration", self.concentration, minimum=MIN_SCALE)
        classes, ids, counts = self._count_labels(X, y)
        system = self._check_solver(classes.size)
        data = dirichlet_observations(ids, counts, concentration)
        learned = learn_hyperparameters(self.graph, spec_for, engine, data, start, learn)
        prior = WalkPrior(learned.spec, learned.hyper, engine)
        at_labels = prior.at(ids)
        posteriors = [Posterior(one, at_labels, 0.0, system) for one in data]
        self.sharpness_ = fit_sharpness(posteriors, counts, learned.spec.seed)
        self._set(learned, prior)
        self.classes_, self._posteriors = classes, posteriors
        return self

    def _count_labels(self, X: Any, y: ArrayLike) -> tuple[NDArray[Any], NDArray[np.int64], Array]:
        """Check labels; return the classes, the distinct nodes and how often each was seen, (n, classes)."""
        ids = node_ids(self.graph, X)
        labels = label_array(given_targets(y))
        check_same_length(labels, ids.size)
        classes, codes = class_codes(labels)
        distinct, place = np.unique(ids, return_inverse=True)
        counts = np.zeros((distinct.size, classes.size))
        np.add.at(counts, (place, codes), 1.0)
        return classes, distinct, counts

    @property
    def n_iter_(self) -> int:
        """Iterations of conjugate gradients of the longest solution so far; 0 for Cholesky factors."""
        check_is_fitted(self, "_posteriors")
        return max(posterior.system.n_iter for posterior in self._posteriors)

    @door
    def latent(self, X: Any) -> tuple[Array, Array]:
        """Return mean and variance of each class's Gaussian process at some nodes, (n, classes) each."""
        ids = self._requested_ids(X)
        mean, variance = (np.empty((ids.size, self.classes_.size)) for _ in range(2))
        for part, nodes in self._prior.blocks(ids):
            columns = np.ones((part.stop - part.start, 1))
            mean[part] = np.column_stack([one.mean(nodes, columns) for one in self._posteriors])
            variance[part] = posterior_variances(self._posteriors, nodes, columns)
        return mean, variance

    @door
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class at some nodes, (n, classes), classes as in ``classes_``."""
        return sharpened_softmax(*self.latent(X), self.sharpness_)

    @door
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class at some nodes, (n,)."""
        probabilities = self.predict_proba(X)
        return np.asarray(self.classes_[probabilities.argmax(axis=1)])


def label_array(y: ArrayLike) -> NDArray[Any]:
    """Return labels as an array, (n,); a list of mixed types becomes an array of objects."""
    mixed = isinstance(y, (list, tuple)) and len({isinstance(value, str) for value in y}) > 1
    try:
        labels = np.asarray(y, dtype=object if mixed else None)
    except ValueError:
        refuse("y", "of shape (n,)", y)
    if labels.ndim != 1:
        refuse("y", "of shape (n,)", Described(f"shape {labels.shape}"))
    return labels


def class_codes(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the classes, sorted, and the position of each label among them; refuse invalid labels."""
    missing = np.array([is_missing(label) or label in (math.inf, -math.inf) for label in labels.tolist()])
    if missing.any():
        where = int(missing.argmax())
        remedy = "Leave out the nodes without a label."
        refuse("y", "labels without gaps", Described(f"{labels[where]} at position {where}"), remedy)
    one_kind("y", labels.tolist())
    try:
        check_classification_targets(labels)
    except (ValueError, TypeError) as error:
        found = Described(str(error).partition("\n")[0].partition(". ")[0])
        remedy = "For numbers use NodeGPRegressor."
        refuse("y", "class labels: whole numbers, text or bools", found, remedy)
    classes, codes = np.unique(labels, return_inverse=True)
    if classes.size < 2:
        found = Described(f"one class, {shown(classes[0])}")
        refuse("y", "labels of at least two classes", found, "Label nodes of another class too.")
    return classes, codes


def fit_sharpness(posteriors: list[Posterior[FeaturePrior]], counts: Array, seed: int) -> float:
    """Return the factor of g by which the labels are most probable, each predicted from the others.

    At most 2000 nodes are used, the same as for learning the hyper-parameters. The logarithm of the factor
    has a standard normal prior, which regularises it for few labels, and the factor is 1 where a class was
    seen at one node only.
    """
    positions = sample_positions(len(counts), seed)
    if (np.count_nonzero(counts[positions], axis=0) < 2).any():
        return 1.0
    if positions.size < len(counts):
        whole = posteriors[0].prior
        prior = replace(whole, observed=whole.observed[positions])
        some = [posterior.observed.select_nodes(positions) for posterior in posteriors]
        posteriors = [Posterior(one, prior, 0.0, cholesky_solver) for one in some]
    leave_one_out = [posterior.leave_one_out() for posterior in posteriors]
    mean, variance = (np.column_stack(part) for part in zip(*leave_one_out, strict=True))

    def loss(log_factor: float) -> float:
        probabilities = sharpened_softmax(mean, variance, math.exp(log_factor))
        fit = float((counts[positions] * np.log(np.maximum(probabilities, 1e-300))).sum())
        return log_factor**2 / 2 - fit

    found = scipy.optimize.minimize_scalar(
        loss, bounds=LOG_SHARPNESS, method="bounded", options={"xatol": 1e-2}
    )
    return math.exp(found.x)


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
