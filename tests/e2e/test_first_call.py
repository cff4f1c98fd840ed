"""An estimate on a small graph compiles nothing; the first large call says that it compiles."""

import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text()
FIRST_LINES = next(
    code for code in re.findall(r"```python\n(.*?)```", README, re.S) if "estimate_kernel" in code
)
IS_COLLECTED = "\nimport gc\nprint(gc.isenabled())"
SAID = "walkernel: compiling what was not compiled before: a few seconds\n"


def run(folder, code=FIRST_LINES, **variables):
    """Run code with a cache of its own: (stdout, stderr, seconds of processor time)."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("COV", "WALKERNEL_QUIET"))
    }
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=kept | {"NUMBA_CACHE_DIR": str(folder), "PYTHONUTF8": "1", **variables},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return result.stdout, result.stderr, spent


def test_the_estimate_of_the_readme_compiles_nothing(tmp_path):
    """Processor time: .8 s, in a new installation as in an old one; twice that on a busy machine."""
    out, said, seconds = run(tmp_path, FIRST_LINES + "\nimport sys\nprint('numba' in sys.modules)")
    assert out.endswith("\nFalse\n")
    assert "±" in out
    assert said == ""
    assert not list(tmp_path.iterdir())
    assert seconds < 2.5


LARGE = """
import walkernel as wk
graph = wk.load_dataset("karate").graph
print(wk.estimate_kernel(graph, wk.Diffusion(1.0), n_walks=2**12).estimate(0, 1))
"""


@pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="nothing is compiled")
def test_compiling_is_said_once_and_does_not_take_long(tmp_path):
    """Processor time: 6 s, 9 s where nine processes share two cores, then 1.1 s; it once took 25 s."""
    cold, said, seconds = run(tmp_path, LARGE + IS_COLLECTED)
    assert said == SAID
    assert cold.endswith("\nTrue\n")  # garbage is collected again
    assert seconds < 15
    warm, said, seconds = run(tmp_path, LARGE + IS_COLLECTED)
    assert (warm, said) == (cold, "")
    assert seconds < 2.5


@pytest.mark.deep
@pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="nothing is compiled")
def test_what_another_version_compiled_is_compiled_again(tmp_path):
    """The index of numba's cache names types of ours, which another version may have under other names."""
    cold, _, _ = run(tmp_path, LARGE)
    for index in tmp_path.rglob("*.nbi"):
        index.write_bytes(index.read_bytes().replace(b"Front", b"Frant"))
    assert run(tmp_path, LARGE)[:2] == (cold, SAID)
    assert run(tmp_path, LARGE)[:2] == (cold, "")


@pytest.mark.deep
@pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="nothing is compiled")
def test_garbage_is_not_collected_if_it_was_not_before(tmp_path):
    code = (
        "import gc\nimport walkernel as wk\ngc.disable()\n"
        "wk.sample_walks(wk.Graph.from_edges([(0, 1)]), 2**16)" + IS_COLLECTED
    )
    assert run(tmp_path, code)[:2] == ("False\n", SAID)


SMALL = """
import sys
from concurrent.futures import ProcessPoolExecutor
import walkernel as wk

def count(seed):
    graph = wk.Graph.from_edges([(0, 1)])
    walks = wk.sample_walks(graph, 2**16, sampler=wk.IndependentWalks(), seed=seed)
    return len(walks.nodes)

if __name__ == "__main__":
    if sys.argv[1:] == ["workers"]:
        with ProcessPoolExecutor(2) as processes:
            print(*processes.map(count, range(4)))
    else:
        print(count(0), count(1))
"""


@pytest.mark.deep
@pytest.mark.skipif("NUMBA_DISABLE_JIT" in os.environ, reason="nothing is compiled")
def test_workers_and_those_who_want_quiet_are_not_told(tmp_path):
    assert run(tmp_path / "workers", SMALL.replace("sys.argv[1:]", '["workers"]'))[:2] == ("2 2 2 2\n", "")
    assert run(tmp_path / "quiet", SMALL, WALKERNEL_QUIET="1")[:2] == ("2 2\n", "")
    assert run(tmp_path / "twin", SMALL)[:2] == ("2 2\n", SAID)
