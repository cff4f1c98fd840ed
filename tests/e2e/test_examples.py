"""The examples in processes of their own, with the data sets that are here and with none."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.image import imread

from data_sets import needs_data
from depth import mostly_deep

FOLDER = Path(__file__).parents[2] / "examples"
EXAMPLES = sorted(set(FOLDER.glob("*.py")) - {FOLDER / "on_a_cluster.py"})  # all others draw
WITH_DATA = [e.stem for e in EXAMPLES if re.search(r'load_dataset\("(?!karate)', e.read_text())]
NO_NETWORK = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")


def run(example, *arguments, cwd, **environment):
    """Run an example without measuring coverage: the lines behind its calls have tests of their own."""
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


def numbers(text, beginning):
    """Return the numbers of the line that begins like this."""
    line = next(line for line in text.splitlines() if line.startswith(beginning))
    return [float(number) for number in re.findall(r"\d+\.?\d*", line.removeprefix(beginning))]


def check_classify_papers(output, data_is_absent):
    walks, propagation, rows = (
        numbers(output, name)[0] for name in ("walk features", "label propagation", "adjacency rows")
    )
    chance = float(re.search(r"chance (\S+)", output).group(1))
    assert walks > chance + 0.5
    assert walks > propagation > rows > chance
    better, stderr = numbers(output, "label propagation")[2:]
    assert better == pytest.approx(walks - propagation, abs=0.0015)
    assert better > 3 * stderr > 0
    if data_is_absent:
        assert "stochastic-block-model" in output
        assert walks > 0.85


def check_heat_on_mesh(output, data_is_absent):
    within, of_all = map(int, re.search(r"(\d+) of (\d+) estimates are within", output).groups())
    assert of_all == 30
    assert within >= 24
    first, later, last = (numbers(output, f"hot at first {time:5d}")[0] for time in (1, 4, 16))
    assert first > later > last
    first, later, last = (numbers(output, f"heated       {time:5d}")[0] for time in (1, 4, 16))
    assert first < later < last
    if data_is_absent:
        assert "torus-mesh" in output


def check_cluster_blocks(output, data_is_absent):
    few, some, many = (numbers(output, f"{count:<20d}") for count in (16, 64, 1024))
    assert few[0] > some[0] > many[0]
    assert few[2] > some[2] > many[2]
    assert numbers(output, "exact kernel")[0] < 0.05
    assert numbers(output, "k-means++ and 256 walks: error")[0] < 0.1


def check_road_map(output, data_is_absent):
    mean, constant = (numbers(output, f"error of {name}")[0] for name in ("the mean", "a constant"))
    assert mean < 0.5 * constant
    # one draw, with errors that are correlated over tens of junctions; 20 draws have 0.84 to 0.99, on
    # average 0.94
    assert 0.88 < numbers(output, "in the intervals of 95 %")[0] < 0.99
    assert output.startswith("town" if data_is_absent else "minnesota")


def check_find_maximum(output, data_is_absent):
    for name in ("Thompson sampling", "greedy search", "random search"):
        first, *_, last = numbers(output, name)[:8:2]  # every other number is a standard error
        assert first >= last >= 0
    first, *_, last = numbers(output, "Thompson sampling")[:8:2]
    assert last < 0.7 * first


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


SMALLER = {
    **{"plot_find_maximum": ["--repeats", "2"], "plot_classify_papers": ["--choices", "6"]},
    "graph_network": ["--choices", "2"],
}
CHECKS = {
    "graph_network": check_graph_network,
    "gpytorch_regression": check_gpytorch_regression,
    "plot_road_map": check_road_map,
    "plot_find_maximum": check_find_maximum,
    "plot_classify_papers": check_classify_papers,
    "plot_heat_on_mesh": check_heat_on_mesh,
    "plot_cluster_blocks": check_cluster_blocks,
}


def test_the_examples_are_found():
    assert CHECKS.keys() <= {example.stem for example in EXAMPLES}
    assert WITH_DATA == ["graph_network", "plot_classify_papers", "plot_heat_on_mesh", "plot_road_map"]


def check(name, result, folder, *, data_is_absent):
    """Judge what an example printed, and the picture that it drew in a folder."""
    assert result.returncode == 0, result.stderr
    assert "Warning" not in result.stderr
    (picture,) = folder.glob("*.png")
    assert picture.name in result.stdout.splitlines()[-1]
    assert picture.stat().st_size > 20_000
    pixels = imread(picture)
    assert 400 <= pixels.shape[0] <= 2000
    assert 600 <= pixels.shape[1] <= 3000
    assert pixels[..., :3].std() > 0.03  # not blank
    if name in CHECKS:
        CHECKS[name](result.stdout, data_is_absent)


@pytest.mark.parametrize("name", mostly_deep([example.stem for example in EXAMPLES], ["plot_heat_on_mesh"]))
def test_example_runs_and_draws(name, tmp_path):
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
def test_example_draws_the_data_that_it_reads(name, tmp_path):
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
