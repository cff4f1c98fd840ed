"""Conjugate gradients and Cholesky factors give the same answers; which of them is taken, and when."""

import numpy as np
import pytest

import graphs
import walkernel as wk
from walkernel.tasks import _solvers
from walkernel.tasks._solvers import AutoSolver, CGSolver, CholeskySolver, FeaturePrior

RNG = np.random.default_rng(3)
KNOWN = np.concatenate([np.arange(0, 30, 2), [4, 4, 8]])
VALUES = RNG.normal(size=KNOWN.size) + 2
LABELS = np.arange(KNOWN.size) % 3
SPREAD = RNG.random(KNOWN.size)
COVARIATES = RNG.normal(size=(30, 2))
NODES = np.arange(30)


def regressor(solver, **options):
    options = {"learn": (), "noise": 0.2, "tol": 1e-10, "covariates": COVARIATES, **options}
    model = wk.NodeGPRegressor(
        graphs.weighted(),
        wk.Diffusion(2.5),
        n_walks=32,
        solver=solver,
        method="walks",
        **{"normalize": False, **options},
    )
    return model.fit(KNOWN, VALUES, noise_std=SPREAD)


def classifier(solver, **options):
    options = {"tol": 1e-10, **options}
    return wk.NodeGPClassifier(
        graphs.weighted(), wk.Diffusion(1.5), n_walks=32, solver=solver,
        method="walks", **{"normalize": False, **options},
    ).fit(KNOWN, LABELS)  # fmt: skip


def answers(model):
    draws = [model.sample_y(NODES, 4, 7), model.sample_y(NODES, 4, 7, include_noise=True)]
    return [*model.predict(NODES, return_std=True), model.predict(NODES, return_cov=True)[1], *draws]


def close(many, others):
    return all(np.allclose(a, b, rtol=0, atol=1e-6) for a, b in zip(many, others, strict=True))


@pytest.mark.parametrize("options", [{}, {"mean": "zero", "covariates": None}, {"learn": None}])
def test_regression_is_the_same_by_both(options):
    direct, iterated = (regressor(solver, **options) for solver in ("cholesky", "cg"))
    assert close(answers(direct), answers(iterated))
    assert np.allclose(direct.mean_coef_, iterated.mean_coef_, rtol=0, atol=1e-6)
    assert direct.n_iter_ == 0 < iterated.n_iter_ < 100


def test_classification_is_the_same_by_both():
    direct, iterated = (classifier(solver) for solver in ("cholesky", "cg"))
    assert close([*direct.latent(NODES)], [*iterated.latent(NODES)])
    assert close([direct.predict_proba(NODES)], [iterated.predict_proba(NODES)])
    assert direct.sharpness_ == pytest.approx(iterated.sharpness_, rel=1e-4)


def test_iterations_are_those_of_the_longest_solution():
    model = regressor("cg", tol=1e-2)
    first = model.n_iter_
    model.predict(NODES, return_std=True)
    assert model.n_iter_ >= first > 0
    assert regressor("cg", tol=1e-12).n_iter_ > first


@pytest.mark.parametrize("make", [regressor, classifier])
def test_gradients_that_do_not_arrive_are_an_error(make):
    name = "NodeGPRegressor" if make is regressor else "NodeGPClassifier"
    message = (
        rf"{name}.fit: conjugate gradients did not reach tol=1e-10 in max_iter=2 iterations "
        r"\(the relative residual is .*\)\. "
        r"Use a larger max_iter, a larger tol, a narrower kernel, or more noise \(a larger alpha\)\."
    )
    with pytest.raises(RuntimeError, match=message):
        make("cg", max_iter=2)
    assert make("cholesky", max_iter=2).n_features_in_ == 1


@pytest.mark.parametrize(("most", "kind"), [(4096, CholeskySolver), (10, AutoSolver)])
def test_a_few_nodes_are_factorised_at_once(monkeypatch, most, kind):
    monkeypatch.setattr(_solvers, "MAX_DIRECT_NODES", most)
    assert type(regressor("auto")._outputs[0].posterior.system) is kind
    assert type(regressor("cholesky")._outputs[0].posterior.system) is CholeskySolver
    assert type(regressor("cg")._outputs[0].posterior.system) is CGSolver


def test_more_are_factorised_where_many_answers_are_asked_for(monkeypatch):
    """By the costs of n³/3 + n²c/2 dense and 2·nnz·c·iterations sparse multiplications."""
    monkeypatch.setattr(_solvers, "MAX_DIRECT_NODES", 10)
    model = regressor("auto")
    system = model._outputs[0].posterior.system
    assert (system.best_for(1) is system) is False  # a factor of 15 nodes costs nothing
    n, nnz, iterations = 15, system._prior.observed.nnz, max(model.n_iter_, 10)
    enough = 20
    speed = enough * iterations * 2 * nnz / (n**3 / 3 + n**2 * enough / 2)
    monkeypatch.setattr(_solvers, "DENSE_SPEED", 5e8 / speed)
    model = regressor("auto")
    system = model._outputs[0].posterior.system
    assert system.best_for(enough - 1) is system
    assert model.predict(NODES[: enough - 1], return_std=True)[1].shape == (enough - 1,)
    assert system._cholesky is None
    assert close(answers(model), answers(regressor("cholesky")))
    assert isinstance(system.best_for(enough + 2), CholeskySolver)
    assert isinstance(system.best_for(1), CholeskySolver)
    monkeypatch.setattr(_solvers, "MAX_CHOLESKY_NODES", 14)
    again = regressor("auto")
    assert close(answers(again), answers(regressor("cholesky")))
    assert again._outputs[0].posterior.system._cholesky is None


def test_a_chosen_factor_is_of_the_same_matrix(monkeypatch):
    monkeypatch.setattr(_solvers, "MAX_DIRECT_NODES", 10)
    sides = RNG.normal(size=(15, 40))
    system = regressor("auto")._outputs[0].posterior.system
    assert np.allclose(system.best_for(10**6).solve(sides), system.solve(sides), rtol=0, atol=1e-7)


def test_right_hand_sides_of_every_size_are_solved_together():
    graph = graphs.weighted()
    prior = FeaturePrior(wk.sample_features(graph, wk.Diffusion(2.0), 32), 1.5)
    variances = 0.05 + RNG.random(30)
    iterated = CGSolver(prior, variances, tol=1e-11, max_iter=1000)
    matrix = 2.25 * (prior.observed @ prior.observed.T).toarray() + np.diag(variances)
    sides = RNG.normal(size=(30, 9)) * 10.0 ** np.arange(-4, 5)
    sides[:, 4] = 0
    solved = iterated.solve(sides)
    expected = np.linalg.solve(matrix, sides)
    assert np.allclose(solved / 10.0 ** np.arange(-4, 5), expected / 10.0 ** np.arange(-4, 5), atol=1e-8)
    assert not solved[:, 4].any()
    direct = CholeskySolver(prior.covariance, variances)
    assert np.allclose(direct.inverse(), np.linalg.inv(matrix), atol=1e-10)
    assert direct.log_determinant() == pytest.approx(np.linalg.slogdet(matrix)[1])
    for system in (iterated, direct):
        unit = sides / 10.0 ** np.arange(-4, 5)
        explained = unit.T @ np.linalg.solve(matrix, unit)
        assert np.allclose(system.explained(unit), explained, atol=1e-8)
        assert np.allclose(system.explained_diagonal(unit), explained.diagonal(), atol=1e-8)
