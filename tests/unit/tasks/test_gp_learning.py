"""Hyper-parameters by maximum likelihood: what is found, what stays, and how many walks it takes."""

import linecache
import warnings

import numpy as np
import pytest

import walkernel as wk
from depth import crossed
from kriging import Kriging
from walkernel.datasets import grid
from walkernel.engines import CPU
from walkernel.tasks import WALK_CACHE, _learning
from walkernel.tasks._learning import features_of, sample_positions, window_ends
from walkernel.tasks._likelihood import Hyperparameters, likelihood_at
from walkernel.tasks._prior import MAX_FREE_TERMS, free_modulation

GRID = grid(12, 12).graph
N = GRID.n_nodes
RNG = np.random.default_rng(1)
KNOWN = RNG.permutation(N)[:80]


def drawn(sigma, noise=0.3):
    """Values of variance about 1 with the exact kernel, and noise."""
    K = wk.exact_kernel(GRID, wk.Diffusion(sigma))
    roots, vectors = np.linalg.eigh(K / K.diagonal().mean())
    root = (vectors * np.sqrt(np.maximum(roots, 0))) @ vectors.T  # the same for any choice of eigenvectors
    return root @ RNG.normal(size=N) + noise * RNG.normal(size=N) + 5


SMOOTH, ROUGH = drawn(4.0), drawn(1.0)
WHITE = RNG.normal(size=N)


def fitted(kernel=None, values=SMOOTH, X=KNOWN, **options):
    return wk.NodeGPRegressor(
        GRID, kernel or wk.Diffusion(3.0), n_walks=64, method="walks", **{"normalize": False, **options}
    ).fit(X, values[X])


def theta_of(model):
    parameters = model._parameters
    return parameters.theta(parameters.start)


FREE = ("modulation", "noise")
MAXIMA = [(wk.Diffusion(3.0), None), (wk.Matern(2.0, 2.0), None), (wk.Diffusion(3.0), ("noise", "amplitude")),
          (wk.Matern(2.0, 2.0), ("lengthscale",)), (wk.Diffusion(0.5), FREE)]  # fmt: skip


@pytest.mark.parametrize(
    ("kernel", "learn", "normalize"),
    [
        *((kernel, learn, False) for kernel, learn in MAXIMA),
        # with that variance at every node, the lengthscale alone has no maximum
        *((kernel, learn, True) for kernel, learn in MAXIMA if learn != ("lengthscale",)),
    ],
)
def test_a_maximum_is_found(kernel, learn, normalize):
    """No neighbour is better by 1e-3, or the noise is as small as it may be."""
    model = fitted(kernel, learn=learn, amplitude=3.0, normalize=normalize)
    theta = theta_of(model)
    output = model._outputs[0]
    observed = output.posterior.observed.scaled(1 / output.unit)
    features = features_of(model._prior.spec, observed.ids, model._prior.engine)
    value, gradient = likelihood_at(theta, model._parameters, features, [observed])
    assert value == pytest.approx(model.log_marginal_likelihood_value_, rel=1e-9)
    assert value == pytest.approx(model.log_marginal_likelihood(), rel=1e-9)
    assert np.abs(gradient).max() < 0.05
    for step in (0.02, 0.2):
        for direction in step * np.vstack([np.eye(theta.size), -np.eye(theta.size)]):
            assert model.log_marginal_likelihood(theta + direction) < value + 1e-3
    assert model.n_learned_from_ == KNOWN.size
    assert model.n_evaluations_ > 2


def test_the_truth_is_found():
    model = fitted(X=np.arange(N))
    assert 2.5 < model.kernel_.sigma < 6
    assert 0.2 < model.noise_ < 0.4
    assert 0.4 < fitted(values=ROUGH, X=np.arange(N)).kernel_.sigma < 2.5


NAMES = {
    "lengthscale": lambda m: m.kernel_.sigma,
    "amplitude": lambda m: m.amplitude_,
    "noise": lambda m: m.noise_,
}
GIVEN = {"lengthscale": 2.0, "amplitude": 1.25, "noise": 0.5}


@pytest.mark.parametrize(
    "learn",
    [(), ("noise",), ("amplitude",), ("lengthscale",), ("amplitude", "lengthscale"), ["noise", "amplitude"]],
)
def test_only_what_is_named_changes(learn):
    model = fitted(wk.Diffusion(2.0), learn=learn, amplitude=1.25, noise=0.5)
    for name, value in NAMES.items():
        assert (value(model) == GIVEN[name]) is (name not in learn)
    assert model.modulation_ is None
    assert (model.n_evaluations_ > 0) is (model.n_learned_from_ > 0) is bool(learn)


def test_a_start_far_too_narrow_moves_to_wider_walks():
    """σ = 0.5 and walks for at most σ = 0.75 know nothing of σ = 4."""
    near, far = (fitted(wk.Diffusion(sigma)) for sigma in (4.0, 0.5))
    assert far.kernel_.sigma > 2
    assert far.log_marginal_likelihood_value_ == pytest.approx(near.log_marginal_likelihood_value_, abs=1e-6)
    assert far.kernel_.sigma == pytest.approx(near.kernel_.sigma, rel=1e-3)
    narrow = wk.choose_sampler(near.graph, wk.Diffusion(0.75), n_walks=64)
    assert far.sampler_.longest > 2 * narrow.longest


@pytest.mark.parametrize("sigma", [30.0, 0.3])
def test_starts_far_off_on_either_side_find_the_same(sigma):
    near = fitted()
    with warnings.catch_warnings():  # walks for σ = 30 are far too long for what is tried on them
        warnings.simplefilter("ignore", wk.InfiniteVarianceWarning)
        far = fitted(wk.Diffusion(sigma))
    assert far.log_marginal_likelihood_value_ == pytest.approx(near.log_marginal_likelihood_value_, abs=1e-6)


def test_what_is_found_far_below_the_start_gets_walks_of_its_own():
    """A fifth of the start is within the range of its walks, which are much longer than they need be."""
    sigma = 5.5 * fitted().kernel_.sigma
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wk.InfiniteVarianceWarning)
        model = fitted(wk.Diffusion(sigma))
    assert sigma / 8 < model.kernel_.sigma < sigma / 4
    long = wk.choose_sampler(GRID, wk.Diffusion(sigma), n_walks=64)
    assert model.sampler_.mean_steps < 0.3 * long.mean_steps


@pytest.mark.parametrize("learn", [None, ("modulation", "noise")])
@pytest.mark.parametrize("sigma", [0.25, 0.53])
def test_no_kernel_is_tried_whose_series_diverges(sigma, learn):
    """(I + σ²L)⁻¹ of the adjacency matrix of a grid, of spectral radius near 4, diverges from σ = 0.57 on."""
    kernel = wk.RegularizedLaplacian(1, sigma, matrix="adjacency")
    with warnings.catch_warnings():  # the likelihood grows up to where it diverges
        warnings.filterwarnings("ignore", "NodeGPRegressor.fit: the likelihood still grows")
        model = fitted(kernel, X=KNOWN[:30], learn=learn)
    assert np.isfinite(model.predict(np.arange(N))).all()
    if learn is None:
        assert model.kernel_.sigma < 0.57


@pytest.mark.parametrize("sigma", [0.1, 1.0])
def test_the_search_ends_before_the_kernel_diverges(sigma):
    """K(1.5 M) has its pole at 1 for σ = √2."""
    model = fitted(wk.RegularizedLaplacian(1, sigma).scaled(1.5), learn=("lengthscale", "noise"))
    assert 1.2 < model.kernel_.lengthscale < 2**0.5


def test_a_start_that_is_as_good_as_diagonal_is_no_trouble():
    """At σ = 0.05 the likelihood has no slope: a search that began there would end there."""
    near, diagonal = (fitted(wk.Diffusion(sigma)) for sigma in (4.0, 0.05))
    assert diagonal.kernel_.sigma == pytest.approx(near.kernel_.sigma, rel=1e-3)


@pytest.mark.parametrize("kernel", [wk.Diffusion(3.0), wk.Matern(1.5, 1e-3), wk.Matern(0.15, 1.0)])
def test_windows_begin_where_a_kernel_leaves_its_node(kernel):
    ends = window_ends(kernel, 40.0)
    assert ends == window_ends(kernel.with_lengthscale(7.0), 40.0)
    assert ends[-1] == 40.0
    assert np.allclose(np.diff(np.log2(ends[:-1])), 1.0)
    assert 1 < ends[-1] / ends[-2] <= 2
    shares = [np.divide(*kernel.with_lengthscale(end).modulation(2)[::-1]) for end in ends]
    least = min(0.1, shares[-1] / 2)
    assert shares[0] <= least < shares[1]


def test_what_is_learned_on_the_way_is_not_kept():
    """The likelihood is that of the last walks, which are those of predictions."""
    model = fitted(wk.Diffusion(0.5))
    truth = Kriging(model, KNOWN, SMOOTH[KNOWN])
    assert model.log_marginal_likelihood_value_ == pytest.approx(truth.log_likelihood(), rel=1e-8)
    assert np.allclose(model.predict(np.arange(N)), truth.posterior(np.arange(N))[0], atol=1e-8)


def test_a_search_that_does_not_end_is_told_of(monkeypatch):
    monkeypatch.setattr(_learning, "widest_served", lambda graph, kernel: 1.0)
    with pytest.warns(UserWarning, match="NodeGPRegressor.fit: the likelihood still grows") as caught:
        model = fitted(wk.Diffusion(1.0))
    assert str(caught[0].message) == (
        f"NodeGPRegressor.fit: the likelihood still grows with the lengthscale at {model.kernel_}, the "
        "widest kernel that a search by walks can afford. Either the data do not determine the lengthscale, "
        "or the kernel should be wider: use Diffusion or a larger nu."
    )
    assert ".fit(" in linecache.getline(caught[0].filename, caught[0].lineno)
    assert model.kernel_.sigma == pytest.approx(1.0)


def test_a_kernel_too_wide_to_learn_f_term_by_term_is_refused():
    message = (
        r"NodeGPRegressor.fit: kernel must be one whose f is largest in its first 32 terms where f itself is "
        r"learned, got Diffusion\(sigma=30\.0\)\. Start from a narrower kernel, or use learn=None\."
    )
    with pytest.raises(ValueError, match=message):
        fitted(wk.Diffusion(30.0), learn=FREE)


def test_noise_alone_needs_no_width():
    """The signal of white noise is noise: its share is not the prior's beyond the node itself."""
    model = fitted(wk.Diffusion(2.0), values=WHITE)
    far = model.predict(np.setdiff1d(np.arange(N), KNOWN))
    assert np.abs(far - WHITE[KNOWN].mean()).max() < 0.3


@pytest.mark.parametrize(
    "kernel", [wk.PowerSeries([1.0, 1.0, 0.25]), wk.PStepRandomWalk(2), wk.Diffusion() + wk.Matern()]
)
def test_kernels_without_a_lengthscale_learn_the_rest(kernel):
    model = fitted(kernel, values=ROUGH)
    assert model.kernel_ == kernel
    assert model._parameters.learn == ("amplitude", "noise")
    assert model.amplitude_ != 1.0
    assert model.noise_ != 0.1


def test_a_free_f_is_at_least_as_likely_as_the_kernel_it_starts_from():
    kernel = fitted(wk.PStepRandomWalk(4), values=ROUGH)
    start = {"amplitude": kernel.amplitude_, "noise": kernel.noise_}
    free = fitted(wk.PStepRandomWalk(4), values=ROUGH, learn=FREE, **start)
    assert free.modulation_.size == 3
    assert free.log_marginal_likelihood_value_ > kernel.log_marginal_likelihood_value_


@pytest.mark.parametrize("sigma", [0.5, 11.0])
def test_a_free_f_has_so_many_terms_as_a_kernel_of_twice_the_width(sigma):
    start = free_modulation(Hyperparameters(wk.Diffusion(sigma), 2.5, 0.1))
    f = wk.Diffusion(2 * sigma).modulation(MAX_FREE_TERMS)
    assert np.array_equal(start.modulation, 2.5 * wk.Diffusion(sigma).modulation(start.n_terms))
    assert start.amplitude == 1.0
    assert (f[start.n_terms :] <= 1e-2 * f.max()).all()
    assert f[start.n_terms - 1] > 1e-2 * f.max()


def test_of_many_nodes_some_decide(monkeypatch):
    monkeypatch.setattr(_learning, "MAX_LEARNING_NODES", 50)
    model = fitted(random_state=3)
    assert model.n_learned_from_ == 50
    X = np.sort(KNOWN)
    some = X[sample_positions(KNOWN.size, 3, 50)]
    truth = Kriging(model, some, SMOOTH[some])
    assert model.log_marginal_likelihood_value_ == pytest.approx(truth.log_likelihood(), rel=1e-8)
    every = Kriging(model, KNOWN, SMOOTH[KNOWN])
    assert np.allclose(model.predict(np.arange(N)), every.posterior(np.arange(N))[0], atol=1e-8)
    assert model.log_marginal_likelihood() == pytest.approx(every.log_likelihood(), rel=1e-8)
    other = fitted(random_state=4)
    assert not np.array_equal(sample_positions(80, 3, 50), sample_positions(80, 4, 50))
    assert other.noise_ != model.noise_


def test_some_positions_are_distinct_and_ascending():
    assert np.array_equal(sample_positions(7, 0, 7), np.arange(7))
    some = sample_positions(1000, 5, 100)
    assert some.size == np.unique(some).size == 100
    assert (np.diff(some) > 0).all()
    assert some.max() > 900


def test_a_few_nodes_choose_the_start(monkeypatch):
    whole = fitted()
    monkeypatch.setattr(_learning, "MAX_TRIAL_NODES", 20)
    few = fitted()
    assert few.log_marginal_likelihood_value_ == pytest.approx(whole.log_marginal_likelihood_value_, abs=1e-3)


@pytest.mark.parametrize("sigma", [4.0, 0.5])
def test_walks_are_drawn_once_per_sample(monkeypatch, sigma):
    calls, record = [], CPU.record

    def counted(self, spec, *rest):
        calls.append((spec.sampler, tuple(spec.ids)))
        return record(self, spec, *rest)

    monkeypatch.setattr(CPU, "record", counted)
    WALK_CACHE.clear()
    model = fitted(wk.Diffusion(sigma))
    samplers = {id(sampler) for sampler, _ in calls}
    assert model.n_evaluations_ > 2 * len(calls)
    assert len(calls) == len(samplers)
    assert 1 < len(samplers) <= 8
    assert all(sorted(ids) == sorted(KNOWN) for _, ids in calls)
    model.predict(KNOWN, return_std=True)
    assert len(calls) == len(samplers)
    WALK_CACHE.clear()


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_units_do_not_matter(scale):
    unit, other = (fitted(values=SMOOTH * s) for s in (1.0, scale))
    assert other.kernel_.sigma == pytest.approx(unit.kernel_.sigma, rel=1e-2)
    assert other.noise_ == pytest.approx(scale * unit.noise_, rel=1e-2)
    assert other.amplitude_ == pytest.approx(scale * unit.amplitude_, rel=2e-2)
    assert np.allclose(other.predict([0, 5]), scale * unit.predict([0, 5]), rtol=1e-2)


@pytest.mark.parametrize(("X", "y"), [([3], [2.0]), ([3, 3], [1.0, 2.0]), ([3, 9, 40], [2.0, 2.0, 2.0])])
def test_a_few_observations_are_enough_for_an_answer(X, y):
    model = wk.NodeGPRegressor(GRID, wk.Diffusion(1.0), n_walks=16, normalize=False, method="walks").fit(X, y)
    mean, std = model.predict(np.arange(N), return_std=True)
    assert np.allclose(mean, np.mean(y), atol=1e-6)
    assert np.isfinite(std).all()


@pytest.mark.parametrize(
    "kernel", [wk.Diffusion(60.0), wk.Matern(0.15, 1.0), wk.RegularizedLaplacian(0.2, 1.0)]
)
def test_kernels_that_underflow_or_never_leave_their_node_are_starts_too(kernel):
    with warnings.catch_warnings():  # such kernels say little about their width
        warnings.filterwarnings("ignore", "NodeGPRegressor.fit: the likelihood still grows")
        assert np.isfinite(fitted(kernel).predict(range(10))).all()


@pytest.mark.filterwarnings("ignore:NodeGPRegressor.fit. the likelihood still grows")
def test_a_kernel_that_is_nearly_a_multiple_of_the_identity_is_no_trouble():
    assert np.isfinite(fitted(wk.Diffusion(2.0).scaled(0.001)).predict(range(10))).all()


@pytest.mark.parametrize(
    ("learned", "unit"), crossed([(None, False), (FREE, False), (None, True)], [1e-6, 1e6])
)
def test_units_and_offsets_of_y_change_nothing_else(learned, unit):
    learn, normalize = learned
    """The offset is a hundred thousand times the spread; a free f has flat maxima, of which one is found."""
    tolerance = 2e-3 if learn is None else 0.1
    options = {"learn": learn, "normalize": normalize}
    plain = fitted(wk.Diffusion(2.0), **options)
    other = wk.NodeGPRegressor(
        GRID, wk.Diffusion(2.0), n_walks=64, method="walks", **{"normalize": False, **options}
    ).fit(KNOWN, unit * (SMOOTH[KNOWN] + 1e5))
    mean, std = (part / unit for part in other.predict(range(20), return_std=True))
    expected, spread = plain.predict(range(20), return_std=True)
    assert np.abs((mean - 1e5 - expected) / spread).max() < tolerance
    assert np.allclose(std, spread, rtol=tolerance)
    shift = (KNOWN.size - 1) * np.log(unit)
    assert other.log_marginal_likelihood_value_ == pytest.approx(
        plain.log_marginal_likelihood_value_ - shift, abs=tolerance
    )


def test_noise_is_measured_against_what_covariates_leave():
    rng = np.random.default_rng(3)
    covariate = rng.standard_normal(N)
    small = 1e-4 * SMOOTH[KNOWN] + covariate[KNOWN]
    model = wk.NodeGPRegressor(
        GRID, wk.Diffusion(2.0), n_walks=64, covariates=covariate, normalize=False, method="walks"
    ).fit(KNOWN, small)
    plain = wk.NodeGPRegressor(
        GRID, wk.Diffusion(2.0), n_walks=64, covariates=covariate, normalize=False, method="walks"
    ).fit(KNOWN, SMOOTH[KNOWN])
    assert model.noise_ == pytest.approx(1e-4 * plain.noise_, rel=0.02)
    assert model.amplitude_ == pytest.approx(1e-4 * plain.amplitude_, rel=0.02)


@pytest.mark.parametrize("value", [0.0, 0.1, 1.0, 1e7])
def test_the_same_y_everywhere_is_predicted_everywhere(value):
    model = wk.NodeGPRegressor(GRID, wk.Diffusion(2.0), n_walks=16, normalize=False, method="walks").fit(
        KNOWN, np.full(KNOWN.size, value)
    )
    assert np.allclose(model.predict(range(20)), value, rtol=1e-9, atol=1e-9)
    assert np.isfinite(model.log_marginal_likelihood_value_)
