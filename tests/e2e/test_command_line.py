"""What the commands print and write is what the library gives."""

import csv
import json
import os
import platform
import re
import shlex
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import walkernel as wk
import walkernel.plots
from commands import call, run, succeed
from walkernel.cli import app
from walkernel.cli._about import PACKAGES

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "command_line.md"
FRIENDS = "Ada,Ben,2\nBen,Cem,0.5\nCem,Dan,1\nDan,Ada,1\nDan,Eve,3\n"


@pytest.fixture(scope="module")
def karate():
    return wk.load_dataset("karate").graph


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to be in, with a labelled graph, one whose labels are numbers, and some values."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "friends.csv").write_text(FRIENDS)
    (tmp_path / "numbered.csv").write_text("10,-20\n-20,30\n30,10\n30,40\n")
    (tmp_path / "values.csv").write_text("node,value\n0,1.5\n33,-1\n1,0.5\n0,1.25\n")
    (tmp_path / "labels.csv").write_text("node,label\n0,a\n1,a\n2,a\n30,b\n32,b\n33,b\n")
    wk.load_graph("friends.csv").save("roads")
    return tmp_path


def table(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def example_calls():
    texts = [command.callback.__doc__ for command in app.registered_commands]
    found = [re.findall(r"Example: walkernel (.*)", text) for text in texts]
    assert all(found)
    shell = re.findall(r"```sh\n(.*?)```", GUIDE.read_text(), re.S)
    found.append(re.findall(r"^walkernel (.*?) *(?:#|$)", "".join(shell), re.M))
    return list(dict.fromkeys(example for examples in found for example in examples))


def test_demo_prints_errors_and_saves_a_picture(tmp_path):
    result = run("demo", "--repeats", "4", "--out", "pictures/karate.png", cwd=tmp_path, COLUMNS="80")
    assert result.returncode == 0, result.stderr
    for name in ("1-reg. Laplacian", "2-reg. Laplacian", "2-step walk", "diffusion", "inverse cosine *"):
        line = next(line for line in result.stdout.splitlines() if name in line)
        cells = line.replace(name, "").split()
        errors = [float(cell.split("(")[0]) for cell in cells[:5]]
        assert errors == sorted(errors, reverse=True)
        assert float(cells[5]) == pytest.approx(-0.5, abs=0.06)
    picture = tmp_path / "pictures" / "karate.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert list(picture.parent.iterdir()) == [picture]


@pytest.mark.deep
def test_demo_without_matplotlib_gives_the_table_and_a_hint(tmp_path):
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "sys.argv = ['walkernel', 'demo', '--repeats', '2']; from walkernel.cli import main; main()"
    )
    result = run("-c", code, cwd=tmp_path, program=[sys.executable])
    assert result.returncode == 0, result.stderr
    assert "diffusion" in result.stdout
    assert "pip install 'walkernel[plot]'" in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_version_and_help_are_quick(tmp_path):
    assert run("--version", cwd=tmp_path).stdout.strip() == f"walkernel {wk.__version__}"
    code = (
        "import sys; from walkernel.cli import app; app(['kernel', '--help'], standalone_mode=False)\n"
        "assert not {'numpy', 'scipy', 'numba', 'sklearn', 'torch'} & set(sys.modules)"
    )
    result = run("-c", code, cwd=tmp_path, program=[sys.executable])
    assert result.returncode == 0, result.stderr
    assert "Example: walkernel kernel" in result.stdout


@pytest.mark.parametrize("example", example_calls())
def test_examples_of_the_help_and_the_readme_run(example, folder):
    smaller = {"demo": ["--repeats", "2"], "learn": ["--epochs", "2"]}
    arguments = shlex.split(example)
    assert succeed(*arguments, *smaller.get(arguments[0], [])) or "--out" in arguments
    if "--out" in arguments:
        assert (folder / arguments[arguments.index("--out") + 1]).stat().st_size > 100


class TestKernel:
    def test_entries_and_neighbors_of_a_process_as_json(self, karate, tmp_path):
        result = run(
            *("kernel", "karate", "--entry", 0, 33, "--entry", 5, 6, "--top", 0, 33, "-k", 3, "--json"),
            *("--kernel", "matern(nu=2.5, kappa=2)", "--walks", 64, "--seed", 3),
            cwd=tmp_path,
            program=[sys.executable, "-m", "walkernel"],
        )
        assert (result.returncode, result.stderr) == (0, "")
        K = wk.estimate_kernel(karate, wk.Matern(2.5, 2.0), 64, seed=3)
        found, estimate, best = (
            json.loads(result.stdout),
            K.estimate([0, 5], [33, 6]),
            K.estimate_topk([0, 33], 3),
        )
        assert [entry["value"] for entry in found["entries"]] == estimate.value.tolist()
        assert [entry["stderr"] for entry in found["entries"]] == estimate.stderr.tolist()
        assert [entry["neighbor"] for entry in found["neighbors"]] == best.nodes.ravel().tolist()
        assert [entry["stderr"] for entry in found["neighbors"]] == best.stderr.ravel().tolist()
        assert [entry["certified"] for entry in found["neighbors"]] == best.certified.ravel().tolist()
        assert found["kernel"] == "Matern(nu=2.5, kappa=2.0)"

    def test_a_row_of_a_labelled_graph_as_a_table_without_escape_codes(self, folder):
        result = run("kernel", "friends.csv", "--row", "Dan", cwd=folder, TERM="xterm-256color", COLUMNS="20")
        assert (result.returncode, result.stderr) == (0, "")
        assert "\x1b" not in result.stdout
        values = wk.estimate_kernel(wk.load_graph("friends.csv"), wk.Diffusion()).rows("Dan")[0]
        rows = [line.split() for line in result.stdout.splitlines() if line.split()[:1] == ["Dan"]]
        assert [row[1] for row in rows] == ["Ada", "Ben", "Cem", "Dan", "Eve"]
        assert [float(row[2]) for row in rows] == pytest.approx(values, rel=1e-5)

    def test_a_tolerance_instead_of_walks(self, karate):
        wanted = ("--kernel", "diffusion(sigma=3)", "--tolerance", "0.05", "--json")
        found = json.loads(succeed("kernel", "karate", "--row", 0, *wanted))
        K = wk.estimate_kernel(karate, wk.Diffusion(3.0), tolerance=0.05)
        assert found["n_steps"] == K.n_steps
        assert [entry["value"] for entry in found["rows"]] == K.entries(0, np.arange(34)).tolist()

    def test_entries_alone_walk_from_their_nodes_alone(self, karate):
        found = json.loads(succeed("kernel", "karate", "--entry", 4, 4, "--walks", 32, "--json"))
        K = wk.estimate_kernel(karate, wk.Diffusion(), 32, nodes=[4])
        assert found["n_steps"] == K.n_steps
        assert found["entries"][0]["value"] == K.entries(4, 4)

    def test_whole_numbers_as_labels(self, folder):
        """Integers in an edge list or in a file of the library, negative ones as well."""
        graph = wk.load_graph("numbered.csv", relabel=True)
        graph.save("numbered.npz")
        value = wk.estimate_kernel(graph, wk.Diffusion(), nodes=[-20, 40]).entries(-20, 40)
        for arguments in (["numbered.csv", "--relabel"], ["numbered.npz"]):
            found = json.loads(succeed("kernel", *arguments, "--entry", -20, 40, "--json"))
            (entry,) = found["entries"]
            assert (entry["row"], entry["column"], entry["value"]) == (-20, 40, value)

    def test_directions(self, folder):
        found = json.loads(succeed("kernel", "friends.csv", "--directed", "--entry", "Ben", "Ada", "--json"))
        K = wk.estimate_kernel(
            wk.load_graph("friends.csv", directed=True), wk.Diffusion(), nodes=["Ben", "Ada"]
        )
        assert found["entries"][0]["value"] == K.entries("Ben", "Ada")

    def test_entries_that_no_walk_finds_say_so(self, folder):
        (folder / "path.txt").write_text("".join(f"{i} {i + 1}\n" for i in range(40)))
        assert "few walks; at most" in succeed("kernel", "path.txt", "--entry", 0, 30)


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("diffusion", wk.Diffusion()),
        ("diffusion(sigma=2)", wk.Diffusion(2.0)),
        (" regularized-laplacian( d=2 , sigma=.5 ) ", wk.RegularizedLaplacian(2, 0.5)),
        ("RegularizedLaplacian(sigma=1e-1)", wk.RegularizedLaplacian(1, 0.1)),
        ("matern(nu=2.5)", wk.Matern(2.5)),
        ("p-step(p=3)", wk.PStepRandomWalk(3)),
        ("p_step_random_walk(alpha=3)", wk.PStepRandomWalk(alpha=3.0)),
        ("inverse-cosine()", wk.InverseCosine()),
    ],
)
def test_kernels_in_words(text, kernel, karate):
    other = replace(kernel, matrix="combinatorial")
    for words, matrix, meant in (
        (text, "normalized", kernel), (repr(kernel), "normalized", kernel), (text, "combinatorial", other)
    ):  # fmt: skip
        wanted = ("--kernel", words, "--matrix", matrix, "--walks", 4, "--json")
        found = json.loads(succeed("kernel", "karate", "--entry", 0, 1, *wanted))
        K = wk.estimate_kernel(karate, meant, 4, nodes=[0, 1])
        assert found["kernel"] == repr(meant)
        assert found["entries"][0]["value"] == K.entries(0, 1)


@pytest.mark.parametrize(
    ("words", "more", "kernel"),
    [
        ("pagerank", (), wk.PageRank()),
        ("pagerank(damping=0.5)", ("--matrix", "random-walk"), wk.PageRank(0.5)),
        ("PageRank(damping=.5)", ("--matrix", "normalized"), wk.PageRank(0.5, matrix="normalized")),
        ("diffusion", ("--matrix", "random-walk"), wk.Diffusion(matrix="random-walk")),
    ],
)
def test_kernels_of_random_walks(words, more, kernel, karate):
    wanted = ("--kernel", words, *more, "--walks", 4, "--json")
    found = json.loads(succeed("kernel", "karate", "--entry", 0, 1, 1, 0, *wanted))
    K = wk.estimate_kernel(karate, kernel, 4, nodes=[0, 1])
    assert found["kernel"] == repr(kernel)
    assert [entry["value"] for entry in found["entries"]] == K.entries([0, 1], [1, 0]).tolist()


class TestPlot:
    def test_values_of_a_data_set(self, folder):
        assert succeed("plot", "karate", "values.csv", "--out", "map.png", "--title", "Values") == ""
        assert (folder / "map.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        before = (folder / "map.png").read_bytes()
        assert succeed("plot", "karate", "labels.csv", "--labels", "--out", "map.svg") == ""
        text = (folder / "map.svg").read_text()
        assert all(f"<!-- {label} -->" in text for label in "ab")
        assert (folder / "map.png").read_bytes() == before

    def test_positions_of_a_file(self, folder):
        (folder / "heat.csv").write_text("Ada,1\nEve,2.5\n")
        (folder / "places.csv").write_text("node,x,y\nAda,0,0\nBen,1,0\nCem,1,1\nDan,0,1\nEve,-1,1\n")
        succeed("plot", "friends.csv", "heat.csv", "--positions", "places.csv", "--out", "heat.png")
        succeed("plot", "roads", "heat.csv", "--out", "layout.png")
        assert (folder / "heat.png").read_bytes() != (folder / "layout.png").read_bytes()

    def test_the_values_of_the_file_are_drawn(self, folder, monkeypatch):
        drawn = []

        def plot_nodes(*arguments, **options):
            drawn.append((*arguments[1:], options))
            return real(*arguments, **options)

        real = walkernel.plots.plot_nodes
        monkeypatch.setattr("walkernel.plots.plot_nodes", plot_nodes)
        succeed("plot", "karate", "values.csv")
        (folder / "sure.csv").write_text("node,speed,std\n4,2,0.5\n7,,1\n")
        succeed("plot", "karate", "sure.csv", "--title", "Speed of the club", "--out", "sure.PNG")
        succeed("plot", "karate", "labels.csv", "--labels")
        (values, none, first), (speed, std, options), (labels, _, _) = drawn
        assert {i: values[i] for i in np.flatnonzero(~np.isnan(values))} == {0: 1.375, 1: 0.5, 33: -1}
        assert (none, first["label"]) == (None, "value")
        assert np.flatnonzero(~np.isnan(speed)).tolist() == [4]
        assert (std[[4, 7]].tolist(), std[5]) == ([0.5, 1.0], 1.0)
        assert (options["label"], options["title"]) == ("speed", "Speed of the club")
        assert labels[[0, 33, 5]].tolist() == ["a", "b", None]
        assert {path.name for path in folder.glob("*.[pP]*")} == {"map.png", "sure.PNG"}

    def test_predictions_are_drawn_as_they_are(self, folder):
        succeed("regress", "karate", "values.csv", "--out", "predicted.csv")
        succeed("plot", "karate", "predicted.csv", "--out", "predicted.svg")
        text = (folder / "predicted.svg").read_text()
        assert "<!-- mean -->" in text
        assert text.count("<!-- std ") == 2

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("0,1\n99,2\n", "line 2: There is no node '99'"),
            ("0\n", "line 1: expected two columns, node,value, or three, node,value,std, found 1"),
            ("0,1,2\n1,1\n", "line 2: expected two columns"),
            ("0,1,2,3\n", "found 4"),
            ("0;1\n", "found 1"),
            ("0,high\n", "expected a number as the value, found 'high' (labels are drawn with --labels)"),
            ("0,1,-2\n", "expected a standard deviation of at least 0, found '-2'"),
            ("0,1,1\n0,2,1\n", "expected one line for each node, found several for 0"),
            ("node,value\n", "expected lines of node,value, found none"),
            ("", "expected lines of node,value, found none"),
        ],
    )
    def test_values_that_are_none(self, folder, text, words):
        (folder / "bad.csv").write_text(text)
        result = call("plot", "karate", "bad.csv", "--out", "no.png")
        assert result.exit_code == 1
        assert "bad.csv" in result.stderr
        assert words in result.stderr
        assert not (folder / "no.png").exists()

    @pytest.mark.parametrize("out", ["no.xyz", "no.jpg", "missing/no.png", "roads"])
    def test_pictures_that_cannot_be_written(self, folder, out):
        before = sorted(folder.rglob("*"))
        assert call("plot", "karate", "values.csv", "--out", out).exit_code == 2
        assert sorted(folder.rglob("*")) == before

    @pytest.mark.parametrize(
        ("places", "words"),
        [
            ("Ada,0,0\n", "a position for each node"),
            ("Ada,0\n", "three columns, node,x,y"),
            ("Ada,0,nan\n", "finite numbers as x and y"),
            ("Zoe,0,1\nBen,1,1\n", "line 1: There is no node 'Zoe'"),
        ],
    )
    def test_positions_that_are_none(self, folder, places, words):
        (folder / "heat.csv").write_text("Ada,1\n")
        (folder / "places.csv").write_text(places)
        result = call("plot", "friends.csv", "heat.csv", "--positions", "places.csv", "--out", "no.png")
        assert result.exit_code != 0
        assert words in result.stderr
        assert not (folder / "no.png").exists()


class TestNearest:
    def test_of_a_process_as_a_table(self, karate, tmp_path):
        wanted = ("--kernel", "pagerank(damping=0.5)", "--tolerance", "1e-6")
        result = run("nearest", "karate", "--node", 33, 0, "-k", 3, *wanted, cwd=tmp_path)
        assert (result.returncode, result.stderr) == (0, "")
        lines = [line.split() for line in result.stdout.splitlines() if "±" in line]
        best = wk.nearest(karate, wk.PageRank(0.5), [33, 0], 3, tolerance=1e-6)
        assert [int(line[0]) for line in lines] == [33, 33, 33, 0, 0, 0]
        assert [int(line[1]) for line in lines] == best.nodes.ravel().tolist()
        assert [float(line[2]) for line in lines] == pytest.approx(best.values.ravel(), rel=1e-5)
        exact = wk.personalized_pagerank(karate, [{33: 1}, {0: 1}], damping=0.5)
        assert best.values == pytest.approx(np.take_along_axis(exact, best.nodes, axis=1), rel=1e-5)

    def test_of_nodes_in_a_file_as_csv_and_json(self, folder):
        (folder / "some.csv").write_text("node\nEve\nBen\n")
        arguments = ("friends.csv", "--directed", "--node", "Dan", "--nodes", "some.csv", "-k", 2)
        result = call("nearest", *arguments, "--kernel", "pagerank", "--out", "found.csv", "--json")
        assert (result.exit_code, result.stderr.splitlines()[0]) == (
            0, "1 of 3 nodes have fewer than 2 neighbours of positive value.",
        )  # fmt: skip
        graph = wk.load_graph("friends.csv", directed=True)
        best = wk.nearest(graph, wk.PageRank(), ["Dan", "Eve", "Ben"], 2)
        assert best.nodes[1].tolist() == [None, None]
        rows, found = table("found.csv"), json.loads(result.stdout)
        assert list(rows[0]) == ["node", "neighbor", "value", "stderr", "certified"]
        assert [row["node"] for row in rows] == ["Dan", "Dan", "Ben", "Ben"]
        assert [row["neighbor"] for row in rows] == best.nodes[[0, 2]].ravel().tolist()
        assert [float(row["value"]) for row in rows] == best.values[[0, 2]].ravel().tolist()
        assert [row["certified"] for row in rows] == [str(x) for x in best.certified[[0, 2]].ravel()]
        assert [entry["stderr"] for entry in found["neighbors"]] == best.stderr[[0, 2]].ravel().tolist()
        assert found["kernel"] == "PageRank(damping=0.85)"

    def test_of_all_nodes(self, karate, folder):
        assert succeed("nearest", "karate", "-k", 40, "--out", "found.csv") == ""
        rows = table("found.csv")
        best = wk.nearest(karate, wk.Diffusion(), range(34), 33)
        assert len(rows) == 34 * 33
        assert [int(row["neighbor"]) for row in rows] == best.nodes.ravel().tolist()


class TestFeatures:
    def test_of_all_nodes_in_a_process(self, karate, tmp_path):
        result = run(
            *("features", "karate", "--out", "phi.npz", "--kernel", "diffusion(sigma=2)", "--walks", 32),
            *("--seed", 5),
            cwd=tmp_path,
        )
        assert (result.returncode, result.stdout) == (0, "")
        assert result.stderr.startswith("phi.npz: 34 nodes")
        expected = wk.NodeFeatures(
            karate, wk.Diffusion(2.0), n_walks=32, random_state=5, normalize=False, method="walks"
        ).fit_transform(range(34))
        found = scipy.sparse.load_npz(tmp_path / "phi.npz")
        assert abs(found - expected).max() < 1e-15
        assert [path.name for path in tmp_path.iterdir()] == ["phi.npz"]

    def test_of_nodes_in_their_order(self, folder):
        (folder / "some.txt").write_text("node\nEve\n")
        succeed("features", "friends.csv", "--out", "phi.npz", "--node", "Dan", "Ada", "--nodes", "some.txt")
        graph = wk.load_graph("friends.csv")
        expected = wk.NodeFeatures(graph, wk.Diffusion(), normalize=False, method="walks").fit_transform(
            ["Dan", "Ada", "Eve"]
        )
        assert abs(scipy.sparse.load_npz("phi.npz") - expected).max() < 1e-15


class TestTasks:
    def test_as_many_clusters_as_the_graph_has(self, karate):
        found = json.loads(succeed("cluster", "karate", "--json"))
        model = wk.KernelKMeans(None).fit(karate)
        assert [entry["cluster"] for entry in found["clusters"]] == model.labels_.tolist()
        assert (found["kernel"], found["method"]) == ("Diffusion(sigma=5.0)", "eigenvectors")
        assert len(found["sizes"]) == model.n_clusters_ > 1

    def test_cluster(self, karate, folder):
        arguments = ("cluster", "karate", "-k", 2, "--kernel", "diffusion(sigma=2)", "--out", "labels.csv")
        found = json.loads(succeed(*arguments, "--json"))
        labels = wk.KernelKMeans(2, kernel=wk.Diffusion(2.0)).fit(karate).labels_.tolist()
        assert [int(row["cluster"]) for row in table("labels.csv")] == labels
        assert [row["cluster"] for row in found["clusters"]] == labels
        assert found["sizes"] == [labels.count(0), labels.count(1)]
        walked = json.loads(succeed(*arguments, "--method", "walks", "--seed", 3, "--json"))
        model = wk.KernelKMeans(2, kernel=wk.Diffusion(2.0), method="walks", random_state=3).fit(karate)
        assert [row["cluster"] for row in walked["clusters"]] == model.labels_.tolist()
        assert walked["method"] == "walks"
        succeed("cluster", "friends.csv", "-k", 2, "--out", "labels.csv")
        assert [row["node"] for row in table("labels.csv")] == ["Ada", "Ben", "Cem", "Dan", "Eve"]

    def test_gaussian_process_in_a_process(self, karate, folder):
        result = run("regress", "karate", "values.csv", "--out", "predicted.csv", "--walks", 64, cwd=folder)
        assert (result.returncode, result.stdout) == (0, "")
        gp = wk.NodeGPRegressor(karate, n_walks=64).fit([0, 33, 1, 0], [1.5, -1, 0.5, 1.25])
        assert result.stderr.startswith(str(gp.kernel_))
        mean, std = gp.predict(range(34), return_std=True)
        rows = table("predicted.csv")
        assert list(rows[0]) == ["node", "mean", "std"]
        assert [row["node"] for row in rows] == list(map(str, range(34)))
        np.testing.assert_allclose([float(row["mean"]) for row in rows], mean, rtol=1e-10)
        np.testing.assert_allclose([float(row["std"]) for row in rows], std, rtol=1e-10)

    def test_labels_are_predicted_with_their_probability(self, karate, folder):
        succeed("classify", "karate", "labels.csv", "--out", "predicted.csv")
        rows = table("predicted.csv")
        model = wk.NodeRidgeClassifier(karate).fit([0, 1, 2, 30, 32, 33], list("aaabbb"))
        assert [row["label"] for row in rows] == model.predict(range(34)).tolist()
        largest = model.predict_proba(range(34)).max(axis=1)
        np.testing.assert_allclose([float(row["probability"]) for row in rows], largest, rtol=1e-10)
        (folder / "bad.csv").write_text("0,a\n1\n")
        assert "two columns, node,label" in call("classify", "karate", "bad.csv").output
        (folder / "bad.csv").write_text("0,a\n1,\n")
        assert "a label for each node" in call("classify", "karate", "bad.csv").output
        (folder / "bad.csv").write_text("node,label\n")
        assert "lines of node,label" in call("classify", "karate", "bad.csv").output

    @pytest.mark.parametrize("model", ["smoother", "ridge"])
    def test_other_models_print_what_they_predict_at_some_nodes(self, model, folder):
        (folder / "known.csv").write_text('Ada,1\n\n"Ben",-2.5\n')
        (folder / "some.csv").write_text("node,of no use\nEve,1\nCem,2\n")
        out = succeed("regress", "friends.csv", "known.csv", "--model", model, "--nodes", "some.csv")
        rows = list(csv.DictReader(out.splitlines()))
        graph = wk.load_graph("friends.csv")
        kind = wk.NodeRidge if model == "ridge" else wk.NodeSmoother
        fitted = kind(graph).fit(["Ada", "Ben"], [1, -2.5])
        assert [row["node"] for row in rows] == ["Eve", "Cem"]
        assert [float(row["mean"]) for row in rows] == pytest.approx(
            fitted.predict(["Eve", "Cem"]), rel=1e-12
        )
        assert [row["std"] == "" for row in rows] == [model == "ridge"] * 2

    def test_ode(self, karate, folder):
        arguments = ("ode", "karate", "--source", 0, "--times", 0.5, 1, 2, "--node", 33, 1, "--json")
        found = json.loads(succeed(*arguments, "--seed", 4, "--walks", 128))["states"]
        source = np.eye(34)[0]
        solution = wk.solve_ode(karate, source, [0.5, 1, 2], nodes=[33, 1], n_walks=128, seed=4)
        assert [state["x"] for state in found] == solution.x.ravel().tolist()
        assert [state["stderr"] for state in found] == solution.stderr.ravel().tolist()
        assert [(state["t"], state["node"]) for state in found[:3]] == [(0.5, 33), (0.5, 1), (1, 33)]
        exact = json.loads(succeed(*arguments))["states"]
        solution = wk.solve_ode(karate, source, [0.5, 1, 2], nodes=[33, 1], method="polynomial")
        assert [state["x"] for state in exact] == solution.x.ravel().tolist()
        assert json.loads(succeed(*arguments, "--method", "walks", "--seed", 4))["states"] == found
        text = succeed(
            *("ode", "friends.csv", "--initial", "Ada", "Eve", "--times", "1e0"),
            *("--equation", "combinatorial"),
        )
        lines = [line.split() for line in text.splitlines() if "±" in line]
        assert [line[1] for line in lines] == ["Ada", "Ben", "Cem", "Dan", "Eve"]
        assert sum(float(line[2]) for line in lines) == pytest.approx(2, abs=1e-4)  # no heat is lost

    def test_learned_f_is_a_kernel_for_other_commands(self, karate, folder):
        from walkernel.torch import load_modulation

        arguments = ("learn", "karate", "--kernel", "regularized-laplacian(d=2)", "--walks", 4)
        found = json.loads(succeed(*arguments, "--epochs", 2, "--out", "f.json", "--json"))
        f = load_modulation("f.json")
        assert found["f"] == pytest.approx(f.modulation(16).tolist())
        assert found["squared_errors"]["ratio"] > 0
        entry = json.loads(succeed("kernel", "karate", "--kernel", "f.json", "--entry", 0, 1, "--json"))
        K = wk.estimate_kernel(karate, f.as_kernel(), nodes=[0, 1])
        assert entry["entries"][0]["value"] == K.entries(0, 1)

    def test_learned_f_is_for_its_matrix(self, folder):
        arguments = ("--matrix", "adjacency", "--kernel", "diffusion(sigma=0.5)", "--walks", 4)
        succeed("learn", "karate", *arguments, "--epochs", 2, "--out", "f.json")
        entry = ("kernel", "karate", "--kernel", "f.json", "--entry", 0, 1)
        succeed(*entry, "--matrix", "adjacency")
        refused = call(*entry)
        assert refused.exit_code == 2
        assert "--matrix adjacency" in " ".join(refused.output.replace("│", " ").split())
        text = json.loads((folder / "f.json").read_text())
        (folder / "f.json").write_text(json.dumps(text | {"notes": 1}))
        succeed(*entry)


class TestAbout:
    def test_datasets(self, tmp_path, monkeypatch):
        monkeypatch.setenv("WALKERNEL_DATA", str(tmp_path))
        monkeypatch.setenv("WALKERNEL_CACHE", str(tmp_path / "cache"))
        (tmp_path / "graphs").mkdir()
        edges = np.array([[0, 1]])
        np.savez(tmp_path / "graphs" / "cora.npz", edges=edges, n=2, labels=np.array([0, 1]))
        (tmp_path / "graphs" / "pubmed.npz").write_text("damaged")
        found = {entry["name"]: entry for entry in json.loads(succeed("datasets", "--json"))}
        assert (found["karate"]["n_nodes"], found["karate"]["has_labels"]) == (34, True)
        assert (found["grid"]["present"], found["grid"]["has_labels"]) == (True, False)
        assert (found["cora"]["present"], found["cora"]["has_labels"]) == (True, True)
        assert (found["pubmed"]["present"], found["pubmed"]["has_labels"]) == (True, None)
        assert (found["citeseer"]["present"], found["citeseer"]["has_labels"]) == (False, None)
        text = succeed("datasets")
        assert all(name in text and entry["licence"] in text for name, entry in found.items())

    def test_info(self, tmp_path, monkeypatch):
        monkeypatch.setenv("WALKERNEL_CACHE", str(tmp_path))
        monkeypatch.setenv("WALKERNEL_NUM_THREADS", "3")
        (tmp_path / "something").write_bytes(bytes(1000))
        found = json.loads(succeed("info", "--json"))
        assert (found["walkernel"], found["numpy"]) == (wk.__version__, np.__version__)
        assert (found["threads"], found["cache_folder"], found["cache_bytes"]) == (3, str(tmp_path), 1000)
        assert found["cpus"] >= 1
        assert found["engine"] == "CPU(n_threads=None)"
        assert (found["numba_cache_writable"], Path(found["numba_cache"]).is_dir()) == (True, True)
        assert f"WALKERNEL_CACHE={tmp_path}" in found["variables"]
        text = succeed("info")
        assert all(said in text for said in (str(tmp_path), platform.platform(), *found["blas"]))

    def test_info_of_a_broken_installation(self, monkeypatch):
        """What a report is about does not keep the report from being written."""
        monkeypatch.setenv("WALKERNEL_NUM_THREADS", "many")
        monkeypatch.setenv("WALKERNEL_ENGINE", "abacus")
        found = json.loads(succeed("info", "--json"))
        assert "must be a whole number" in found["threads"]
        assert "abacus" in found["engine"]
        assert {"WALKERNEL_ENGINE=abacus", "WALKERNEL_NUM_THREADS=many"} <= set(found["variables"])

    def test_info_names_all_dependencies(self):
        project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
        extras = project["optional-dependencies"]
        of_users = set(extras) - {"all", "test", "lint", "docs", "dist", "browser"}
        needed = [*project["dependencies"], *(one for name in of_users for one in extras[name])]
        names = {re.match(r"[\w-]+", requirement)[0] for requirement in needed}
        assert set(PACKAGES) == names - {"walkernel"}


class TestFolders:
    """Graphs in folders, wherever a graph's file is taken."""

    def test_info_compares_every_byte(self, tmp_path):
        graph = wk.Graph.from_edges([("Ada", "Ben"), ("Ben", "Cem")], weights=[2.0, 0.5])
        graph.save(tmp_path / "store")
        wk.sample_walks(wk.load_graph(tmp_path / "store"), 2)
        found = json.loads(succeed("info", tmp_path / "store", "--json"))
        assert (found["nodes"], found["edges"], found["weighted"], found["labelled"]) == (3, 2, True, True)
        assert found["fingerprint"] == graph.fingerprint
        files = [path for path in (tmp_path / "store").rglob("*") if path.is_file()]
        assert sorted(found["verified"]) == sorted(
            str(path.relative_to(tmp_path / "store")) for path in files
        )
        assert found["bytes"] == sum(path.stat().st_size for path in files)
        assert "indices.npy" in succeed("info", f"{tmp_path}/store/")
        for name in sorted(found["verified"], reverse=True):
            path = tmp_path / "store" / name
            data, times = path.read_bytes(), (path.stat().st_atime_ns, path.stat().st_mtime_ns)
            path.write_bytes(data[:-10] + bytes([data[-10] ^ 1]) + data[-9:])
            os.utime(path, ns=times)
            result = call("info", tmp_path / "store")
            assert result.exit_code == 1
            assert f"{Path(name).stem}" in result.stderr.replace("\n", "")
            path.write_bytes(data)
            os.utime(path, ns=times)
        succeed("info", tmp_path / "store")

    def test_info_of_other_graphs(self):
        found = json.loads(succeed("info", "karate", "--json"))
        assert (found["nodes"], found["edges"], found["verified"]) == (34, 78, None)

    def test_commands_take_folders(self, tmp_path, monkeypatch):
        wk.load_dataset("karate").graph.save(tmp_path / "club")
        assert succeed("kernel", tmp_path / "club", "--row", "0") == succeed("kernel", "karate", "--row", "0")
        monkeypatch.chdir(tmp_path)
        assert succeed("kernel", "club", "--row", "0") == succeed("kernel", "karate", "--row", "0")
        (tmp_path / "karate").mkdir()  # no store: the data set has the name
        succeed("kernel", "karate", "--row", "0")
        result = call("kernel", tmp_path, "--row", "0")
        assert (result.exit_code, "There is no graph store in" in result.stderr.replace("\n", " ")) == (
            1,
            True,
        )
        assert "There is no graph store" in call("info", tmp_path / "nothing").stderr


def test_debug_lets_failures_through(folder, monkeypatch):
    assert isinstance(call("--debug", "kernel", "friends.csv", "--row", "Zoe").exception, ValueError)
    result = run("kernel", "friends.csv", "--row", "Zoe", cwd=folder, WALKERNEL_DEBUG="1")
    assert result.returncode == 1
    assert "Traceback" in result.stderr
