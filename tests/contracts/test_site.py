"""The site names every public name, and its code runs."""

import contextlib
import importlib
import inspect
import io
import re
import shlex
import warnings
from pathlib import Path

import pytest

import graphs
import walkernel as wk
from commands import call
from walkernel.cli import app

DOCS = Path(__file__).parents[2] / "docs"
LISTED = set(re.findall(r"^   ([\w.]+)$", (DOCS / "api" / "index.md").read_text(), re.M))
FRONTS = ("torch", "plots", "engines", "datasets", "kernels")
# what layers of the library say to each other, and the shell to plots
BETWEEN_ENGINES = re.compile(r"engines\.(Device\w+|Engine|FeatureJob|[a-z_]+)$")
NOT_FOR_USERS = {"plots.save_error_curves", "datasets.Entry", "kernels.SquaredSeries"}


def find(name):
    module, _, last = f"walkernel.{name}".rpartition(".")
    return getattr(importlib.import_module(module), last)


def test_every_public_name_has_a_page():
    public = {name for name in wk.__all__ if not inspect.ismodule(getattr(wk, name))}
    for front in FRONTS:
        public |= {f"{front}.{name}" for name in importlib.import_module(f"walkernel.{front}").__all__}
    explained = [find(name) for name in LISTED]
    missing = {name for name in public if find(name) not in explained}
    assert {name for name in missing if not BETWEEN_ENGINES.match(name)} <= NOT_FOR_USERS


@pytest.mark.parametrize("name", sorted(LISTED))
def test_every_page_is_of_a_name_that_is_explained(name):
    assert find(name).__doc__.strip().splitlines()[0].endswith(".")


PAGES = [path for path in [*DOCS.glob("*.md"), *DOCS.glob("guides/*.md")] if "```python" in path.read_text()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_runs_and_prints_what_the_page_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace, printed = {"__name__": "page"}, io.StringIO()
    for language, text in re.findall(r"^```(python|text)\n(.*?)^```", page.read_text(), re.M | re.S):
        if language == "python":
            with contextlib.redirect_stdout(printed):
                exec(compile(text, page.name, "exec"), namespace)
        elif printed.getvalue():
            assert words(printed.getvalue()) == words(text)
            printed = io.StringIO()


def words(text):
    """Return what is said apart from numbers, whose last digits may differ, and rules of tables."""
    return [word for word in text.split() if not re.search(r"\d|─", word)]


def test_commands_print_what_the_page_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "guides" / "command_line.md").read_text()
    for name, column in (("values", slice(0, 20)), ("labels", slice(20, None))):
        lines = re.search(r"^```text\n(.*?)^```", page, re.M | re.S)[1].splitlines()
        Path(f"{name}.csv").write_text("\n".join(filter(None, (line[column].strip() for line in lines))))
    examples = re.findall(r"^\$ walkernel (.*)\n((?:[^$`].*\n)*)", page, re.M)
    for command, shown in examples:
        result = call(*shlex.split(command))
        assert result.exit_code == ("Error" in shown)
        assert sorted(words(result.stderr + result.stdout)) == sorted(words(shown))
    assert {shlex.split(command)[0] for command, _ in examples} | SLOW_COMMANDS == set(commands())


SLOW_COMMANDS = {"demo", "reproduce", "datasets"}
"""Commands that the page names without an example of its own."""


def commands():
    """Return the names of all commands."""
    return [command.name or command.callback.__name__ for command in app.registered_commands]


def patterns():
    """Return what the page on errors quotes, as regular expressions by their text."""
    quoted = re.findall(r'^\*\*"(.*)"\*\*$', (DOCS / "errors.md").read_text(), re.M)
    return {text: re.compile(".*".join(map(re.escape, text.split("…")))) for text in quoted}


def walk_without_memory():
    def lack(self, capacity, pool):
        raise MemoryError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("walkernel.walks._sampling.Joiner.__init__", lack)
        wk.sample_features(CLUB, wk.Diffusion(), 8)


CLUB, NAMED = graphs.karate(), wk.Graph.from_edges([("a", "b"), ("b", "c")])
ONE_WAY = wk.Graph.from_edges([(0, 1), (1, 2)], directed=True)
SIGNED = wk.Graph.from_edges([(0, 1), (1, 2)], weights=[1.0, -1.0])
LARGE = wk.Graph.from_edges([(i, i + 1) for i in range(10**5)])
REFUSED = [
    lambda: wk.estimate_kernel(CLUB, wk.RegularizedLaplacian(1, 2.0, matrix="adjacency")),
    lambda: wk.estimate_kernel(NAMED, wk.Diffusion()).entries(0, 1),
    lambda: wk.Graph.from_edges([(0, 10**7), (5, 10**6)]),
    lambda: wk.exact_kernel(LARGE, wk.Diffusion()),
    walk_without_memory,
    lambda: wk.NodeGPRegressor(ONE_WAY, wk.Diffusion()).fit([0, 1], [1.0, 2.0]),
    lambda: wk.NodeGPRegressor(CLUB, wk.PageRank()).fit([0, 1], [1.0, 2.0]),
    lambda: wk.estimate_kernel(SIGNED, wk.PageRank()),
    lambda: wk.Graph.from_edges([(0, 1), (0, 1)], directed=True),
    lambda: wk.NodeGPRegressor(CLUB, wk.Diffusion(9.0), method="walks", n_walks=2, learn=()).fit(
        [0, 9], [1, 2]
    ),
]


def test_messages_that_are_explained_are_those_of_the_library():
    told = set()
    for refused in REFUSED:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                refused()
                messages = [str(one.message) for one in caught]
            except (ValueError, MemoryError, wk.DivergentKernelError) as error:
                messages = [str(error)]
        found = {text for text, pattern in patterns().items() if any(map(pattern.search, messages))}
        assert len(found) == 1, messages
        told |= found
    assert {text for text in patterns() if text not in told} == {
        "device must be an available device, got cuda, but …"
    }
