"""The regressor against matrices written out by hand, and against scikit-learn's on the same features."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import DotProduct

import graphs
import walkernel as wk
from kriging import Kriging
from walkernel.engines import Engine
from walkernel.features import _gram
from walkernel.tasks import _gp_regressor, _solvers, _walk_cache

RNG = np.random.default_rng(2)
KNOWN, ASKED = np.arange(0, 30, 2), np.array([1, 2, 3, 29, 2])
VALUES = RNG.normal(size=30) + 3
ONE, TWO = RNG.normal(size=30), RNG.normal(size=(30, 2))
AGAIN = np.concatenate([KNOWN, KNOWN[:6], KNOWN[3:5]])
MANY = RNG.normal(size=AGAIN.size) + 3
SPREAD = np.abs(RNG.normal(size=AGAIN.size)) * (np.arange(AGAIN.size) % 4 > 0)
HEAT = wk.Diffusion(1.5)
CASES = {
    "constant": {},
    "zero": {"mean": "zero"},
    "covariate": {"covariates": ONE},
    "covariates": {"covariates": TWO, "mean": "zero"},
    "adjacency": {"kernel": wk.Diffusion(0.8, matrix="adjacency")},
    "combinatorial": {"kernel": wk.RegularizedLaplacian(2, 1.2, matrix="combinatorial"), "covariates": TWO},
    "scaled": {"kernel": 3.0 * wk.Matern(1.5, 2.0).scaled(0.9), "mean": "zero"},
    "normalized": {"normalize": True},
    "normalized, conjugate gradients": {"normalize": True, "covariates": ONE, "solver": "cg", "tol": 1e-12},
}


def fitted(X=KNOWN, y=VALUES[KNOWN], *, graph=None, kernel=HEAT, noise_std=None, **options):
    options = {"n_walks": 32, "learn": (), "amplitude": 1.7, "noise": 0.3, "random_state": 4, **options}
    return wk.NodeGPRegressor(
        graph or graphs.weighted(), kernel, method="walks", **{"normalize": False, **options}
    ).fit(X, y, noise_std=noise_std)


def agrees(model, truth, nodes=ASKED):
    """Every answer of the model is that of the full matrices."""
    mean, cov = truth.posterior(nodes)
    extra = np.eye(len(nodes)) * truth.noise**2
    found = {noisy: model.predict(nodes, return_cov=True, include_noise=noisy) for noisy in (False, True)}
    stds = {noisy: model.predict(nodes, return_std=True, include_noise=noisy) for noisy in (False, True)}
    assert np.allclose(model.predict(nodes), mean, rtol=0, atol=1e-8)
    for noisy in (False, True):
        expected = cov + noisy * extra
        assert np.allclose(found[noisy][0], mean, rtol=0, atol=1e-8)
        assert np.allclose(found[noisy][1], expected, rtol=0, atol=1e-8)
        assert np.array_equal(found[noisy][1], found[noisy][1].T)
        assert np.allclose(stds[noisy][0], mean, rtol=0, atol=1e-8)
        assert np.allclose(stds[noisy][1] ** 2, expected.diagonal(), rtol=0, atol=1e-8)
    assert np.allclose(model.mean_coef_, truth.beta(), rtol=0, atol=1e-8)
    assert model.log_marginal_likelihood() == pytest.approx(truth.log_likelihood(), rel=1e-8)


@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_answers_are_those_of_full_matrices(name, repeated):
    data = (AGAIN, MANY, SPREAD) if repeated else (KNOWN, VALUES[KNOWN], None)
    model = fitted(*data[:2], noise_std=data[2], **CASES[name])
    agrees(model, Kriging(model, *data[:2], noise_std=0.0 if data[2] is None else data[2]))


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("learn", [None, ("noise", "lengthscale"), ("modulation",), ("noise", "modulation")])
def test_answers_are_those_of_full_matrices_at_what_was_learned(learn, normalize):
    model = fitted(AGAIN, MANY, noise_std=SPREAD, covariates=ONE, learn=learn, normalize=normalize)
    truth = Kriging(model, AGAIN, MANY, SPREAD)
    agrees(model, truth)
    assert model.log_marginal_likelihood_value_ == pytest.approx(truth.log_likelihood(), rel=1e-8)


@pytest.mark.parametrize("learn", [(), ("modulation",)])
def test_the_prior_variance_is_the_same_at_every_node(learn):
    """Of a part of the graph where nothing is known, a leaf, a hub and two nodes without edges among it."""
    graph = wk.Graph.from_edges([(0, 1), (2, 3), (3, 4), (3, 5), (3, 6), (5, 6)], n_nodes=9)
    model = fitted([0, 1], [1.0, 2.0], graph=graph, mean="zero", normalize=True, learn=learn)
    expected = 1.7**2 if model.modulation_ is None else (model.modulation_**2).sum()
    assert np.allclose(model.predict(range(2, 9), return_std=True)[1] ** 2, expected, rtol=1e-12)
    plain = fitted([0, 1], [1.0, 2.0], graph=graph, mean="zero", learn=learn)
    assert np.ptp(plain.predict(range(2, 9), return_std=True)[1]) > 0.01


def test_a_normalized_prior_is_kept_for_other_observations():
    model = fitted(normalize=True).condition(AGAIN, MANY, noise_std=SPREAD)
    agrees(model, Kriging(model, AGAIN, MANY, SPREAD))


def test_values_that_differ_at_one_node_are_not_just_averaged():
    """That 1 and 5 are off their mean by 2, at a noise of 0.3, is part of the likelihood."""
    model = fitted([0, 0, 7], [1.0, 5.0, 2.0], mean="zero")
    agrees(model, Kriging(model, [0, 0, 7], [1.0, 5.0, 2.0]))
    averaged = fitted([0, 7], [3.0, 2.0], mean="zero")
    assert model.log_marginal_likelihood() < averaged.log_marginal_likelihood() - 40


def test_known_noise_makes_the_answer_less_certain():
    sure, unsure = (fitted(noise_std=np.full(KNOWN.size, s)).predict([1], return_std=True)[1] for s in (0, 2))
    assert unsure > 1.1 * sure


def test_labels_name_the_nodes():
    plain = graphs.weighted()
    matrix = plain.to_scipy().tocoo()
    names = [f"n{i:02d}" for i in range(30)]
    pairs = [(names[i], names[j]) for i, j in zip(*matrix.coords, strict=True)]
    once = np.less(*matrix.coords)
    edges = [pair for pair, first in zip(pairs, once, strict=True) if first]
    graph = wk.Graph.from_edges(edges[::-1], weights=matrix.data[once][::-1])
    X = [names[i] for i in AGAIN]
    order = graph.ids(names)
    by_id = np.empty((30, 2))
    by_id[order] = TWO
    model = fitted(X, MANY, graph=graph, covariates=by_id)
    agrees(model, Kriging(model, X, MANY), [names[i] for i in ASKED])
    assert model.sample_y(None).shape == (30, 1)


@pytest.mark.parametrize("n_walks", [1, 64])
def test_scikit_learn_says_the_same_of_the_same_features(n_walks):
    model = fitted(mean="zero", n_walks=n_walks)
    features = 1.7 * wk.sample_features(
        graphs.weighted(), HEAT, n_walks, sampler=model.sampler_, seed=4
    ).toarray()  # fmt: skip
    linear = DotProduct(0.0, sigma_0_bounds="fixed")
    theirs = GaussianProcessRegressor(linear, alpha=0.09, optimizer=None)
    theirs.fit(features[KNOWN], VALUES[KNOWN])
    mean, std = theirs.predict(features[ASKED], return_std=True)
    _, cov = theirs.predict(features[ASKED], return_cov=True)
    ours = model.predict(ASKED, return_std=True)
    assert np.allclose(ours[0], mean, rtol=0, atol=1e-8)
    assert np.allclose(ours[1], std, rtol=0, atol=1e-8)
    assert np.allclose(model.predict(ASKED, return_cov=True)[1], cov, rtol=0, atol=1e-8)
    assert model.log_marginal_likelihood() == pytest.approx(theirs.log_marginal_likelihood(), rel=1e-9)


def test_other_hyperparameters_are_asked_for_by_their_logarithms():
    model = fitted(AGAIN, MANY, learn=("noise", "lengthscale", "amplitude"))
    other = fitted(AGAIN, MANY, kernel=wk.Diffusion(0.5), noise=0.6, amplitude=0.4, sampler=model.sampler_)
    theta = np.log([0.6, 0.5, 0.4])
    assert model.log_marginal_likelihood(theta) == pytest.approx(other.log_marginal_likelihood(), rel=1e-10)
    assert model.log_marginal_likelihood(theta) < model.log_marginal_likelihood()


def test_another_f_is_asked_for_as_it_is():
    model = fitted(learn=("modulation", "noise"))
    f = np.append(model.modulation_[:-1] * 0.5, 0.1)
    truth = Kriging(model, KNOWN, VALUES[KNOWN])
    own = wk.sample_features(graphs.weighted(), f, 32, sampler=model.sampler_, seed=4).toarray()[KNOWN]
    truth.Sigma = own @ own.T + 0.04 * np.eye(KNOWN.size)
    found = model.log_marginal_likelihood(np.append(f, np.log(0.2)))
    assert found == pytest.approx(truth.log_likelihood(), rel=1e-10)


def test_what_was_learned_of_f_is_a_kernel():
    model = fitted(learn=("modulation", "noise"))
    f = model.modulation_
    assert np.allclose(model.kernel_.coefficients(2 * f.size - 1), np.convolve(f, f), rtol=1e-12)
    assert model.kernel_.degree == 2 * f.size - 2
    assert model.amplitude_ == 1.0
    assert fitted().modulation_ is None


def test_blocks_of_nodes_do_not_show(monkeypatch):
    model = fitted()
    whole = model.predict(np.arange(30), return_std=True), model.sample_y(n_samples=3)
    monkeypatch.setattr(_walk_cache, "BLOCK", 7)
    monkeypatch.setattr(Engine, "nodes_at_once", 7)
    monkeypatch.setattr(_solvers, "MAX_BLOCK_ENTRIES", 50)
    parts = model.predict(np.arange(30), return_std=True), model.sample_y(n_samples=3)
    for a, b in zip((*whole[0], whole[1]), (*parts[0], parts[1]), strict=True):
        assert np.allclose(a, b, rtol=0, atol=1e-12)


def test_gram_matrices_of_sparse_and_dense_factors_are_the_same(monkeypatch):
    answers = []
    for most in (0, 2**26):
        monkeypatch.setattr(_gram, "MAX_DENSE_ENTRIES", most)
        monkeypatch.setattr(_gram, "SPARSE_SPEED", 5e8 if not most else 1.0)
        answers.append(fitted().predict(np.arange(30), return_cov=True)[1])
    assert np.allclose(*answers, rtol=0, atol=1e-12)


def test_more_nodes_than_a_factor_takes_have_no_exact_likelihood(monkeypatch):
    model = fitted()
    monkeypatch.setattr(_gp_regressor, "MAX_CHOLESKY_NODES", 10)
    with pytest.raises(ValueError, match=r"the number of observed nodes must be at most 10, got 15\. log"):
        model.log_marginal_likelihood()


def test_conditioning_keeps_what_was_learned():
    model = fitted(AGAIN, MANY, learn=None)
    theta = np.log([model.kernel_.lengthscale, model.amplitude_, model.noise_])
    other = fitted(
        KNOWN,
        VALUES[KNOWN],
        kernel=model.kernel_,
        amplitude=model.amplitude_,
        noise=model.noise_,
        sampler=model.sampler_,
    )
    value, evaluations = model.log_marginal_likelihood_value_, model.n_evaluations_
    again = model.condition(KNOWN, VALUES[KNOWN])
    assert again is model
    assert np.array_equal(model.predict(range(30)), other.predict(range(30)))
    assert np.array_equal(model.mean_coef_, other.mean_coef_)
    assert (model.log_marginal_likelihood_value_, model.n_evaluations_) == (value, evaluations)
    assert model.log_marginal_likelihood(theta) == pytest.approx(other.log_marginal_likelihood(), rel=1e-12)


def test_conditioning_that_fails_leaves_the_model():
    model = fitted(AGAIN, MANY)
    before = model.predict(range(30))
    with pytest.raises(ValueError, match="y must be of length"):
        model.condition(KNOWN, VALUES[KNOWN][:-1])
    assert np.array_equal(model.predict(range(30)), before)
