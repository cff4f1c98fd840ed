"""Gaussian process regression on the nodes of a graph, from one set of walk features."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from walkernel._checks import check_flag, fits_in_memory, progress_callback, real_number, refuse, whole_number
from walkernel._door import door
from walkernel.tasks._likelihood import MIN_SCALE, Parameters, log_likelihood
from walkernel.tasks._nodes import check_random_seed, node_ids
from walkernel.tasks._observations import KnownNodes, first_twins, mean_columns
from walkernel.tasks._posterior import Posterior
from walkernel.tasks._prior import LEARNED, NodeGP
from walkernel.tasks._solvers import MAX_CHOLESKY_NODES


@dataclass(eq=False, repr=False, kw_only=True)
class NodeGPRegressor(RegressorMixin, NodeGP):
    """Gaussian process regression: y = g(node) + h(node)·β + noise, with g ~ N(0, a²K + ν²I).

    β has a flat prior, and its uncertainty is part of the variance. Lengthscale, amplitude and noise maximise
    the marginal likelihood.

    With exact rows, kernels and lengthscales are compared on at most 500 observed nodes; amplitude and noise
    are those of up to 2000. Standard deviations at more than 512 nodes are those of 256 draws of the
    posterior, 4 % off at most nodes, unless few eigenvectors carry the kernel: then they are exact too.

    With walks, K is ΦΦᵀ of a single set of walks, so the prior is positive semidefinite. The upward bias of
    its diagonal is not subtracted, because intervals would then be too narrow; the noise is fitted in its
    presence. Mean, variance and likelihood are exact for these features. Lengthscales are first compared,
    from narrow to wide, on at most 250 observed nodes, with walks chosen for each range of lengthscales. The
    best one is then refined with the walks of its range on at most 2000 observed nodes, chosen at random.

    Parameters
    ----------
    graph : Graph
        The graph, undirected.
    kernel : Kernel, optional
        The kernel, positive semidefinite. Its lengthscale matters only if it is not learned: the search
        covers the same lengthscales from any start. None compares Diffusion and Matérn kernels of several
        widths by their likelihood.
    method : {"auto", "polynomial", "walks"}
        How the kernel is computed: exact rows by polynomials of the matrix, or features of walks. "auto"
        takes exact rows unless there are more than 4096 observed nodes, the graph is too large, or f is
        learned.
    n_walks : int
        Walks from each node, where walks are used.
    sampler : Sampler, optional
        How walks are drawn; chosen for the kernels that are tried if not given. A sampler that is given
        implies walks.
    learn : tuple of str, optional
        Hyper-parameters to learn, among "lengthscale", "amplitude", "noise", "nugget" and "modulation" (every
        value of f, instead of lengthscale and amplitude). None means the first three, without the lengthscale
        for a kernel that has none; () learns nothing.
    amplitude, noise : float
        a, and the standard deviation of the noise, where they are not learned.
    nugget : float
        ν, where it is not learned: the standard deviation of an independent effect of each node, shared by
        all observations of the node. It cannot be distinguished from noise if no node is observed twice.
    twins : bool
        Treat nodes with the same neighbours and edge weights as one node: an observation of one of them is a
        repeated observation of all. To be used with a nugget.
    normalize : bool, optional
        Divide the kernel by √(K_ii K_jj), so that g has the same prior variance a² at every node. With a free
        f the prior variance is |f|². None divides a kernel that is given; where kernels are compared with
        exact rows, it compares both by their likelihood.
    mean : {"constant", "zero"}
        Whether the mean function contains a constant.
    covariates : array of float, (n_nodes,) or (n_nodes, q), optional
        Known quantities at all nodes, in the order of their ids, in which the mean is linear.
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
    kernel_ : Kernel
        The kernel with the lengthscale that was found; f * f as a PowerSeries if f was learned.
    modulation_ : ndarray of float64 or None
        f, if it was learned.
    amplitude_, noise_, nugget_ : float
        a, the standard deviation of the noise, and ν.
    mean_coef_ : ndarray of float64, (q,)
        β: the constant first, if there is one.
    log_marginal_likelihood_value_ : float
        log p(y) of the nodes learned from; NaN if nothing is learned.
    n_learned_from_ : int
        The number of these nodes.
    n_evaluations_ : int
        Number of evaluations of the likelihood and its gradient, without those that compare starts.
    candidates_ : list of (kernel, score, normalize)
        The kernels that were compared, their log p(y) and whether they were normalised, the best one first.
    normalize_ : bool
        Whether the kernel is normalised.
    method_ : str
        "polynomial" or "walks".
    sampler_ : Sampler or None
        The sampler that is used; None without walks.

    Examples
    --------
    >>> import numpy as np, walkernel as wk
    >>> ring = wk.Graph.from_edges([(i, (i + 1) % 60) for i in range(60)])
    >>> truth = np.sin(2 * np.pi * np.arange(60) / 60)
    >>> y = truth[::3] + 0.1 * np.random.default_rng(0).standard_normal(20)
    >>> model = wk.NodeGPRegressor(ring, wk.Diffusion(3.0)).fit(range(0, 60, 3), y)
    >>> mean, std = model.predict(range(60), return_std=True)
    >>> bool(abs(mean - truth).max() < 0.4), std.shape
    (True, (60,))
    """

    normalize: bool | None = None  # type: ignore[assignment]
    _may_compare_normalization = True
    noise: float = 0.1
    nugget: float = 0.0
    twins: bool = False
    mean: str = "constant"
    covariates: ArrayLike | None = None

    @door
    def fit(self, X: Any, y: ArrayLike, *, noise_std: ArrayLike | None = None) -> NodeGPRegressor:
        """Learn the hyper-parameters and condition on the observations.

        Parameters
        ----------
        X : nodes, (n,) or (n, 1)
            Nodes may repeat, with different values.
        y : array of float, (n,)
        noise_std : array of float, (n,), optional
            Known standard deviations of single observations, in addition to the fitted noise.
        """
        learn, system = self._check_learning(LEARNED), self._check_solver()
        noise = real_number("noise", self.noise, minimum=MIN_SCALE)
        nugget = real_number("nugget", self.nugget, minimum=0)
        columns = mean_columns(self.graph, self.mean, self.covariates)
        check_flag("twins", self.twins)
        representative = first_twins(self.graph) if self.twins else np.arange(self.graph.n_nodes)
        nodes = KnownNodes(self.graph, columns, representative)
        observed = nodes.observations(X, y, noise_std)
        learned, whole = self._learn([observed], learn, noise, max(nugget, noise * ("nugget" in learn)))
        unit = math.ldexp(1.0, math.frexp(learned.hyper.noise)[1])  # of y, in which the noise is about one
        prior = replace(whole, hyper=learned.hyper.scaled(1 / unit))
        posterior = Posterior(observed.scaled(unit), prior.at(observed.ids), prior.hyper.noise, system)
        self._set(learned, prior)
        self._trust_features(whole, observed.ids)
        self.noise_, self.nugget_ = learned.hyper.noise, learned.hyper.nugget
        self._posterior, self._unit = posterior, unit  # prior and posterior are in this unit
        self.mean_coef_ = unit * posterior.beta
        self._parameters, self._nodes, self._system = Parameters(learn, learned.hyper), nodes, system
        return self

    def condition(self, X: Any, y: ArrayLike, *, noise_std: ArrayLike | None = None) -> NodeGPRegressor:
        """Replace the observations, and keep the learned hyper-parameters and the walks.

        Parameters
        ----------
        X, y, noise_std
            As in ``fit``.

        Examples
        --------
        >>> import walkernel as wk
        >>> club = wk.load_dataset("karate").graph
        >>> model = wk.NodeGPRegressor(club, wk.Diffusion(1.0)).fit([0, 1, 32, 33], [1.0, 0.9, -1.1, -1.0])
        >>> bool(model.condition([0, 33], [-1.0, 1.0]).predict([1])[0] < 0)
        True
        """
        check_is_fitted(self, "_posterior")
        observed = self._nodes.observations(X, y, noise_std).scaled(self._unit)
        prior = self._prior
        self._posterior = Posterior(observed, prior.at(observed.ids), prior.hyper.noise, self._system)
        self.mean_coef_ = self._unit * self._posterior.beta
        return self

    @property
    def n_iter_(self) -> int:
        """Iterations of conjugate gradients of the longest solution so far; 0 for a Cholesky factor."""
        check_is_fitted(self, "_posterior")
        return self._posterior.system.n_iter

    @door
    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False, *, include_noise: bool = False
    ) -> NDArray[np.float64] | tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the posterior mean of g + h·β at some nodes, and how uncertain it is.

        Parameters
        ----------
        X : nodes, (n,) or (n, 1)
        return_std, return_cov : bool
            Also return standard deviations, or the covariance matrix; not both.
        include_noise : bool
            Return the uncertainty of a new observation y instead of g + h·β: the noise is added to the
            variance. The bias that walks add to the diagonal acts like noise and is included either way, so
            intervals of y are calibrated and those of g are rather wide.

        Returns
        -------
        mean : ndarray of float64, (n,)
        std : ndarray of float64, (n,), if ``return_std``
        cov : ndarray of float64, (n, n), if ``return_cov``

        Examples
        --------
        >>> import walkernel as wk
        >>> club = wk.load_dataset("karate").graph
        >>> model = wk.NodeGPRegressor(club, wk.Diffusion(1.0), learn=()).fit([0, 33], [1.0, -1.0])
        >>> mean, std = model.predict([1, 32], return_std=True)
        >>> bool(mean[0] > 0 > mean[1])
        True
        """
        ids = self._requested_ids(X)
        check_flag("return_std", return_std)
        check_flag("return_cov", return_cov)
        check_flag("include_noise", include_noise)
        if return_std and return_cov:
            refuse("return_std", "False where return_cov is True", return_std)
        representative, columns = self._nodes.representative[ids], self._nodes.columns[ids]
        prior, posterior, unit = self._prior, self._posterior, self._unit
        extra = prior.hyper.noise**2 if include_noise else 0.0
        if return_cov:
            fits_in_memory((ids.size, ids.size), "Use return_std, or sample_y.")
            asked = prior.at(representative)
            covariance = posterior.covariance(asked, columns) + extra * np.eye(ids.size)
            return unit * posterior.mean(asked.observed, columns), unit**2 * covariance
        mean, variance = np.empty(ids.size), np.empty(ids.size)
        for part, nodes in prior.blocks(representative):
            mean[part] = posterior.mean(nodes, columns[part])
            if return_std:
                variance[part] = prior.posterior_variances([posterior], nodes, columns[part])[:, 0]
        return (unit * mean, unit * np.sqrt(variance + extra)) if return_std else unit * mean

    @door
    def sample_y(
        self,
        X: Any = None,
        n_samples: int = 1,
        random_state: Any = None,
        *,
        include_noise: bool = False,
        progress: Callable[[int, int], object] | None = None,
    ) -> NDArray[np.float64]:
        """Draw functions from the posterior by pathwise conditioning: one system for any number of nodes.

        Parameters
        ----------
        X : nodes, (n,) or (n, 1), optional
            The default is all nodes of the graph, in the order of their ids.
        n_samples : int
        random_state : int, RandomState or None
            Seed of the draws; None is 0. The same seed gives the same functions for any X, but not the same
            noise.
        include_noise : bool
            Draw observations y instead of g + h·β.
        progress : callable, optional
            Called with (nodes done, nodes in all) after each block of nodes.

        Returns
        -------
        ndarray of float64, (n, n_samples)

        Examples
        --------
        >>> import walkernel as wk
        >>> club = wk.load_dataset("karate").graph
        >>> model = wk.NodeGPRegressor(club, wk.Diffusion(1.0), learn=()).fit([0, 33], [1.0, -1.0])
        >>> model.sample_y(n_samples=3).shape
        (34, 3)
        """
        check_is_fitted(self, "_posterior")
        n_samples = whole_number("n_samples", n_samples, 1)
        check_flag("include_noise", include_noise)
        report = progress_callback(progress)
        rng = np.random.default_rng(check_random_seed(random_state))
        graph = self._fitted_graph
        ids = np.arange(graph.n_nodes) if X is None else node_ids(graph, X)
        weights, beta = self._posterior.draw(n_samples, rng)
        drawn = self._nodes.columns[ids] @ beta
        for part, nodes in self._prior.blocks(self._nodes.representative[ids]):
            drawn[part] += self._posterior.prior.values(nodes, weights)
            if report is not None:
                report(part.stop, ids.size)
        if include_noise:
            drawn += self._prior.hyper.noise * rng.standard_normal(drawn.shape)
        return self._unit * drawn

    @door
    def log_marginal_likelihood(self, theta: ArrayLike | None = None) -> float:
        """Return log p(y) of all observations, exactly, at other hyper-parameters if given.

        Parameters
        ----------
        theta : array of float, optional
            Logarithms of the hyper-parameters that ``learn`` names, in its order; f itself for "modulation".
        """
        check_is_fitted(self, "_posterior")
        parameters = self._parameters
        hyper = parameters.start if theta is None else parameters.checked(theta)
        observed = self._posterior.observed
        if observed.ids.size > MAX_CHOLESKY_NODES:
            remedy = "log_marginal_likelihood_value_ is that of the nodes learned from."
            rule = f"at most {MAX_CHOLESKY_NODES}"
            refuse("the number of observed nodes", rule, observed.ids.size, remedy)
        hyper = hyper.scaled(1 / self._unit)
        covariance = replace(self._prior, hyper=hyper).at(observed.ids).covariance
        value = log_likelihood(observed, covariance, hyper.noise, slopes=False).value
        return value - (observed.place.size - observed.offset.size) * math.log(self._unit)
