"""Estimators on a device say what they say on the CPU."""

import numpy as np
import pytest
import scipy.sparse
import torch

import graphs
import walkernel as wk
from walkernel.engines import CPU, CUDA, DeviceFeatures, _device_features, _tensors
from walkernel.tasks import _solvers
from walkernel.tasks._device_prior import DeviceCholeskySolver, DeviceFeaturePrior
from walkernel.tasks._learning import features_of
from walkernel.tasks._likelihood import Hyperparameters, Parameters, likelihood_at, log_likelihood
from walkernel.tasks._observations import Observations
from walkernel.tasks._prior import free_modulation
from walkernel.tasks._solvers import CholeskySolver
from walkernel.walks import NO_NODES, WalkSpec

GRAPH, KERNEL = graphs.weighted(), wk.Diffusion(1.5)
KNOWN = np.arange(0, 30, 2)
RNG = np.random.default_rng(3)
TARGETS, CLASSES = RNG.normal(size=KNOWN.size), np.arange(KNOWN.size) % 3
SAMPLER = wk.IndependentWalks(0.3)
DIGITS = {"float64": 1e-8, "float32": 1e-4}


def process(engine, method, **options):
    model = wk.NodeGPRegressor(GRAPH, KERNEL, method=method, engine=engine, n_walks=16, learn=(), **options)
    model.fit(KNOWN, TARGETS)
    covariance = model.predict(range(5), return_cov=True)[1]
    drawn = model.sample_y(n_samples=2)
    return *model.predict(range(30), return_std=True), covariance, drawn, model.log_marginal_likelihood()


def iterated(engine, method):
    return process(engine, method, solver="cg", nugget=0.2)


def classifier(engine, method):
    model = wk.NodeGPClassifier(GRAPH, KERNEL, method=method, engine=engine, n_walks=16, learn=())
    return (model.fit(KNOWN, CLASSES).predict_proba(range(30)),)


def ridge(engine, method):
    model = wk.NodeRidge(GRAPH, KERNEL, method=method, engine=engine, n_walks=16).fit(KNOWN, TARGETS)
    return model.predict(range(30)), model.dual_coef_


def ridge_classifier(engine, method):
    model = wk.NodeRidgeClassifier(GRAPH, KERNEL, method=method, engine=engine, n_walks=16)
    return (model.fit(KNOWN, CLASSES).predict_proba(range(30)),)


def smoother(engine, method):
    model = wk.NodeSmoother(
        GRAPH, KERNEL, method=method, engine=engine, n_walks=16, normalize=method != "walks"
    )
    return model.fit(KNOWN, TARGETS).predict(range(30), return_std=True)


def features(engine, method):
    found = wk.NodeFeatures(GRAPH, KERNEL, method=method, engine=engine, n_walks=16).fit_transform(KNOWN)
    found = found.toarray() if scipy.sparse.issparse(found) else found
    return (found @ found.T,)


def clusters(engine, method):
    model = wk.KernelKMeans(3, kernel=KERNEL, method=method, engine=engine).fit(GRAPH)
    return model.labels_, model.objectives_


def equation(engine, method):
    options = {"n_walks": 16, "sampler": SAMPLER} if method == "walks" else {}
    solution = wk.solve_ode(
        GRAPH, np.sin(np.arange(30)), [0.5, 1.0], initial=np.arange(30.0), engine=engine, **options
    )
    return (solution.x,)


ESTIMATORS = (process, iterated, classifier, ridge, ridge_classifier, smoother, features, clusters, equation)


@pytest.mark.parametrize("method", ["walks", "auto"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.filterwarnings("ignore:.*relative error of about")
def test_estimators(estimator, method, device):
    expected = estimator("cpu", method)
    for dtype, tolerance in DIGITS.items():
        for found, right in zip(estimator(CUDA(device, dtype), method), expected, strict=True):
            np.testing.assert_allclose(found, right, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("learn", [("lengthscale", "amplitude", "noise", "nugget"), ("modulation", "noise")])
def test_the_likelihood_and_its_gradient(learn, normalize, device):
    spec = WalkSpec(GRAPH, NO_NODES, 16, SAMPLER, 3)
    data = [Observations.at(KNOWN, TARGETS, np.ones((KNOWN.size, 1)), np.zeros(KNOWN.size))]
    start = Hyperparameters(KERNEL, 1.3, 0.3, normalize=normalize, nugget=0.6 * ("nugget" in learn))
    parameters = Parameters(learn, free_modulation(start) if "modulation" in learn else start)
    theta = parameters.theta(parameters.start) + 0.05
    (value, gradient), other = (
        likelihood_at(theta, parameters, features_of(spec, KNOWN, engine), data)
        for engine in (CPU(), CUDA(device, "float64"))
    )
    assert other[0] == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(other[1], gradient, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("speed", [1e-3, 1e30])
def test_gram_by_pairs_and_by_dense_blocks(speed, device, monkeypatch):
    monkeypatch.setattr(_tensors, "SPARSE_SPEED", speed)
    monkeypatch.setattr(_tensors, "PAIRS_AT_ONCE", 100)
    monkeypatch.setattr(_tensors, "DENSE_ENTRIES", 100)
    left, right, empty = (
        scipy.sparse.random_array((n, 40), density=share, rng=RNG, format="csr")
        for n, share in ((7, 0.4), (12, 0.3), (3, 0.0))
    )
    sides = [DeviceFeatures(_tensors.from_scipy(one, device, torch.float64), CUDA(device, "float64"))
             for one in (left, right, empty)]  # fmt: skip
    for i, one in enumerate((left, right, empty)):
        for j, other in enumerate((left, right, empty)):
            found = sides[i].gram(sides[j])
            np.testing.assert_allclose(found.cpu(), (one @ other.T).toarray(), rtol=0, atol=1e-14)


@pytest.mark.parametrize(("density", "width"), [(0.01, 50), (0.3, 80)])
def test_products_with_a_gram_matrix(density, width, device):
    """By the matrix itself where rows meet rarely, and otherwise by the features."""
    matrix = scipy.sparse.random_array((50, 80), density=density, rng=RNG, format="csr")
    rows = DeviceFeatures(_tensors.from_scipy(matrix, device, torch.float64), CUDA(device, "float64"))
    V = RNG.normal(size=(50, 3))
    expected = matrix @ (matrix.T @ V)
    np.testing.assert_allclose(rows.multiply_gram(V), expected, rtol=0, atol=1e-14)
    found = rows.multiply_gram(torch.tensor(V, device=device))
    np.testing.assert_allclose(found.cpu(), expected, rtol=0, atol=1e-14)
    assert rows.gram_width == width


@pytest.mark.parametrize("most", [0, 10**6])
def test_conjugate_gradients(most, device, monkeypatch):
    """For columns on the device and for arrays, in blocks of few columns."""
    monkeypatch.setattr(_device_features, "MAX_PAIRS", most)
    monkeypatch.setattr(_solvers, "MAX_BLOCK_ENTRIES", 200)
    matrix = scipy.sparse.random_array((20, 300), density=0.01, rng=RNG, format="csr")
    features = DeviceFeatures(_tensors.from_scipy(matrix, device, torch.float64), CUDA(device, "float64"))
    variances, sides = RNG.uniform(0.1, 1, 20), RNG.normal(size=(20, 11))
    sides[:, 4] = 0
    here = CholeskySolver(9 * (matrix @ matrix.T).toarray(), variances)
    there = _solvers.CGSolver(DeviceFeaturePrior(features, 3.0), variances, tol=1e-12, max_iter=100)
    on_device = torch.tensor(sides, device=device)
    for found, right in (
        (there.solve(sides), here.solve(sides)),
        (there.solve(on_device).cpu(), here.solve(sides)),
        (there.explained(on_device), here.explained(sides)),
        (there.explained_diagonal(on_device), here.explained_diagonal(sides)),
    ):
        np.testing.assert_allclose(found, right, rtol=1e-9, atol=1e-10)


def test_a_factor_on_the_device(device):
    root, variances = RNG.normal(size=(9, 9)), RNG.uniform(0.1, 1, 9)
    sides, covariance = RNG.normal(size=(9, 2)), root @ root.T
    here = CholeskySolver(covariance, variances)
    there = DeviceCholeskySolver(torch.tensor(covariance, device=device), variances)
    assert there.log_determinant() == pytest.approx(here.log_determinant(), rel=1e-12)
    for found, right in (
        (there.solve(sides), here.solve(sides)),
        (there.inverse().cpu(), here.inverse()),
        (there.explained(sides), here.explained(sides)),
        (there.explained_diagonal(sides), here.explained_diagonal(sides)),
    ):
        np.testing.assert_allclose(found, right, rtol=1e-10, atol=1e-12)


def test_a_matrix_that_is_not_positive_definite_is_refused_as_on_the_cpu(device):
    data = Observations.at(np.arange(2), np.ones(2), np.ones((2, 1)), np.zeros(2))
    for matrix in (-np.eye(2), -torch.eye(2, dtype=torch.float64, device=device)):
        with pytest.raises(np.linalg.LinAlgError):
            log_likelihood(data, matrix, 0.1, slopes=False)
