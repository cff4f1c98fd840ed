"""What hosts run on every change is what people run by hand."""

import re
import tomllib
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
    [own] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    installed = {need for hook in own["hooks"] for need in hook["additional_dependencies"]}
    [ruff] = [need for need in installed if need.startswith("ruff")]
    assert ruff in (ROOT / "constraints.txt").read_text().splitlines()


def lowest(requirements):
    """Return the lower bounds of requirements by name, as numbers: (2, 0) of numpy>=2.0."""
    found = [re.match(r"([\w-]+)>=([\d.]+)", each) for each in requirements]
    return {match[1]: numbers(match[2]) for match in found if match}


def numbers(version):
    parts = [int(part) for part in version.split(".")]
    while parts and not parts[-1]:
        parts.pop()  # 2.0 is 2.0.0
    return parts


def test_the_oldest_versions_are_those_that_are_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    development = {"lint", "docs", "dist", "browser"}
    needed = [
        *project["dependencies"],
        *(one for name in extras if name not in development for one in extras[name]),
    ]
    lines = [line for line in (ROOT / "constraints-min.txt").read_text().splitlines() if "==" in line]
    tested = {name: numbers(version) for name, version in (line.split("==") for line in lines)}
    bounds = lowest(needed)
    del bounds["torch"]  # of which an old version was not at hand: constraints-min.txt says so
    assert len(bounds) > 20
    assert {name: tested.get(name) for name in bounds} == bounds


def test_python_versions_are_those_of_the_workflow():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {text.rpartition(" ")[2] for text in project["classifiers"] if ":: 3." in text}
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())["jobs"]
    assert named == set(jobs["test"]["strategy"]["matrix"]["python"])
    assert project["requires-python"] == ">=" + min(named, key=numbers)


def test_the_site_of_the_host_is_that_of_make():
    config = yaml.safe_load((ROOT / ".readthedocs.yaml").read_text())
    assert (ROOT / config["sphinx"]["configuration"]).is_file()
    assert config["sphinx"]["fail_on_warning"]
