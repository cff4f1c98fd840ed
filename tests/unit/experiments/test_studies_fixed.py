"""What five studies must find, with fixed seeds, on graphs that need no files."""

import numpy as np
import pytest

from walkernel.experiments import clustering, fixed_kernels, ode, p_halt, scaling
from walkernel.experiments._study import Cell, Run

KARATE = {
    "1-reg. Laplacian": (0.0405, 0.0287, 0.0200, 0.0144, 0.0101, 0.0071, 0.0051, 0.0035),
    "2-reg. Laplacian": (0.0810, 0.0574, 0.0399, 0.0288, 0.0202, 0.0142, 0.0101, 0.0071),
    "2-step walk": (0.0725, 0.0513, 0.0357, 0.0257, 0.0181, 0.0127, 0.0091, 0.0063),
    "diffusion": (0.0215, 0.0153, 0.0106, 0.0077, 0.0054, 0.0038, 0.0027, 0.0019),
}
"""Errors for 1, 2, … 128 walks from another implementation, 100 repeats of two digits or three."""


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path, "quick", 5)


@pytest.fixture
def without_files(monkeypatch, tmp_path):
    for variable in ("WALKERNEL_DATA", "WALKERNEL_CACHE"):
        monkeypatch.setenv(variable, str(tmp_path / "nothing"))


@pytest.fixture
def karate_rows(run):
    return fixed_kernels.measure(Cell("fixed-kernels", "karate", {"graph": "karate"}), run)


def test_errors_on_karate_are_those_of_another_implementation(karate_rows):
    for kernel, known in KARATE.items():
        own = [row for row in karate_rows if row["kernel"] == kernel]
        ours, stderr = (np.array([row[key] for row in own]) for key in ("ours", "stderr"))
        z = (ours - known) / np.hypot(stderr * np.sqrt(1.1), 0.00005)
        assert np.abs(z).max() < 4.5  # ten repeats: the standard error itself is uncertain
        assert np.abs(ours / known - 1).mean() < 0.05


def test_errors_fall_with_the_root_of_the_walks(karate_rows):
    slopes = {curve.kernel: curve.slope for curve in fixed_kernels.curves(karate_rows)}
    assert list(slopes) == list(fixed_kernels.KERNELS)
    assert all(abs(slope + 0.5) < 0.03 for slope in slopes.values())
    assert fixed_kernels.judge({"fixed-kernels": karate_rows}).holds


def test_a_bias_is_not_taken_for_the_right_slope(karate_rows):
    biased = [{**row, "ours": row["ours"] + 0.001} for row in karate_rows]
    assert not fixed_kernels.judge({"fixed-kernels": biased}).holds


def test_squares_are_above_the_squares_of_means(karate_rows):
    assert all(row["squared"] >= row["ours"] ** 2 for row in karate_rows)


def test_quadrature_leaves_the_error_of_the_walks(run, monkeypatch):
    monkeypatch.setattr(ode, "WALKS", (8, 128))
    cells = [cell for cell in ode.cells("quick") if cell.given["graph"] == "karate"]
    rows = {"ode": [], "ode-growth": []}
    for cell in cells:
        rows[cell.table] += ode.measure(cell, run)
    by_gauss = [row["ours"] for row in rows["ode"] if row["rule"] == "gauss-legendre"]
    assert 3 < by_gauss[0] / by_gauss[1] < 5
    (alone,) = (row["ours"] for row in rows["ode"] if row["n_walks"] == ode.ALONE)
    assert 0.05 < alone < 0.08
    (growth,) = rows["ode-growth"]
    assert growth["zero_eigenvalues"] == 1
    assert growth["steady_state_minus"] == growth["steady_state_plus"] == "none"
    assert growth["norm_plus_4"] > 50 * growth["norm_plus_1"]
    assert ode.judge(rows).holds


def test_clusters_on_karate_are_those_of_the_exact_kernel(run, monkeypatch):
    monkeypatch.setattr(clustering, "REPEATS", {"quick": (30, 0, 0)})
    (row,) = clustering.measure(Cell("clustering", "karate", {"graph": "karate"}), run)
    assert row["ours"] < 0.03
    assert row["our_sampler"] < 0.03
    assert 0.2 < row["exact_vs_exact"] < 0.45
    assert clustering.judge({"clustering": [row]}).holds
    assert not clustering.judge({"clustering": [{**row, "ours": 0.031}]}).holds


def test_some_rows_have_the_error_of_all(run, monkeypatch):
    monkeypatch.setattr(scaling, "REPEATS", {"quick": {200: 10}})
    cell = Cell("scaling", "200", {"n": 200})
    (whole,) = scaling.measure(cell, run)
    monkeypatch.setattr(scaling, "MAX_EXACT_NODES", 100)
    (part,) = scaling.measure(cell, run)
    assert (whole["rows"], part["rows"]) == ("all", scaling.N_ROWS)
    assert whole["ours"] == pytest.approx(0.005, rel=0.05)
    assert part["ours"] == pytest.approx(whole["ours"], rel=0.1)
    assert part["seconds_exact"] is None


def test_long_walks_have_less_error_and_short_ones_infinite_variance(run, monkeypatch):
    monkeypatch.setattr(p_halt, "REPEATS", {"quick": 10})
    rows = {"p-halt": p_halt.measure(p_halt.cells("quick")[0], run)}
    assert [row["variance"] for row in rows["p-halt"]] == 5 * ["finite"] + 3 * ["infinite"]
    for row in rows["p-halt"]:
        assert row["steps_per_walk"] == pytest.approx((1 - row["p_halt"]) / row["p_halt"], rel=0.05)
        assert row["our_steps_per_walk"] < 1.05 * row["steps_per_walk"]
        assert row["our_error"] < row["ours"]
    assert p_halt.judge(rows).holds


@pytest.mark.usefixtures("without_files")
def test_graphs_in_files_are_left_out_where_there_are_none(karate_rows):
    graphs = [cell.given["graph"] for cell in fixed_kernels.cells("full")]
    assert graphs == ["ER 20", "ER 100", "binary tree", "d-regular", "karate"]
    assert [cell.given["graph"] for cell in clustering.cells("full")] == ["karate"]
    assert {cell.given["graph"] for cell in ode.cells("full")} == {"karate"}
    assert (
        "left out: dolphins, football, eurosis." in fixed_kernels.judge({"fixed-kernels": karate_rows}).text
    )
