"""One suite for all samplers: every step of every walk has the law it would have alone."""

import itertools
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.stats import chi2, norm

import graphs
import judges
import walkernel as wk
from depth import mostly_deep
from oracles import expected_squared_error, transition_matrix

KERNEL = wk.Diffusion(2.0)
SIZES = tuple(KERNEL.modulation(20).tolist())
LAW = (1.0, 0.7, 0.7, 0.4, 0.2, 0.1, 0.05)
FREE = {"lengths": "independent", "first_step": "independent", "later_steps": "independent"}
SAMPLERS = {
    "paper": wk.IndependentWalks(0.2),
    "uniform": wk.IndependentWalks(0.2, "uniform"),
    "law": wk.CoupledWalks(LAW, **FREE),
    "coupled": wk.CoupledWalks(LAW),
    "antithetic": wk.CoupledWalks(
        LAW, lengths="antithetic", first_step="independent", later_steps="independent"
    ),
    "lengths": wk.CoupledWalks(LAW, first_step="independent", later_steps="independent"),
    "first step": wk.CoupledWalks(LAW, lengths="independent", later_steps="independent"),
    "later steps": wk.CoupledWalks(LAW, lengths="independent", first_step="independent"),
    "coupled, uniform": wk.CoupledWalks(LAW, "uniform"),
    "groups of 4": wk.CoupledWalks(LAW, group=4),
    "head": wk.CoupledWalks(LAW, head=1),
    "long head": wk.CoupledWalks(LAW, head=2),
    "head, free walks": wk.CoupledWalks(LAW, head=2, **FREE),
    "head, uniform": wk.CoupledWalks(LAW, "uniform", head=1),
    "pruned": wk.PrunedWalks(SIZES, 0.02, head=3),
    "unequal": wk.PrunedWalks(SIZES, 0.05, head=3, unevenness=1.0),
    "pruned, uniform": wk.PrunedWalks(SIZES, 0.05, head=2, transition="uniform", group=4),
}
OF_ONE_LAW = [name for name, sampler in SAMPLERS.items() if not isinstance(sampler, wk.PrunedWalks)]
every_sampler = pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)


@cache
def walks_from_node_0(sampler):
    """Sixteen walks for each of 3000 seeds."""
    graph, found = graphs.weighted(), []
    for seed in range(3000):
        record = wk.sample_walks(graph, 16, sampler=sampler, seed=seed, nodes=[0]).deposits
        found.append(np.split(record.nodes, np.flatnonzero(record.lengths == 0)[1:]))
    return found


def one_walk_each(sampler, position):
    """The walk at one position of a group, for many seeds: draws of a single walk."""
    return [walks[position] for walks in walks_from_node_0(sampler)]


@pytest.mark.parametrize("position", [0, 5, 15])
@pytest.mark.parametrize("name", mostly_deep(OF_ONE_LAW, ["paper", "coupled", "groups of 4", "long head"]))
def test_single_walks_have_their_law(name, position):
    """Lengths, first steps and second steps by chi-square at the level 1e-4, over 3000 seeds."""
    graph, sampler = graphs.weighted(), SAMPLERS[name]
    paths = one_walk_each(sampler, position)
    survival = np.append(sampler.survival()[sampler.head :], 0.0)[:12]
    P = transition_matrix(graph.to_scipy().toarray(), sampler.transition)
    lengths = np.bincount([min(len(path) - 1, 10) for path in paths], minlength=11)
    law = (
        np.append(survival[:10] - survival[1:11], survival[10]) if survival.size > 11 else -np.diff(survival)
    )
    assert fits(lengths[: law.size], law / law.sum())
    first = np.bincount([path[1] for path in paths if len(path) > 1], minlength=30)
    assert fits(first, np.linalg.matrix_power(P, sampler.head + 1)[0])
    likeliest = int(np.argmax(first))
    second = np.bincount([p[2] for p in paths if len(p) > 2 and p[1] == likeliest], minlength=30)
    assert fits(second, P[likeliest])


def fits(counts, law):
    """Pearson's chi-square; cells that expect fewer than five are joined."""
    expected = law * counts.sum()
    assert not counts[law == 0].any()
    few = expected < 5
    seen, hoped = np.append(counts[~few], counts[few].sum()), np.append(expected[~few], expected[few].sum())
    seen, hoped = seen[hoped > 0], hoped[hoped > 0]
    return chi2.sf(((seen - hoped) ** 2 / hoped).sum(), hoped.size - 1) > 1e-4


def test_the_fit_notices_a_wrong_law():
    graph = graphs.weighted()
    paths = one_walk_each(SAMPLERS["coupled"], 5)
    first = np.bincount([path[1] for path in paths if len(path) > 1], minlength=30)
    assert not fits(first, transition_matrix(graph.to_scipy().toarray(), "uniform")[0])


WALKED = [
    *[(kind, None) for kind in ("unweighted", "weighted", "directed", "self-loops")],
    ("weighted", "independent"),
]
UNBIASED = [(name, *walked) for name in SAMPLERS for walked in WALKED]


@pytest.mark.parametrize(("name", "kind", "ensembles"), mostly_deep(UNBIASED, UNBIASED[::6]))
def test_unbiased_by_both_rules(name, kind, ensembles):
    graph, sampler = graphs.KINDS[kind](), SAMPLERS[name]
    law = wk.matched_law(graph, KERNEL)
    if isinstance(sampler, wk.CoupledWalks):
        sampler = replace(sampler, law=law[sampler.head :])
    estimates = np.array(
        [
            wk.estimate_kernel(graph, KERNEL, 48, sampler=sampler, ensembles=ensembles, seed=seed).to_dense()
            for seed in range(400)
        ]
    )
    holds, statistics = judges.verdict(
        estimates, wk.exact_kernel(graph, KERNEL), judges.within_two_hops(graph)
    )
    assert holds, statistics


def test_groups_must_be_debiased_as_groups(monkeypatch):
    """Twin: the diagonal corrected by single walks, as if coupled walks were independent, is biased."""
    from walkernel.walks import Sampler

    graph = graphs.karate()
    sampler = wk.CoupledWalks(wk.matched_law(graph, KERNEL))
    exact = wk.exact_kernel(graph, KERNEL)
    monkeypatch.setattr(type(sampler.coupling), "group", property(lambda self: 1))
    estimates = np.array(
        [wk.estimate_kernel(graph, KERNEL, 32, sampler=sampler, seed=seed).to_dense() for seed in range(400)]
    )
    assert isinstance(sampler, Sampler)
    holds, _ = judges.verdict(estimates, exact, judges.within_two_hops(graph))
    assert not holds


@pytest.mark.parametrize("kind", ["unweighted", "weighted", "signed"])
def test_the_expected_error_of_any_law_is_its_closed_form(kind):
    """Independent walks of a matched law: the mean over 300 repeats within 4 standard errors."""
    graph, n_walks = graphs.KINDS[kind](), 16
    sampler = wk.CoupledWalks(wk.matched_law(graph, KERNEL), **FREE)
    A, M = graph.to_scipy().toarray(), graph.to_scipy("normalized").toarray()
    survival = sampler.survival()[:40]
    f = KERNEL.modulation(survival.size)
    expected = expected_squared_error(M, transition_matrix(A), f, survival, n_walks)
    exact = wk.exact_kernel(graph, KERNEL)

    def error(seed):
        K = wk.estimate_kernel(graph, KERNEL, n_walks, sampler=sampler, ensembles="independent", seed=seed)
        return np.sum((K.to_dense() - exact) ** 2) / np.sum(exact**2)

    errors = [error(seed) for seed in range(300)]
    z = (np.mean(errors) - expected) / (np.std(errors, ddof=1) / np.sqrt(300))
    assert abs(z) < 4
    assert abs(np.mean(errors) - 1.3 * expected) > 4 * np.std(errors, ddof=1) / np.sqrt(300)


@pytest.mark.parametrize("sigma", [1.4, 3.2])
def test_every_piece_lowers_the_error(sigma):
    """Paper's sampler, matched law, coupled: squared errors at equal steps, over 60 seeds, p < 1e-4."""
    graph, kernel = graphs.karate(), wk.Diffusion(sigma)
    exact = wk.exact_kernel(graph, kernel)
    law = wk.matched_law(graph, kernel)

    def errors(sampler):
        n_walks = 16 * max(2, round(400 / sampler.mean_steps / 16))
        estimates = [wk.estimate_kernel(graph, kernel, n_walks, sampler=sampler, seed=s) for s in range(60)]
        return np.array([np.sum((K.to_dense() - exact) ** 2) for K in estimates])

    steps = [
        errors(s) for s in (wk.IndependentWalks(0.1), wk.CoupledWalks(law, **FREE), wk.CoupledWalks(law))
    ]
    for worse, better in itertools.pairwise(steps):
        gain = worse - better
        assert gain.mean() > norm.isf(1e-4) * gain.std(ddof=1) / np.sqrt(60)


@every_sampler
def test_walks_from_isolated_nodes_stay(sampler):
    record = wk.sample_walks(graphs.isolated(), 16, sampler=sampler, nodes=[30, 31, 32]).deposits
    n_walks = 1 if getattr(sampler, "unevenness", 0) else 16  # of unequal numbers one from each group
    assert record.lengths.tolist() == [0] * (3 * n_walks)
    assert record.loads.tolist() == [16 / n_walks] * (3 * n_walks)


def test_groups_extend_and_the_rest_is_a_smaller_group():
    graph = graphs.karate()
    sampler = SAMPLERS["coupled"]
    few, more = (wk.sample_walks(graph, n, sampler=sampler, nodes=[3]) for n in (32, 70))
    n = few.deposits.nodes.size
    assert np.array_equal(few.deposits.nodes, more.deposits.nodes[:n])
    assert np.array_equal(few.deposits.lengths, more.deposits.lengths[:n])


@every_sampler
def test_records_can_be_saved(sampler, tmp_path):
    graph = graphs.karate()
    walks = wk.sample_walks(graph, 16, sampler=sampler)
    walks.save(tmp_path / "walks.npz")
    assert wk.Walks.load(tmp_path / "walks.npz", graph).sampler == sampler


def test_laws_that_do_not_suit_are_said():
    graph = graphs.karate()
    short = wk.CoupledWalks(wk.matched_law(graph, wk.Diffusion(1.0)))
    with pytest.warns(wk.InfiniteVarianceWarning, match="infinite in practice|times the variance"):
        wk.estimate_kernel(graph, wk.Diffusion(5.0), 32, sampler=short)
    with pytest.warns(wk.InfiniteVarianceWarning, match="choose_sampler"):
        wk.sample_walks(graph, 32, sampler=short).features(wk.Diffusion(5.0))


@pytest.mark.parametrize(
    ("law", "options", "message"),
    [
        ((), {}, "law must be up to 1048576 probabilities"),
        ((0.5, 0.7), {}, "do not rise"),
        ((1.5,), {}, "law must be"),
        ((0.0,), {}, "the first of them positive"),
        ("ab", {}, "law must be an array of numbers"),
        ((0.5, np.nan), {}, "law must be finite"),
        ((0.5,), {"lengths": "even"}, "lengths must be one of 'independent', 'antithetic', 'systematic'"),
        ((0.5,), {"first_step": "antithetic"}, "first_step must be one of"),
        ((0.5,), {"transition": "w"}, "transition must be one of"),
        ((0.5,), {"head": -1}, "head must be a whole number from 0 to 16"),
        ((0.5,), {"head": 1.5}, "head must be a whole number"),
        ((0.5,), {"group": 12}, "group must be 16, 8, 4, 2 or 1"),
    ],
)
def test_bad_input(law, options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        wk.CoupledWalks(law, **options)


def test_too_few_groups_for_debiasing():
    with pytest.raises(ValueError, match="at least 17 for ensembles='debiased'"):
        wk.estimate_kernel(graphs.karate(), KERNEL, 16, sampler=SAMPLERS["coupled"], ensembles="debiased")
