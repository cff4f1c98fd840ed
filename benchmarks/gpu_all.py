"""All tables of a CUDA device, the most important ones first, each in a process of its own.

    python benchmarks/gpu_all.py [JOB ...] --out FOLDER [--seconds S] [--quick | --tiny]

A table is written to its file in FOLDER as soon as it is there, in place of an earlier one; what a process
prints is in FOLDER/JOB.log. A job that fails, or takes three times as long as expected, is reported, and the
next one begins. Of a number of seconds, jobs that are expected to take longer than is left are left out.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
PATIENCE = 3
"""How many times as long as expected a job may take."""


class Job(NamedTuple):
    """A script or a folder of tests, its table, and the seconds expected beside an H200 and 16 cores."""

    seconds: int
    path: str
    table: str = ""

    def command(self, folder: Path, size: list[str]) -> list[str]:
        """Return what is to be run."""
        path = (HERE / self.path).resolve()
        if path.is_dir():
            return [sys.executable, "-m", "pytest", "-q", "--numprocesses", "8", str(path)]
        out = str(folder / f"{path.stem}.txt")
        return [sys.executable, str(path), *self.table.split(), "--out", out, *size]


JOBS = {
    "attention": Job(50, "attention.py"),
    "merging": Job(90, "merging.py"),
    "features": Job(90, "gpu.py", "features"),
    "process": Job(110, "gpu.py", "process"),
    "training": Job(60, "gpu.py", "training"),
    "rows": Job(35, "gpu.py", "rows"),
    "polynomials": Job(30, "gpu.py", "polynomials"),
    "walks": Job(40, "gpu.py", "walks"),
    "records": Job(40, "gpu.py", "records"),
    "products": Job(40, "gpu.py", "products"),
    "huge": Job(240, "huge.py"),
    "tests": Job(240, "../tests/device"),
}


def outcome(command: list[str], log: Path, limit: float) -> str:
    """Run a command for some seconds at most, and return what became of it."""
    with log.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        code = process.wait(limit)
    except subprocess.TimeoutExpired:
        return f"stopped, see {log}"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # workers of a process too
        process.wait()
    return f"failed, see {log}" if code else "done"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("jobs", nargs="*", help=f"some of {', '.join(JOBS)}; all if none is named")
    parser.add_argument("--out", type=Path, required=True, help="folder of tables and logs")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for all jobs together")
    parser.add_argument("--quick", dest="size", action="store_const", const=["--quick"], default=[])
    parser.add_argument("--tiny", dest="size", action="store_const", const=["--tiny"])
    options = parser.parse_args()
    if unknown := set(options.jobs) - set(JOBS):
        parser.error(f"jobs must be among {', '.join(JOBS)}, got {', '.join(sorted(unknown))}")
    options.out.mkdir(parents=True, exist_ok=True)
    end, found = time.monotonic() + options.seconds, {}
    for name in options.jobs or JOBS:
        begin, expected = time.monotonic(), JOBS[name].seconds
        if end - begin < expected:
            found[name] = f"left out: {expected} s expected, {end - begin:.0f} s left"
        else:
            command = JOBS[name].command(options.out, options.size)
            found[name] = outcome(command, options.out / f"{name}.log", min(PATIENCE * expected, end - begin))
        print(f"{name}: {found[name]} ({time.monotonic() - begin:.0f} s)", flush=True)
    sys.exit(any(what != "done" for what in found.values()))


if __name__ == "__main__":
    main()
