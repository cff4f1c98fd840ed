"""Gaussian processes of nodes with attributes: products, sums and linear means against dense formulas."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import walkernel as wk
from walkernel.tasks import _attributes, _moments, _polynomial_prior, _solvers

COMBINED = ("product", "sum")


def grid(n):
    ids = np.arange(n * n).reshape(n, n)
    pairs = [(ids[:, :-1], ids[:, 1:]), (ids[:-1], ids[1:])]
    return wk.Graph.from_edges(np.concatenate([np.column_stack([a.ravel(), b.ravel()]) for a, b in pairs]))


def simulated(seed, *, informative, side=14, n=90):
    """A smooth function of the graph, attributes that change y or do not, and noisy observations."""
    rng, n_nodes = np.random.default_rng(seed), side * side
    features = rng.normal(3.0, 10.0, (n_nodes, 2))
    row, column = np.divmod(np.arange(n_nodes), side)
    truth = np.sin(row / 4) + np.cos(column / 4)
    if informative:
        truth = truth + np.sin(0.2 * features[:, 0]) + 0.005 * features[:, 1] ** 2
    known = rng.choice(n_nodes, n, replace=False)
    return grid(side), features, truth, known, truth[known] + 0.2 * rng.standard_normal(n)


def error(found, truth, known):
    rest = np.setdiff1d(np.arange(truth.size), known)
    return np.sqrt(np.mean((found - truth)[rest] ** 2))


class Textbook:
    """A Gaussian process by dense matrices of all nodes, with the hyper-parameters of a fitted model."""

    def __init__(self, model, known, y):
        x = np.reshape(model.features, (model.graph.n_nodes, -1))
        x = (x - x.mean(axis=0)) / x.std(axis=0)
        K = wk.exact_kernel(model.graph, model.kernel_)
        if model.normalize_:
            K = K / np.sqrt(np.outer(K.diagonal(), K.diagonal()))
        R = np.exp(-cdist(x, x, "sqeuclidean") / (2 * x.shape[1] * model.feature_lengthscale_**2))
        share, unit = model.graph_share_, K[known, known].mean()
        prior = {"product": K * R, "sum": share * K / unit + (1 - share) * R}.get(model.combine_, K)
        prior = model.amplitude_**2 * prior + model.nugget_**2 * np.eye(len(K))
        H = np.column_stack([np.ones(len(K)), *([x] if model.combine_ == "linear" else [])])
        self.S = prior[np.ix_(known, known)] + model.noise_**2 * np.eye(len(known))
        inverse = np.linalg.inv(self.S)
        self.A = H[known].T @ inverse @ H[known]
        self.beta = np.linalg.solve(self.A, H[known].T @ inverse @ y)
        rest = y - H[known] @ self.beta
        self.mean = H @ self.beta + prior[:, known] @ inverse @ rest
        rho = H - prior[:, known] @ inverse @ H[known]
        explained = prior[:, known] @ inverse @ prior[known]
        self.covariance = prior - explained + rho @ np.linalg.solve(self.A, rho.T)
        volume = np.linalg.slogdet(self.S)[1] + np.linalg.slogdet(self.A)[1]
        free = len(known) - H.shape[1]
        self.log_likelihood = -0.5 * (rest @ inverse @ rest + volume + free * np.log(2 * np.pi))


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("combine", ["product", "sum", "linear"])
def test_answers_are_those_of_the_dense_covariance(combine, normalize):
    graph, features, _, known, y = simulated(0, informative=True)
    model = wk.NodeGPRegressor(
        graph, wk.Diffusion(3.0), features=features, combine=combine, normalize=normalize, learn=(),
        amplitude=1.3, noise=0.3, nugget=0.2,
    ).fit(known, y)  # fmt: skip
    book = Textbook(model, known, y)
    mean, std = model.predict(range(196), return_std=True)
    assert model.combine_ == combine
    assert np.allclose(mean, book.mean, atol=1e-8)
    assert np.allclose(std, np.sqrt(book.covariance.diagonal()), atol=1e-8)
    assert np.allclose(model.predict(range(196), return_cov=True)[1], book.covariance, atol=1e-8)
    assert np.allclose(model.mean_coef_, book.beta, atol=1e-8)
    assert model.log_marginal_likelihood() == pytest.approx(book.log_likelihood, rel=1e-8)
    assert "attributes" in repr(model.explain())


@pytest.mark.parametrize("combine", COMBINED)
def test_learned_parameters_are_those_of_the_dense_covariance(combine):
    graph, features, _, known, y = simulated(1, informative=True)
    model = wk.NodeGPRegressor(graph, features=features, combine=combine).fit(known, y)
    book = Textbook(model, known, y)
    mean, std = model.predict(range(196), return_std=True)
    # a wide kernel is nearly constant, which multiplies the error of its polynomial, 1e-8
    assert np.allclose(mean, book.mean, atol=2e-5)
    assert np.allclose(std, np.sqrt(book.covariance.diagonal()), atol=2e-5)
    assert model.feature_lengthscale_ in _attributes.LENGTHSCALES
    assert np.isnan(model.graph_share_) == (combine == "product")
    theta = np.log([model.kernel_.lengthscale, model.amplitude_, model.noise_])
    assert model.log_marginal_likelihood(theta) == pytest.approx(book.log_likelihood, rel=1e-6)
    for change in np.array([[0, 0.2, 0], [0, -0.2, 0], [0, 0, 0.2], [0, 0, -0.2]]):
        assert model.log_marginal_likelihood(theta + change) < book.log_likelihood + 0.5


def test_both_sources_together_are_better_than_either():
    graph, features, truth, known, y = simulated(2, informative=True)
    auto = wk.NodeGPRegressor(graph, features=features).fit(known, y)
    alone = wk.NodeGPRegressor(graph).fit(known, y)
    x = (features - features.mean(axis=0)) / features.std(axis=0)
    radial = GaussianProcessRegressor(ConstantKernel() * RBF(1.0) + WhiteKernel(), normalize_y=True)
    radial.fit(x[known], y)
    assert auto.combine_ == "sum"
    assert error(auto.predict(range(196)), truth, known) < 0.6 * error(
        alone.predict(range(196)), truth, known
    )
    assert error(auto.predict(range(196)), truth, known) < 0.6 * error(radial.predict(x), truth, known)


def test_attributes_that_tell_nothing_are_left_out():
    taken, ratios = [], []
    for seed in range(10):
        graph, features, truth, known, y = simulated(seed, informative=False, side=10, n=50)
        models = [wk.NodeGPRegressor(graph, features=x).fit(known, y) for x in (features, None)]
        taken.append(models[0].combine_)
        with_x, without = (error(one.predict(range(100)), truth, known) for one in models)
        ratios.append(with_x / without)
    assert taken.count("none") >= 9
    assert np.mean(ratios) < 1.02


def test_auto_finds_a_linear_mean():
    graph, features, truth, known, _ = simulated(3, informative=False)
    truth = truth + features @ [0.05, -0.04]
    y = truth[known] + 0.2 * np.random.default_rng(0).standard_normal(known.size)
    model = wk.NodeGPRegressor(graph, features=features).fit(known, y)
    given = wk.NodeGPRegressor(graph, features=features, combine="linear").fit(known, y)
    assert model.combine_ == "linear"
    assert np.array_equal(model.predict(range(196)), given.predict(range(196)))
    slopes = model.mean_coef_[1:] / features.std(axis=0)
    assert np.allclose(slopes, [0.05, -0.04], atol=0.01)


def test_walks_take_attributes_linearly():
    graph, features, _, known, y = simulated(4, informative=True, side=10, n=40)
    walked = {"method": "walks", "n_walks": 128}
    model = wk.NodeGPRegressor(graph, wk.Diffusion(2.0), features=features, **walked).fit(known, y)
    assert model.combine_ == "linear"
    assert model.mean_coef_.shape == (3,)
    few = wk.NodeGPRegressor(graph, wk.Diffusion(2.0), features=features, **walked).fit(known[:7], y[:7])
    assert few.combine_ == "none"  # fewer than four observations of each attribute
    twins = wk.NodeGPRegressor(graph, features=features, twins=True, nugget=0.1).fit(known, y)
    assert (twins.combine_, twins.method_) == ("linear", "polynomial")


@pytest.mark.parametrize("combine", COMBINED)
def test_draws_have_the_moments_of_the_posterior(combine, monkeypatch):
    graph, features, _, known, y = simulated(5, informative=True)
    model = wk.NodeGPRegressor(graph, features=features, combine=combine).fit(known, y)
    some = np.arange(0, 196, 9)
    mean, covariance = model.predict(some, return_cov=True)
    draws = model.sample_y(some, 4000, random_state=1)
    spread = np.sqrt(covariance.diagonal() / 4000)
    assert np.abs((draws.mean(axis=1) - mean) / spread).max() < 4.5
    assert np.abs(np.cov(draws) - covariance).max() < 0.15 * covariance.diagonal().max()
    done = []
    assert model.sample_y(n_samples=2, progress=lambda *now: done.append(now)).shape == (196, 2)
    assert done == [(196, 196)]
    monkeypatch.setattr(_attributes, "MAX_DRAWN_NODES", 100)
    with pytest.raises(ValueError, match=r"sample_y: X must be at most 100 nodes to draw at .* got 196"):
        model.sample_y()


def test_several_outputs_share_the_way_attributes_enter():
    graph, features, _, known, y = simulated(6, informative=True)
    both = np.column_stack([y, 100 - 50 * y])
    common = {"features": features, "combine": "sum", "learn": ("amplitude", "noise")}
    model = wk.NodeGPRegressor(graph, wk.Diffusion(8.0), **common).fit(known, both)
    alone = wk.NodeGPRegressor(graph, wk.Diffusion(8.0), **common).fit(known, y)
    mean, std = model.predict(range(196), return_std=True)
    assert (model.feature_lengthscale_, model.graph_share_) == (
        alone.feature_lengthscale_, alone.graph_share_
    )  # fmt: skip
    assert np.allclose(mean[:, 0], alone.predict(range(196)), rtol=1e-6)
    assert np.allclose(mean[:, 1], 100 - 50 * mean[:, 0], rtol=1e-5)
    assert np.allclose(std[:, 1], 50 * std[:, 0], rtol=1e-5)
    assert model.sample_y([1, 2, 3], 4).shape == (3, 2, 4)
    assert np.isfinite(model.log_marginal_likelihood())


@pytest.mark.parametrize("combine", COMBINED)
def test_conditioning_on_other_nodes(combine):
    graph, features, _, known, y = simulated(7, informative=True)
    model = wk.NodeGPRegressor(graph, features=features, combine=combine).fit(known, y)
    before = model.predict(range(196))
    few = model.condition(known[:20], y[:20]).predict(range(196))
    assert not np.allclose(few, before)
    assert np.allclose(model.condition(known, y).predict(range(196)), before, rtol=1e-8)


def test_means_and_deviations_in_blocks_and_by_conjugate_gradients(monkeypatch):
    graph, features, _, known, y = simulated(8, informative=True, side=25)
    common = {"features": features[:, 0], "combine": "product", "learn": ("amplitude", "noise")}
    model = wk.NodeGPRegressor(graph, wk.Diffusion(5.0), **common).fit(known, y)
    whole = model.predict(range(625), return_std=True)
    monkeypatch.setattr(_attributes, "MAX_BLOCK_ENTRIES", 625 * 7)
    monkeypatch.setattr(_solvers, "MAX_BLOCK_ENTRIES", 90 * 50)
    again = model.condition(known, y).predict(range(625), return_std=True)
    assert np.allclose(whole, again, rtol=1e-8)
    assert np.allclose(whole[1][:99], model.predict(range(99), return_std=True)[1], rtol=1e-6)
    cg = wk.NodeGPRegressor(graph, wk.Diffusion(5.0), **common, solver="cg", tol=1e-12).fit(known, y)
    assert np.allclose(cg.predict(range(625)), whole[0], atol=1e-5)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("combine", COMBINED)
def test_deviations_at_many_nodes_of_a_large_graph_agree_with_exact_ones(combine, normalize, monkeypatch):
    monkeypatch.setattr(_polynomial_prior, "MAX_EXACT_SCALES", 0)  # as on large graphs
    graph, features, _, known, y = simulated(8, informative=True, side=25)
    common = {"combine": combine, "normalize": normalize, "learn": ("amplitude", "noise")}
    model = wk.NodeGPRegressor(graph, wk.Diffusion(8.0), features=features, **common).fit(known, y)
    _, drawn = model.predict(range(625), return_std=True)
    some = np.arange(0, 625, 5)
    ratio = drawn[some] / model.predict(some, return_std=True)[1]
    assert abs(ratio.mean() - 1) < 0.03
    assert ratio.std() < 0.09  # √(3.5 / 256) / 2 is 0.058


def test_units_of_attributes_do_not_matter():
    graph, features, _, known, y = simulated(9, informative=True)
    found = [
        wk.NodeGPRegressor(graph, features=x).fit(known, y).predict(range(196))
        for x in (features, features * [1e8, -1e-9] + [1e7, 0.0])
    ]
    assert np.allclose(*found, rtol=1e-5)


def test_a_generator_as_seed_and_more_nodes_than_are_compared(monkeypatch):
    monkeypatch.setattr(_moments, "MIN_COMPARED_NODES", 60)
    monkeypatch.setattr(_moments, "MAX_COMPARED_NODES", 60)
    graph, features, truth, known, y = simulated(2, informative=True)
    seed = np.random.RandomState(3)
    model = wk.NodeGPRegressor(graph, features=features, random_state=seed).fit(known, y)
    assert model.combine_ == "sum"
    assert model.n_learned_from_ == 90  # amplitude and noise
    assert error(model.predict(range(196)), truth, known) < 0.4
