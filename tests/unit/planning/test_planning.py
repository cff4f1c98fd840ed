"""What is chosen for the user: walks as long as the kernel is wide, on a ladder that kernels share."""

import itertools

import numpy as np
import pytest

import graphs
import walkernel as wk
from walkernel.features import Modulated, Symmetric
from walkernel.walks import matched_survival


def chosen(*kernels, **options):
    return wk.choose_sampler(graphs.karate(), *kernels, **options)


def test_walks_are_as_long_as_the_kernel_is_wide():
    steps = [chosen(wk.Diffusion(sigma)).mean_steps for sigma in (0.3, 1.0, 3.0, 10.0, 30.0)]
    assert all(a < b for a, b in itertools.pairwise(steps))
    assert chosen(wk.RegularizedLaplacian(1, 10.0)).mean_steps > chosen(wk.RegularizedLaplacian()).mean_steps


def test_the_widest_of_several_kernels_decides():
    narrow, wide = wk.Diffusion(1.0), wk.Diffusion(20.0)
    assert chosen(narrow, wide) == chosen(wide, narrow)
    assert chosen(narrow, wide).mean_steps > 0.5 * chosen(wide).mean_steps
    survival = chosen(narrow, wide).survival()
    assert wide.modulation(survival.size + 50)[survival.size :].max(initial=0) < 1e-12


def test_kernels_of_about_the_same_width_share_their_walks():
    samplers = [chosen(wk.Diffusion(sigma)) for sigma in np.geomspace(1.0, 2.0, 20)]
    assert len(set(samplers)) <= 3


@pytest.mark.parametrize(
    "kernel",
    [
        *[wk.Diffusion(sigma) for sigma in (0.5, 0.8, 1.3, 2.0, 3.1, 6.0, 12.0, 25.0)],
        *[wk.RegularizedLaplacian(d, sigma) for d in (1, 2, 3.5) for sigma in (0.3, 1.0, 2.5, 8.0)],
        wk.Matern(1.5, 2.0),
    ],
    ids=str,
)
def test_a_law_on_the_ladder_is_nearly_a_matched_one(kernel):
    """Σ f_k²/S(k) · Σ S(k), variance times steps: at most 1.4 times that of the matched law.

    A single walk can afford no head.
    """
    sizes = Modulated.of(graphs.karate(), Symmetric(kernel)).sizes("weights")

    def cost(law):
        n = min(sizes.size, law.size)
        return (sizes[1:n] ** 2 / law[1:n]).sum() * law[1:].sum()

    sampler = chosen(kernel, n_walks=1)
    assert sampler.head == 0
    assert sizes[sampler.survival().size :].sum() <= 1e-9 * sizes.sum()
    assert cost(sampler.survival()) < 1.4 * cost(matched_survival(sizes))


def test_the_choice_is_the_one_that_features_make():
    """The lazy pair of this kernel is a step long, the symmetric one hardly decays."""
    graph, kernel = graphs.karate(), wk.PStepRandomWalk(1, 2.003)
    features = wk.NodeFeatures(graph, kernel, normalize=False, method="walks").fit([0])
    assert wk.choose_sampler(graph, kernel) == features.sampler_


def test_kernels_without_a_symmetric_pair_are_judged_by_the_lazy_one():
    assert chosen(wk.InverseCosine(), wk.PowerSeries([0.0, 1.0])).mean_steps < 10


def test_many_walks_can_afford_a_longer_head():
    heads = [chosen(wk.Diffusion(1.0), n_walks=n).head for n in (4, 64, 4096)]
    assert heads == sorted(heads)
    assert heads[0] < heads[-1]


def test_what_no_law_suits_is_refused():
    """The series converges up to 7, between the spectral radius 6.73 and the 7.29 of second moments."""
    with pytest.raises(ValueError, match=r"too wide for walks.*polynomial_operator"):
        chosen(wk.RegularizedLaplacian(1, 6**-0.5, matrix="adjacency"))
    with pytest.raises(wk.DivergentKernelError):
        chosen(wk.RegularizedLaplacian(1, 1.0, matrix="adjacency"))


def test_few_walks_that_do_not_reach_a_wide_kernel_are_said():
    """f is at lengths of about 50, which one in 200 walks reaches."""
    kernel, sampler = wk.Diffusion(14.0), wk.IndependentWalks(0.1)
    with pytest.warns(wk.InfiniteVarianceWarning, match="wider than the walks of .*: of 8 walks less than"):
        wk.NodeFeatures(
            graphs.karate(), kernel, n_walks=8, sampler=sampler, normalize=False, method="walks"
        ).fit([0])
    wk.NodeFeatures(
        graphs.karate(), kernel, n_walks=2**15, sampler=sampler, normalize=False, method="walks"
    ).fit([0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "choose_sampler: kernels must be at least one Kernel"),
        ((wk.Diffusion(), "wide"), "choose_sampler: kernels must be a Kernel"),
        ((wk.Diffusion(), wk.Diffusion(matrix="adjacency")), "kernel.matrix must be the same for all"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        wk.choose_sampler(graphs.karate(), *arguments)


def test_bad_number_of_walks():
    with pytest.raises(ValueError, match="choose_sampler: n_walks must be a whole number of at least 1"):
        chosen(wk.Diffusion(), n_walks=0)
