"""Tables in notebooks say what is there, and show no more than fits."""

from xml.etree import ElementTree

import numpy as np
import pytest

import walkernel as wk
from walkernel._html import MAX_ROWS, html_table


def cells(shown):
    """Return the texts of the cells of what is shown, which has to be well formed."""
    root = ElementTree.fromstring(f"<div>{shown._repr_html_()}</div>")
    return ["".join(one.itertext()) for one in root.iter() if one.tag in ("td", "li", "caption")]


@pytest.fixture(scope="module")
def club():
    return wk.load_dataset("karate").graph


def test_graphs(club):
    found = cells(club)
    assert found[:5] == ["Graph", "nodes", "34", "edges", "78"]
    named = wk.Graph.from_edges([("<a>", "b"), ("b", "c")], weights=[1.0, 2.0], directed=True)
    assert {"directed", "given"} <= set(cells(named))
    assert "'<a>'" in cells(named)[-1]


def test_operators_and_their_explanation(club):
    K = wk.estimate_kernel(club, wk.Diffusion(1.0), 16)
    assert {"Diffusion(sigma=1.0)", "34 × 34", f"{K.n_steps:,}"} <= set(cells(K))
    about = K.explain()
    assert set(about.text.splitlines()) <= set(cells(about))
    assert f"{about.error:.2g}" in cells(about)
    cells(wk.polynomial_operator(club, wk.Diffusion(1.0)).explain())


def test_estimates(club):
    few = wk.estimate_kernel(club, wk.Diffusion(1.0), 16).estimate([0, 1], [33, 2])
    found = cells(few)
    assert found[1::3] == [f"{value:.6g}" for value in few.value]
    assert found[2::3] == [f"± {stderr:.2g}" for stderr in few.stderr]
    many = wk.estimate_kernel(club, wk.Diffusion(1.0), 16).estimate(np.arange(34), np.arange(34))
    assert cells(many)[-1] == f"{34 - MAX_ROWS} more"


@pytest.mark.parametrize("estimator", [wk.NodeGPRegressor, wk.NodeRidge])
def test_kernels_that_were_compared(club, estimator):
    model = estimator(club).fit(range(0, 34, 2), np.arange(17) > 8)
    best = model.candidates_[0]
    assert cells(model.candidates_)[1:3] == [repr(best.kernel), f"{best.score:.6g}"]


def test_a_table_without_rows():
    assert html_table("Nothing", ["a"], []).count("<tr>") == 1
