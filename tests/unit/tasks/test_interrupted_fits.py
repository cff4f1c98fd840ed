"""A fit that fails or is interrupted leaves an estimator as it was, fitted before or not."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import graphs
import walkernel as wk
from walkernel.operators import ChebyshevBasis
from walkernel.tasks._nodes import NodeEstimator

GRAPH, KNOWN = graphs.karate(), np.arange(0, 34, 3)
ESTIMATORS = {
    "regressor": wk.NodeGPRegressor,
    "classifier": wk.NodeGPClassifier,
    "ridge": wk.NodeRidge,
    "ridge classifier": wk.NodeRidgeClassifier,
    "smoother": wk.NodeSmoother,
}


def interrupt(*arguments, **options):
    raise KeyboardInterrupt


@pytest.mark.parametrize("make", ESTIMATORS.values(), ids=ESTIMATORS.keys())
def test_nothing_is_left_behind(make, monkeypatch):
    y = (KNOWN < 16).astype(int)
    fitted, fresh = make(GRAPH, wk.Diffusion(2.0)).fit(KNOWN, y), make(GRAPH, wk.Diffusion(2.0))
    expected = fitted.predict(range(34))
    monkeypatch.setattr(NodeEstimator, "_trust_features", interrupt)
    if make is wk.NodeSmoother:
        monkeypatch.setattr(ChebyshevBasis, "product", interrupt)
        monkeypatch.setattr(ChebyshevBasis, "block", interrupt)
    for model in (fitted, fresh):
        before = dict(vars(model))
        with pytest.raises(KeyboardInterrupt):
            model.fit(KNOWN[::-1], 1 - y)
        assert vars(model) == before
    monkeypatch.undo()
    np.testing.assert_array_equal(fitted.predict(range(34)), expected)
    with pytest.raises(NotFittedError):
        fresh.predict(range(34))


def test_a_transformer_that_is_interrupted_is_not_fitted(monkeypatch):
    monkeypatch.setattr(NodeEstimator, "_trust_features", interrupt)
    model = wk.NodeFeatures(GRAPH, wk.Diffusion(2.0))
    with pytest.raises(KeyboardInterrupt):
        model.fit(KNOWN)
    with pytest.raises(NotFittedError):
        model.transform(KNOWN)
