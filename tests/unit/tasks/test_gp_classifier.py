"""The classifier by hand: regressions on Dirichlet labels, leaving nodes out, and the mean of a softmax."""

import itertools
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.special

import graphs
import walkernel as wk
from kriging import Kriging
from walkernel.tasks import _gp_classifier
from walkernel.tasks._gp_classifier import sharpened_softmax
from walkernel.tasks._learning import sample_positions

RNG = np.random.default_rng(6)
NODES = np.arange(30)
KNOWN = np.concatenate([np.arange(0, 30, 2), [0, 0, 4, 6, 6]])
NAMES = np.array(["oak", "ash", "fir"])
LABELS = NAMES[RNG.integers(3, size=KNOWN.size)]


def fitted(X=KNOWN, y=LABELS, *, kernel=None, **options):
    options = {"n_walks": 32, "random_state": 2, "amplitude": 1.4, "learn": (), **options}
    return wk.NodeGPClassifier(
        graphs.weighted(), kernel or wk.Diffusion(1.5), method="walks", **{"normalize": False, **options}
    ).fit(X, y)


def by_hand(model, left_out=()):
    """The regressions of all classes, one observation for each node."""
    distinct = np.unique(KNOWN)
    counts = np.array([[((i == KNOWN) & (c == LABELS)).sum() for c in model.classes_] for i in distinct])
    alpha = counts + model.concentration
    variances = np.log((alpha + 1) / alpha)
    targets = np.log(alpha) - variances / 2
    names = ("graph", "n_walks", "sampler_", "random_state", "kernel", "kernel_", "modulation_", "normalize")
    options = {name: getattr(model, name) for name in names}
    options |= {"noise_": 0.0, "nugget_": 0.0, "twins": False, "mean": "constant", "covariates": None}
    like = SimpleNamespace(**options, amplitude_=model.amplitude_)
    kept = ~np.isin(distinct, left_out)
    return counts, [
        Kriging(like, distinct[kept], targets[kept, c], np.sqrt(variances[kept, c])) for c in range(3)
    ]


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(
    "options",
    [{}, {"learn": None}, {"learn": ("modulation",)}, {"concentration": 0.3}, {"solver": "cg", "tol": 1e-12}],
)
def test_each_class_is_a_regression(options, normalize):
    model = fitted(normalize=normalize, **options)
    assert model.classes_.tolist() == ["ash", "fir", "oak"]
    mean, variance = model.latent(NODES)
    _, classes = by_hand(model)
    for c, one in enumerate(classes):
        expected, cov = one.posterior(NODES)
        assert np.allclose(mean[:, c], expected, rtol=0, atol=1e-7)
        assert np.allclose(variance[:, c], cov.diagonal(), rtol=0, atol=1e-7)
    if "learn" in options:
        total = sum(one.log_likelihood() for one in classes)
        assert model.log_marginal_likelihood_value_ == pytest.approx(total, rel=1e-8)
        assert model.n_learned_from_ == np.unique(KNOWN).size
        assert model.n_evaluations_ > 2


def left_out(model):
    """Mean and variance of each class at each labelled node, from the labels of the others."""
    answers = [
        [(mean[0], cov[0, 0]) for mean, cov in (one.posterior([i]) for one in by_hand(model, [i])[1])]
        for i in np.unique(KNOWN)
    ]
    return np.moveaxis(answers, 2, 0)


@pytest.mark.parametrize("learn", [(), None])
def test_leaving_a_node_out_is_fitting_without_it(learn):
    model = fitted(learn=learn)
    found = np.array([one.leave_one_out() for one in model._posteriors._posteriors])
    assert np.allclose(np.moveaxis(found, 0, 2), left_out(model), rtol=0, atol=1e-8)


def test_leaving_a_node_out_of_a_regression_with_covariates_and_repeats():
    values, spread, covariates = RNG.normal(size=KNOWN.size), RNG.random(KNOWN.size), RNG.normal(size=(30, 2))
    model = wk.NodeGPRegressor(
        graphs.weighted(),
        wk.Diffusion(1.5),
        n_walks=32,
        learn=(),
        covariates=covariates,
        normalize=False,
        method="walks",
    )
    model.fit(KNOWN, values, noise_std=spread)
    unit, _, posterior = model._outputs[0]
    mean, variance = posterior.leave_one_out()
    for place, node in enumerate(np.unique(KNOWN)):
        others = node != KNOWN
        expected, cov = Kriging(model, KNOWN[others], values[others], spread[others]).posterior([node])
        assert unit * mean[place] == pytest.approx(expected[0], abs=1e-8)
        assert unit**2 * variance[place] == pytest.approx(cov[0, 0], abs=1e-8)


def test_the_sharpness_makes_left_out_labels_most_probable():
    model = fitted()
    counts, _ = by_hand(model)
    mean, variance = left_out(model)

    def worth(factor, share):
        probabilities = sharpened_softmax(mean, share * variance, factor)
        return (counts * np.log(probabilities)).sum() - np.log(factor) ** 2 / 2

    pairs = itertools.product(np.exp(np.linspace(-2, 3, 120)), (1.0, 0.3, 0.1, 0.0))
    best = max(pairs, key=lambda pair: worth(*pair))
    assert worth(model.sharpness_, model.variance_share_) == pytest.approx(worth(*best), abs=1e-3)
    assert model.sharpness_ == pytest.approx(best[0], rel=0.05)
    assert model.variance_share_ == best[1]


def test_of_many_labels_some_decide_about_the_sharpness(monkeypatch):
    whole = fitted()
    monkeypatch.setattr(_gp_classifier, "sample_positions", partial(sample_positions, most=9))
    few = fitted()
    assert few.sharpness_ != whole.sharpness_
    assert all(np.array_equal(a, b) for a, b in zip(few.latent(NODES), whole.latent(NODES), strict=True))
    some = np.unique(KNOWN)[sample_positions(15, 2, 9)]
    kept = np.isin(KNOWN, some)
    alone = fitted(KNOWN[kept], LABELS[kept], sampler=whole.sampler_)
    monkeypatch.undo()
    assert few.sharpness_ == pytest.approx(alone.sharpness_, rel=1e-6)


def test_probabilities_are_the_mean_of_a_softmax():
    mean, variance = RNG.normal(size=(4, 3)), RNG.random((4, 3))
    draws = mean + np.sqrt(variance) * RNG.normal(size=(60_000, 4, 3))
    for factor in (0.5, 1.0, 3.0):
        expected = scipy.special.softmax(factor * draws, axis=2).mean(axis=0)
        assert np.allclose(sharpened_softmax(mean, variance, factor), expected, rtol=0, atol=6e-3)
    assert np.allclose(sharpened_softmax(mean, 0 * variance, 2.0), scipy.special.softmax(2 * mean, axis=1))


def test_probabilities_are_those_of_latent_values_and_predictions_the_largest():
    model = fitted()
    probabilities = model.predict_proba(NODES)
    mean, variance = model.latent(NODES)
    expected = sharpened_softmax(mean, model.variance_share_ * variance, model.sharpness_)
    assert np.array_equal(probabilities, expected)
    assert np.allclose(probabilities.sum(axis=1), 1.0)
    assert np.array_equal(model.predict(NODES), model.classes_[probabilities.argmax(axis=1)])
    assert model.score(KNOWN, LABELS) == (model.predict(KNOWN) == LABELS).mean()


@pytest.mark.parametrize("kind", [bool, np.int8, str])
def test_labels_of_every_kind(kind):
    y = (LABELS == "oak").astype(int).astype(kind)
    model = fitted(y=y)
    assert model.classes_.tolist() == np.unique(y).tolist()
    assert model.predict(NODES).dtype == np.unique(y).dtype
    assert np.array_equal(
        model.predict_proba(NODES), fitted(y=(LABELS == "oak").astype(int)).predict_proba(NODES)
    )


def test_two_classes_that_change_names_change_places():
    first = fitted(y=(LABELS == "oak").astype(int)).predict_proba(NODES)
    other = fitted(y=(LABELS != "oak").astype(int)).predict_proba(NODES)
    assert np.allclose(first, other[:, ::-1], atol=0.02)


def test_labels_are_counted():
    """Three labels at a node weigh more than one, and two that differ leave it open."""
    X, y = np.append(NODES[::3], [3, 3]), np.append(np.arange(10) % 2, [1, 1])
    once, often = fitted(X[:10], y[:10]), fitted(X, y)
    torn = fitted(np.append(X[:10], 3), np.append(y[:10], 0))
    options = {"mean": once.latent([3])[0], "often": often.latent([3])[0], "torn": torn.latent([3])[0]}
    gaps = {name: float(value[0, 1] - value[0, 0]) for name, value in options.items()}
    assert abs(gaps["torn"]) < gaps["mean"] < gaps["often"]


def test_labels_of_one_node_only_are_an_answer():
    model = fitted([3, 3, 3], ["a", "b", "b"])
    assert model.sharpness_ == 1.0
    assert np.isfinite(model.predict_proba(NODES)).all()
    assert model.predict([3]).tolist() == ["b"]


def test_a_class_seen_at_one_node_only_says_nothing_about_the_sharpness():
    """Left out, it is unknown: no factor makes it probable."""
    club = wk.load_dataset("karate")
    model = wk.NodeGPClassifier(club.graph, wk.Diffusion(2.0), normalize=False, method="walks").fit(
        [0, 33], club.labels[[0, 33]]
    )
    assert model.sharpness_ == 1.0
    assert model.score(range(34), club.labels) > 0.8


def test_f_itself_is_learned():
    model = fitted(learn=("modulation",))
    f = model.modulation_
    assert np.allclose(model.kernel_.coefficients(2 * f.size - 1), np.convolve(f, f), rtol=1e-12)
    assert model.log_marginal_likelihood_value_ > fitted(learn=("amplitude",)).log_marginal_likelihood_value_
    mean, _ = model.latent(NODES)
    assert np.array_equal(model.predict(NODES), model.classes_[model.predict_proba(NODES).argmax(axis=1)])
    assert mean.shape == (len(NODES), model.classes_.size)
