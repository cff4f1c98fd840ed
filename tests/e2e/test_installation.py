"""What is shipped works where nothing can be written, and the documents say what is true."""

import doctest
import importlib
import importlib.util
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

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
    """The build reads it from the package; the citation and the changelog are about the same version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"]
    assert "version" not in project["project"]
    named = ROOT / project["tool"]["hatch"]["version"]["path"]
    assert f'__version__ = "{walkernel.__version__}"\n' in named.read_text()
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    heading = re.search(r"^## \[(.*)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert citation["version"] == heading[1] == walkernel.__version__
    assert str(citation["date-released"]) == heading[2]


def build_hook():
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_description_has_no_relative_links():
    """An index shows the README alone: links to files beside it go to the source, or are left out."""
    readme, absolute = (ROOT / "README.md").read_text(), build_hook().with_absolute_links
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", readme)
    assert pictures
    linked = absolute(readme, "https://host.example/us/walkernel", "1.0")
    assert f"https://host.example/us/walkernel/raw/v1.0/{pictures[0]}" in linked
    assert "https://host.example/us/walkernel/blob/v1.0/docs/start.md" in linked
    assert set(re.findall(r"\]\((\w+):", linked)) == {"https"}
    plain = absolute(readme, "", "1.0")
    assert not re.search(r"\]\((?!https?:|#)", plain)
    assert "![" not in plain


def test_what_is_shipped(tmp_path):
    """The wheel has the package and its licence alone; the source has what builds and tests it."""
    script = f"from hatchling.build import *; build_wheel({str(tmp_path)!r}); build_sdist({str(tmp_path)!r})"
    environment = {name: value for name, value in os.environ.items() if name != "WALKERNEL_SOURCE_URL"}
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environment, check=True, capture_output=True)
    [wheel], [source] = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    names = set(zipfile.ZipFile(wheel).namelist())
    ours = {name for name in names if name.startswith("walkernel/")}
    here = Path(walkernel.__file__).parent
    assert ours == {
        f"walkernel/{path.relative_to(here)}" for path in [*here.rglob("*.py"), here / "py.typed"]
    }
    about = f"walkernel-{walkernel.__version__}.dist-info"
    assert names - ours == {
        f"{about}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
    }
    with tarfile.open(source) as archive:
        files = archive.getmembers()
    kept = {file.name.partition("/")[2] for file in files}
    assert {"pyproject.toml", "hatch_build.py", "Makefile", "LICENSE", "constraints.txt"} <= kept
    assert {f"tests/{path.name}" for path in (ROOT / "tests").glob("*.py")} <= kept
    pictures = {name for name in kept if name.endswith((".png", ".npz"))}
    assert {str(Path(name).parent) for name in pictures} == {
        "tests/unit/plots/pictures"
    }  # references of tests
    assert not [file.name for file in files if file.size > 2**19]
    assert not [name for name in kept if name.startswith(("benchmarks/results", ".venv"))]
