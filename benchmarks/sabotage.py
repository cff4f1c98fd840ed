"""Six errors in the method, made in a copy of the source: the short tests must notice each of them.

    python benchmarks/sabotage.py [--all]

Prints for each error how many of the short statistical tests fail, and the first ones. With ``--all`` the
whole short suite is run instead, as ``make test`` does.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = ["tests/statistical/test_unbiased.py"]
SABOTAGES = {
    "loads are not divided by the survival probability": (
        "walks/_laws.py",
        "np.divide(1.0, self.survival, out=",
        "np.divide(self.survival, self.survival, out=",
    ),
    "the roots of the degrees are swapped": (
        "walks/_tables.py",
        "    entries = (read_only(law.indices)",
        "    first, last = (1 / np.where(x > 0, x, 1) for x in (first, last))\n"
        "    entries = (read_only(law.indices)",
    ),
    "both sides of independent ensembles use stream 0": (
        "operators/_estimate.py",
        "tuple(streams)",
        "(0,) * len(streams)",
    ),
    "lengths are off by one": (
        "walks/_laws.py",
        "lengths = self.hops[:, None] + np.arange(inverse.shape[1])",
        "lengths = self.hops[:, None] + np.maximum(np.arange(inverse.shape[1]) - 1, 0)",
    ),
    "edges are not turned": (
        "walks/_tables.py",
        "transpose = transpose and not graph.is_symmetric(matrix)",
        "transpose = False",
    ),
    "the diagonal of debiased ensembles is not corrected": (
        "operators/_walk.py",
        "return np.asarray((share * whole - groups) / (1 - share))",
        "return np.zeros(len(norms))",
    ),
}


def failures(source: Path, tests: list[str]) -> list[str]:
    """Return the names of the short tests that fail with the library in a folder."""
    command = [sys.executable, "-m", "pytest", "-q", "-rf", "-m", "not deep and not gpu", *tests]
    result = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(source), "WALKERNEL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode > 1:
        sys.exit(result.stdout + result.stderr)
    return re.findall(r"^FAILED (\S+)", result.stdout, re.M)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="run the whole short suite")
    tests = [] if parser.parse_args().all else TESTS
    unnoticed = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (file, right, wrong) in SABOTAGES.items():
            source = Path(folder) / "src"
            shutil.copytree(ROOT / "src", source)  # with what numba has compiled
            path = source / "walkernel" / file
            text = path.read_text()
            assert right in text, f"{file} has changed: {right!r} is not in it"
            path.write_text(text.replace(right, wrong))
            found = failures(source, tests)
            shutil.rmtree(source)
            print(f"{name}: {len(found)} tests fail, {', '.join(found[:3])}", flush=True)
            unnoticed += [] if found else [name]
    sys.exit(f"not noticed: {unnoticed}" if unnoticed else 0)


if __name__ == "__main__":
    main()
