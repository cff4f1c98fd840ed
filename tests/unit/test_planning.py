"""What is chosen for the user: walks as long as the kernel is wide, on a ladder that kernels share."""

import numpy as np
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


def test_the_choice_is_near_the_best_p_halt_there_is():
    """The expected squared error at equal steps, by simulation, is within 1.5 of the best on a fine grid."""
    graph, kernel = graphs.karate(), wk.Diffusion(5.0)
    exact = wk.exact_kernel(graph, kernel)

    def error(p):
        sampler = wk.IndependentWalks(p)
        n_walks = round(2000 / sampler.mean_steps)
        estimates = [wk.estimate_kernel(graph, kernel, n_walks, sampler=sampler, seed=s) for s in range(20)]
        return np.mean([np.sum((K.to_dense() - exact) ** 2) for K in estimates])

    best = min(error(p) for p in (0.02, 0.03, 0.05, 0.07, 0.1, 0.15))
    assert error(chosen(kernel)) < 1.5 * best


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
