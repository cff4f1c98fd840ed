"""The likelihood and its gradient against full matrices and finite differences."""

import numpy as np
import pytest

import graphs
import walkernel as wk
from depth import crossed
from kriging import KERNELS
from walkernel.engines import CPU
from walkernel.features import HostFeatures, _gram
from walkernel.tasks._gp_classifier import dirichlet_observations
from walkernel.tasks._learning import features_of
from walkernel.tasks._likelihood import Hyperparameters, Parameters, likelihood_at
from walkernel.tasks._observations import Observations
from walkernel.tasks._prior import free_modulation
from walkernel.walks import NO_NODES, WalkSpec

RNG = np.random.default_rng(8)
IDS = np.arange(0, 30, 2)
PLACE = np.concatenate([np.arange(15), np.arange(6), [3, 3, 4]])
ALL = ("lengthscale", "amplitude", "noise")


def observations(*, repeated=False, known=False, q=1):
    place = PLACE if repeated else np.arange(IDS.size)
    columns = np.column_stack([np.ones(place.size), RNG.normal(size=(IDS.size, 3))[place]])[:, :q]
    variances = RNG.exponential(size=place.size) * (np.arange(place.size) % 3 > 0) if known else 0 * place
    sides = np.column_stack([RNG.normal(size=place.size) + place / 5, columns])
    offset = np.zeros(sides.shape[1] - 1)
    return Observations(IDS, place, sides, np.asarray(variances, dtype=float), offset)


def classes(n_classes=3):
    labels = RNG.integers(n_classes, size=IDS.size + 5)
    counts = np.zeros((IDS.size, n_classes))
    np.add.at(counts, (np.append(np.arange(IDS.size), np.arange(5)), labels), 1.0)
    return dirichlet_observations(IDS, counts, 0.01)


LEARNED_WITH_F = [
    ("modulation", "noise"),
    ("noise", "modulation"),
    ("modulation",),
    ("nugget", "modulation", "noise"),
]
DATA = {
    "plain": [observations()],
    "repeated": [observations(repeated=True)],
    "known noise": [observations(known=True)],
    "covariates": [observations(q=4)],
    "zero mean": [observations(q=0)],
    "all": [observations(repeated=True, known=True, q=3)],
    "several": [observations(repeated=True, known=True, q=2), observations(q=1), observations(q=0)],
    "classes": classes(),
}


def walks(kernel):
    sampler = wk.IndependentWalks(0.2)
    spec = WalkSpec(graphs.unweighted(), NO_NODES, 32, sampler, 3, matrix=kernel.matrix)
    return features_of(spec, IDS, CPU())


def density(hyper, features, one):
    """log p(y) of all observations by their full covariance."""
    rows = features.to_scipy().toarray()
    if hyper.normalize:
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows if hyper.modulation is None else np.linalg.norm(hyper.modulation) * rows
    own = hyper.amplitude * rows[one.place]
    Sigma = own @ own.T + np.diag(one.variances + hyper.noise**2)
    Sigma += hyper.nugget**2 * (one.place[:, None] == one.place)
    y, H = one.sides[:, 0], one.sides[:, 1:]
    inverse = np.linalg.inv(Sigma)
    A = H.T @ inverse @ H
    Q = inverse - inverse @ H @ np.linalg.inv(A) @ H.T @ inverse
    volume = np.linalg.slogdet(Sigma)[1] + np.linalg.slogdet(A)[1]
    return -0.5 * (y @ Q @ y + volume + (y.size - H.shape[1]) * np.log(2 * np.pi))


def differences(function, theta, step=1e-5):
    """Central differences of a function of θ."""
    return np.array(
        [(function(theta + e) - function(theta - e)) / (2 * step) for e in step * np.eye(theta.size)]
    )


def checked(kernel, learn, data, noise=0.3, *, normalize=False):
    """Compare value and gradient at the start."""
    start = Hyperparameters(kernel, 1.3, noise, normalize=normalize, nugget=0.6 * ("nugget" in learn))
    start = free_modulation(start) if "modulation" in learn else start
    parameters, features = Parameters(learn, start), walks(kernel)
    theta = parameters.theta(start) + 0.05
    value, gradient = likelihood_at(theta, parameters, features, data)
    hyper = parameters.hyperparameters(theta)
    expected = sum(density(hyper, features(hyper.weights), one) for one in data)
    assert value == pytest.approx(expected, rel=1e-9)
    found = differences(lambda at: likelihood_at(at, parameters, features, data)[0], theta)
    assert gradient.shape == theta.shape
    assert np.abs(gradient).min() > 1e-3
    assert np.allclose(gradient, found, rtol=1e-5, atol=1e-7 * np.abs(gradient).max())


@pytest.mark.parametrize(("name", "data", "normalize"), crossed(KERNELS, DATA, [False, True]))
def test_the_gradient_is_the_slope_of_the_likelihood(name, data, normalize):
    checked(KERNELS[name], ALL, DATA[data], 0.1 if data == "classes" else 0.3, normalize=normalize)


@pytest.mark.parametrize(("learn", "data", "normalize"), crossed(LEARNED_WITH_F, DATA, [False, True]))
def test_the_gradient_in_f_is_the_slope_of_the_likelihood(learn, data, normalize):
    checked(KERNELS["Diffusion"], learn, DATA[data], normalize=normalize)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("learn", [ALL, ("modulation", "noise")])
def test_dense_and_sparse_features_have_the_same_gradient(monkeypatch, learn, normalize):
    for most in (0, 2**26):
        monkeypatch.setattr(_gram, "MAX_DENSE_ENTRIES", most)
        monkeypatch.setattr(_gram, "SPARSE_SPEED", 1.0)
        checked(KERNELS["Diffusion"], learn, DATA["all"], normalize=normalize)


def test_a_row_of_zeros_stays_zero():
    """A node without edges has no walk but the one of length 0, of which f may make nothing."""
    graph = wk.Graph.from_edges([(0, 1), (1, 2)], n_nodes=4)
    walked = HostFeatures(wk.sample_features(graph, np.array([0.0, 1.0]), 16))
    f = np.array([0.0, 2.0])
    rows = Hyperparameters(wk.Diffusion(), 1.0, 0.1, f, normalize=True).rows(walked).to_scipy().toarray()
    assert np.array_equal(rows[3], np.zeros(4))
    assert np.allclose(np.linalg.norm(rows[:3], axis=1), 2.0)


@pytest.mark.parametrize(
    "learn",
    [("noise",), ("nugget",), ("amplitude", "lengthscale"), ("noise", "lengthscale"), (*ALL[::-1], "nugget")],
)
def test_any_of_them_in_any_order(learn):
    checked(KERNELS["Matern"], learn, DATA["all"])


def test_classes_have_no_noise_but_their_own():
    checked(KERNELS["Diffusion"], ("lengthscale", "amplitude"), DATA["classes"], noise=0.0)


def test_nothing_to_learn_has_no_gradient():
    parameters = Parameters((), Hyperparameters(wk.Diffusion(1.7), 1.0, 0.5))
    value, gradient = likelihood_at(np.empty(0), parameters, walks(wk.Diffusion()), DATA["plain"])
    assert np.isfinite(value)
    assert gradient.shape == (0,)


def test_merged_observations_say_the_same_of_part_of_the_nodes():
    whole, chosen = DATA["all"][0], np.array([0, 3, 4, 11])
    part = whole.select_nodes(chosen)
    kept = np.isin(whole.place, chosen)
    assert np.array_equal(part.ids[part.place], whole.ids[whole.place[kept]])
    assert np.array_equal(part.sides, whole.sides[kept])
    assert np.array_equal(part.variances, whole.variances[kept])
