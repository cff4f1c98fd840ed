"""The site names every public name, and its code runs."""

import ast
import contextlib
import importlib
import inspect
import io
import re
import shlex
import warnings
from pathlib import Path

import numpy as np
import pytest

import graphs
import walkernel as wk
import walkernel.torch
from commands import call
from walkernel.cli import app
from walkernel.storage._folders import exclusive

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
    """Return what is said apart from numbers, whose last digits may differ, brackets, and rules of tables."""
    return [word for word in re.sub(r"[][]", " ", text).split() if not re.search(r"\d|─", word)]


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
    page = (DOCS / "errors.md").read_text()
    quoted = [text for line in page.splitlines() if line.startswith('**"') for text in QUOTED.findall(line)]
    return {text: re.compile(".*".join(map(re.escape, text.split("…"))), re.S) for text in quoted}


QUOTED = re.compile(r'\*\*"(.*?)"\*\*')


def walk_without_memory():
    def lack(self, capacity, pool):
        raise MemoryError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("walkernel.walks._sampling.Joiner.__init__", lack)
        wk.sample_features(CLUB, wk.Diffusion(), 8)


def write_among_others():
    Path("mine").mkdir()
    Path("mine/notes").write_text("")
    wk.sample_features(CLUB, wk.Diffusion(), 8, directory="mine")


def write_other_features():
    for n_walks in (8, 16):
        wk.sample_features(CLUB, wk.Diffusion(), n_walks, directory="phi")


def open_damaged():
    CLUB.save("store")
    with open("store/indices.npy", "r+b") as file:
        file.write(b"damage")
    wk.load_graph("store")


def read_bad_line():
    Path("edges.csv").write_text("0,1\n1,2,3,4,5\n")
    wk.load_graph("edges.csv")


def read_other_format():
    Path("edges.xls").write_text("")
    wk.load_graph("edges.xls")


def relabel_archive():
    CLUB.save("club.npz")
    wk.load_graph("club.npz", relabel=True)


def write_twice_at_once():
    Path("busy").mkdir()
    with exclusive(Path("busy")):
        wk.sample_features(CLUB, wk.Diffusion(), 8, directory="busy")


def set_threads():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WALKERNEL_NUM_THREADS", "many")
        wk.sample_features(CLUB, wk.Diffusion(), 8)


def torch_array(values):
    import torch

    return torch.tensor(values)


def one_way_data():
    from torch_geometric.data import Data

    return Data(edge_index=torch_array([[0, 1], [1, 2]]), num_nodes=3)


def fit(estimator, X, y, **more):
    return estimator.fit(X, y, **more)


def gp(**more):
    return wk.NodeGPRegressor(CLUB, **more)


def heat(source, t, **more):
    return wk.solve_ode(CLUB, source, t, **more)


CLUB, NAMED = graphs.karate(), wk.Graph.from_edges([("a", "b"), ("b", "c")])
ONE_WAY = wk.Graph.from_edges([(0, 1), (1, 2)], directed=True)
SIGNED = wk.Graph.from_edges([(0, 1), (1, 2)], weights=[1.0, -1.0])
WHEEL = wk.Graph.from_edges([(0, 1), (1, 2), (2, 0)], weights=[-1.0] * 3, directed=True)
LARGE = wk.Graph.from_edges([(i, i + 1) for i in range(10**5)])
RING = wk.Graph.from_edges([(i, (i + 1) % 40) for i in range(40)])
WEB = wk.datasets.barabasi_albert(500, 3).graph
PATH, NARROW = wk.Graph.from_edges([(i, i + 1) for i in range(60)]), wk.Diffusion(1.0)
TWO, THREE, ONES = [0, 1], [0, 1, 2], np.ones(34)
RARELY_LONG = wk.CoupledWalks([1.0, 1.0] + [1e-4] * 60)
REFUSED = [
    # how to read a message
    lambda: wk.estimate_kernel(CLUB, NARROW, 2.5),
    lambda: wk.Diffusion(-1.0),
    lambda: wk.Diffusion(matrix="laplace"),
    lambda: wk.NodeRidge(CLUB, normalize="yes").fit(TWO, [1.0, 2.0]),
    lambda: fit(wk.NodeRidge(CLUB), TWO, [1.0, np.nan]),
    lambda: wk.Graph.from_edges([(0, 1)], weights=[1j]),
    lambda: wk.estimate_kernel(CLUB, NARROW, progress=3),
    # graphs and nodes
    lambda: wk.estimate_kernel(NAMED, NARROW).entries(0, 1),
    lambda: CLUB.ids([34]),
    lambda: CLUB.ids(["a"]),
    lambda: wk.Graph.from_edges([(0, 10**7), (5, 10**6)]),
    lambda: wk.Graph.from_edges([(1, 2), (2, 3)]),
    lambda: wk.Graph.from_edges([(0, 1), (0, 1)], directed=True),
    lambda: wk.Graph.from_edges(np.ones((4, 3), dtype=int)),
    lambda: wk.Graph.from_edges([(0.5, 1.0)]),
    lambda: wk.Graph.from_edges([(0, 5)], n_nodes=3),
    lambda: wk.Graph.from_edges([("a", float("nan"))]),
    lambda: wk.Graph.from_edges([("a", "b")], n_nodes=3),
    lambda: wk.Graph.from_edges([(0, 1), (1, 2)], weights=[1.0]),
    lambda: wk.Graph.from_edges([(0, 1), (1, 2)], weights=[1.0, 1e300]),
    lambda: wk.Graph.from_scipy(np.array([[0, 1], [0, 0]]), directed=False),
    lambda: wk.Graph.from_scipy(np.ones((2, 3))),
    lambda: wk.Graph.from_edges([]),
    lambda: setattr(CLUB, "weights", None),
    lambda: wk.estimate_kernel(SIGNED, wk.PageRank()),
    lambda: wk.estimate_kernel(CLUB, NARROW, nodes=[0, 0]),
    lambda: wk.Graph.from_edges([(("x", 1), ("y", 2))]).save("graph.npz"),
    lambda: wk.sample_walks(CLUB, 4, nodes=[33]).update(ONE_WAY),
    # kernels
    lambda: wk.estimate_kernel(CLUB, wk.RegularizedLaplacian(1, 2.0, matrix="adjacency")),
    lambda: wk.estimate_kernel(CLUB, "diffusion"),
    lambda: fit(gp(kernel=wk.PageRank()), TWO, [1.0, 2.0]),
    lambda: fit(gp(kernel=wk.PowerSeries([1, 0, 0, 2]), learn=(), method="walks"), TWO, [1, 2]),
    lambda: wk.NodeFeatures(CLUB, wk.PowerSeries([0.0, 1.0]), method="walks").fit(TWO),
    lambda: wk.estimate_kernel(RING, wk.Diffusion(1e4)),
    lambda: fit(wk.NodeRidge(CLUB, wk.InverseCosine()), TWO, [1.0, 2.0]),
    lambda: wk.polynomial_operator(CLUB, wk.PageRank(1 - 1e-15)),
    lambda: wk.polynomial_operator(CLUB, wk.PageRank(1 - 1e-9)),
    lambda: wk.sample_walks(CLUB, 4).features(wk.PageRank()),
    lambda: NARROW + wk.PageRank(),
    lambda: wk.PowerSeries.from_function(np.abs),
    lambda: wk.exact_kernel(ONE_WAY, wk.PageRank(1 - 1e-9)),
    lambda: wk.exact_kernel(WHEEL, wk.Diffusion(9.0)),
    # predictions
    lambda: fit(wk.NodeGPRegressor(ONE_WAY, NARROW), TWO, [1.0, 2.0]),
    lambda: fit(wk.NodeRidge(CLUB), [[0, 1], [2, 3]], [1.0, 2.0]),
    lambda: fit(wk.NodeRidge(CLUB), TWO, [1.0]),
    lambda: fit(wk.NodeRidge(CLUB), [0, 0], [1.0, 2.0]),
    lambda: fit(wk.NodeRidgeClassifier(CLUB), TWO, ["a", "a"]),
    lambda: fit(wk.NodeRidgeClassifier(CLUB), TWO, [0.5, 0.7]),
    lambda: fit(wk.NodeRidgeClassifier(CLUB), TWO, ["a", 1]),
    lambda: fit(wk.NodeRidgeClassifier(CLUB, class_weight={"z": 1.0}), TWO, ["a", "b"]),
    lambda: fit(gp(features=np.ones((3, 2))), TWO, [1.0, 2.0]),
    lambda: fit(gp(covariates=np.ones((34, 3))), TWO, [1.0, 2.0]),
    lambda: fit(gp(covariates=np.ones((3, 3))), TWO, [1.0, 2.0]),
    lambda: fit(gp(kernel=NARROW), TWO, [1.0, 2.0], noise_std=[-1, 1]),
    lambda: fit(gp(learn=("noise",)), TWO, [1.0, 2.0]),
    lambda: fit(gp(kernel=NARROW, learn="noise"), TWO, [1.0, 2.0]),
    lambda: fit(wk.NodeRidge(CLUB), TWO, [1.0, 2.0], sample_weight=[-1, 1]),
    lambda: fit(gp(kernel=NARROW), THREE, THREE).log_marginal_likelihood([0.0]),
    lambda: fit(gp(kernel=NARROW), THREE, THREE).condition(TWO, [[1.0], [2.0]]),
    lambda: fit(wk.NodeRidge(CLUB, random_state="seed"), TWO, [1.0, 2.0]),
    lambda: wk.NodeRidge(CLUB).predict([1]),
    lambda: fit(wk.NodeSmoother(ONE_WAY), TWO, [1.0, 2.0]),
    lambda: fit(wk.NodeRidge(ONE_WAY, NARROW, method="polynomial"), TWO, [1.0, 2.0]),
    lambda: fit(wk.NodeSmoother(CLUB, NARROW, normalize=True, method="walks"), [0], [1.0]),
    lambda: fit(gp(kernel=NARROW), THREE, THREE).predict([3], return_std=True, return_cov=True),
    lambda: wk.gp_posterior(wk.estimate_kernel(CLUB, NARROW), TWO, [1.0, 2.0], [2], noise=0.1),
    lambda: fit(
        gp(kernel=wk.Diffusion(5.0), learn=(), noise=1e-6, method="walks", solver="cg", max_iter=1),
        range(30), range(30),
    ),
    lambda: fit(gp(kernel=wk.Diffusion(9.0), method="walks", n_walks=2, learn=()), [0, 9], [1, 2]),
    lambda: fit(gp(kernel=wk.Diffusion(1e-5), learn=()), THREE, THREE),
    lambda: fit(gp(kernel=wk.Diffusion(1e3), learn=()), THREE, THREE),
    lambda: fit(wk.NodeGPRegressor(PATH, wk.Matern(1.5)), range(61), np.linspace(0, 1, 61)),
    lambda: fit(
        wk.NodeGPRegressor(RING, wk.Diffusion(1e5), method="walks"), range(0, 40, 4), np.sin(range(10))
    ),
    lambda: fit(gp(kernel=NARROW), THREE, 1e12 + np.array([1e-3, 2e-3, 3e-3])),
    lambda: fit(wk.NodeSmoother(ONE_WAY, NARROW), [0], [1.0]).predict([0, 2]),
    # estimates, memory and time
    lambda: wk.exact_kernel(LARGE, NARROW),
    lambda: wk.estimate_kernel(CLUB, wk.Diffusion(4.0), 64, sampler=wk.IndependentWalks(0.9)),
    lambda: wk.sample_walks(CLUB, 8).features(wk.Matern(1.5, 8.0)),
    lambda: wk.estimate_kernel(CLUB, wk.Diffusion(5.0), 64, sampler=RARELY_LONG),
    lambda: wk.estimate_kernel(CLUB, wk.Diffusion(14.0), 8, sampler=wk.IndependentWalks(0.1)),
    lambda: wk.estimate_kernel(CLUB, wk.PStepRandomWalk(3), 8, pair="symmetric"),
    walk_without_memory,
    lambda: wk.estimate_kernel(CLUB, NARROW, 8, budget=100),
    lambda: wk.estimate_kernel(CLUB, NARROW, 8, tolerance=0.1),
    lambda: wk.estimate_kernel(CLUB, NARROW, budget=1),
    lambda: wk.estimate_kernel(RING, wk.Diffusion(10.0), tolerance=1e-8),
    lambda: wk.estimate_kernel(CLUB, NARROW, ensembles="shared", pair="lazy"),
    lambda: wk.estimate_kernel(CLUB, NARROW, nodes=[0], rows=[0]),
    lambda: wk.estimate_kernel(CLUB, NARROW, 1).estimate(0, 1),
    lambda: wk.polynomial_operator(LARGE, NARROW).diagonal(),
    wk.estimate_kernel(CLUB, NARROW, rows=[0]).T.diagonal,
    lambda: wk.polynomial_operator(CLUB, NARROW) @ np.ones(3),
    lambda: wk.estimate_kernel(RING, wk.Diffusion(0.3), 2).topk([0], 39),
    lambda: wk.estimate_kernel(WEB, NARROW, 16, sampler=wk.IndependentWalks(0.3)).topk([0], 60),
    lambda: wk.nearest(PATH, wk.Diffusion(0.5), [0], 40, method="polynomial"),
    lambda: wk.sample_walks(CLUB, 8).in_groups(3),
    lambda: wk.personalized_pagerank(CLUB, {0: -1}),
    lambda: wk.personalized_pagerank(CLUB, {0: 0}),
    lambda: wk.personalized_pagerank(CLUB, {}),
    # equations and clusters of nodes
    lambda: heat(None, [0.0, 1.0], initial=ONES),
    lambda: heat(None, [1.0], initial=ONES, matrix="adjacency"),
    lambda: heat(None, [1000.0], initial=ONES, matrix="positive-laplacian"),
    lambda: heat(ONES, [1.0], matrix="combinatorial").steady_state(),
    lambda: heat(lambda t: ONES * (t > 0.3), [1.0]),
    lambda: heat(lambda t: ONES, [1e-6, 1.0], quadrature="monte-carlo", n_points=4),
    lambda: wk.KernelKMeans(4, max_iter=1, n_init=1).fit(WEB),
    lambda: wk.KernelKMeans(2).fit(np.eye(6) + 0.1),
    lambda: wk.KernelKMeans(99).fit(CLUB),
    lambda: wk.KernelKMeans(2).fit(wk.estimate_kernel(CLUB, NARROW, rows=TWO)),
    lambda: wk.KernelKMeans(2, init=TWO).fit(CLUB),
    lambda: wk.clustering_error(TWO, THREE),
    lambda: wk.KernelKMeans(2, kernel=NARROW).fit(np.ones((5, 2))),
    # files and data sets
    lambda: wk.load_graph("no.csv"),
    read_other_format,
    read_bad_line,
    relabel_archive,
    write_other_features,
    write_among_others,
    open_damaged,
    lambda: wk.open_features("nowhere"),
    lambda: CLUB.save("nowhere/graph.npz"),
    write_twice_at_once,
    lambda: wk.load_dataset("karate-club"),
    lambda: wk.sample_features(CLUB, NARROW, 8, block_size=5),
    # walks, learning, PyTorch and pictures
    lambda: wk.IndependentWalks(1e-9),
    lambda: wk.CoupledWalks((0.5,), group=3),
    lambda: wk.sample_walks(CLUB, 4, sampler="independent"),
    lambda: wk.sparse_kernel(CLUB, NARROW),
    lambda: wk.torch.LaplacianEncoding(1)(one_way_data()),
    lambda: wk.torch.GRFKernel(CLUB, NARROW, n_walks=8)(torch_array([99])).to_dense(),
    lambda: wk.torch.fit_to_task(CLUB, TWO, TWO),
    lambda: wk.torch.fit_to_task(CLUB, range(34), ONES),
    lambda: wk.torch.fit_to_kernel(CLUB, NARROW, 8, modulation=NARROW),
    lambda: wk.torch.fit_to_kernel(CLUB, NARROW, 8, walks="expected", ensembles="shared"),
    lambda: wk.plots.plot_nodes(CLUB, TWO),
    lambda: wk.plots.plot_nodes(CLUB, list(map(str, range(34)))),
    # engines and installation
    lambda: wk.estimate_kernel(CLUB, NARROW, engine="gpu"),
    set_threads,
]  # fmt: skip
NOT_HERE = {
    "device must be an available device, got cuda, but …",
    "… has too little memory for …",
    "No Dask scheduler was reached at …",
    "… the cluster at … has had no worker for … seconds",
    "… needs …. Install it with `pip install walkernel[…]`",
    "Could not get the data set …: …",
}
"""What takes a card, half a minute, a missing package or much memory to provoke."""


def messages_of(call):
    """Return what a call is refused with, or else the warnings that it gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call()
        except Exception as error:
            return [str(error)]
    return [str(one.message) for one in caught]


def test_messages_that_are_explained_are_those_of_the_library(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told, explained = set(), patterns()
    for refused in REFUSED:
        messages = messages_of(refused)
        found = {text for text, pattern in explained.items() if any(map(pattern.search, messages))}
        assert found, messages
        told |= found
    assert set(explained) - told == NOT_HERE


def literal(node):
    """Return a text of the source with … for what is put into it."""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
    return node.value if isinstance(node, ast.Constant) else None


def source_calls(name):
    """Yield the calls of a function in the source."""
    for path in Path(wk.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) == name:
                yield node


def test_every_warning_is_explained():
    told_at_nodes = "… node ……. …"  # of which two texts are a part, both of them on the page
    texts = {literal(call.args[0]) for call in source_calls("warn") if len(call.args) == 1}
    assert len(texts) > 15
    expressions = patterns().values()
    explained = {text for text in texts if any(pattern.search(text) for pattern in expressions)}
    assert texts - explained == {told_at_nodes}
