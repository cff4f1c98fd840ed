"""Gaussian processes on nodes: calibration, real data beside rivals, and a million nodes.

    WALKERNEL_DATA=FOLDER python benchmarks/gp.py [calibration] [data | TASK …] [scale] [--quick] [--out FILE]

Calibration: values drawn from the exact diffusion kernel and noise; how often intervals of 95 % hold a new
observation, and the error of the mean against that of the dense Gaussian process with the exact kernel, whose
hyper-parameters are fitted as well. Data: three tasks with random splits; the rivals are in gp_rivals.py.
Scale: observations in towns of a road graph of 10⁶ nodes; hyper-parameters, mean and standard deviation at as
many other nodes, and one draw from the posterior at all nodes; then how the time grows.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from core import machine, table
from gp_data import (
    ClassPrediction,
    Prediction,
    Task,
    all_columns,
    page_traffic,
    road_signal,
    splits,
    user_country,
)
from gp_exact import Floats, Ids, exact_gp_classification, exact_gp_regression
from gp_rivals import (
    CLASSIFICATION,
    REGRESSION,
    NotInstalledError,
    fast_graph_gp,
    fast_graph_gp_classes,
    fast_graph_gp_twins,
    scores,
)

import walkernel as wk
from walkernel.datasets import erdos_renyi, grid
from walkernel.tasks import WALK_CACHE

START = wk.Diffusion(2.0)
"""Where every search for a lengthscale begins."""
FREE = ("modulation", "noise")
LEAST_NOISE = 0.1
"""Known noise of ``walk_gp_twins_floor``, as a part of the standard deviation of y."""
TASKS = (page_traffic, road_signal, user_country)
SAMPLERS = {"default": None, "paper's": wk.IndependentWalks(0.1)}
Z95 = 1.96


def walk_gp(graph: wk.Graph, train_ids: Ids, y_train: Floats, test_ids: Ids, seed: int = 0) -> Prediction:
    """Predict by walks."""
    return predicted_by(
        wk.NodeGPRegressor(graph, START, random_state=seed, normalize=False, method="walks"),
        train_ids,
        y_train,
        test_ids,
    )


def walk_gp_free(
    graph: wk.Graph, train_ids: Ids, y_train: Floats, test_ids: Ids, seed: int = 0
) -> Prediction:
    """Predict by walks whose every f(length) is learned."""
    model = wk.NodeGPRegressor(graph, START, learn=FREE, random_state=seed, normalize=False, method="walks")
    return predicted_by(model, train_ids, y_train, test_ids)


def walk_gp_free_normalized(
    graph: wk.Graph, train_ids: Ids, y_train: Floats, test_ids: Ids, seed: int = 0
) -> Prediction:
    """Predict by walks whose every f(length) is learned, the prior variance being the same at every node."""
    model = wk.NodeGPRegressor(graph, START, learn=FREE, normalize=True, random_state=seed, method="walks")
    return predicted_by(model, train_ids, y_train, test_ids)


def walk_gp_twins(
    graph: wk.Graph, train_ids: Ids, y_train: Floats, test_ids: Ids, seed: int = 0
) -> Prediction:
    """Predict as before, nodes of the same neighbours being one, each with a part of its own beside f."""
    return predicted_by(twins_model(graph, seed), train_ids, y_train, test_ids)


def walk_gp_twins_floor(
    graph: wk.Graph, train_ids: Ids, y_train: Floats, test_ids: Ids, seed: int = 0
) -> Prediction:
    """Predict as before, with a known noise beside the fitted one: twins that agree say too little of it."""
    known = LEAST_NOISE * float(y_train.std())
    return predicted_by(twins_model(graph, seed), train_ids, y_train, test_ids, known)


def twins_model(graph: wk.Graph, seed: int) -> wk.NodeGPRegressor:
    """Return a model with a free f and a nugget, nodes of the same neighbours being one."""
    learn = (*FREE, "nugget")
    return wk.NodeGPRegressor(
        graph, START, learn=learn, normalize=True, twins=True, random_state=seed, method="walks"
    )


def predicted_by(
    model: wk.NodeGPRegressor, train_ids: Ids, y_train: Floats, test_ids: Ids, known: float = 0.0
) -> Prediction:
    """Predict with a model and a known noise, nothing kept from earlier; seconds are of the processor."""
    WALK_CACHE.clear()
    begin = time.process_time()
    model.fit(train_ids, y_train, noise_std=np.full(train_ids.size, known))
    mean, std = model.predict(test_ids, return_std=True, include_noise=True)
    return Prediction(mean, np.hypot(std, known), time.process_time() - begin)


def walk_gp_classes(
    graph: wk.Graph,
    train_ids: Ids,
    y_train: Ids,
    test_ids: Ids,
    seed: int = 0,
    *,
    n_classes: int,
    normalize: bool = False,
) -> ClassPrediction:
    """Predict classes by walks, nothing kept from earlier calls; the seconds are those of the processor."""
    WALK_CACHE.clear()
    begin = time.process_time()
    model = wk.NodeGPClassifier(graph, START, normalize=normalize, random_state=seed, method="walks").fit(
        train_ids, y_train
    )
    probabilities = all_columns(model.predict_proba(test_ids), model.classes_, n_classes)
    return ClassPrediction(probabilities, time.process_time() - begin)


def walk_gp_classes_normalized(
    graph: wk.Graph, train_ids: Ids, y_train: Ids, test_ids: Ids, seed: int = 0, *, n_classes: int
) -> ClassPrediction:
    """Predict classes by walks, the prior variance being the same at every node."""
    inputs = (graph, train_ids, y_train, test_ids, seed)
    return walk_gp_classes(*inputs, n_classes=n_classes, normalize=True)


# calibration --------------------------------------------------------------------------------------


def calibration_rows(name: str, graph: wk.Graph, n_draws: int) -> list[list[str]]:
    """Return coverage and error for two widths and two levels of the noise."""
    rows = []
    n = graph.n_nodes
    for t in (1.0, 5.0):
        K = wk.exact_kernel(graph, wk.Diffusion(np.sqrt(2 * t)))
        values, vectors = np.linalg.eigh(K / K.diagonal().mean())
        root = vectors * np.sqrt(np.maximum(values, 0))
        for noise in (0.1, 0.3):
            found: dict[str, list[tuple[float, float]]] = {}
            for draw in range(n_draws):
                rng = np.random.default_rng([draw, int(t), int(10 * noise)])
                truth = root @ rng.standard_normal(n)
                y, order = truth + noise * rng.standard_normal(n), rng.permutation(n)
                train, test = order[:500], order[500:]
                for which, predict in predictors(graph, draw).items():
                    mean, std, _ = predict(train, y[train], test)
                    hit = np.mean(np.abs(y[test] - mean) <= Z95 * std)
                    error = np.sqrt(np.mean((truth[test] - mean) ** 2))
                    found.setdefault(which, []).append((float(hit), float(error)))
            rows.append(calibration_row(f"{name}, t={t:g}, noise {noise}", found))
    return rows


def predictors(graph: wk.Graph, seed: int) -> dict[str, Callable[[Ids, Floats, Ids], Prediction]]:
    """Return the exact Gaussian process and those of walks."""

    def by_walks(sampler: wk.IndependentWalks | None) -> Callable[[Ids, Floats, Ids], Prediction]:
        def predict(train: Ids, y: Floats, test: Ids) -> Prediction:
            model = wk.NodeGPRegressor(
                graph, START, sampler=sampler, random_state=seed, normalize=False, method="walks"
            ).fit(train, y)
            mean, std = model.predict(test, return_std=True, include_noise=True)
            return Prediction(mean, std, 0.0)

        return predict

    exact = {"exact": lambda train, y, test: exact_gp_regression(graph, train, y, test)}
    return exact | {name: by_walks(sampler) for name, sampler in SAMPLERS.items()}


def calibration_row(name: str, found: dict[str, list[tuple[float, float]]]) -> list[str]:
    """Return coverage with its standard error, and the ratio of errors, of each method."""
    row = [name]
    exact = np.array(found["exact"])[:, 1]
    for results in found.values():
        hits, errors = np.array(results).T
        row.append(f"{hits.mean():.3f} ± {hits.std(ddof=1) / np.sqrt(hits.size):.3f}")
        row.append(f"{np.sqrt(np.mean(errors**2) / np.mean(exact**2)):.3f}")
    return row


def calibration(quick: bool) -> str:
    graphs = {"random": erdos_renyi(1500, 10 / 1500, seed=1).graph, "grid": grid(40, 40).graph}
    rows = [
        row for name, graph in graphs.items() for row in calibration_rows(name, graph, 2 if quick else 10)
    ]
    header = ["", "exact", "error", "default", "error", "paper's", "error"]
    title = (
        f"Coverage of 95 % intervals of y, and error of the mean as a ratio to that of the exact kernel; "
        f"256 walks, 500 observed nodes, {2 if quick else 10} draws (goals: .93-.97; 1.05, paper's 1.10)"
    )
    return table(title, header, rows)


# real data ----------------------------------------------------------------------------------------


def data_row(method: Callable[..., Any], task: Task, n_splits: int) -> list[str]:
    """Return means and standard errors of the scores over splits."""
    try:
        results = np.array([scores(method, task, split) for split in splits(task, n_splits)])
    except NotInstalledError:
        return [method.__name__, "not installed", "", "", ""]
    mean, error = results.mean(axis=0), results.std(axis=0, ddof=1) / np.sqrt(n_splits)
    print(task.name, method.__name__, mean, error, flush=True)
    cells = [f"{m:.4f} ± {e:.4f}" for m, e in zip(mean[:2], error[:2], strict=True)]
    return [method.__name__, *cells, f"{mean[2]:.1f}", str(n_splits)]


def data(quick: bool, tasks: tuple[Callable[[], Task], ...] = TASKS) -> str:
    parts = []
    n_splits, slow_splits = (2, 2) if quick else (10, 2)
    for task in (make() for make in tasks):
        free = (walk_gp_free, walk_gp_free_normalized, walk_gp_twins, walk_gp_twins_floor)
        own, others = (walk_gp, *free), REGRESSION
        if task.is_classification:
            own, others = (walk_gp_classes, walk_gp_classes_normalized), CLASSIFICATION
        slow = (fast_graph_gp, fast_graph_gp_twins, fast_graph_gp_classes, exact_gp_classification)
        rows = [
            data_row(method, task, slow_splits if method in slow else n_splits) for method in (*own, *others)
        ]
        score = "accuracy" if task.is_classification else "RMSE"
        parts.append(table(f"{task.name}, standard errors", ["", score, "NLPD", "seconds", "splits"], rows))
        if task.is_classification:
            parts.append(reliability(task, slow_splits))
    return "\n".join(parts)


def reliability(task: Task, n_splits: int) -> str:
    """Return how often the most probable class is right, by its probability."""
    confidence, right = [], []
    for split in splits(task, n_splits):
        inputs = (task.graph, split.train_ids, split.y_train, split.test_ids, split.seed)
        probabilities = walk_gp_classes(*inputs, n_classes=task.n_classes).probabilities
        confidence.append(probabilities.max(axis=1))
        right.append(probabilities.argmax(axis=1) == split.y_test)
    sure, hit = np.concatenate(confidence), np.concatenate(right)
    bins = np.minimum((10 * sure).astype(int), 9)
    rows = [
        [f"{b / 10:.1f}-{b / 10 + 0.1:.1f}", f"{np.sum(bins == b)}", f"{sure[bins == b].mean():.3f}",
         f"{hit[bins == b].mean():.3f}"]
        for b in np.unique(bins)
    ]  # fmt: skip
    error = sum(np.mean(bins == b) * abs((sure - hit)[bins == b].mean()) for b in np.unique(bins))
    title = f"{task.name}, reliability of walk_gp_classes, {n_splits} splits; calibration error {error:.3f}"
    return table(title, ["probability", "nodes", "mean", "right"], rows)


# a million nodes ----------------------------------------------------------------------------------


def towns(graph: wk.Graph, n_towns: int, size: int, rng: np.random.Generator) -> list[Ids]:
    """Return neighbourhoods of random nodes: the nearest nodes by hops, about ``size`` of each."""
    A = graph.to_scipy()
    found = []
    for center in rng.choice(graph.n_nodes, n_towns, replace=False):
        reached = np.array([center])
        while reached.size < size:
            grown = np.unique(np.concatenate([reached, A[reached].indices]))
            if grown.size == reached.size:
                break
            reached = grown
        found.append(reached)
    return found


def scale_row(graph: wk.Graph, n_observed: int, n_walks: int, sigma: float) -> tuple[list[str], float]:
    """Return times and errors of one whole job, and its seconds."""
    rng = np.random.default_rng(1)
    root = wk.polynomial_operator(graph, wk.Diffusion(sigma / np.sqrt(2)), tol=1e-6)
    truth = root @ rng.standard_normal(graph.n_nodes)
    truth /= truth.std()
    nodes = np.unique(np.concatenate(towns(graph, n_observed // 100, 400, rng)))
    order = rng.permutation(nodes)[: 2 * n_observed]
    train, test = order[:n_observed], order[n_observed:]
    y = truth + 0.3 * rng.standard_normal(graph.n_nodes)
    WALK_CACHE.clear()
    times = [time.perf_counter()]
    model = wk.NodeGPRegressor(graph, START, n_walks=n_walks, normalize=False, method="walks").fit(
        train, y[train]
    )
    times.append(time.perf_counter())
    mean, std = model.predict(test, return_std=True, include_noise=True)
    times.append(time.perf_counter())
    drawn = model.sample_y(random_state=7)[:, 0]
    times.append(time.perf_counter())
    error = np.sqrt(np.mean((truth[test] - mean) ** 2))
    hits = np.mean(np.abs(y[test] - mean) <= Z95 * std)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    seconds = np.diff(times)
    return [
        f"{graph.n_nodes}", f"{train.size}", *(f"{part:.1f}" for part in seconds), f"{seconds.sum():.1f}",
        f"{peak:.2f}", f"{model.kernel_.lengthscale:.2f}", f"{error:.3f}", f"{hits:.3f}",
        f"{drawn.std():.2f}", f"{model.n_iter_}",
    ], float(seconds.sum())  # fmt: skip


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """Return the slope of log seconds over log size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def scale(quick: bool) -> str:
    sigma, n_walks = 6.0, 32
    try:
        road = wk.load_dataset("road_fla").graph
    except Exception as error:
        print(f"road_fla is not here ({error}); a grid instead")
        road = grid(1000, 1000).graph
    observed = [1000, 2000, 4000] if quick else [2500, 5000, 10000]
    rows, seconds = zip(*(scale_row(road, n, n_walks, sigma) for n in observed), strict=True)
    sides = [200, 400] if quick else [300, 550, 1000]
    more, by_nodes = zip(
        *(scale_row(grid(side, side).graph, 2500, n_walks, sigma) for side in sides), strict=True
    )
    header = [
        "nodes", "observed", "fit", "predict", "draw", "seconds", "GiB", "lengthscale", "error", "coverage",
        "sd of draw", "iterations",
    ]  # fmt: skip
    title = (
        f"Hyper-parameters, mean and std at as many other nodes, one draw at all nodes; {n_walks} walks, "
        f"σ = {sigma:g}, noise .3; hyper-parameters from 2000 of the nodes; GiB: peak of the process so far "
        "(goals at 10⁶ nodes, 10⁴ observed: 180 s, 6 GiB)"
    )
    return table(title, header, [*rows, *more]) + (
        f"growth: seconds ~ observed^{exponent(observed, list(seconds)):.2f} on {road.n_nodes} nodes, "
        f"~ nodes^{exponent([side**2 for side in sides], list(by_nodes)):.2f} on grids with 2500 observed\n"
    )


PARTS = {
    "calibration": calibration,
    "data": data,
    **{make.__name__: partial(data, tasks=(make,)) for make in TASKS},
    "scale": scale,
}
ALL = ("calibration", "data", "scale")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", help=f"{', '.join(PARTS)}; all if none is named")
    parser.add_argument("--quick", action="store_true", help="fewer draws and splits, smaller sizes")
    parser.add_argument("--out", type=Path, help="also write the tables to this file")
    options = parser.parse_args()
    text = [machine()]
    for name in options.parts or ALL:
        if name not in PARTS:
            parser.error(f"{name} is no part: choose among {', '.join(PARTS)}")
        text.append(PARTS[name](options.quick))
        print(text[-1], flush=True)
    if options.out is not None:
        options.out.write_text("\n".join(text))


if __name__ == "__main__":
    main()
