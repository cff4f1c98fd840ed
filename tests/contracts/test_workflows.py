"""What hosts run on every change is what people run by hand."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))


def commands(found):
    """Return the shell commands of a workflow, and of what is inside it."""
    if isinstance(found, dict):
        own = [found["run"]] if isinstance(found.get("run"), str) else []
        return own + [text for value in found.values() for text in commands(value)]
    return [text for value in found for text in commands(value)] if isinstance(found, list) else []


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name)
def test_workflows_call_commands_that_exist(path):
    found = yaml.safe_load(path.read_text())
    assert found["name"]
    if path.parent.name == "workflows":
        called = [command.split()[1] for command in commands(found) if command.startswith("make ")]
        assert called
        assert set(called) <= TARGETS


def test_hooks_have_the_version_that_lint_has():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    [ruff] = [one for one in hooks["repos"] if "ruff" in one["repo"]]
    assert f"ruff=={ruff['rev'].removeprefix('v')}" in (ROOT / "constraints.txt").read_text().splitlines()


def test_the_site_of_the_host_is_that_of_make():
    config = yaml.safe_load((ROOT / ".readthedocs.yaml").read_text())
    assert (ROOT / config["sphinx"]["configuration"]).is_file()
    assert config["sphinx"]["fail_on_warning"]
