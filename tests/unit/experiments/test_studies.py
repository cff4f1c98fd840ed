"""What every study of the paper has to keep to, on tiny versions of five of them."""

import csv

import pytest

from walkernel.experiments import clustering, fixed_kernels, learned_f, meshes, ode, p_halt, scaling
from walkernel.experiments.reproduce import reproduce

TINY = {
    fixed_kernels: {"PAPER_GRAPHS": ("ER 20", "karate"), "WALKS": (1, 4, 16)},
    ode: {"GRAPHS": ("karate",), "WALKS": (8, 128), "REPEATS": {"quick": 3, "full": 4}},
    clustering: {"PUBLISHED": {"karate": 0.08}, "N_WALKS": 2, "REPEATS": {"quick": (6, 0, 0)}},
    scaling: {"REPEATS": {"quick": {30: 3, 60: 2}}, "MAX_EXACT_NODES": 40, "N_ROWS": 8},
    p_halt: {"GRAPHS": ("karate",), "P_HALTS": (0.1, 0.5), "REPEATS": {"quick": 3}},
}
COMMON = ("published", "ours", "stderr", "repeats", "error_kind", "ensembles", "c", "seed", "parameters")


@pytest.fixture(params=TINY, ids=lambda module: module.STUDY.name)
def study(request, monkeypatch):
    """A study in its tiny version."""
    for name, value in TINY[request.param].items():
        monkeypatch.setattr(request.param, name, value)
    return request.param.STUDY


def tables(folder, study):
    return {table: (folder / f"{table}.csv").read_bytes() for table in study.tables}


def parsed(text):
    return list(csv.DictReader(text.decode().splitlines()))


def interrupt_after_the_last_part(part, done, total):
    if done == total:
        raise KeyboardInterrupt


def measured_again(cell, run):
    raise AssertionError(cell.key)


def test_tables_depend_on_the_seed_and_on_nothing_else(study, tmp_path, monkeypatch):
    """Nor on an interrupt: what was measured before it is not measured again."""
    found = {}
    for name, seed in (("first", 1), ("other", 2)):
        reproduce([study.name], out=tmp_path / name, seed=seed)
        found[name] = tables(tmp_path / name, study)
    again = {"out": tmp_path / "again", "seed": 1}
    with pytest.raises(KeyboardInterrupt):
        reproduce([study.name], **again, progress=interrupt_after_the_last_part)
    monkeypatch.setitem(study.__dict__, "measure", measured_again)
    reproduce([study.name], **again)
    assert tables(tmp_path / "again", study) == found["first"]
    for table, text in found["first"].items():
        ours, others = parsed(text), parsed(found["other"][table])
        assert len(ours) == len(others) > 0
        for a, b in zip(ours, others, strict=True):
            assert a["ours"] != b["ours"]
            assert (a["published"], a["parameters"]) == (b["published"], b["parameters"])


def test_rows_have_every_column_and_lead_to_a_verdict(study, tmp_path):
    (finding,) = reproduce([study.name], out=tmp_path)
    for table, rows in finding.rows.items():
        columns = study.tables[table]
        assert columns[-len(COMMON) :] == COMMON
        assert not [column for column in columns if "second" in column]
        for row in rows:
            assert set(columns) <= set(row)
            assert row["ours"] > 0
            assert row["repeats"] >= 2
            assert row["seed"] == 0
    assert finding.verdict.holds in (True, False)
    assert finding.verdict.text.endswith(".")
    assert "nan" not in finding.verdict.text
    assert (tmp_path / f"{study.name}.png").stat().st_size > 10_000


@pytest.mark.parametrize("size", ["quick", "full"])
@pytest.mark.parametrize("module", TINY, ids=lambda module: module.STUDY.name)
def test_cells_have_names_of_their_own(module, size):
    keys = [cell.key for cell in module.STUDY.cells(size)]
    assert len(keys) == len(set(keys)) > 0
    assert {cell.table for cell in module.STUDY.cells(size)} == set(module.STUDY.tables)


def test_z_of_several_graphs_adds_variances_up():
    torch_wing = pytest.importorskip("walkernel.torch")
    gains, stderrs = (0.3, 0.1, -0.05), (0.1, 0.2, 0.1)
    found = [
        torch_wing.HeldOutErrors(1 - gain, 0.0, 1.0, 0.0, 1 - gain, 0.0, gain / stderr, 4, "shared")
        for gain, stderr in zip(gains, stderrs, strict=True)
    ]
    assert learned_f.pooled_z(found) == pytest.approx(sum(gains) / 0.06**0.5)
    assert learned_f.pooled_z(found[:1]) == pytest.approx(3.0)


@pytest.mark.parametrize("ratio", [0.8, 1.1])
def test_the_verdict_on_learned_f_says_what_was_found(ratio):
    row = {"unbiased": 0.05, "paper_unbiased": 0.05, "paper_learned": 0.045, "ratio": ratio, "z": 3.0}
    rows = {"learned-f": [row | {"ensembles": kind} for kind in ("shared", "independent")]}
    verdict = learned_f.judge(rows)
    assert verdict.holds == (ratio < 1)
    assert ("not better" in verdict.text) == (ratio > 1)
    assert ("gain is smaller" in verdict.text) == (ratio < 0.9)


@pytest.mark.parametrize("ours", [0.2, -0.1])
def test_the_verdict_on_meshes_says_what_was_found(ours):
    kernels = (*meshes.FIXED, "learned", "neighbour mean", "signed, exact hops")
    rows = [
        {"graph": "cylinder", "kernel": kernel, "error": 0.1, "ours": ours, "stderr": 0.02, "published": 0.4}
        for kernel in kernels
    ]
    verdict = meshes.judge({"meshes": rows})
    assert verdict.holds == (ours > 0)
    assert ("as the paper says" in verdict.text) == (ours > 0)
    assert f"{ours / 0.4:.1f} times the paper's" in verdict.text
