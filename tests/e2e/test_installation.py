"""What is shipped works where nothing can be written, and the documents say what is true."""

import doctest
import importlib
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import walkernel

ROOT = Path(__file__).parents[2]
MODULES = ["walkernel"] + [m.name for m in pkgutil.walk_packages(walkernel.__path__, "walkernel.")]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


def test_documents_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert blocks
    namespace = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)


def test_read_only_install_without_a_home(tmp_path):
    """numba can cache neither beside the package nor in a home: no cache, no crash."""
    package = tmp_path / "site" / "walkernel"
    shutil.copytree(Path(walkernel.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in [package, *(p for p in package.rglob("*") if p.is_dir())]:
        (folder / "__pycache__").write_text("a file, so that nothing can be cached here")
    for path in [*package.rglob("*"), package]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    code = (
        "import walkernel as wk; assert 'site' in wk.__file__, wk.__file__\n"
        "from walkernel.walks._loops import walk_task\n"
        "walks = wk.sample_walks(wk.Graph.from_edges([(0, 1)]), 2**16, sampler=wk.IndependentWalks())\n"
        "print(len(walks.nodes), len(walk_task.dispatcher.signatures), walk_task.dispatcher.stats.cache_path)"
    )
    nowhere = "/dev/null/nowhere"
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA", "XDG", "COVERAGE"))}
    environment |= {"HOME": nowhere, "XDG_CACHE_HOME": nowhere, "PYTHONPATH": str(tmp_path / "site")}
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "2 1 None"


def test_version_is_said_once():
    assert f'version = "{walkernel.__version__}"' in (ROOT / "pyproject.toml").read_text()
    assert f"## [{walkernel.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
    assert f"version: {walkernel.__version__}" in (ROOT / "CITATION.cff").read_text()
