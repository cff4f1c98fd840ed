"""The smoother and the ridge against what their formulas give by hand."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import graphs
import walkernel as wk
from walkernel.tasks import _solvers

KNOWN, ASKED = np.arange(0, 30, 2), np.array([1, 2, 3, 29])
RNG = np.random.default_rng(5)
VALUES = RNG.normal(size=(30, 3))
KERNEL = wk.Diffusion(1.5)


@pytest.mark.parametrize("kind", ["weighted", "directed"])
@pytest.mark.parametrize("outputs", [None, 3])
@pytest.mark.parametrize("normalize", [False, True])
def test_the_smoother_is_its_formula(kind, outputs, normalize):
    graph = graphs.KINDS[kind]()
    y = VALUES[KNOWN, 0] if outputs is None else VALUES[KNOWN]
    smoother = wk.NodeSmoother(graph, KERNEL, n_walks=64, average=normalize, random_state=3, method="walks")
    prediction = smoother.fit(KNOWN, y).predict(ASKED)
    options = {"sampler": smoother.sampler_, "ensembles": "independent"}
    K = wk.estimate_kernel(graph, KERNEL, 64, seed=3, **options).to_dense()
    weights = K[np.ix_(ASKED, KNOWN)]
    expected = weights @ y
    if normalize:
        total = weights.sum(axis=1)
        expected = expected / (total if outputs is None else total[:, None])
    assert np.allclose(prediction, expected, rtol=1e-10)


def test_the_smoother_takes_the_lazy_pair_where_there_is_no_other():
    graph = graphs.karate()
    smoother = wk.NodeSmoother(
        graph, wk.PowerSeries([0.0, 1.0, 0.5]), n_walks=64, random_state=2, average=False, method="walks"
    )
    prediction = smoother.fit([0, 5, 9], [1.0, 2.0, 3.0]).predict([1, 2])
    options = {"sampler": smoother.sampler_, "pair": "lazy"}
    K = wk.estimate_kernel(graph, wk.PowerSeries([0.0, 1.0, 0.5]), 64, seed=2, **options).to_dense()
    assert smoother.pair_ == "lazy"
    assert np.allclose(prediction, K[np.ix_([1, 2], [0, 5, 9])] @ [1.0, 2.0, 3.0])


def test_nodes_named_twice_count_once():
    graph = graphs.karate()
    once = (
        wk.NodeSmoother(graph, KERNEL, average=False, method="walks").fit([0, 33], [1.0, -1.0]).predict([5])
    )
    twice = (
        wk.NodeSmoother(graph, KERNEL, average=False, method="walks")
        .fit([0, 33, 0], [1.0, -1.0, 1.0])
        .predict([5])
    )
    assert np.array_equal(once, twice)


def test_nodes_that_meet_no_known_one_get_the_mean_and_it_is_said():
    graph = graphs.isolated()
    smoother = wk.NodeSmoother(graph, KERNEL, average=True, method="walks").fit([0, 1], [2.0, 4.0])
    with pytest.warns(UserWarning, match="2 of 3 nodes have no positive sum of kernel values"):
        prediction = smoother.predict([2, 20, 32])
    assert prediction[1:].tolist() == [3.0, 3.0]
    assert wk.NodeSmoother(graph, KERNEL, average=False, method="walks").fit([0], [2.0]).predict(
        [32]
    ).tolist() == [0.0]


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("outputs", [None, 3])
@pytest.mark.parametrize("direct", [True, False])
def test_the_ridge_is_scikit_learns_on_the_same_features(monkeypatch, fit_intercept, outputs, direct):
    if not direct:
        monkeypatch.setattr(_solvers, "MAX_DIRECT_NODES", 0)
    graph = graphs.weighted()
    y = VALUES[KNOWN, 0] + 50 if outputs is None else VALUES[KNOWN] + 50
    weights = RNG.random(KNOWN.size) + 0.1
    model = wk.NodeRidge(
        graph,
        KERNEL,
        alpha=0.3,
        n_walks=64,
        fit_intercept=fit_intercept,
        tol=1e-12,
        random_state=1,
        normalize=False,
        method="walks",
    )
    model.fit(KNOWN, y, sample_weight=weights)
    features = (
        wk.NodeFeatures(graph, KERNEL, n_walks=64, random_state=1, normalize=False, method="walks")
        .fit_transform(np.arange(30))
        .toarray()
    )
    truth = Ridge(alpha=0.3, fit_intercept=fit_intercept).fit(features[KNOWN], y, sample_weight=weights)
    assert np.allclose(model.predict(ASKED), truth.predict(features[ASKED]), rtol=1e-6)
    assert np.allclose(model.intercept_, truth.intercept_, rtol=1e-6)
    assert (model.n_iter_ == 0) == direct


def test_conjugate_gradients_that_do_not_arrive_are_an_error(monkeypatch):
    monkeypatch.setattr(_solvers, "MAX_DIRECT_NODES", 0)
    model = wk.NodeRidge(
        graphs.weighted(), wk.Diffusion(4.0), alpha=1e-6, max_iter=2, normalize=False, method="walks"
    )
    with pytest.raises(RuntimeError, match=r"did not reach tol=1e-08 in max_iter=2 iterations"):
        model.fit(KNOWN, VALUES[KNOWN])


class TestStandardErrors:
    """``NodeSmoother.predict(return_std=True)``."""

    @pytest.mark.parametrize("normalize", [False, True])
    def test_values_stay_and_errors_are_those_of_groups(self, normalize):
        graph, known, asked = graphs.karate(), np.arange(0, 34, 2), [3, 8, 3]
        y = np.random.default_rng(0).standard_normal((known.size, 2))
        smoother = wk.NodeSmoother(
            graph,
            KERNEL,
            n_walks=2048,
            average=normalize,
            random_state=3,
            sampler=wk.IndependentWalks(),
            method="walks",
        )
        values, stderr = smoother.fit(known, y).predict(asked, return_std=True)
        assert np.array_equal(values, smoother.predict(asked))
        assert values.shape == stderr.shape == (3, 2)
        assert np.array_equal(stderr[0], stderr[2])

        def groups(stream):
            walks = wk.sample_walks(graph, 2048, seed=3, stream=stream)
            return walks.in_groups(16).features(KERNEL).toarray().reshape(34, 16, -1).swapaxes(0, 1)

        left, right, V = groups(0), groups(1)[:, known], np.column_stack([y, np.ones(known.size)])
        sums = np.array(
            [np.delete(left, g, 0).mean(0)[asked] @ (np.delete(right, g, 0).mean(0).T @ V) for g in range(16)]
        )
        ratios = sums[..., :-1] / (sums[..., -1:] if normalize else 1.0)
        assert np.allclose(stderr, np.sqrt(15 * ratios.var(axis=0)), rtol=0.05)

    def test_lazy_pair(self):
        graph = graphs.karate()
        smoother = wk.NodeSmoother(graph, wk.InverseCosine(), n_walks=64, average=False, method="walks").fit(
            [0, 5], [1.0, 2.0]
        )
        values, stderr = smoother.predict([1, 2], return_std=True)
        assert values.shape == stderr.shape == (2,)
        assert (stderr > 0).all()

    def test_a_value_that_is_not_of_the_walks_has_none(self):
        graph = wk.Graph.from_edges([(0, 1), (2, 3)])
        smoother = wk.NodeSmoother(graph, KERNEL, average=True, method="walks").fit([0, 1], [2.0, 4.0])
        with pytest.warns(UserWarning, match="no positive sum"):
            values, stderr = smoother.predict([1, 3], return_std=True)
        assert np.isfinite(stderr[0])
        assert np.isnan(stderr[1])
        assert values[1] == 3.0

    def test_bad_input(self):
        graph = graphs.karate()
        one_group = wk.CoupledWalks(wk.matched_law(graph, KERNEL))
        smoother = wk.NodeSmoother(
            graph, KERNEL, n_walks=16, sampler=one_group, average=False, method="walks"
        ).fit([0], [1.0])
        with pytest.raises(TypeError, match=r"NodeSmoother\.predict: return_std must be True or False"):
            smoother.predict([1], return_std="yes")
        with pytest.raises(
            ValueError, match=r"NodeSmoother\.predict: n_walks must be enough for two groups of walks"
        ):
            smoother.predict([1], return_std=True)
