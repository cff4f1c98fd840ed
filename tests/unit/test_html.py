"""Tables in notebooks say what is there, and show no more than fits."""

import re
from xml.etree import ElementTree

import numpy as np
import pytest

import walkernel as wk
from walkernel._html import MAX_ROWS, MAX_TEXT, html_table
from walkernel.operators import Estimate


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
    assert cells(named)[-1] == "'<a>', 'b', 'c'"
    longer = wk.Graph.from_edges([("a", "x" * 999), ("b", "c")])
    assert cells(longer)[-1].startswith("'a', 'xxx")
    assert cells(longer)[-1].endswith("xxx', 'b', …")
    assert len(cells(longer)[-1]) < 100
    assert {"1", "0"} <= set(cells(wk.Graph.from_edges(np.empty((0, 2), dtype=int), n_nodes=1)))


def test_operators_and_their_explanation(club):
    K = wk.estimate_kernel(club, wk.Diffusion(1.0), 16)
    assert {"Diffusion(sigma=1.0)", "34 × 34", f"{K.n_steps:,}"} <= set(cells(K))
    about = K.explain()
    assert set(about.text.splitlines()) <= set(cells(about))
    assert f"{about.error:.2g}" in cells(about)
    cells(wk.polynomial_operator(club, wk.Diffusion(1.0)).explain())


def test_estimates(club):
    few = wk.estimate_kernel(club, wk.Diffusion(1.0), 64).estimate([0, 1], [33, 2])
    found = cells(few)
    assert found[1::3] == ["0", "1"]
    assert found[2::3] == [f"{value:.6g}" for value in few.value]
    assert found[3::3] == [f"± {stderr:.2g}" for stderr in few.stderr]
    many = wk.estimate_kernel(club, wk.Diffusion(1.0), 64).estimate(np.arange(34)[:, None], np.arange(34))
    assert cells(many)[-1] == f"{34**2 - MAX_ROWS:,} more"
    assert "0, 3" in cells(many)
    one = wk.estimate_kernel(club, wk.Diffusion(1.0), 64).estimate(0, 1)
    assert cells(one)[1:] == [f"{one.value:.6g}", f"± {one.stderr:.2g}"]


def test_estimates_from_too_few_walks_are_marked():
    values, errors = np.array([1.0, 2.0]), np.array([0.1, 3.0])
    found = cells(Estimate(values, errors, 8, np.array([False, True]), np.zeros(2)))
    assert found == ["Estimates from 8 groups of walks", "0", "1", "± 0.1", "", "1", "2", "± 3", "yes"]


def test_rows_that_are_not_shown_are_not_made():
    made = []

    def rows():
        for i in range(10**9):
            made.append(i)
            yield [i]

    assert "999,999,980 more" in html_table("Many", [], rows(), 10**9)
    assert len(made) == MAX_ROWS


@pytest.mark.parametrize("estimator", [wk.NodeGPRegressor, wk.NodeRidge])
def test_kernels_that_were_compared(club, estimator):
    model = estimator(club).fit(range(0, 34, 2), np.arange(17) > 8)
    best = model.candidates_[0]
    assert cells(model.candidates_)[1:3] == [repr(best.kernel), f"{best.score:.6g}"]


def test_a_table_without_rows():
    assert html_table("Nothing", ["a"], []).count("<tr>") == 1


def test_texts_are_escaped_and_not_endless():
    text = html_table("<b>", ["<i>"], [["<script>" + "x" * 999]])
    assert "<script" not in text
    assert "&lt;b&gt;" in text
    assert "&lt;i&gt;" in text
    assert "x" * (MAX_TEXT - len("<script>") - 1) + "…" in text


def test_colours_are_those_of_the_notebook(club):
    K = wk.estimate_kernel(club, wk.Diffusion(1.0), 16)
    for shown in (club, K, K.explain(), K.estimate([0], [1])):
        assert not {"color", "background", "font"} & set(re.findall(r"[a-z]+", shown._repr_html_()))
