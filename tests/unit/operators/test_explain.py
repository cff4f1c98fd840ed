"""``K.explain()``: every kind of operator, its numbers, and its error against the true one."""

import re

import numpy as np
import pytest

import graphs
import walkernel as wk
from walkernel.features import bytes_of

HEAT = wk.Diffusion(1.5)
HEAD = wk.CoupledWalks(wk.matched_law(graphs.weighted(), HEAT)[1:], head=1, group=4)
KINDS = {
    "one factor": ("weighted", {"n_walks": 64}),
    "default": ("weighted", {}),
    "shared": ("weighted", {"n_walks": 64, "ensembles": "shared"}),
    "independent": ("weighted", {"n_walks": 64, "ensembles": "independent"}),
    "lazy": ("weighted", {"n_walks": 64, "pair": "lazy"}),
    "directed": ("directed", {"n_walks": 64}),
    "stitched": ("weighted", {"budget": 30 * 400}),
    "stitched, directed": ("directed", {"budget": 30 * 400, "stitches": 2}),
    "some nodes": ("weighted", {"n_walks": 64, "nodes": [3, 1, 9]}),
    "given": ("weighted", {"n_walks": 64, "sampler": HEAD}),
    "one walk": ("weighted", {"n_walks": 1}),
}


def make(case):
    kind, options = KINDS[case]
    return wk.estimate_kernel(graphs.KINDS[kind](), HEAT, **options)


@pytest.mark.parametrize("case", KINDS)
def test_the_words_and_numbers(case):
    K = make(case)
    about = K.explain()
    text = about.text
    factors, spec = K.factors, K.groups.left
    assert str(about) == repr(about) == text
    assert not re.search(r"None|nan|inf\b|\{|  ", text)
    n = K.shape[0]
    assert text.startswith(f"Diffusion(sigma=1.5) on {n} nodes, estimated from random walks.\n")
    assert about.n_steps == K.n_steps
    assert f"{K.n_steps / n:.4g} steps from each node, {K.n_steps} in all; " in text
    assert f"{spec.n_walks} walks of {spec.sampler.mean_steps:.3g} steps on average" in text
    assert (f"product of {K.stitches} factors" in text) == (K.stitches > 1)
    assert ("It is one factor" in text) == (K.stitches == 1 and K.pair == "symmetric" and n == 30)
    head = {0: "", 1: "The first hop is exact"}.get(
        spec.sampler.head, f"The first {spec.sampler.head} hops are exact"
    )
    assert head in text
    assert ("exact, along every edge" in text) == bool(head)
    parts = {id(m): m for f in factors for side in (f.left, f.right) for m in side.parts()}.values()
    assert about.n_bytes == sum(bytes_of(m.to_scipy()) for m in parts)
    words = {"debiased": "subtracted", "independent": "walks of its own", "shared": "biased upward"}
    assert words[K.ensembles] in text
    assert ("One side carries all" in text) == (K.pair == "lazy")


@pytest.mark.parametrize("case", ["independent", "directed", "lazy", "stitched, directed"])
def test_the_transpose_is_explained_like_the_operator(case):
    K = make(case)
    here, there = K.explain(), K.T.explain()
    assert (there.n_steps > 0) == (here.n_steps > 0)
    assert there.n_steps == here.n_steps
    assert there.error == pytest.approx(here.error, rel=0.2)
    assert there.n_bytes == here.n_bytes


def test_without_groups_there_is_no_error():
    about = make("one walk").explain()
    assert about.error is None
    assert "Its error is not known: that takes two groups of walks." in about.text


def test_the_note_tells_why_a_pair_is_lazy():
    K = wk.estimate_kernel(graphs.karate(), wk.InverseCosine(), 64)
    assert f"({K.note}); each side that walks" in K.explain().text


def test_polynomials():
    K = wk.polynomial_operator(graphs.karate(), HEAT, tol=1e-6)
    about = K.explain()
    assert about.n_steps == K.n_steps == 0
    assert about.error == 1e-6
    assert about.polynomial_products == K.polynomial.n_products
    assert f"takes {about.polynomial_products} sparse products" in about.text
    walked = wk.estimate_kernel(graphs.karate(), HEAT, 64).explain()
    as_good = wk.polynomial_operator(graphs.karate(), HEAT, tol=walked.error)
    assert walked.polynomial_products == as_good.polynomial.n_products


def test_an_exact_kernel_is_compared_with_an_exact_polynomial():
    about = wk.estimate_kernel(graphs.karate(), wk.PStepRandomWalk(4, 3.0)).explain()
    assert about.error < 1e-12
    assert about.polynomial_products == 4
    assert "4 sparse products give an error of 1e-12" in about.text


@pytest.mark.filterwarnings("ignore::walkernel.InfiniteVarianceWarning")
def test_where_no_polynomial_is_short_enough():
    graph = wk.Graph.from_scipy(np.array([[0.0, 1.0], [0.0, 0.0]]))
    about = wk.estimate_kernel(graph, wk.RegularizedLaplacian(1, 250.0), 64).explain()
    assert about.polynomial_products is None
    assert "No polynomial that polynomial_operator could apply" in about.text


CASES = {
    "narrow": (graphs.karate, wk.Diffusion(1.0), {}),
    "wide": (graphs.karate, wk.Diffusion(4.0), {}),
    "laplacian": (graphs.weighted, wk.RegularizedLaplacian(2, 2.0), {}),
    "directed": (graphs.directed, wk.Diffusion(1.5), {}),
    "lazy": (graphs.karate, wk.InverseCosine(), {}),
    "adjacency": (graphs.weighted, wk.Diffusion(0.4, matrix="adjacency"), {}),
    "combinatorial": (graphs.weighted, wk.Diffusion(1.0, matrix="combinatorial"), {}),
    "signed": (graphs.signed, wk.Diffusion(1.5), {}),
    "isolated": (graphs.isolated, wk.Diffusion(1.5), {}),
    "stitched": (graphs.weighted, wk.Diffusion(3.0), {"stitches": 3}),
    "stitched laplacian": (graphs.karate, wk.RegularizedLaplacian(1, 2.0), {"stitches": 6}),
    "stitched, directed": (graphs.directed, wk.Diffusion(2.0), {"stitches": 2}),
    "some nodes": (graphs.karate, wk.Diffusion(2.0), {"nodes": [5, 0, 20, 33]}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_error_is_about_the_true_one(case):
    """Root mean squares over 6 seeds agree within a factor of 1.5; a third more steps are noticed."""
    build, kernel, options = CASES[case]
    graph = build()
    exact = wk.exact_kernel(graph, kernel)
    if nodes := options.get("nodes"):
        exact = exact[np.ix_(nodes, nodes)]
    budget = 200 * len(exact)
    found = [wk.estimate_kernel(graph, kernel, budget=budget, seed=s, **options) for s in range(6)]
    true = [np.linalg.norm(K.to_dense() - exact) / np.linalg.norm(exact) for K in found]
    told = [K.explain().error for K in found]
    ratio = np.sqrt(np.mean(np.square(told)) / np.mean(np.square(true)))
    assert 1 / 1.5 < ratio < 1.5, ratio


def test_errors_beyond_the_kernel_itself_are_said():
    with pytest.warns(wk.InfiniteVarianceWarning, match="of 4 walks less than one reaches the lengths"):
        about = wk.estimate_kernel(graphs.karate(), wk.RegularizedLaplacian(1, 100.0), 4).explain()
    assert about.error >= 1
    assert "Relative error of 1 or more: it takes more steps" in about.text
    assert "an error of 0.1" in about.text
