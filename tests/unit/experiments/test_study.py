"""Runs of studies: finished cells are never measured again, and tables do not depend on interruptions."""

import csv
import json
import time

import numpy as np
import pytest

from walkernel.experiments._report import write_report
from walkernel.experiments._study import COMMON, Cell, Run, Study, Verdict, as_csv, named, run_study, summary
from walkernel.experiments.reproduce import NAMES, load_study, reproduce


class Toy:
    """A study of three cells that counts its measurements and can fail at one of them."""

    def __init__(self, fails_at=None):
        self.measured, self.fails_at = [], fails_at
        self.study = Study(
            "toy",
            "0",
            "A <toy>",
            {"toy": ("graph", *COMMON)},
            self.cells,
            self.measure,
            self.draw,
            self.judge,
        )

    def cells(self, size):
        return [Cell("toy", key, {"key": key}) for key in ("a", "b", "c")]

    def measure(self, cell, run):
        if cell.key == self.fails_at:
            raise KeyboardInterrupt
        self.measured.append(cell.key)
        shared = run.kept("toy/shared", lambda: self.measured.append("shared") or 0.25)
        values = run.seeds(ord(cell.key)).random(5) + shared
        return [{"graph": cell.key, "published": 0.5, **summary(values)}]

    def draw(self, rows, figure):
        figure.subplots().plot([row["ours"] for row in rows["toy"]])

    def judge(self, rows):
        return Verdict(True, f"{len(rows['toy'])} rows & more.")


def run_in(folder, seed=0):
    return Run(folder, "quick", seed)


def test_an_interrupted_run_goes_on_and_ends_with_the_same_bytes(tmp_path):
    whole = Toy()
    run_study(whole.study, run_in(tmp_path / "whole"))
    assert whole.measured == ["a", "shared", "b", "c"]
    first = Toy(fails_at="c")
    with pytest.raises(KeyboardInterrupt):
        run_study(first.study, run_in(tmp_path / "parts"))
    assert not (tmp_path / "parts" / "toy.csv").exists()
    second = Toy()
    run_study(second.study, run_in(tmp_path / "parts"))
    assert second.measured == ["c"]
    assert (tmp_path / "parts" / "toy.csv").read_bytes() == (tmp_path / "whole" / "toy.csv").read_bytes()


def test_a_damaged_cell_is_measured_again(tmp_path):
    run_study(Toy().study, run_in(tmp_path))
    (cell,) = tmp_path.glob(".cells/quick-0-*/toy/b.json")
    before = (tmp_path / "toy.csv").read_bytes()
    for damage in ("", "[1", json.dumps({"format": "another", "value": [], "seconds": 0})):
        cell.write_text(damage)
        again = Toy()
        run_study(again.study, run_in(tmp_path))
        assert again.measured == ["b"]
        assert (tmp_path / "toy.csv").read_bytes() == before


def test_cells_of_other_code_are_not_used(tmp_path, monkeypatch):
    run_study(Toy().study, run_in(tmp_path))
    monkeypatch.setattr("walkernel.experiments._study._digest", lambda: "changed")
    again = Toy()
    run_study(again.study, run_in(tmp_path))
    assert again.measured == ["a", "shared", "b", "c"]


def test_a_finished_run_leaves_the_cells_of_others_alone(tmp_path):
    stopped = Toy(fails_at="c")
    with pytest.raises(KeyboardInterrupt):
        run_study(stopped.study, Run(tmp_path, "full", 0))
    quick = run_in(tmp_path)
    run_study(Toy().study, quick)
    quick.finish()
    assert not list(tmp_path.glob(".cells/quick-*"))
    again, full = Toy(), Run(tmp_path, "full", 0)
    run_study(again.study, full)
    assert again.measured == ["c"]
    full.finish()
    assert not (tmp_path / ".cells").exists()


def test_pictures_leave_the_backend_and_the_style_of_matplotlib_alone(tmp_path):
    import matplotlib
    from matplotlib import pyplot

    pyplot.switch_backend("svg")
    size = matplotlib.rcParams["font.size"]
    run_study(Toy().study, run_in(tmp_path))
    assert matplotlib.get_backend() == "svg"
    assert matplotlib.rcParams["font.size"] == size
    assert not pyplot.get_fignums()
    pyplot.switch_backend("agg")


def test_what_is_kept_inside_a_cell_is_not_timed_twice(tmp_path):
    run = run_in(tmp_path)
    run.kept("outer", lambda: [time.sleep(0.05), run.kept("inner", lambda: time.sleep(0.3))])
    assert run.timings["outer"] < 0.2 < run.timings["inner"]


def test_another_seed_gives_other_numbers_and_the_same_published_ones(tmp_path):
    rows = []
    for seed in (1, 2):
        run_study(Toy().study, run_in(tmp_path / str(seed), seed))
        with open(tmp_path / str(seed) / "toy.csv", newline="") as file:
            rows.append(list(csv.DictReader(file)))
    for one, other in zip(*rows, strict=True):
        assert one["ours"] != other["ours"]
        assert one["published"] == other["published"] == "0.5"


def test_tables_are_plain_and_have_the_common_columns(tmp_path):
    finding = run_study(Toy().study, run_in(tmp_path))
    header = (tmp_path / "toy.csv").read_text().splitlines()[0]
    assert header == ",".join(("graph", *COMMON))
    assert finding.seconds >= 0
    assert as_csv(["x", "y", "z"], [{"x": 1 / 3, "y": None, "z": "a,b"}]) == 'x,y,z\n0.333333,,"a,b"\n'
    assert named(sigma=0.25, n_walks=16, kernel="diffusion") == "sigma=0.25 n_walks=16 kernel=diffusion"
    assert summary([1.0, 3.0]) == {"ours": 2.0, "stderr": 1.0, "repeats": 2}
    assert summary([1.0])["stderr"] is None


def test_the_report_is_one_file_and_says_everything(tmp_path):
    run = run_in(tmp_path)
    finding = run_study(Toy().study, run)
    page = write_report([finding], run, "about <this>").read_text()
    for text in (
        "A &lt;toy&gt;",
        "3 rows &amp; more.",
        "about &lt;this&gt;",
        "reproduced",
        'id="toy"',
        "toy.csv",
    ):
        assert text in page
    assert "data:image/png;base64," in page
    assert "http" not in page.replace("http-equiv", "")
    for n, is_cut in ((60, False), (61, True)):
        rows = [{"graph": str(k)} for k in range(n)]
        page = write_report([finding._replace(rows={"toy": rows})], run, "").read_text()
        assert ("First 60 of" in page) == ("First 60 of 61 rows." in page) == is_cut
        assert page.count("<tr><td>") == 60


def test_every_study_is_found_and_complete():
    for name in NAMES:
        study = load_study(name)
        assert study.name == name
        cells = study.cells("quick")
        assert len({cell.key for cell in cells}) == len(cells)
        assert {cell.table for cell in cells} == set(study.tables)
        for table in study.tables:
            columns = study.tables[table]
            assert len(set(columns)) == len(columns)
            assert {"error_kind", "ensembles", "c", "seed", "parameters", "repeats"} <= set(columns)


def test_reproduce_refuses_what_it_does_not_know(tmp_path):
    with pytest.raises(ValueError, match=r"'fixed-kernels'.*'nonsense'"):
        reproduce(["nonsense"], out=tmp_path)
    with pytest.raises(ValueError, match="at least one"):
        reproduce([], out=tmp_path)
    with pytest.raises(ValueError, match="'quick', 'full'"):
        reproduce(["sparsity"], out=tmp_path, size="huge")
    assert not any(tmp_path.iterdir())


def test_reproduce_reports_progress_and_leaves_nothing_behind(tmp_path):
    calls = []
    (finding,) = reproduce(["sparsity"], out=tmp_path, seed=3, progress=lambda *call: calls.append(call))
    assert [call[1:] for call in calls] == [(k, 5) for k in range(1, 6)]
    assert {path.name for path in tmp_path.iterdir()} == {
        *("sparsity.csv", "sparsity.png", "report.html", "timings.json")
    }
    errors = [row["ours"] for row in finding.rows["sparsity"]]
    assert np.all(np.abs(np.array(errors) / 0.0027 - 1) < 0.1)
    assert finding.verdict.holds
