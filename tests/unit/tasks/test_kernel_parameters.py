"""Parameters of kernels by name: in kernels, and in scikit-learn's searches over estimators."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import graphs
import walkernel as wk
from walkernel.kernels import SquaredSeries

GRAPH = graphs.karate()
NODES = np.arange(34)
Y = wk.exact_kernel(GRAPH, wk.Diffusion(2.0))[0]
ESTIMATORS = [wk.NodeFeatures, wk.NodeRidge, wk.NodeSmoother, wk.NodeGPRegressor, wk.NodeGPClassifier]
KERNELS = {
    "diffusion": (wk.Diffusion(2.0), {"sigma": 3.0}, wk.Diffusion(3.0)),
    "two at once": (wk.Matern(1.5, 2.0), {"nu": 2.5, "kappa": 1.0}, wk.Matern(2.5, 1.0)),
    "matrix": (wk.Diffusion(0.5), {"matrix": "adjacency"}, wk.Diffusion(0.5, matrix="adjacency")),
    "series": (wk.PowerSeries([1, 2]), {"coefficients": [1, 3]}, wk.PowerSeries([1, 3])),
    "squared series": (SquaredSeries([1, 2]), {"modulation": [1, 3]}, SquaredSeries([1, 3])),
    "sum": (
        wk.Diffusion(2.0) + wk.Matern(),
        {"left__sigma": 3.0, "right__nu": 2.5},
        wk.Diffusion(3.0) + wk.Matern(2.5),
    ),
    "another part, and its parameter": (
        wk.Diffusion(2.0) + wk.Matern(),
        {"left": wk.InverseCosine(), "left__scale": 0.5},
        wk.InverseCosine(0.5) + wk.Matern(),
    ),
    "product": (
        wk.Diffusion(2.0) * wk.Matern(),
        {"right__kappa": 3.0},
        wk.Diffusion(2.0) * wk.Matern(kappa=3.0),
    ),
    "multiple": (2.0 * wk.Diffusion(2.0), {"factor": 3.0, "kernel__sigma": 1.0}, 3.0 * wk.Diffusion(1.0)),
    "scaled": (wk.Diffusion(2.0).scaled(0.5), {"beta": 0.25}, wk.Diffusion(2.0).scaled(0.25)),
    "matrix of all parts": (
        2.0 * (wk.Diffusion(0.5) + wk.Diffusion(0.25)),
        {"matrix": "adjacency"},
        2.0 * (wk.Diffusion(0.5, matrix="adjacency") + wk.Diffusion(0.25, matrix="adjacency")),
    ),
    "deep": (
        wk.Diffusion(1.0) + 2.0 * (wk.Matern() + wk.Diffusion(2.0)),
        {"right__kernel__right__sigma": 3.0},
        wk.Diffusion(1.0) + 2.0 * (wk.Matern() + wk.Diffusion(3.0)),
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_with_other_parameters(name):
    kernel, params, expected = KERNELS[name]
    before = kernel.get_params()
    changed = kernel.set_params(**params)
    assert changed == expected
    assert set(params) <= set(changed.get_params())
    assert kernel.get_params() == before
    assert kernel.set_params(**kernel.get_params(deep=False)) == kernel
    assert type(kernel)(**kernel.get_params(deep=False)) == kernel
    assert clone(kernel) is kernel


WRONG = {
    "unknown": (
        wk.Diffusion(1.0),
        {"width": 2.0},
        r"^Diffusion.set_params: the name of a parameter must be one of .*'width'",
    ),
    "unknown of a part": (
        wk.Diffusion(1.0) + wk.Matern(),
        {"right__sigma": 2.0},
        r"^Sum.set_params: the name of a parameter must be one of .*'nu', 'kappa', got 'sigma'",
    ),
    "of a number": (
        wk.Diffusion(1.0),
        {"sigma__x": 2.0},
        r"^Diffusion.set_params: sigma must be a kernel, to have param",
    ),
    "out of range": (
        wk.Diffusion(1.0),
        {"sigma": -2.0},
        r"^Diffusion.set_params: sigma must be a finite number greater than 0",
    ),
    "another matrix in a part": (
        wk.Diffusion(1.0) + wk.Matern(),
        {"left__matrix": "adjacency"},
        r"^Sum.set_params: left.matrix must be that of the whole, 'normalized', got 'adjacency'",
    ),
    "not a number": (
        2.0 * wk.Diffusion(1.0),
        {"factor": np.nan},
        r"^Multiple.set_params: factor must be a finite number",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_parameters_that_are_refused(name):
    kernel, params, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        kernel.set_params(**params)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_estimators_share_a_kernel_and_no_parameters(estimator):
    kernel = wk.Diffusion(2.0)
    one, other = estimator(GRAPH, kernel), estimator(GRAPH, kernel)
    assert one.get_params()["kernel__sigma"] == 2.0
    assert one.set_params(kernel__sigma=3.0, n_walks=7) is one
    assert (one.kernel, one.n_walks) == (wk.Diffusion(3.0), 7)
    assert other.kernel is kernel
    assert kernel.sigma == 2.0
    copy = clone(one).set_params(kernel__sigma=4.0)
    assert (one.kernel.sigma, copy.kernel.sigma) == (3.0, 4.0)
    one.set_params(kernel__nu=0.5, kernel=wk.Matern())
    assert one.kernel == wk.Matern(0.5)
    assert "Matern(nu=0.5" in repr(one)
    assert one._repr_html_()


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_unknown_names_in_estimators(estimator):
    model = estimator(GRAPH, wk.Diffusion(2.0))
    with pytest.raises(
        ValueError,
        match=rf"^{estimator.__name__}.set_params: the name of a parameter must be one of .*, got 'width'",
    ):
        model.set_params(kernel__width=2.0)
    with pytest.raises(ValueError, match="Invalid parameter 'width'"):
        model.set_params(width=2.0)
    with pytest.raises(
        TypeError, match=rf"^{estimator.__name__}.set_params: kernel must be a Kernel, got None"
    ):
        estimator(GRAPH, None).set_params(kernel__sigma=2.0)


def test_a_grid():
    kernel = wk.Diffusion(1.0)
    grid = {"kernel__sigma": [0.2, 2.0], "alpha": [1e-3]}
    search = GridSearchCV(
        wk.NodeRidge(GRAPH, kernel, n_walks=512, normalize=False, alpha=1.0, method="walks"), grid, cv=3
    ).fit(NODES, Y)
    assert search.best_params_ == {"kernel__sigma": 2.0, "alpha": 1e-3}
    assert search.best_estimator_.kernel == wk.Diffusion(2.0)
    assert kernel == wk.Diffusion(1.0)
    alone = wk.NodeRidge(
        GRAPH, wk.Diffusion(2.0), alpha=1e-3, n_walks=512, normalize=False, method="walks"
    ).fit(NODES, Y)
    assert np.array_equal(search.predict(NODES), alone.predict(NODES))


def test_a_grid_over_a_part_in_a_pipeline():
    model = make_pipeline(
        wk.NodeFeatures(GRAPH, wk.Diffusion(1.0) * wk.Matern(), n_walks=16, normalize=False, method="walks"),
        Ridge(),
    )
    grid = {"nodefeatures__kernel__left__sigma": [0.5, 2.0], "nodefeatures__kernel__right__nu": [1.5]}
    search = GridSearchCV(model, grid, cv=2).fit(NODES, Y)
    best = search.best_params_["nodefeatures__kernel__left__sigma"]
    assert search.best_estimator_[0].kernel == wk.Diffusion(best) * wk.Matern()
    assert model[0].kernel == wk.Diffusion(1.0) * wk.Matern()
