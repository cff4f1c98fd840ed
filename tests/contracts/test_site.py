"""The site names every public name, and its code runs."""

import importlib
import re
from pathlib import Path

import pytest

import walkernel as wk

DOCS = Path(__file__).parents[2] / "docs"
LISTED = set(re.findall(r"^   ([\w.]+)$", (DOCS / "api" / "index.md").read_text(), re.M))
OWN_FRONTS = {"walkernel.torch": "torch.", "walkernel.plots": "plots."}
FOR_THE_SHELL = {"plots.save_error_curves"}


def test_every_public_name_has_a_page():
    public = {name for name in wk.__all__ if not name[0].islower() or callable(getattr(wk, name))}
    for module, prefix in OWN_FRONTS.items():
        public |= {prefix + name for name in importlib.import_module(module).__all__}
    assert public - LISTED == FOR_THE_SHELL


@pytest.mark.parametrize("name", sorted(LISTED))
def test_every_page_is_of_a_name_that_is_explained(name):
    module, _, last = f"walkernel.{name}".rpartition(".")
    found = getattr(importlib.import_module(module), last)
    assert found.__doc__.strip().splitlines()[0].endswith(".")


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_code_runs(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.M | re.S)
    exec(compile("\n".join(blocks), page, "exec"), {"__name__": "page"})
