"""What is chosen for the user, judged by simulation."""

import numpy as np

import graphs
import walkernel as wk


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
    assert error(wk.choose_sampler(graph, kernel).p_halt) < 1.5 * best
