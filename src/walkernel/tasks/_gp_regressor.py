"""Gaussian process regression on the nodes of a graph: exact covariances, or one set of walk features."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from walkernel._checks import (
    Described,
    check_flag,
    fits_in_memory,
    one_of,
    progress_callback,
    real_number,
    refuse,
    whole_number,
)
from walkernel._door import all_or_nothing, door
from walkernel.operators import Explanation
from walkernel.tasks._attributes import (
    COMBINATIONS,
    MIN_OBSERVATIONS,
    AttributePrior,
    Attributes,
    Combination,
    join_attributes,
    standardized_attributes,
)
from walkernel.tasks._learning import Learned
from walkernel.tasks._likelihood import MIN_SCALE, Hyperparameters, Parameters, log_likelihood
from walkernel.tasks._nodes import check_random_seed, given_targets, node_ids
from walkernel.tasks._observations import (
    Array,
    KnownNodes,
    Observations,
    column_rank,
    first_twins,
    mean_columns,
)
from walkernel.tasks._posterior import Posterior
from walkernel.tasks._prior import LEARNED, NodeGP, SomeGraphPrior
from walkernel.tasks._solvers import MAX_CHOLESKY_NODES


class Output(NamedTuple):
    """One column of y: its hyper-parameters and posterior, for y divided by a unit."""

    unit: float  # a power of two, in which the noise is about one
    hyper: Hyperparameters
    posterior: Posterior[Any]


@dataclass(eq=False, repr=False, kw_only=True)
class NodeGPRegressor(MultiOutputMixin, RegressorMixin, NodeGP):
    r"""Gaussian process regression on nodes: values with uncertainty at all nodes, from some observed ones.

    .. math::

        & y_i = g(x_i) + h(x_i)^\top \beta + \varepsilon_i, \\
        & g \sim N(0, a^2 K + \nu^2 I), \qquad \varepsilon_i \sim N(0, s^2)

    .. math::

        \mathbb{E}[g(z) + h(z)^\top \beta \mid y] = \; & h(z)^\top \hat\beta \\
        & + a^2 K_{zX} \left(a^2 K_{XX} + \nu^2 E + s^2 I\right)^{-1} (y - H \hat\beta)

    Here x_i is the node of observation i, and E_ij is 1 if x_i = x_j and else 0. β has a flat prior, and its
    uncertainty is part of the variance. Lengthscale, amplitude a and noise s maximise the marginal
    likelihood.

    With exact rows, kernels and lengthscales are compared on at most 500 observed nodes; amplitude and noise
    are those of up to 2000. Standard deviations are exact at up to 512 nodes, on graphs of some thousand
    nodes, and where few eigenvectors carry the kernel. Else they are those of 256 draws of the posterior, 4 %
    off at most nodes; 6 % with products and sums of attributes.

    On roads, grids and meshes, Matérn kernels with ν = 1, 2 and 3 have sparse inverses, and a sparse
    factorisation serves any width and any number of observations. There, wide signals and more than 4096
    observations take these kernels.

    With walks, K is ΦΦᵀ of a single set of walks, so the prior is positive semidefinite. The upward bias of
    its diagonal is not subtracted, because intervals would then be too narrow; the noise is fitted in its
    presence. Mean, variance and likelihood are exact for these features. Lengthscales are first compared,
    from narrow to wide, on at most 250 observed nodes, with walks chosen for each range of lengthscales. The
    best one is then refined with the walks of its range on at most 2000 observed nodes, chosen at random.

    Several outputs share the kernel, which maximises the sum of their likelihoods; amplitude, noise and β
    belong to each. With walks, amplitude and noise are shared in units of the spread of each output.

    Parameters
    ----------
    graph : Graph
        The graph, undirected. Nodes are X in ``fit`` and ``predict``.
    kernel : Kernel, optional
        The kernel, positive semidefinite. Its lengthscale matters only if it is not learned: the search
        covers the same lengthscales from any start. None compares Diffusion and Matérn kernels of several
        widths by their likelihood.
    method : {"auto", "polynomial", "walks"}
        How the kernel is computed: exact rows by polynomials of the matrix, or features of walks. "auto"
        takes exact rows unless there are more than 4096 observed nodes, the graph is too large, or f is
        learned; roads, grids and meshes have no such limits.
    n_walks : int
        Walks from each node, where walks are used. Increase it if ``fit`` warns of the error of features.
    sampler : Sampler, optional
        How walks are drawn; chosen for the kernels that are tried if not given. A sampler that is given
        implies walks.
    learn : tuple of str, optional
        Hyper-parameters to learn, among "lengthscale", "amplitude", "noise", "nugget" and "modulation" (every
        value of f, instead of lengthscale and amplitude). None means the first three, without the lengthscale
        for a kernel that has none; () learns nothing.
    amplitude : float
        a, where it is not learned: the prior standard deviation of g in the unit of y, if K is normalized.
    noise : float
        s, the standard deviation of the noise in the unit of y, where it is not learned. Set it and leave
        "noise" out of ``learn`` if the accuracy of the measurements is known.
    nugget : float
        ν, where it is not learned: the standard deviation, in the unit of y, of an independent effect of each
        node, shared by all observations of the node. It cannot be distinguished from noise if no node is
        observed twice.
    twins : bool
        Treat nodes with the same neighbours and edge weights as one node: an observation of one of them is a
        repeated observation of all. To be used with a nugget.
    normalize : bool, optional
        Divide the kernel by √(K_ii K_jj), so that g has the same prior variance a² at every node. With a free
        f the prior variance is ‖f‖². None divides a kernel that is given; where kernels are compared with
        exact rows, it compares both by their likelihood.
    mean : {"constant", "zero"}
        Whether the mean function contains a constant. "zero" is for values that are known to vary about 0.
    covariates : array of float, (n_nodes,) or (n_nodes, q), optional
        Known quantities at all nodes, in the order of their ids, in which the mean is linear.
    features : array of float, (n_nodes,) or (n_nodes, d), optional
        Attributes x of all nodes, in the order of their ids, which are standardised. They enter by
        R_ij = exp(−‖x_i − x_j‖² / (2dℓ²)), or linearly.
    combine : {"auto", "product", "sum", "linear"}
        How attributes enter. "product": g has the covariance a²K∘R, so that nodes are alike if they are near
        in the graph and have similar attributes; "sum": a²(wK + (1 − w)R), a function of the graph plus a
        function of the attributes, with K divided by its mean variance at the observed nodes; "linear": the
        mean is linear in the attributes, as in ``covariates``. ℓ among ½, 1, 2 and 4 and w among 0.1, 0.3, …,
        0.9 maximise the likelihood. "auto" takes the best of these and of the graph alone by the likelihood,
        less ½ log n for each of ℓ and w. Products and sums take exact rows: with walks, twins or a learned f,
        "auto" is linear. It is linear only with at least four observations of each attribute.
    solver : {"auto", "cholesky", "cg"}
        How linear systems are solved: by a factorisation or by conjugate gradients; "auto" chooses the
        cheaper way.
    tol : float
        Relative residual that conjugate gradients must reach. It is smaller than what matters; change it for
        tests only.
    max_iter : int
        Maximum number of iterations of conjugate gradients; RuntimeError is raised if they do not converge.
    random_state : int, RandomState or None
        Seed of the walks, and of the nodes chosen to learn from; None is 0.
    engine : {None, "cpu", "cuda"} or Engine
        Where walks are sampled, and exact rows computed: see :mod:`walkernel.engines`.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel with the lengthscale that was found; f * f as a PowerSeries if f was learned.
    modulation_ : ndarray of float64 or None
        f, if it was learned.
    amplitude_, noise_, nugget_ : float, or ndarray of float64, (n_outputs,)
        a, s and ν, in the unit of y.
    mean_coef_ : ndarray of float64, (q,) or (q, n_outputs)
        β: the constant first, if there is one, then covariates, then standardised attributes.
    combine_ : {"none", "linear", "product", "sum"}
        How attributes enter.
    feature_lengthscale_, graph_share_ : float
        ℓ and w; NaN where there are none.
    log_marginal_likelihood_value_ : float
        log p(y) of the nodes learned from, summed over outputs; NaN if nothing is learned.
    n_learned_from_ : int
        The number of these nodes.
    n_evaluations_ : int
        Number of evaluations of the likelihood and its gradient, without those that compare starts.
    candidates_ : list of (kernel, score, normalize)
        The kernels that were compared, their log p(y) and whether they were normalized, the best one first.
    normalize_ : bool
        Whether the kernel is normalized.
    method_ : str
        "polynomial" or "walks".
    sampler_ : Sampler or None
        The sampler that is used; None without walks.

    See Also
    --------
    NodeRidge : The same predictions without uncertainty, with the penalty chosen by leave-one-out.
    gp_posterior : The posterior for given hyper-parameters, on any operator.

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

    Two outputs, and an attribute of the nodes:

    >>> weight = np.arange(60.0) % 7
    >>> Y = np.column_stack([y, y + weight[::3]])
    >>> model = wk.NodeGPRegressor(ring, features=weight).fit(range(0, 60, 3), Y)
    >>> model.combine_, model.predict(range(60)).shape, model.noise_.shape
    ('linear', (60, 2), (2,))
    """

    normalize: bool | None = None  # type: ignore[assignment]
    _may_compare_normalization = True
    noise: float = 0.1
    nugget: float = 0.0
    twins: bool = False
    mean: str = "constant"
    covariates: ArrayLike | None = None
    features: ArrayLike | None = None
    combine: str = "auto"

    @all_or_nothing
    def fit(self, X: Any, y: ArrayLike, *, noise_std: ArrayLike | None = None) -> NodeGPRegressor:
        """Learn the hyper-parameters and condition on the observations.

        Parameters
        ----------
        X : nodes, (n,) or (n, 1)
            Observed nodes: names (``graph.labels``) if the graph has them, else ids. They may repeat, with
            different values.
        y : array of float, (n,) or (n, n_outputs)
            Observed values, in any unit; amplitude and noise have the same.
        noise_std : array of float, (n,) or as y, optional
            Known standard deviations of single observations, in addition to the fitted noise.

        Returns
        -------
        self : NodeGPRegressor
            The fitted estimator.

        Raises
        ------
        ValueError
            If the kernel is not positive semidefinite on a symmetric matrix, or nodes and values do not fit.

        Warns
        -----
        UserWarning
            If features of walks are far off at the observed nodes; more walks, or ``method="polynomial"``,
            serve.
        """
        learn, system = self._check_learning(LEARNED), self._check_solver()
        noise = real_number("noise", self.noise, minimum=MIN_SCALE)
        nugget = real_number("nugget", self.nugget, minimum=0)
        scales = noise, max(nugget, noise * ("nugget" in learn))
        columns = mean_columns(self.graph, self.mean, self.covariates)
        check_flag("twins", self.twins)
        representative = first_twins(self.graph) if self.twins else np.arange(self.graph.n_nodes)
        nodes = KnownNodes(self.graph, columns, representative)
        data = nodes.observations(X, y, noise_std)
        if len(data) > 1 and "modulation" in learn:
            refuse("learn", "without 'modulation' for several outputs", self.learn)
        attributes, way = self._check_attributes(X, columns, data[0], learn), Combination("none")
        if attributes is None:
            learned, whole = self._learn(data, learn, *scales)
        else:
            joined = nodes._replace(columns=np.column_stack([columns, attributes.values]))
            linear = joined.observations(X, y, noise_std) if "linear" in attributes.kinds else data
            learned, whole, way = self._learn_jointly(attributes, data, linear, learn, scales)
            nodes, data = (joined, linear) if way.kind == "linear" else (nodes, data)
        units = [math.ldexp(1.0, math.frexp(hyper.noise)[1]) for hyper in learned.hypers]
        hypers = [hyper.scaled(1 / unit) for hyper, unit in zip(learned.hypers, units, strict=True)]
        prior, ids = replace(whole, hyper=hypers[0]), data[0].ids
        outputs = [
            Output(unit, hyper, Posterior(one.scaled(unit), prior.at(ids, hyper), hyper.noise, system))
            for unit, hyper, one in zip(units, hypers, data, strict=True)
        ]
        self._set(learned, prior)
        self._trust_features(whole, ids)
        self.combine_, self.feature_lengthscale_, self.graph_share_ = way[:3]
        self._outputs, self._is_flat = outputs, np.ndim(given_targets(y)) == 1
        self.amplitude_, self.noise_, self.nugget_ = (
            found[0] if self._is_flat else np.array(found)
            for found in zip(*((one.amplitude, one.noise, one.nugget) for one in learned.hypers), strict=True)
        )
        self.mean_coef_ = self._coefficients()
        self._parameters, self._nodes, self._system = Parameters(learn, learned.hyper), nodes, system
        return self

    def _check_attributes(
        self, X: Any, columns: Array, observed: Observations, learn: tuple[str, ...]
    ) -> Attributes | None:
        """Return the attributes of nodes, and the ways of using them that are to be compared."""
        combine = one_of("combine", self.combine, COMBINATIONS)
        if self.features is None:
            if combine != "auto":
                refuse("features", f"given for combine={combine!r}", None)
            return None
        values = standardized_attributes(self.graph, self.features)
        is_exact = self._has_exact_rows(observed.ids.size, learn) and not self.twins
        if combine in ("product", "sum") and not is_exact:
            rule = "'auto' or 'linear' with walks, twins or a learned f: products and sums take exact rows"
            refuse("combine", rule, combine, "Use combine='linear', or method='polynomial' without these.")
        ids = node_ids(self.graph, X)
        known = np.column_stack([columns, values])[ids]
        is_independent = column_rank(known) == known.shape[1]
        if combine == "linear" and not is_independent:
            rule = "independent at the observed nodes of each other, the constant and covariates"
            refuse("features", rule, Described(f"{values.shape[1]} columns, {ids.size} observations"))
        if combine != "auto":
            return Attributes(values, (combine,))
        is_offered = is_independent and ids.size >= MIN_OBSERVATIONS * values.shape[1]
        kinds = ("none", "linear") if is_offered else ("none",)
        return Attributes(values, (*kinds, "product", "sum") if is_exact else kinds[-1:])

    def _learn_jointly(
        self,
        attributes: Attributes,
        data: list[Observations],
        linear: list[Observations],
        learn: tuple[str, ...],
        scales: tuple[float, float],
    ) -> tuple[Learned, SomeGraphPrior, Combination]:
        """Learn the hyper-parameters and how attributes enter; ``linear`` has them in the mean."""
        way = Combination(attributes.kinds[0])
        if len(attributes.kinds) > 1 or way.kind in ("product", "sum"):
            moments, learned = self._search(data, learn, scales, check_random_seed(self.random_state))
            places = np.searchsorted(data[0].ids, moments.ids)
            some, others = ([one.select_nodes(places) for one in many] for many in (data, linear))
            learned, way = join_attributes(attributes, moments, some, others, learned, learn)
            if way.kind != "linear":
                joined = None if way.kind == "none" else (attributes, way)
                return *self._exact_prior(moments, data, learned, learn, joined), way
        return *self._learn(linear if way.kind == "linear" else data, learn, *scales), way

    def _coefficients(self) -> Array:
        """Return β of all outputs, (q,) or (q, n_outputs)."""
        return self._shaped(np.column_stack([one.unit * one.posterior.beta for one in self._outputs]))

    def _shaped(self, results: Array) -> Array:
        """Return results with a second axis of outputs, or without it where y had none."""
        return results[:, 0] if self._is_flat else results

    def condition(self, X: Any, y: ArrayLike, *, noise_std: ArrayLike | None = None) -> NodeGPRegressor:
        """Replace the observations, and keep the learned hyper-parameters and the walks.

        Parameters
        ----------
        X : nodes, (n,) or (n, 1)
            Observed nodes, as in ``fit``.
        y : array of float, (n,) or (n, n_outputs)
            Observed values, as in ``fit``.
        noise_std : array of float, (n,) or as y, optional
            Known standard deviations of single observations, as in ``fit``.

        Returns
        -------
        self : NodeGPRegressor
            The estimator.

        Examples
        --------
        >>> import walkernel as wk
        >>> club = wk.load_dataset("karate").graph
        >>> model = wk.NodeGPRegressor(club, wk.Diffusion(1.0)).fit([0, 1, 32, 33], [1.0, 0.9, -1.1, -1.0])
        >>> bool(model.condition([0, 33], [-1.0, 1.0]).predict([1])[0] < 0)
        True
        """
        check_is_fitted(self, "_outputs")
        data = self._nodes.observations(X, y, noise_std)
        shape = "(n,)" if self._is_flat else f"(n, {len(self._outputs)})"
        if len(data) != len(self._outputs) or (np.ndim(given_targets(y)) == 1) != self._is_flat:
            refuse("y", f"of shape {shape}, as in fit", Described(f"shape {np.shape(given_targets(y))}"))
        ids, outputs = data[0].ids, []
        for (unit, hyper, _), one in zip(self._outputs, data, strict=True):
            prior = self._prior.at(ids, hyper)
            posterior = Posterior(one.scaled(unit), prior, hyper.noise, self._system)
            outputs.append(Output(unit, hyper, posterior))
        self._outputs = outputs
        self.mean_coef_ = self._coefficients()
        return self

    @property
    def n_iter_(self) -> int:
        """Iterations of conjugate gradients of the longest solution so far; 0 for a Cholesky factor."""
        check_is_fitted(self, "_outputs")
        return max(one.posterior.system.n_iter for one in self._outputs)

    def explain(self) -> Explanation:
        """Say which kernel is used, how it is computed, how attributes enter, and what else it would cost.

        The error of features is estimated from the spread of groups of walks from at most 128 observed nodes.

        Returns
        -------
        Explanation
            Prints as its ``text``; ``error`` is the relative error of features, 0 for exact rows.
        """
        found = super().explain()
        if self.combine_ == "none":
            return found
        radial = f"an RBF kernel of the attributes, ℓ = {self.feature_lengthscale_:g}"
        how = {
            "linear": "The mean is linear in the attributes.",
            "product": f"It is multiplied by {radial}.",
            "sum": f"Its share is {self.graph_share_:g}; the rest is {radial}.",
        }[self.combine_]
        first, *rest = found.text.split("\n")
        return replace(found, text="\n".join([f"{first} {how}", *rest]))

    @door
    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False, *, include_noise: bool = False
    ) -> NDArray[np.float64] | tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the posterior mean of g + h·β at some nodes, and how uncertain it is.

        Parameters
        ----------
        X : nodes, (n,) or (n, 1)
            Where to predict; any nodes of the graph.
        return_std : bool
            Also return standard deviations.
        return_cov : bool
            Also return the covariance matrix; not together with ``return_std``.
        include_noise : bool
            Return the uncertainty of a new observation y instead of g + h·β: the noise is added to the
            variance. The bias that walks add to the diagonal acts like noise and is included either way, so
            intervals of y are calibrated and those of g are rather wide.

        Returns
        -------
        mean : ndarray of float64, (n,) or (n, n_outputs)
            The posterior mean.
        std : ndarray of float64, (n,) or (n, n_outputs)
            Standard deviations in the unit of y, if ``return_std``.
        cov : ndarray of float64, (n, n)
            The covariance matrix, if ``return_cov``, for a single output.

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
        if return_cov and len(self._outputs) > 1:
            refuse("return_cov", "False for several outputs", return_cov, "Use return_std, or sample_y.")
        representative, columns = self._nodes.representative[ids], self._nodes.columns[ids]
        prior, outputs = self._prior, self._outputs
        if return_cov:
            unit, hyper, posterior = outputs[0]
            extra = hyper.noise**2 if include_noise else 0.0
            fits_in_memory((ids.size, ids.size), "Use return_std, or sample_y.")
            asked = prior.at(representative)
            covariance = posterior.covariance(asked, columns) + extra * np.eye(ids.size)
            mean = posterior.mean(asked.observed, columns)[:, None]
            return self._shaped(unit * mean), unit**2 * covariance
        means, deviations = (np.empty((ids.size, len(outputs))) for _ in range(2))
        for part, nodes in prior.blocks(representative):
            for which, (unit, hyper, posterior) in enumerate(outputs):
                means[part, which] = unit * posterior.mean(nodes, columns[part])
                if return_std:
                    extra = hyper.noise**2 if include_noise else 0.0
                    variance = prior.posterior_variances([posterior], nodes, columns[part])[:, 0]
                    deviations[part, which] = unit * np.sqrt(variance + extra)
        return (self._shaped(means), self._shaped(deviations)) if return_std else self._shaped(means)

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

        Where attributes enter by a product or a sum, functions are drawn from the joint covariance of at most
        4096 nodes.

        Parameters
        ----------
        X : nodes, (n,) or (n, 1), optional
            Where to draw. The default is all nodes of the graph, in the order of their ids.
        n_samples : int
            Number of functions.
        random_state : int, RandomState or None
            Seed of the draws; None is 0. The same seed gives the same functions for any X, but not the same
            noise; with a product or a sum, the functions differ as well.
        include_noise : bool
            Draw observations y instead of g + h·β.
        progress : callable, optional
            Called with (nodes done, nodes in all) after each block of nodes.

        Returns
        -------
        ndarray of float64, (n, n_samples) or (n, n_outputs, n_samples)
            The functions, one in each column.

        Examples
        --------
        >>> import walkernel as wk
        >>> club = wk.load_dataset("karate").graph
        >>> model = wk.NodeGPRegressor(club, wk.Diffusion(1.0), learn=()).fit([0, 33], [1.0, -1.0])
        >>> model.sample_y(n_samples=3).shape
        (34, 3)
        """
        check_is_fitted(self, "_outputs")
        n_samples = whole_number("n_samples", n_samples, 1)
        check_flag("include_noise", include_noise)
        report = progress_callback(progress)
        rng = np.random.default_rng(check_random_seed(random_state))
        graph, outputs = self._fitted_graph, self._outputs
        ids = np.arange(graph.n_nodes) if X is None else node_ids(graph, X)
        representative, columns = self._nodes.representative[ids], self._nodes.columns[ids]
        drawn = np.empty((ids.size, len(outputs), n_samples))
        if isinstance(self._prior, AttributePrior):
            for which, one in enumerate(outputs):
                drawn[:, which] = self._prior.posterior_draws(
                    one.posterior, representative, columns, n_samples, rng
                )
            if report is not None:
                report(ids.size, ids.size)
        else:
            functions = [one.posterior.draw(n_samples, rng) for one in outputs]
            for which, (_, beta) in enumerate(functions):
                drawn[:, which] = columns @ beta
            all_weights = np.hstack([weights for weights, _ in functions])
            distinct, place = np.unique(representative, return_inverse=True)
            values = np.empty((distinct.size, all_weights.shape[1]))
            for part, values[part] in self._prior.functions(distinct, all_weights):
                if report is not None:
                    report(part.stop * ids.size // distinct.size, ids.size)
            drawn += values[place].reshape(drawn.shape)
        for which, (unit, hyper, _) in enumerate(outputs):
            if include_noise:
                drawn[:, which] += hyper.noise * rng.standard_normal((ids.size, n_samples))
            drawn[:, which] *= unit
        return self._shaped(drawn)

    @door
    def log_marginal_likelihood(self, theta: ArrayLike | None = None) -> float:
        """Return log p(y) of all observations, exactly, at other hyper-parameters if given.

        Parameters
        ----------
        theta : array of float, optional
            Logarithms of the hyper-parameters that ``learn`` names, in its order; f itself for "modulation".
            By default those that were learned. For several outputs, whose likelihoods are summed, it cannot
            be given.

        Returns
        -------
        float
            The logarithm of the marginal likelihood, in nats.
        """
        check_is_fitted(self, "_outputs")
        if theta is not None and len(self._outputs) > 1:
            refuse("theta", "None for several outputs", theta)
        given = None if theta is None else self._parameters.checked(theta)
        ids = self._outputs[0].posterior.observed.ids
        if ids.size > MAX_CHOLESKY_NODES:
            remedy = "log_marginal_likelihood_value_ is that of the nodes learned from."
            refuse("the number of observed nodes", f"at most {MAX_CHOLESKY_NODES}", ids.size, remedy)
        total = 0.0
        for unit, hyper, posterior in self._outputs:
            observed, prior = posterior.observed, posterior.prior
            if given is not None:
                hyper = given.scaled(1 / unit)
                prior = self._prior.with_hyper(hyper).at(ids)
            value = log_likelihood(observed, prior.covariance, hyper.noise, slopes=False).value
            total += value - (observed.place.size - observed.offset.size) * math.log(unit)
        return total
