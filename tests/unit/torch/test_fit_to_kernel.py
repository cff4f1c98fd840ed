"""Learning f for a kernel: what is minimised, chosen, kept and reported."""

import math

import numpy as np
import pytest
import torch

import graphs
import walkernel as wk
from pairs import keyed_walks
from walkernel.torch import (
    ExpectedError,
    FreeModulation,
    ModulationPair,
    NeuralModulation,
    Schedule,
    fit_to_kernel,
    held_out_errors,
)

KERNEL = wk.RegularizedLaplacian(d=2, sigma=0.8)
HALF = wk.IndependentWalks(0.5)
SHORT = Schedule(n_epochs=6, learning_rate=0.05)
QUICK = {"schedule": SHORT, "n_held_out": 3, "n_samples": 2}


def ring(n=8):
    return wk.Graph.from_edges([(i, (i + 1) % n) for i in range(n)] + [(0, n // 2)])


def start(**options):
    amplitude = KERNEL.modulation(1)[0]
    return NeuralModulation(**{"decay": 0.39, "amplitude": amplitude, **options})


def parameters(modulation):
    return torch.cat([p.detach().flatten() for p in modulation.parameters()])


def fit(graph=None, kernel=KERNEL, n_walks=8, **options):
    options = {"modulation": start(), **QUICK, **options}
    return fit_to_kernel(ring() if graph is None else graph, kernel, n_walks, **options)


@pytest.mark.parametrize("walks", ["fresh", "bank", "expected"])
def test_learning_lowers_the_error(walks):
    result = fit(walks=walks, schedule=Schedule(n_epochs=60, learning_rate=0.03), n_samples=8, n_held_out=60)
    assert result.ratio < 0.95
    assert result.history.shape == (60,)
    assert result.chosen_by.shape == (1,)
    assert not result.interrupted
    assert result.ratio_stderr == result.errors.ratio_stderr
    alpha = result.modulation.coefficients(9)
    assert np.allclose(result.kernel.coefficients(9), alpha, rtol=1e-12)


@pytest.mark.parametrize("weight", [1.0, 30.0])
@pytest.mark.parametrize("flat", [False, True])
def test_the_closed_form_leaves_no_term_out_that_counts(weight, flat):
    """Neither of a start that falls off slower than the kernel's f, nor where powers of M grow."""
    graph = wk.Graph.from_edges([(i, (i + 1) % 6) for i in range(6)], weights=np.full(6, weight))
    kernel = wk.Diffusion(0.5 / math.sqrt(weight), matrix="adjacency")
    initial, decay = (60, 0.65 / (2 * weight)) if flat else (kernel.modulation(20), 0.25 / weight)
    slow = FreeModulation(initial, decay=decay)
    still = Schedule(n_epochs=1, learning_rate=1e-12)
    found = fit(graph, kernel, walks="expected", modulation=slow, schedule=still).chosen_by[0]
    complete = ExpectedError(graph, kernel, 8, HALF, HALF.longest + 1)
    assert found == pytest.approx(complete(slow).item(), rel=1e-7)


def test_the_usual_start_has_finite_variance():
    """The inverse cosine's own f has none with these walks; learning must not begin there."""
    result = fit(kernel=wk.InverseCosine(), modulation=None, walks="expected")
    assert result.modulation.decay == pytest.approx(0.85 * math.sqrt(0.5))
    assert result.errors.learned < 1
    assert fit(modulation=None, walks="expected").modulation.decay == pytest.approx(0.64 / 1.64)


def test_the_losses_are_those_of_the_walks():
    """Every loss of a rate near zero is the error of features that Walks itself makes, from other seeds."""
    still = Schedule(n_epochs=3, learning_rate=1e-12)
    f, K = start().modulation(65), wk.exact_kernel(ring(), KERNEL)

    def error(*key, ensembles="independent"):
        left, right = keyed_walks(ring(), 8, *key, ensembles=ensembles)
        product = left.features(f).toarray() @ right.features(f).toarray().T
        return ((product - K) ** 2).sum() / (K**2).sum()

    for ensembles in ("independent", "shared"):
        fresh = fit(walks="fresh", schedule=still, seed=7, ensembles=ensembles)
        expected = [error(0, 7, epoch, 0, ensembles=ensembles) for epoch in (1, 2, 3)]
        assert np.allclose(fresh.history, expected, rtol=1e-8)
        bank = fit(walks="bank", schedule=still, seed=7, ensembles=ensembles)
        expected = [error(0, 7, number, 0, ensembles=ensembles) for number in (1, 0, 1)]
        assert np.allclose(bank.history, expected, rtol=1e-8)
        judged = np.mean([error(2, 7, number, 0, ensembles=ensembles) for number in (0, 1)])
        assert fresh.chosen_by[0] == pytest.approx(judged, rel=1e-8)
        held = np.mean([error(1, 7, number, ensembles=ensembles) for number in range(3)])
        assert fresh.errors.learned == pytest.approx(held, rel=1e-8)


def test_the_closed_form_is_the_loss():
    result = fit(walks="expected", schedule=Schedule(n_epochs=2, learning_rate=1e-12))
    exact = ExpectedError(ring(), KERNEL, 8, HALF, 50)(start()).item()
    assert result.history == pytest.approx([exact, exact], rel=1e-6)
    assert result.chosen_by == pytest.approx([exact], rel=1e-6)


def test_the_penalty_is_minimised_with_the_loss():
    heavy = FreeModulation(6, decay=0.39, strength=100.0)
    free = FreeModulation(6, decay=0.39)
    schedule = Schedule(n_epochs=40, learning_rate=0.02)
    shrunk, loose = (
        fit(walks="expected", modulation=m, schedule=schedule).history[-1] for m in (heavy, free)
    )
    assert shrunk > loose, "losses are reported without it"
    kept = fit(walks="expected", modulation=heavy, schedule=schedule).modulation
    assert kept.theta.detach().sum() <= heavy.theta.detach().sum()


def test_given_modulations_are_not_changed():
    given = [start(init="random", seed=1), start()]
    before = [parameters(one) for one in given]
    result = fit(walks="expected", modulation=given)
    assert all(torch.equal(a, parameters(b)) for a, b in zip(before, given, strict=True))
    assert all(parameter.grad is None for one in given for parameter in one.parameters())
    assert result.modulation not in given


def test_the_best_start_wins():
    bad, good = FreeModulation([5.0, 5.0]), start()
    for given, winner in (([bad, good], 1), ([good, bad], 0)):
        result = fit(walks="expected", modulation=given)
        assert result.chosen_by.shape == (2,)
        assert np.argmin(result.chosen_by) == winner
        assert isinstance(result.modulation, NeuralModulation)
        error = ExpectedError(ring(), KERNEL, 8, HALF, 50)
        assert error(result.modulation).item() == pytest.approx(result.chosen_by[winner], rel=1e-6)
    alone = fit(walks="expected", modulation=good)
    assert np.array_equal(alone.history, result.history), "and its losses are those reported"


def test_three_starts_if_none_is_given():
    result = fit(walks="expected", modulation=None, seed=4)
    assert result.chosen_by.shape == (3,)
    net = result.modulation
    assert (net.hidden, net.activation) == ((1,), "relu")
    assert net.decay == pytest.approx(0.64 / 1.64)
    assert net.amplitude == pytest.approx(KERNEL.modulation(1)[0])
    other = fit(walks="expected", modulation=None, seed=5)
    assert other.chosen_by[0] == result.chosen_by[0]
    assert (other.chosen_by[1:] != result.chosen_by[1:]).all()


def test_the_best_parameters_are_kept():
    """A rate that overshoots: what is returned is what was judged best, not what came last."""
    wild = Schedule(n_epochs=40, learning_rate=3.0, gamma=1.0)
    result = fit(walks="expected", schedule=wild)
    error = ExpectedError(ring(), KERNEL, 8, HALF, 50)
    assert error(result.modulation).item() == pytest.approx(result.chosen_by[0], rel=1e-6)
    assert result.chosen_by[0] <= error(start()).item() * (1 + 1e-9)
    assert result.history.max() > 2 * result.chosen_by[0]


def test_several_graphs_are_averaged():
    still = Schedule(n_epochs=1, learning_rate=1e-12)
    both = fit([ring(), ring(11)], walks="expected", schedule=still).history[0]
    each = [fit(ring(n), walks="expected", schedule=still).history[0] for n in (8, 11)]
    assert both == pytest.approx(np.mean(each))
    result = fit([ring(11), ring()], walks="bank")
    assert result.bounds.n_samples == 11
    assert result.errors.learned == held_out(result.modulation, ring(11))


def held_out(modulation, graph):
    options = {"n_walks": 8, "sampler": HALF, "n_samples": 3}
    return held_out_errors(graph, KERNEL, modulation, **options).learned


def test_asymmetric_pairs_are_learned():
    pair = ModulationPair(start(), start(init="random", seed=2))
    for walks in ("expected", "bank"):
        result = fit(walks=walks, modulation=pair)
        assert isinstance(result.modulation, ModulationPair)
        assert not torch.equal(parameters(result.modulation.first), parameters(pair.first))
        assert not torch.equal(parameters(result.modulation.second), parameters(pair.second))
        assert np.allclose(result.kernel.coefficients(7), result.modulation.coefficients(7), rtol=1e-12)


def test_directed_graphs_walk_both_ways():
    result = fit(graphs.directed(), walks="bank", schedule=Schedule(n_epochs=1, learning_rate=1e-12))
    graph, f = graphs.directed(), start().modulation(65)
    K = wk.exact_kernel(graph, KERNEL)
    left, right = keyed_walks(graph, 8, 0, 0, 1, 0)
    product = left.features(f).toarray() @ right.features(f).toarray().T
    assert result.history[0] == pytest.approx(((product - K) ** 2).sum() / (K**2).sum(), rel=1e-8)


def test_kernels_without_a_symmetric_pair():
    """The unbiased estimate to compare with is that of the lazy pair."""
    kernel = wk.PowerSeries([0.0, 1.0])
    result = fit(ring(), kernel, walks="expected", modulation=None, n_held_out=20)
    assert result.ratio > 0
    K, errors = wk.exact_kernel(ring(), kernel), []
    for sample in range(20):
        left, _ = keyed_walks(ring(), 8, 1, 0, sample)
        errors.append(((left.features([0.0, 1.0]).toarray() - K) ** 2).sum() / (K**2).sum())
    assert result.errors.unbiased == pytest.approx(np.mean(errors), rel=1e-9)


@pytest.mark.parametrize("kernel", [wk.Diffusion(6.0), wk.InverseCosine(), wk.PStepRandomWalk(3, 2.0)])
def test_kernels_whose_series_falls_slowly(kernel):
    """What was learned need not fall off by itself: no walk is longer than the longest."""
    result = fit(ring(), kernel, modulation=None)
    assert result.kernel.degree <= 2 * HALF.longest
    assert math.isfinite(result.bounds.complexity)


def test_closed_form_of_a_kernel_whose_own_f_has_no_finite_variance():
    """Terms are taken up to the longest walk, and what is learned is far better than unbiased."""
    wide = wk.RegularizedLaplacian(d=2, sigma=3.0)
    schedule = Schedule(n_epochs=80, learning_rate=0.05)
    result = fit(kernel=wide, walks="expected", modulation=NeuralModulation(decay=0.6), schedule=schedule)
    assert result.chosen_by[0] < 0.7
    assert math.isfinite(result.errors.learned)


def test_starts_of_different_precision():
    single, double = start(dtype=torch.float32), start()
    result = fit(walks="bank", modulation=[single, double], schedule=Schedule(n_epochs=1))
    alone = fit(walks="bank", modulation=double, schedule=Schedule(n_epochs=1))
    assert result.chosen_by[1] == alone.chosen_by[0], "targets are not rounded on the way"
    assert result.chosen_by[0] == pytest.approx(alone.chosen_by[0], rel=1e-4)


@pytest.mark.parametrize("walks", ["fresh", "bank", "expected"])
def test_the_same_seed_gives_the_same_result(walks):
    a, b, c = (fit(walks=walks, seed=seed) for seed in (3, 3, 4))
    assert np.array_equal(a.history, b.history)
    assert torch.equal(parameters(a.modulation), parameters(b.modulation))
    assert a.errors == b.errors
    assert a.errors != c.errors
    assert np.array_equal(a.history, c.history) == (walks == "expected")


def test_progress_counts_all_epochs_of_all_starts():
    calls = []
    fit(walks="expected", modulation=[start(), start()], progress=lambda *call: calls.append(call))
    assert calls == [(epoch, 12) for epoch in range(1, 13)]


class Interrupt:
    """Ctrl-C at a certain epoch."""

    def __init__(self, epoch):
        self.epoch = epoch

    def __call__(self, done, total):
        if done == self.epoch:
            raise KeyboardInterrupt


def test_an_interrupt_returns_the_best_so_far():
    whole = fit(walks="expected", schedule=Schedule(n_epochs=40, learning_rate=0.02))
    result = fit(walks="expected", schedule=Schedule(n_epochs=40, learning_rate=0.02), progress=Interrupt(20))
    assert result.interrupted
    assert np.array_equal(result.history, whole.history[:20])
    assert whole.chosen_by[0] < result.chosen_by[0] < whole.history[0]
    error = ExpectedError(ring(), KERNEL, 8, HALF, 50)
    assert error(result.modulation).item() == pytest.approx(result.chosen_by[0], rel=1e-6)
    assert "20 epochs from the best of 1 starts, ended by an interrupt" in result.report()


def test_an_interrupt_ends_all_starts():
    result = fit(walks="expected", modulation=[start(), start()], progress=Interrupt(2))
    assert result.interrupted
    assert result.chosen_by.shape == (1,)
    later = fit(walks="expected", modulation=[start(), start()], progress=Interrupt(8))
    assert later.interrupted
    assert later.chosen_by.shape == (2,)


def test_report_says_what_was_learned():
    result = fit(walks="expected")
    text = result.report()
    assert text.startswith("6 epochs from the best of 1 starts; f = ")
    f = " ".join(f"{value:.4g}" for value in result.modulation.modulation(6))
    assert f"f = {f} …" in text
    assert f"ratio {result.ratio:.3f} ± {result.ratio_stderr:.3f}" in text
    assert "3 held-out samples (independent walks)" in text
    assert f"Rademacher complexity at most {result.bounds.complexity:.4g}" in text


def test_training_is_adam_on_loss_and_penalty():
    free = FreeModulation([0.6, 0.3, 0.1], strength=0.2)
    result = fit(walks="expected", modulation=free, schedule=Schedule(6, 0.05, 0.5, 2))
    error, adam, history = ExpectedError(ring(), KERNEL, 8, HALF, 9), torch.optim.Adam(free.parameters()), []
    for epoch in range(6):
        adam.param_groups[0]["lr"] = 0.05 * 0.5 ** (epoch // 2)
        adam.zero_grad()
        history.append(error(free))
        (history[-1] + 0.1 * free.theta.square().sum()).backward()
        adam.step()
    assert result.history == pytest.approx([loss.item() for loss in history], rel=1e-8)


def test_losses_that_are_no_numbers_end_the_fit():
    net = start()
    with torch.no_grad():
        net.layers[-1].bias.fill_(math.nan)
    for walks in ("expected", "fresh"):
        with pytest.raises(
            ValueError, match=r"fit_to_kernel: loss must be finite, got nan in epoch 1\. Use a"
        ):
            fit(walks=walks, modulation=net)
    with pytest.raises(ValueError, match=r"loss must be finite, got (inf|nan) in epoch 1.*smaller decay"):
        fit(walks="expected", modulation=NeuralModulation(decay=1e60))
    frozen = FreeModulation([1.0, 0.5])
    frozen.requires_grad_(False)
    with pytest.raises(TypeError, match="depends on the prediction"):
        fit(walks="expected", modulation=frozen)


BAD = {
    "a matrix": ({"graph": np.eye(3)}, TypeError, "graphs must be a Graph or a non-empty list"),
    "no graph": ({"graph": []}, TypeError, r"graphs must be a Graph or a non-empty list of them, got \[\]"),
    "one that is none": ({"graph": [ring(), 3]}, TypeError, "graphs must be a Graph, got 3 of type int"),
    "kernel": ({"kernel": "diffusion"}, TypeError, "kernel must be a Kernel, got 'diffusion'"),
    "n_walks": ({"n_walks": 0}, ValueError, "n_walks must be a whole number from 1 to .* got 0"),
    "n_walks as a float": ({"n_walks": 4.0}, ValueError, r"n_walks must be a whole number .* got 4\.0"),
    "sampler": ({"sampler": 0.5}, TypeError, r"sampler must be a Sampler, got 0\.5"),
    "walks": ({"walks": "new"}, ValueError, "walks must be one of 'fresh', 'bank', 'expected', got 'new'"),
    "ensembles": ({"ensembles": "debiased"}, ValueError, "ensembles must be one of .* got 'debiased'"),
    "shared, expected": (
        {"ensembles": "shared", "walks": "expected"}, ValueError,
        "ensembles must be 'independent' for the closed form.*Use walks='fresh'",
    ),
    "shared, directed": (
        {"ensembles": "shared", "graph": graphs.directed()}, ValueError,
        "ensembles must be 'independent' for a directed graph, got 'shared'",
    ),
    "modulation": ({"modulation": 3}, TypeError, "modulation must be a modulation or a non-empty list"),
    "no modulation": ({"modulation": []}, TypeError, "modulation must be a modulation or a non-empty list"),
    "a kernel to start from": (
        {"modulation": [KERNEL]}, TypeError, "modulation must be .*got RegularizedLaplacian"
    ),
    "n_samples": ({"n_samples": 0}, ValueError, "n_samples must be .* at least 1, got 0"),
    "n_held_out": ({"n_held_out": 1}, ValueError, "n_held_out must be .* at least 2, got 1"),
    "schedule": ({"schedule": 100}, TypeError, "schedule must be a Schedule, got 100"),
    "seed": ({"seed": -1}, ValueError, "seed must be .* got -1"),
    "progress": ({"progress": True}, TypeError, "progress must be None or a function"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_refused(name):
    options, error, message = BAD[name]
    with pytest.raises(error, match=f"^fit_to_kernel: {message}"):
        fit(**options)


def test_divergent_kernels_and_coupled_walks_are_refused():
    with pytest.raises(wk.DivergentKernelError):
        fit(kernel=wk.RegularizedLaplacian(1, 2.0, matrix="adjacency"))
    for sampler in (wk.CoupledWalks((1.0, 0.5)), wk.PrunedWalks((1.0, 0.5, 0.1, 0.01), head=2)):
        with pytest.raises(TypeError, match="closed form does not cover coupled walks"):
            fit(walks="expected", sampler=sampler)


@pytest.mark.parametrize(
    "sampler", [wk.CoupledWalks((1.0, 0.5, 0.2), head=2, group=4), wk.IndependentWalks(0.3)]
)
def test_other_samplers(sampler):
    result = fit(sampler=sampler, walks="bank")
    assert 0 < result.errors.learned < 1
    assert result.kernel.degree <= 2 * sampler.longest
