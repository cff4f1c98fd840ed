"""The paper by name, in real processes: killed and started again, other seeds, and the page in a browser."""

import csv
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from commands import run

pytestmark = pytest.mark.deep

ARGUMENTS = ("reproduce", "sparsity", "bounds", "--quick")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run from beginning to end."""
    folder = tmp_path_factory.mktemp("whole")
    result = run(*ARGUMENTS, "--seed", "1", "--out", "paper", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("reproduced") >= 2
    return folder / "paper"


def tables(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.csv")}


def test_killed_and_started_again_it_ends_with_the_same_bytes(whole, tmp_path):
    code = "from walkernel.cli import main; main()"
    command = [sys.executable, "-c", code, *ARGUMENTS, "--seed", "1", "--out", "paper"]
    cells = tmp_path / "paper" / ".cells"
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(list(cells.rglob("*.json"))) < 3 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    finished = {path: path.stat().st_mtime_ns for path in cells.rglob("*.json")}
    assert len(finished) >= 3
    assert not tables(tmp_path / "paper") or len(tables(tmp_path / "paper")) < 2
    assert run(*ARGUMENTS, "--seed", "1", "--out", "paper", cwd=tmp_path).returncode == 0
    assert tables(tmp_path / "paper") == tables(whole)
    assert not cells.exists()


def test_another_seed_changes_ours_and_nothing_published(whole, tmp_path):
    assert run(*ARGUMENTS, "--seed", "2", "--out", "paper", cwd=tmp_path).returncode == 0
    for path in whole.glob("*.csv"):
        with open(path, newline="") as one, open(tmp_path / "paper" / path.name, newline="") as other:
            for first, second in zip(csv.DictReader(one), csv.DictReader(other), strict=True):
                assert first["ours"] != second["ours"]
                assert first["published"] == second["published"]


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
@pytest.mark.parametrize("width", [1280, 400])
def test_the_report_loads_without_errors_and_shows_every_section(whole, tmp_path, width):
    command = [
        *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
        *("--enable-logging=stderr", "--v=0", f"--user-data-dir={tmp_path}", f"--window-size={width},2400"),
        f"--screenshot={tmp_path / 'page.png'}",
    ]
    address = (whole / "report.html").as_uri()
    shot = subprocess.run([*command, address], capture_output=True, text=True, timeout=120, check=False)
    assert shot.returncode == 0, shot.stderr
    assert not re.search(r"CONSOLE.*(error|Uncaught|Failed)", shot.stderr, re.I)
    assert (tmp_path / "page.png").stat().st_size > 50_000
    page = subprocess.run(
        [*command[:-1], "--dump-dom", address], capture_output=True, text=True, timeout=120, check=False
    ).stdout
    for name in ("sparsity", "bounds"):
        assert f'<section id="{name}">' in page
    assert page.count("data:image/png;base64,") == 2
