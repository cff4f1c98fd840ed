"""Benchmarks of a CUDA device are rehearsed: every table has its rows, and the numbers of the CPU."""

import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest

from commands import run

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="Triton compiles its kernels"),
]
ROWS = {
    "gpu.py": {
        "features": 4, "process": 3, "training": 2, "rows": 2, "polynomials": 2, "walks": 6, "records": 5,
        "products": 2,
    },
    "attention.py": {"attention": 3},
    "merging.py": {"merging": 5},
    "huge.py": {"products": 7, "process": 3},
    "gpu_profile.py": {"process": 3, "features": 2},  # and those of single kernels
}  # fmt: skip
"""The least number of rows of each table."""
UNCOVERED = ("env", "-u", "COVERAGE_PROCESS_CONFIG", sys.executable)
"""Other tests cover the lines of the library; to see which are run takes half as long again."""
SAME = {"rows": 1e-12, "polynomials": 1e-12, "process": 1e-3}
"""How far numbers may be from those of the CPU, if not by the rounding of single precision."""


@pytest.mark.parametrize("script", ROWS)
def test_every_table_has_its_rows(script, tmp_path):
    out = tmp_path / "tables.txt"
    done = run(BENCHMARKS / script, "--out", out, cwd=tmp_path, program=UNCOVERED)
    assert done.returncode == 0, done.stderr
    _, *found = re.split(r"^# (\w+): ", out.read_text(), flags=re.MULTILINE)
    assert found[::2] == list(ROWS[script])
    for name, text in zip(found[::2], found[1::2], strict=True):
        assert text.startswith("interpreted: times mean nothing, tiny sizes, ")
        _, *parts = re.split(r"^-+\n", text, flags=re.MULTILINE)
        rows = [row for part in parts for row in part.partition("\n\n")[0].splitlines()]
        assert len(rows) >= ROWS[script][name]
        for difference in re.findall(r"^largest difference to .*: (\S+)$", text, re.MULTILINE):
            assert float(difference) < SAME.get(name, 1e-5)
        if name == "merging":  # start nodes that differ, and milliseconds
            assert all(re.findall(r"(\d+) \d+\.\d\d", row) == ["0", "0", "0"] for row in rows)


def test_a_job_that_hangs_or_fails_does_not_stop_the_others(tmp_path, monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("gpu_all", BENCHMARKS / "gpu_all.py")
    spec.loader.exec_module(gpu_all := importlib.util.module_from_spec(spec))
    contents = {"hangs": "import time; time.sleep(99)", "fails": "1 / 0", "works": "print('worked')"}
    jobs = {name: gpu_all.Job(1, str(tmp_path / f"{name}.py")) for name in contents}
    for name, content in contents.items():
        (tmp_path / f"{name}.py").write_text(content)
    monkeypatch.setattr(gpu_all, "JOBS", {**jobs, "long": gpu_all.Job(100, "none.py")})
    monkeypatch.setattr(sys, "argv", ["gpu_all.py", "--out", str(tmp_path), "--seconds", "60"])
    with pytest.raises(SystemExit) as ended:
        gpu_all.main()
    assert ended.value.code
    words = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    assert words == [["hangs:", "stopped,"], ["fails:", "failed,"], ["works:", "done"], ["long:", "left"]]
    assert (tmp_path / "works.log").read_text() == "worked\n"
    assert "ZeroDivisionError" in (tmp_path / "fails.log").read_text()
