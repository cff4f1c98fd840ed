"""Estimators with exact rows of the kernel: equal to dense formulas, and never silently bad."""

import numpy as np
import pytest
import scipy.linalg
import scipy.special
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import graphs
import walkernel as wk
from walkernel.tasks import _moments, _polynomial_prior, _ridge
from walkernel.tasks._leave_one_out import SHARPNESS, calibrated_sharpness, sharpest_loss

KERNEL = wk.Diffusion(2.0)
GRAPH = graphs.karate()
KNOWN = np.array([0, 1, 2, 8, 23, 30, 32, 33])
REST = np.setdiff1d(np.arange(34), KNOWN)


def unit_diagonal(K):
    scales = np.sqrt(K.diagonal())
    return K / np.outer(scales, scales)


def grid(n):
    ids = np.arange(n * n).reshape(n, n)
    across, down = (ids[:, :-1], ids[:, 1:]), (ids[:-1], ids[1:])
    return wk.Graph.from_edges(
        np.concatenate([np.column_stack([a.ravel(), b.ravel()]) for a, b in (across, down)])
    )


def with_isolated_nodes():
    edges = np.array([(i, i + 1) for i in range(20)])
    return wk.Graph.from_edges(edges, n_nodes=24)


@pytest.mark.parametrize("normalize", [False, True])
def test_a_regression_is_that_of_the_dense_kernel(normalize):
    K = wk.exact_kernel(GRAPH, KERNEL)
    y = np.sin(np.arange(KNOWN.size))
    model = wk.NodeGPRegressor(
        GRAPH, KERNEL, method="polynomial", normalize=normalize, learn=(), amplitude=1.3, noise=0.2
    ).fit(KNOWN, y)
    mean, std = model.predict(KNOWN, return_std=True)
    K = unit_diagonal(K) if normalize else K
    K = 1.69 * K[np.ix_(KNOWN, KNOWN)]
    S = np.linalg.inv(K + 0.04 * np.eye(KNOWN.size))
    certainty = S.sum()
    beta = S.sum(axis=0) @ y / certainty
    assert np.allclose(mean, beta + K @ S @ (y - beta), atol=1e-3)
    rho = 1 - K @ S.sum(axis=1)
    variance = (K - K @ S @ K).diagonal() + rho**2 / certainty
    assert np.allclose(std, np.sqrt(variance), atol=1e-3)


def test_unnormalised_predictions_elsewhere_are_dense_ones():
    K = wk.exact_kernel(GRAPH, KERNEL)
    y = np.cos(np.arange(KNOWN.size))
    model = wk.NodeGPRegressor(GRAPH, KERNEL, normalize=False, learn=(), noise=0.1, mean="zero").fit(KNOWN, y)
    mean, std = model.predict(REST, return_std=True)
    S = np.linalg.inv(K[np.ix_(KNOWN, KNOWN)] + 0.01 * np.eye(KNOWN.size))
    shared = K[np.ix_(REST, KNOWN)]
    assert model.method_ == "polynomial"
    assert np.allclose(mean, shared @ S @ y, atol=1e-3)
    assert np.allclose(std**2, (K[np.ix_(REST, REST)] - shared @ S @ shared.T).diagonal(), atol=1e-3)


def test_scales_of_a_normalised_prior_are_those_of_the_kernel(monkeypatch):
    exact = np.sqrt(wk.exact_kernel(grid(25), wk.Diffusion(3.0)).diagonal())

    def scales():
        model = wk.NodeGPRegressor(grid(25), wk.Diffusion(3.0), learn=())
        return model.fit([0, 300, 624], [1.0, 0.0, -1.0])._prior.scales

    assert np.allclose(scales(), exact, rtol=1e-6)
    monkeypatch.setattr(_polynomial_prior, "MAX_EXACT_SCALES", 0)  # as on large graphs
    ratio = scales() / exact
    assert 0 < np.abs(np.log(ratio)).mean() < 0.03
    assert np.abs(np.log(ratio)).max() < 0.2


def test_standard_deviations_of_many_nodes_agree_with_exact_ones():
    graph, rng = grid(25), np.random.default_rng(0)
    known = rng.choice(625, 60, replace=False)
    model = wk.NodeGPRegressor(graph, wk.Matern(1.5, 4.0)).fit(known, rng.standard_normal(60))
    _, drawn = model.predict(range(625), return_std=True)  # from draws
    some = np.arange(0, 625, 5)
    _, exact = model.predict(some, return_std=True)
    ratio = drawn[some] / exact
    assert abs(ratio.mean() - 1) < 0.03
    assert ratio.std() < 0.07  # 1/√512 is 0.044


def test_draws_have_the_moments_of_the_posterior():
    graph, rng = grid(8), np.random.default_rng(1)
    known = np.arange(0, 64, 7)
    model = wk.NodeGPRegressor(graph, KERNEL, learn=(), noise=0.3).fit(known, rng.standard_normal(10))
    mean, covariance = model.predict(range(64), return_cov=True)
    draws = model.sample_y(n_samples=4000, random_state=3)
    spread = np.sqrt(covariance.diagonal() / 4000)
    assert np.abs((draws.mean(axis=1) - mean) / spread).max() < 4.5
    assert np.abs(np.cov(draws) - covariance).max() < 0.15 * covariance.diagonal().max()


def test_a_smooth_signal_is_found_with_its_noise():
    graph, rng = grid(30), np.random.default_rng(5)
    row, column = np.divmod(np.arange(900), 30)
    truth = np.sin(row / 5) + np.cos(column / 5)
    known = rng.choice(900, 200, replace=False)
    model = wk.NodeGPRegressor(graph).fit(known, truth[known] + 0.1 * rng.standard_normal(200))
    mean, std = model.predict(range(900), return_std=True)
    assert 0.08 < model.noise_ < 0.12
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.09
    assert 0.88 < np.mean(np.abs(mean - truth) < 1.96 * std) <= 1.0
    assert model.candidates_[0].score >= model.candidates_[-1].score
    assert len(model.candidates_) > 20


@pytest.mark.parametrize(("graph", "matrix"), [(grid(12), "combinatorial"), (GRAPH, "normalized")])
def test_kernels_are_compared_by_walks_where_no_kernel_is_given(graph, matrix):
    rng, everywhere = np.random.default_rng(2), np.arange(graph.n_nodes)
    signal = wk.polynomial_operator(graph, wk.Diffusion(2.0)) @ rng.standard_normal(graph.n_nodes)
    y = signal / signal.std() + 0.2 * rng.standard_normal(graph.n_nodes)
    known = rng.permutation(graph.n_nodes)[: graph.n_nodes // 2]
    model = wk.NodeRidge(graph, method="walks").fit(known, y[known])
    assert {one.kernel.matrix for one in model.candidates_} == {matrix}
    exact = wk.NodeRidge(graph, model.kernel_, method="polynomial", alpha=model.alpha_).fit(known, y[known])
    error = model.predict(everywhere) - exact.predict(everywhere)
    assert np.sqrt(np.mean(error**2)) < 0.03


def test_ridge_is_that_of_the_dense_kernel():
    K = unit_diagonal(wk.exact_kernel(GRAPH, KERNEL))[np.ix_(KNOWN, KNOWN)]
    y = np.column_stack([np.sin(KNOWN), np.cos(KNOWN)])
    model = wk.NodeRidge(GRAPH, KERNEL, alpha=0.3).fit(KNOWN, y)
    n = KNOWN.size
    system = np.block([[K + 0.3 * np.eye(n), np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    solution = scipy.linalg.solve(system, np.vstack([y, np.zeros((1, 2))]))
    assert np.allclose(model.dual_coef_, solution[:-1], atol=1e-4)
    assert np.allclose(model.intercept_, solution[-1], atol=1e-4)
    assert np.allclose(model.predict(KNOWN), K @ solution[:-1] + solution[-1], atol=1e-3)


def test_weights_of_ridge_count_like_repeated_nodes():
    y = np.sin(KNOWN)
    twice = wk.NodeRidge(GRAPH, KERNEL, alpha=0.2).fit(np.append(KNOWN, KNOWN[:3]), np.append(y, y[:3]))
    weighted = wk.NodeRidge(GRAPH, KERNEL, alpha=0.2).fit(KNOWN, y, [2, 2, 2, 1, 1, 1, 1, 1])
    assert np.allclose(twice.predict(REST), weighted.predict(REST))


@pytest.mark.parametrize("method", ["polynomial", "walks"])
def test_a_classifier_needs_nothing_but_labels(method):
    club = wk.load_dataset("karate")
    model = wk.NodeRidgeClassifier(club.graph, method=method).fit(KNOWN, club.labels[KNOWN])
    assert model.score(REST, club.labels[REST]) > 0.85
    probabilities = model.predict_proba(REST)
    assert np.allclose(probabilities.sum(axis=1), 1)
    scores = model.decision_function(REST)
    assert np.array_equal(scores > 0, model.predict(REST) == model.classes_[1])
    assert model.method_ == method


def test_class_weights():
    club = wk.load_dataset("karate")
    y = club.labels[KNOWN]
    plain = wk.NodeRidgeClassifier(club.graph, KERNEL, alpha=1.0)
    given = wk.NodeRidgeClassifier(club.graph, KERNEL, alpha=1.0, class_weight={1: 2.0})
    repeated = np.concatenate([KNOWN, KNOWN[y == 1]])
    doubled = plain.fit(repeated, np.concatenate([y, y[y == 1]])).predict_proba(REST)
    assert np.allclose(given.fit(KNOWN, y).decision_function(REST), plain.decision_function(REST))
    assert doubled.shape == (REST.size, 2)
    with pytest.raises(ValueError, match="class_weight must be"):
        wk.NodeRidgeClassifier(club.graph, class_weight={7: 1.0}).fit(KNOWN, y)
    with pytest.raises(ValueError, match="class_weight must be"):
        wk.NodeRidgeClassifier(club.graph, class_weight="even").fit(KNOWN, y)


def test_leave_one_out_is_what_it_says():
    club = wk.load_dataset("karate")
    from walkernel.tasks._leave_one_out import RidgePath

    K = unit_diagonal(wk.exact_kernel(club.graph, KERNEL))[np.ix_(KNOWN, KNOWN)]
    y, weights = np.random.default_rng(0).standard_normal((KNOWN.size, 2)), np.arange(1.0, 9.0)
    left_out = RidgePath(K, y, weights).solve(0.5).left_out
    for i in range(KNOWN.size):
        kept = np.arange(KNOWN.size) != i
        other = RidgePath(K[np.ix_(kept, kept)], y[kept], weights[kept]).solve(0.5)
        assert np.allclose(K[i, kept] @ other.dual + other.intercept, left_out[i])


def test_shared_posteriors_are_those_of_separate_ones():
    labels = np.array(["a", "b", "a", "c", "c", "b", "a", "c"])
    common = {"normalize": True, "learn": (), "amplitude": 2.0}
    model = wk.NodeGPClassifier(GRAPH, KERNEL, method="polynomial", **common).fit(KNOWN, labels)
    mean, variance = model.latent(KNOWN)
    K = 4 * unit_diagonal(wk.exact_kernel(GRAPH, KERNEL))[np.ix_(KNOWN, KNOWN)]
    for c, name in enumerate("abc"):
        alpha = 0.01 + (labels == name)
        spread = np.log1p(1 / alpha)
        z = np.log(alpha) - spread / 2
        S = np.linalg.inv(K + np.diag(spread))
        beta = S.sum(axis=0) @ z / S.sum()
        assert np.allclose(mean[:, c], beta + K @ S @ (z - beta), atol=1e-3)
        rho = 1 - K @ S.sum(axis=1)
        assert np.allclose(variance[:, c], (K - K @ S @ K).diagonal() + rho**2 / S.sum(), atol=2e-3)


def test_many_classes_are_learned_at_once():
    graph = grid(30)
    row, column = np.divmod(np.arange(900), 30)
    labels = row // 6 * 5 + column // 6  # 25 squares
    known = np.random.default_rng(0).choice(900, 300, replace=False)
    rest = np.setdiff1d(np.arange(900), known)
    for model in (wk.NodeGPClassifier(graph), wk.NodeRidgeClassifier(graph)):
        assert model.fit(known, labels[known]).score(rest, labels[rest]) > 0.7


def test_a_pipeline_needs_nothing_but_labels():
    club = wk.load_dataset("karate")
    model = make_pipeline(wk.NodeFeatures(club.graph), LogisticRegression())
    assert model.fit(KNOWN, club.labels[KNOWN]).score(REST, club.labels[REST]) > 0.85


def test_features_of_landmarks_span_their_kernel():
    features = wk.NodeFeatures(GRAPH, KERNEL, normalize=False).fit(range(34))
    rows = features.transform(range(34))
    assert np.allclose(rows @ rows.T, wk.exact_kernel(GRAPH, KERNEL), atol=1e-3)
    few = wk.NodeFeatures(GRAPH, KERNEL, n_components=3).fit(range(34)).transform([1, 1, 2])
    assert few.shape == (3, 3)
    assert np.array_equal(few[0], few[1])


def test_smoothers_are_weighted_means_of_the_exact_kernel():
    K = wk.exact_kernel(GRAPH, KERNEL)[:, KNOWN]
    y = np.sin(KNOWN)
    mean, error = wk.NodeSmoother(GRAPH, KERNEL).fit(KNOWN, y).predict(range(34), return_std=True)
    assert np.allclose(mean, K @ y / K.sum(axis=1), atol=1e-3)
    assert not error.any()
    sums = wk.NodeSmoother(GRAPH, KERNEL, average=False).fit(KNOWN, y).predict(range(34))
    assert np.allclose(sums, K @ y, atol=1e-3)
    assert wk.NodeSmoother(GRAPH).fit(KNOWN, y).predict([3]).shape == (1,)


def test_isolated_nodes_have_the_prior_and_disturb_nobody():
    graph = with_isolated_nodes()
    known, y = [0, 5, 10, 15, 22], [1.0, 1.0, -1.0, -1.0, 5.0]
    model = wk.NodeGPRegressor(graph, wk.Diffusion(8.0), learn=(), noise=0.1, mean="zero").fit(known, y)
    mean, std = model.predict([3, 22, 23], return_std=True)
    assert mean[0] > 0
    assert mean[1] == pytest.approx(5.0 / 1.01, rel=1e-3)
    assert (mean[2], std[2]) == (0.0, pytest.approx(1.0, rel=1e-3))
    labels = wk.NodeRidgeClassifier(graph).fit(known, [0, 0, 1, 1, 1]).predict([1, 14, 22, 23])
    assert labels[0] == 0
    assert labels[1] == 1


def test_directed_graphs_are_walked_or_refused():
    graph = wk.Graph.from_edges([(0, 1), (1, 2), (2, 0), (2, 3)], directed=True)
    with pytest.raises(ValueError, match="undirected"):
        wk.NodeGPRegressor(graph).fit([0, 1], [1.0, 2.0])
    with pytest.raises(ValueError, match="method must be"):
        wk.NodeFeatures(graph, KERNEL, method="polynomial").fit([0, 1])
    assert wk.NodeFeatures(graph, KERNEL, n_walks=4096).fit([0, 1]).method_ == "walks"


def test_a_sampler_implies_walks():
    model = wk.NodeRidge(GRAPH, KERNEL, alpha=1.0, sampler=wk.IndependentWalks(0.1), n_walks=2048)
    assert model.fit(KNOWN, np.sin(KNOWN)).method_ == "walks"


ESTIMATORS = [
    lambda **options: wk.NodeRidge(grid(20), wk.Diffusion(12.0), n_walks=4, **options).fit(
        range(40), range(40)
    ),
    lambda **options: wk.NodeFeatures(grid(20), wk.Diffusion(12.0), n_walks=4, **options).fit(range(40)),
    lambda **options: wk.NodeRidgeClassifier(grid(20), wk.Diffusion(12.0), n_walks=4, **options).fit(
        range(40), np.arange(40) % 2
    ),
    lambda **options: wk.NodeGPRegressor(grid(20), wk.Diffusion(12.0), n_walks=4, learn=(), **options).fit(
        range(40), range(40)
    ),
    lambda **options: wk.NodeGPClassifier(grid(20), wk.Diffusion(12.0), n_walks=4, learn=(), **options).fit(
        range(40), np.arange(40) % 2
    ),
]


@pytest.mark.parametrize("fit", ESTIMATORS)
def test_poor_features_are_said_and_not_used_by_default(fit):
    with pytest.warns(UserWarning, match="relative error of about"):
        fit(method="walks")
    model = fit()  # warnings are errors
    assert model.method_ == "polynomial"
    text = repr(model.explain())
    assert "Used: exact rows" in text
    assert "Instead: features of 4 walks" in text


def test_the_same_call_gives_the_same_answer_with_any_number_of_threads():
    y = np.sin(np.arange(60))
    answers = [
        wk.NodeGPRegressor(grid(20), engine=wk.engines.CPU(n_threads=n)).fit(range(60), y).predict(range(400))
        for n in (1, 2)
    ]
    assert np.array_equal(*answers)


def test_leading_eigenvectors_give_the_same_answers(monkeypatch):
    from walkernel.operators import LeadingEigenvectors
    from walkernel.tasks import _moments

    graph, known = grid(25), np.arange(0, 625, 6)
    y = np.sin(known / 40)
    common = {"learn": (), "noise": 0.1}
    exact = wk.NodeGPRegressor(graph, wk.Diffusion(10.0), **common).fit(known, y)
    monkeypatch.setattr(_moments, "MIN_EIGEN_WORK", 0)
    leading = wk.NodeGPRegressor(graph, wk.Diffusion(10.0), **common).fit(known, y)
    assert isinstance(leading._prior.basis, LeadingEigenvectors)
    some = np.arange(0, 625, 4)
    (a, b), (c, d) = (model.predict(some, return_std=True) for model in (exact, leading))
    assert np.allclose(a, c, atol=1e-4)
    assert np.allclose(b, d, atol=1e-4)
    mean, std = leading.predict(range(625), return_std=True)
    assert np.allclose(mean[some], c)
    assert np.allclose(std[some], d, atol=1e-6)
    assert leading.sample_y(n_samples=2).shape == (625, 2)
    narrow = wk.NodeGPRegressor(graph, wk.Matern(0.5, 2.0), **common).fit(known, y)
    assert not isinstance(narrow._prior.basis, LeadingEigenvectors)


@pytest.mark.parametrize("estimator", [wk.NodeFeatures, wk.NodeRidge])
def test_kernels_that_polynomials_do_not_resolve_are_walked(estimator):
    kernel = wk.PowerSeries.from_function(lambda x: np.exp(0.2 * x), matrix="adjacency")
    y = np.sin(KNOWN)
    assert estimator(GRAPH, kernel, n_walks=2**12).fit(KNOWN, y).method_ == "walks"
    with pytest.raises(ValueError, match="kernel must be positive semidefinite, of the normalized"):
        estimator(GRAPH, kernel, method="polynomial").fit(KNOWN, y)


def wave(n=40, noise=0.1, n_known=300):
    """A grid, its values, some nodes and noisy values there."""
    graph = wk.datasets.grid(n, n).graph
    rng = np.random.default_rng(0)
    row, column = np.divmod(np.arange(n * n), n)
    truth = np.sin(row / 9) + np.cos(column / 7)
    known = rng.choice(n * n, n_known, replace=False)
    return graph, truth, known, truth[known] + noise * rng.standard_normal(n_known)


@pytest.mark.parametrize("normalize", [True, False])
def test_a_sparse_inverse_conditions_as_dense_covariances_do(normalize, monkeypatch):
    graph, _, known, y = wave()
    monkeypatch.setattr(_moments, "COMFORTABLE_WORK", 1)
    options = {"learn": (), "amplitude": 1.3, "noise": 0.1, "nugget": 0.05, "normalize": normalize}
    found = []
    for least in (10**9, 1):
        monkeypatch.setattr(_polynomial_prior, "MIN_MARKOV_NODES", least)
        model = wk.NodeGPRegressor(graph, wk.Matern(2, 20.0, matrix="combinatorial"), **options)
        mean, std = model.fit(known, y).predict(np.arange(100), return_std=True)
        found.append(np.column_stack([mean, std, model.sample_y(range(100), 3, random_state=1)]))
    np.testing.assert_allclose(*found, atol=1e-6)
    assert "sparse factorisation" in str(model.explain())


def test_wide_signals_on_a_grid_take_a_wide_kernel(monkeypatch):
    graph, truth, known, y = wave()
    monkeypatch.setattr(_moments, "COMFORTABLE_WORK", 2**24)
    model = wk.NodeGPRegressor(graph).fit(known, y)
    mean, std = model.predict(np.arange(graph.n_nodes), return_std=True)
    assert model.kernel_.resolvent_power() is not None
    assert 0.09 < model.noise_ < 0.11
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.05
    assert np.mean(np.abs(mean - truth) < 1.96 * std) > 0.9


def test_many_observations_of_a_grid_are_conditioned_by_the_sparse_inverse():
    graph, truth, known, y = wave(70, n_known=4500)
    model = wk.NodeGPRegressor(graph).fit(known, y)
    assert model.method_ == "polynomial"
    assert 0.09 < model.noise_ < 0.11
    assert np.sqrt(np.mean((model.predict(np.arange(graph.n_nodes)) - truth) ** 2)) < 0.04


def test_normalisation_is_chosen_by_likelihood():
    """Draws of a kernel whose variances differ by nodes, and draws of its correlations."""
    graph = wk.datasets.barabasi_albert(400, 2, seed=1).graph
    K = wk.exact_kernel(graph, wk.Diffusion(3.0))
    scales = np.sqrt(K.diagonal())
    for normalize, covariance in ((False, K / K.diagonal().mean()), (True, K / scales / scales[:, None])):
        values, vectors = np.linalg.eigh(covariance)
        root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
        rng = np.random.default_rng(3)
        y = root @ rng.standard_normal(400) + 0.1 * rng.standard_normal(400)
        model = wk.NodeGPRegressor(graph).fit(np.arange(0, 400, 2), y[::2])
        assert model.normalize_ is normalize
        assert {one.normalize for one in model.candidates_} == {True, False}
    fixed = wk.NodeGPRegressor(graph, normalize=True).fit([0, 9, 20], [1.0, 2.0, 4.0])
    assert {one.normalize for one in fixed.candidates_} == {True}


@pytest.mark.parametrize("matrix", ["normalized", "combinatorial"])
def test_nodes_without_edges_have_the_variance_of_the_kernel(matrix):
    graph = wk.Graph.from_edges([(0, 1), (1, 2), (2, 0), (2, 3)], n_nodes=6)
    kernel = wk.Diffusion(1.5, matrix=matrix)
    model = wk.NodeGPRegressor(graph, kernel, learn=(), normalize=False, mean="zero").fit([0, 4], [1.0, 2.0])
    _, std = model.predict([5], return_std=True)
    assert std[0] ** 2 == pytest.approx(wk.exact_kernel(graph, kernel)[5, 5], rel=1e-6)


@pytest.mark.parametrize(
    "estimator", [wk.NodeRidge, wk.NodeFeatures, wk.NodeGPRegressor, wk.NodeRidgeClassifier]
)
@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (wk.Diffusion(0.01), "nearly a multiple of the identity"),
        (wk.Diffusion(2.0, matrix="combinatorial"), "nearly a multiple of the identity"),
        (wk.Diffusion(200.0), "nearly constant"),
    ],
    ids=str,
)
def test_a_given_kernel_that_says_nothing_is_warned_of(estimator, kernel, words):
    lengths = np.ones(60)
    lengths[0] = 1e-5  # sets the largest degree
    ring = wk.Graph.from_edges([(i, (i + 1) % 60) for i in range(60)], weights=1 / lengths)
    options = {"learn": ()} if estimator is wk.NodeGPRegressor else {}
    with pytest.warns(UserWarning, match=words):
        estimator(ring, kernel, **options).fit(range(10, 50, 2), np.arange(20) % 2)
    estimator(ring, wk.Diffusion(2.0), **options).fit(range(10, 50, 2), np.arange(20) % 2)  # no warning


def test_few_labels_are_told_apart_by_wide_kernels(monkeypatch):
    """A wide kernel is nearly constant; penalties that are relative to all of it hide the blocks."""
    blocks = wk.datasets.stochastic_block_model((400,) * 5, 0.02, 0.004, seed=7)
    rng, labels = np.random.default_rng(1), np.asarray(blocks.labels)
    known = np.concatenate([rng.choice(np.flatnonzero(labels == c), 4, replace=False) for c in range(5)])
    rest = np.setdiff1d(np.arange(labels.size), known)
    scores = []
    for unit in (_ridge.penalty_unit, lambda K, **_: float(K.diagonal().mean())):
        monkeypatch.setattr(_ridge, "penalty_unit", unit)
        model = wk.NodeRidgeClassifier(blocks.graph).fit(known, labels[known])
        scores.append(model.score(rest, labels[rest]))
    assert scores[0] > 0.75
    assert scores[1] < scores[0] - 0.02


def test_labels_that_are_all_predicted_rightly_leave_doubt():
    scores = np.repeat([[0.6, 0.4], [0.4, 0.6]], 20, axis=0)
    labels = np.repeat(np.eye(2), 20, axis=0)
    assert sharpest_loss(scores, labels)[1] == SHARPNESS[-1]
    p = scipy.special.softmax(calibrated_sharpness(scores, labels) * scores, axis=1).max(axis=1)
    assert np.allclose(p, 40.5 / 41, atol=0.01)
    labels[::8] = labels[::8, ::-1]  # five of 40 are wrong, which says more than a guess
    sharpest = sharpest_loss(scores, labels)[1]
    assert sharpest / 1.5 < calibrated_sharpness(scores, labels) <= sharpest < SHARPNESS[-1] / 5
