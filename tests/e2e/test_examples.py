"""The gallery's examples with what they print and draw, and the scripts in processes of their own."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib import pyplot
from matplotlib.image import imread

from data_sets import needs_data
from depth import mostly_deep

FOLDER = Path(__file__).parents[2] / "examples"
GALLERY = sorted(path.stem.removeprefix("plot_") for path in FOLDER.glob("plot_*.py"))
SCRIPTS = ["gpytorch_regression", "graph_network", "learn_modulation"]  # these save a picture themselves
WITH_DATA = [
    name for name in SCRIPTS if re.search(r'load_dataset\("(?!karate)', (FOLDER / f"{name}.py").read_text())
]
NO_NETWORK = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")


def numbers(text, beginning):
    """Return the numbers of the line that begins like this."""
    line = next(line for line in text.splitlines() if line.startswith(beginning))
    return [float(number) for number in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", line.removeprefix(beginning))]


def check_road_map(output):
    roads, plane, constant = (
        numbers(output, f"error, {name}")[0] for name in ("on the roads", "in the plane", "a constant")
    )
    assert roads < 0.8 * plane < 0.8 * constant
    # one draw, with errors that are correlated over tens of junctions
    assert 0.88 < numbers(output, "true values in intervals of 95 %:")[0] < 0.995


def check_choose_kernel(output):
    assert output.startswith("chosen: Matern")
    chosen, likely, best, worst = numbers(output, "log density of hidden values:")
    assert min(chosen, likely) > best - 0.02 > worst + 0.1


def check_few_labels(output):
    rows = ("NodeRidgeClassifier", "label propagation", "adjacency rows")
    ridge, propagation, neighbours = (numbers(output, row)[::2] for row in rows)
    assert len(ridge) == 5
    for ours, theirs, plain in zip(ridge, propagation, neighbours, strict=True):
        assert ours > theirs > plain > 1 / 7
    assert ridge[0] > propagation[0] + 0.1


def check_calibrated_probabilities(output):
    rows = ("NodeGPClassifier", "NodeRidgeClassifier", "label propagation")
    gp, ridge, propagation = (numbers(output, row) for row in rows)  # accuracy, error, five losses
    assert min(gp[0], ridge[0]) > propagation[0] > 0.6
    assert max(gp[1], ridge[1]) < 0.05 < 0.15 < propagation[1]
    assert sum(gp[2:]) / 5 < 0.45 < 0.6 < min(propagation[2:])
    assert sum(ours < theirs for ours, theirs in zip(ridge[2:], gp[2:], strict=True)) == 3
    assert max(gp[2:]) < max(ridge[2:]) < 1


def check_thompson_sampling(output):
    thompson, plain = (numbers(output, name) for name in ("Thompson sampling", "random search"))
    assert thompson[0] + 2 * thompson[1] < plain[0] - 2 * plain[1]
    assert thompson[2] > plain[2]


def check_nearest_nodes(output):
    pattern = r"of 12 nodes (\d+) are certified,\s+(\d+) are among the true 12, (\d+) have"
    coarse, fine = ([int(number) for number in row] for row in re.findall(pattern, output))
    assert coarse[0] < 12 == coarse[1]
    assert coarse[2] >= 10
    assert fine == [12, 12, 12]


def check_heat_on_mesh(output):
    error, stderr = re.search(r"largest error (\S+), standard errors up to (\S+)", output).groups()
    assert float(error) < 4 * float(stderr) < 0.1
    within, of_all = map(int, re.search(r"(\d+) of (\d+) estimates within two", output).groups())
    assert of_all == 24
    assert within >= 19


def check_normals(output):
    ridge, neighbours = (numbers(output, name) for name in ("NodeRidge", "known neighbours"))
    assert len(ridge) == 5
    assert all(ours < theirs for ours, theirs in zip(ridge, neighbours, strict=True))
    assert ridge == sorted(ridge, reverse=True)


def check_cluster_blocks(output):
    assert ": 4 clusters" in output
    assert float(re.search(r"(\S+)% of all pairs", output).group(1)) < 1
    few, *_, many = (numbers(output, f"{count:4d} walks: error")[0] for count in (8, 32, 128, 512))
    assert few > 0.1 > 0.01 > many


def check_learned_kernel(output):
    diffusion, learned = (numbers(output, f"{name:17s} error") for name in ("diffusion kernel", "learned f"))
    assert learned[0] < 0.85 * diffusion[0]
    assert 0.93 < learned[2] < 0.995


def check_masked_attention(output):
    field, grid, none = (
        numbers(output, f"{name}: errors")
        for name in ("mask of the field", "mask of an open grid", "no mask")
    )
    assert len(field) == 3
    assert max(field) < 0.35 < 0.4 < min(grid) <= max(grid) < 0.6 < 0.7 < min(none)


def check_paper_figure_2(output):
    slopes = numbers(output, "slopes from 4 walks on:")
    assert len(slopes) == 5
    assert all(abs(slope + 0.5) < 0.04 for slope in slopes)


def check_million_nodes(output):
    assert "Graph(n_nodes=1000000," in output
    measured, smoothed = (numbers(output, f"error of the {name}")[0] for name in ("measurements", "smoothed"))
    assert smoothed < 0.1 * measured
    assert "certified: 30 of 30" in output
    found = re.findall(r"node \d+: (\S+) ± (\S+), exact (\S+)", output)
    assert len(found) == 3
    for value, stderr, exact in found:
        assert abs(float(value) - float(exact)) < 4 * float(stderr) < 0.1


def check_changing_graph(output):
    assert "the same bits as all walks anew: True" in output
    again, every = map(int, re.search(r"(\d+) of (\d+) walks were walked again", output).groups())
    assert 0 < again < 0.1 * every
    update, anew = numbers(output, "update")
    assert update < 0.5 * anew


def check_walks_lose(output):
    for sigma in (2, 8):
        walks, polynomial, scipy = (
            numbers(output, f"Diffusion({sigma}), {name}")
            for name in ("walks", "polynomial", "SciPy's expm_multiply")
        )
        assert max(polynomial[0], scipy[0]) < 0.3 * walks[0]
        assert scipy[1] < walks[1]
    assert polynomial[1] < 0.001 * walks[1]  # of the wide kernel


CHECKS = {
    name: globals()[f"check_{name}"]
    for name in (
        *("road_map", "choose_kernel", "few_labels", "calibrated_probabilities", "thompson_sampling"),
        *("nearest_nodes", "heat_on_mesh", "normals", "cluster_blocks", "learned_kernel"),
        *("masked_attention", "paper_figure_2", "million_nodes", "changing_graph", "walks_lose"),
    )
}


def check_picture(path):
    pixels = imread(path)
    assert 400 <= pixels.shape[0] <= 2000
    assert 600 <= pixels.shape[1] <= 3000
    assert pixels[..., :3].std() > 0.03  # not blank


def test_the_examples_are_found():
    assert sorted(CHECKS) == GALLERY
    assert {path.stem for path in FOLDER.glob("[!p]*.py")} == {*SCRIPTS, "on_a_cluster"}
    assert WITH_DATA == ["graph_network"]


@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive:UserWarning")
@pytest.mark.parametrize("name", mostly_deep(GALLERY, ["paper_figure_2", "nearest_nodes"]))
def test_the_gallery_says_and_draws(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WALKERNEL_DATA", str(tmp_path))
    monkeypatch.setenv("WALKERNEL_CACHE", str(tmp_path))
    pyplot.close("all")
    runpy.run_path(str(FOLDER / f"plot_{name}.py"))
    assert not any(tmp_path.iterdir())
    (figure,) = map(pyplot.figure, pyplot.get_fignums())
    figure.savefig("picture.png")
    pyplot.close("all")
    check_picture("picture.png")
    CHECKS[name](capsys.readouterr().out)


def run(example, *arguments, cwd, **environment):
    """Run a script without measuring coverage: the lines behind its calls have tests of their own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    return subprocess.run(
        [sys.executable, str(example), *arguments],
        cwd=cwd,
        env={**kept, **NO_NETWORK, "no_proxy": "", "NO_PROXY": "", "PYTHONUTF8": "1", **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=False,
    )


def check_gpytorch_regression(output, data_is_absent):
    rows = (numbers(output, name) for name in ("lengthscale", "free f", "true kernel"))
    errors, densities, *_ = zip(*rows, strict=False)
    for lengthscale, free, true in (errors, densities):
        assert lengthscale > free + 0.1 > true + 0.1


def check_graph_network(output, data_is_absent):
    rows = (
        "random numbers   edges",
        "random numbers   kernel",
        "eigenvectors     edges",
        "eigenvectors     kernel",
    )
    plain, diffused, places, both = (numbers(output, row)[1:] for row in rows)
    chance = float(re.search(r"chance (\S+)", output).group(1))
    assert diffused[0] - diffused[1] > plain[0] + plain[1] > chance + 0.1
    assert min(places[0], both[0]) > max(0.7, diffused[0] + 0.1)
    assert ("stochastic-block-model" in output) == data_is_absent


def check_learn_modulation(output, data_is_absent):
    for name in ("karate club", "binary tree", "random graph", "grid"):
        unbiased, learned, ratio, stderr = numbers(output, name)
        assert learned < unbiased
        assert ratio + 3 * stderr < 1


SMALLER = {"graph_network": ["--choices", "2"]}
SCRIPT_CHECKS = {
    "graph_network": check_graph_network,
    "gpytorch_regression": check_gpytorch_regression,
    "learn_modulation": check_learn_modulation,
}


def check(name, result, folder, *, data_is_absent):
    """Judge what a script printed, and the picture that it drew in a folder."""
    assert result.returncode == 0, result.stderr
    assert "Warning" not in result.stderr
    (picture,) = folder.glob("*.png")
    assert picture.name in result.stdout.splitlines()[-1]
    assert picture.stat().st_size > 20_000
    check_picture(picture)
    SCRIPT_CHECKS[name](result.stdout, data_is_absent)


@pytest.mark.deep
@pytest.mark.parametrize("name", SCRIPTS)
def test_script_runs_and_draws(name, tmp_path):
    """Into the current folder, or one that is named and made if no other test names one."""
    empty = tmp_path / "empty"
    empty.mkdir()
    folder = tmp_path if name in WITH_DATA else tmp_path / "new" / "pictures"
    named = [] if name in WITH_DATA else [str(folder)]
    arguments = [*named, *SMALLER.get(name, [])]
    nothing = {"WALKERNEL_DATA": str(empty), "WALKERNEL_CACHE": str(empty)}
    result = run(FOLDER / f"{name}.py", *arguments, cwd=tmp_path, **nothing)
    assert not any(empty.iterdir())
    check(name, result, folder, data_is_absent=True)


@pytest.mark.parametrize("name", [pytest.param(name, marks=needs_data) for name in WITH_DATA])
def test_script_draws_the_data_that_it_reads(name, tmp_path):
    folder = tmp_path / "new" / "pictures"
    result = run(FOLDER / f"{name}.py", str(folder), *SMALLER.get(name, []), cwd=tmp_path)
    check(name, result, folder, data_is_absent=False)


@pytest.mark.deep
def test_the_cluster_example_runs(tmp_path):
    result = run(FOLDER / "on_a_cluster.py", "--nodes", "1200", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "Warning" not in result.stderr
    assert numbers(result.stdout, "clusters: error")[0] < 0.05
    error, spread = numbers(result.stdout, "smoothed values: error")
    assert error < 0.8 * spread
    assert numbers(result.stdout, "Gaussian process: error")[0] < 0.8 * spread
    first, later = numbers(result.stdout, "heat left at its source after 0.5 and 1:")
    assert 1 > first > later > 0
    assert result.stdout.splitlines()[-1] == "the same bits as in one process: True"
