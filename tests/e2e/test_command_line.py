"""The command line in processes of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

WALKERNEL = str(Path(sys.executable).with_name("walkernel"))


def run(*arguments, cwd, **environment):
    return subprocess.run(
        [WALKERNEL, *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_demo_prints_errors_and_saves_a_picture(tmp_path):
    result = run("demo", "--repeats", "4", "--out", "pictures/karate.png", cwd=tmp_path, COLUMNS="80")
    assert result.returncode == 0, result.stderr
    for name in ("1-reg. Laplacian", "2-reg. Laplacian", "2-step walk", "diffusion", "inverse cosine *"):
        line = next(line for line in result.stdout.splitlines() if name in line)
        cells = line.replace(name, "").split()
        errors = [float(cell.split("(")[0]) for cell in cells[:5]]
        assert errors == sorted(errors, reverse=True)
        assert float(cells[5]) == pytest.approx(-0.5, abs=0.06)
    picture = tmp_path / "pictures" / "karate.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert list(picture.parent.iterdir()) == [picture]


def test_demo_without_matplotlib_gives_the_table_and_a_hint(tmp_path):
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "sys.argv = ['walkernel', 'demo', '--repeats', '2']; from walkernel.cli import main; main()"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stderr
    assert "diffusion" in result.stdout
    assert "pip install 'walkernel[plot]'" in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_version_help_and_errors(tmp_path):
    assert run("--version", cwd=tmp_path).stdout.startswith("walkernel 0.")
    assert "Example: walkernel demo" in run("demo", "--help", cwd=tmp_path).stdout
    wrong = run("demo", "--repeats", "1", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "Traceback" not in wrong.stderr
