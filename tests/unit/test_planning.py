"""What is chosen for the user: walks as long as the kernel is wide, on a ladder that kernels share."""

import pytest

import graphs
import walkernel as wk
from walkernel.planning import LADDER


def chosen(*kernels):
    return wk.choose_sampler(graphs.karate(), *kernels).p_halt


def test_walks_are_as_long_as_the_kernel_is_wide():
    assert chosen(wk.Diffusion(1.0)) == 0.1
    assert chosen(wk.Diffusion(20.0)) == pytest.approx(0.0125)
    assert chosen(wk.RegularizedLaplacian(1, 10.0)) == pytest.approx(0.0125)
    assert chosen(wk.RegularizedLaplacian(1, 100.0)) == LADDER[-1]


def test_the_widest_of_several_kernels_decides():
    narrow, wide = wk.Diffusion(1.0), wk.Diffusion(20.0)
    assert chosen(narrow, wide) == chosen(wide, narrow) == chosen(wide)


def test_the_choice_is_the_one_that_features_make():
    """The lazy pair of this kernel is a step long, the symmetric one hardly decays."""
    graph, kernel = graphs.karate(), wk.PStepRandomWalk(1, 2.003)
    features = wk.NodeFeatures(graph, kernel).fit([0])
    assert wk.choose_sampler(graph, kernel) == features.sampler_


def test_kernels_without_a_symmetric_pair_are_judged_by_the_lazy_one():
    assert chosen(wk.InverseCosine(), wk.PowerSeries([0.0, 1.0])) == 0.1


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
