"""Our defaults beside named packages on data at hand: classes, values and groups of nodes.

    WALKERNEL_DATA=FOLDER python benchmarks/referee.py [--only classification] [--data cora,pubmed]
        [--methods NodeGP,harmonic] [--splits 20] [--first 0] [--fresh] [--report] [--out FILE]

The interpreter needs ``benchmarks/referee_requirements.txt``. Splits 0 … 19 are the report; defaults are
chosen on splits of 1000 and above. Rivals are tuned by cross-validation or by the marginal likelihood on the
training nodes; ours run as they come. Each method runs on each task in a process of its own, and the results
of a split are appended to a CSV file as they come: a run that was stopped resumes, and only ``--fresh``
repeats what is there. ``seconds`` are of tuning, fit and prediction, eigenvectors included; ``MB``
is how much the peak resident memory of the process has grown since it had loaded the data; both are medians.

A loss is printed in red: ours is behind the best rival by more than .01 accuracy, F1 or NMI, or 1 % RMSE,
plus two standard errors of the paired difference; or by more than two standard errors in log loss or NLPD.
"""

from __future__ import annotations

import argparse
import csv
import importlib.metadata
import io
import itertools
import multiprocessing
import os
import platform
import resource
import signal
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import referee_rivals as rivals
from referee_data import NAMES, REGIMES, Key, Split, Task, load
from rich.console import Console
from rich.table import Table
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, normalized_mutual_info_score
from sklearn.pipeline import make_pipeline

import walkernel as wk

PACKAGES = (
    "numpy", "scipy", "scikit-learn", "numba", "scikit-network", "geometric_kernels", "gpytorch", "torch",
    "fast-graph-gp", "networkx",
)  # fmt: skip
METRICS = {
    "classification": ("accuracy", "F1", "log loss"),
    "regression": ("RMSE", "NLPD", "coverage"),
    "clustering": ("NMI",),
}
LARGER_IS_BETTER = ("accuracy", "F1", "NMI")
MARGINS = {"accuracy": 0.01, "F1": 0.01, "NMI": 0.01, "RMSE": 0.01, "log loss": 0.0, "NLPD": 0.0}
"""What a loss has to exceed beside two standard errors: a difference, for the RMSE a part of the rival's."""

# Ours: graph and number of the split to an estimator; a name that does not exist yet is an AttributeError
OURS: dict[str, dict[str, Callable[[wk.Graph, int, int], Any]]] = {
    "classification": {
        "NodeRidgeClassifier": lambda graph, k, seed: wk.NodeRidgeClassifier(graph),
        "NodeGPClassifier": lambda graph, k, seed: wk.NodeGPClassifier(graph),
        "NodeFeatures + LogisticRegression": lambda graph, k, seed: make_pipeline(
            wk.NodeFeatures(graph), LogisticRegression(max_iter=1000)
        ),
    },
    "regression": {"NodeGPRegressor": lambda graph, k, seed: wk.NodeGPRegressor(graph)},
    "clustering": {"KernelKMeans": lambda graph, k, seed: wk.KernelKMeans(k, random_state=seed)},
}
RIVALS = {
    "classification": rivals.CLASSIFIERS,
    "regression": rivals.REGRESSORS,
    "clustering": rivals.CLUSTERERS,
}
FEWER_SPLITS = {"fast-graph-gp": 3}
"""Slow rivals run on the first splits only; the others are paired with them on these."""


class Cell(NamedTuple):
    """Names one run of one method."""

    key: Key
    split: int
    method: str


# one run ------------------------------------------------------------------------------------------


def class_scores(split: Split, scores: Any, confident: Any) -> dict[str, float]:
    """Score classes 0 … n − 1; ``confident`` are the probabilities, None if there are none."""
    found = scores.argmax(axis=1)
    result = {
        "accuracy": float(np.mean(found == split.y_test)),
        "F1": float(f1_score(split.y_test, found, average="macro")),
    }
    return result if confident is None else result | {"log loss": rivals.log_loss(split.y_test, confident)}


def value_scores(split: Split, mean: Any, std: Any) -> dict[str, float]:
    """Score means and standard deviations of y, noise included."""
    error = split.y_test - mean
    return {
        "RMSE": float(np.sqrt(np.mean(error**2))),
        "NLPD": float(-np.mean(norm.logpdf(error, scale=std))),
        "coverage": float(np.mean(np.abs(error) <= norm.ppf(0.975) * std)),
    }


def run_ours(task: Task, split: Split, number: int, method: str) -> dict[str, float]:
    kind = task.key.kind
    model = OURS[kind][method](task.graph, task.n_classes, number)
    if kind == "clustering":
        return {"NMI": normalized_mutual_info_score(split.y_test, model.fit(task.graph).labels_[split.test])}
    model.fit(split.train, split.y_train)
    if kind == "regression":
        return value_scores(split, *model.predict(split.test, return_std=True, include_noise=True))
    chosen, p = np.eye(task.n_classes)[model.predict(split.test)], None
    if hasattr(model, "predict_proba"):
        p = rivals.all_columns(task, model.predict_proba(split.test), model.classes_)
    return class_scores(split, chosen, p)


def run_rival(task: Task, split: Split, number: int, method: str) -> dict[str, float]:
    kind = task.key.kind
    if kind == "classification":
        return class_scores(split, *rivals.classify(task, split, method))
    if kind == "regression":
        return value_scores(split, *rivals.REGRESSORS[method](task, split))
    found = rivals.CLUSTERERS[method](task, number)
    return {"NMI": normalized_mutual_info_score(split.y_test, found[split.test])}


def peak_megabytes() -> float:
    """Return the peak of this process, or of the largest that it has started (fast-graph-gp)."""
    own, others = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return max(own.ru_maxrss, others.ru_maxrss) / 1024


def work(key: Key, method: str, numbers: list[int], answers: Connection) -> None:
    """Run a method on splits of a task, and send the metrics of each, or why there are none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it by SIGTERM
    warnings.simplefilter("ignore")
    task = load(key)
    before = peak_megabytes()
    for number in numbers:
        is_ours = method in OURS[key.kind]
        if is_ours:
            task = load(key)  # a new graph, of which nothing is cached
        split = task.split(number)
        rivals.reused.clear()
        begin = time.perf_counter()
        try:
            result = (run_ours if is_ours else run_rival)(task, split, number, method)
            result["seconds"] = time.perf_counter() - begin + sum(rivals.reused.values())
            answers.send(result | {"MB": peak_megabytes() - before})
        except Exception as error:
            if not isinstance(error, (AttributeError, TypeError, rivals.NotFeasibleError)):
                traceback.print_exc()
            reason = str(error).splitlines()[0] if str(error) else ""
            answers.send(f"{type(error).__name__}: {reason}")


def run_cells(key: Key, method: str, numbers: list[int], limit: float) -> Iterator[tuple[int, Any]]:
    """Yield the numbers of splits with their metrics, or with a text where there are none.

    A method that raises or that takes more than ``limit`` seconds for a split is given no other split.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(key, method, numbers, theirs), daemon=False)
    process.start()
    theirs.close()
    try:
        for number in numbers:
            try:
                answer = ours.recv() if ours.poll(limit) else f"time: more than {limit:.0f} s"
            except EOFError:
                answer = "its process ended"
            yield number, answer
            if isinstance(answer, str):
                return
    finally:
        process.terminate()
        process.join()


# results ------------------------------------------------------------------------------------------


Results = dict[Cell, dict[str, Any]]
"""Metrics of each run; "failed" is the reason why there are none."""

HEADER = ("kind", "data", "regime", "split", "method", "metric", "value")


def read(path: Path) -> Results:
    """Return the cells of a file."""
    found: Results = defaultdict(dict)
    if path.exists():
        with path.open() as file:
            for row in csv.DictReader(file):
                key = Key(row["kind"], row["data"], row["regime"])
                value = row["value"] if row["metric"] == "failed" else float(row["value"])
                found[Cell(key, int(row["split"]), row["method"])][row["metric"]] = value
    return found


def append(path: Path, results: Results) -> None:
    """Write cells at the end of a file, in one piece."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if not path.exists():
        writer.writerow(HEADER)
    for cell, result in results.items():
        for metric, value in result.items():
            shown = value if isinstance(value, str) else f"{value:.6g}"
            writer.writerow((*cell.key, cell.split, cell.method, metric, shown))
    with path.open("a") as file:
        file.write(text.getvalue())


def run_missing(wanted: dict[tuple[Key, str], list[int]], path: Path, limit: float) -> Results:
    """Run the cells that the file lacks; return those that failed, of which it keeps only the too slow."""
    done, failed = read(path), {}
    for (key, method), numbers in wanted.items():
        missing = [i for i in numbers if Cell(key, i, method) not in done]
        if not missing or any("failed" in done.get(Cell(key, i, method), {}) for i in numbers):
            continue
        print(f"{time.strftime('%H:%M:%S')} {' '.join(key)}: {method}, {len(missing)} splits", flush=True)
        for number, answer in run_cells(key, method, missing, limit):
            cell = Cell(key, number, method)
            if not isinstance(answer, str):
                append(path, {cell: answer})
                continue
            print(f"  {answer}", flush=True)
            failed[cell] = {"failed": answer}
            if answer.startswith("time"):
                append(path, {cell: failed[cell]})
    return failed


# tables -------------------------------------------------------------------------------------------


def versions() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "?")
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{name} not installed")
    return (
        f"{cpu}, {len(os.sched_getaffinity(0))} cores, {os.environ['OMP_NUM_THREADS']} threads, "
        f"Python {platform.python_version()}, {', '.join(found)}, {time.strftime('%Y-%m-%d')}"
    )


def compare(
    results: dict[str, dict[int, dict[str, Any]]], ours: str, metric: str, names: list[str]
) -> tuple[str, float, float, float] | None:
    """Return the best rival, how much ours is behind it, the standard error, and the rival's mean.

    The best is the one that ours is the furthest behind on the splits they share: the best by its mean where
    all have the same splits.
    """
    sign, found = (1 if metric in LARGER_IS_BETTER else -1), []
    mine = results.get(ours, {})
    for name in names:
        theirs = results.get(name, {})
        shared = [i for i in mine if metric in mine[i] and metric in theirs.get(i, {})]
        if shared:
            gaps = np.array([sign * (theirs[i][metric] - mine[i][metric]) for i in shared])
            error = gaps.std(ddof=1) / np.sqrt(gaps.size) if gaps.size > 1 else np.inf
            found.append((name, gaps.mean(), error, np.mean([theirs[i][metric] for i in shared])))
    return max(found, key=lambda entry: entry[1]) if found else None


def is_loss(metric: str, gap: float, error: float, reference: float) -> bool:
    margin = MARGINS[metric] * (abs(reference) if metric == "RMSE" else 1)
    return bool(gap > margin + 2 * error)


def by_method(cells: Results, key: Key) -> dict[str, dict[int, dict[str, Any]]]:
    """Return the results of a task by method and split."""
    found: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    for cell, result in cells.items():
        if cell.key == key:
            found[cell.method][cell.split] = result
    return found


def task_table(key: Key, results: dict[str, dict[int, dict[str, Any]]]) -> Table:
    """Return the means of the metrics and the medians of the costs of all methods."""
    table = Table(title=" ".join(key))
    for column in ("method", *METRICS[key.kind], "seconds", "MB", "splits", ""):
        table.add_column(column, justify="right" if column and column != "method" else "left")
    for name in (*OURS[key.kind], *RIVALS[key.kind]):
        runs = [run for run in results[name].values() if "failed" not in run]
        failures = [run["failed"] for run in results[name].values() if "failed" in run]
        why = f"not available: {failures[0]}" if failures else "" if runs else "not run"
        means = [
            np.mean([run[m] for run in runs]) if runs and m in runs[0] else None for m in METRICS[key.kind]
        ]
        costs = [f"{np.median([run[m] for run in runs]):.3g}" if runs else "" for m in ("seconds", "MB")]
        shown = ["" if mean is None else f"{mean:.4f}" for mean in means]
        style = "bold" if name in OURS[key.kind] else ""
        table.add_row(name, *shown, *costs, str(len(runs)), why, style=style)
    return table


def report(console: Console, keys: list[Key], cells: Results) -> None:
    """Print a table for each task, then ours against the best rival for each metric."""
    verdicts = Table(
        title="Ours against the best rival: paired difference ± standard error, negative is worse"
    )
    for column in ("task", "ours", "metric", "mean", "best rival", "its mean", "difference"):
        verdicts.add_column(column)
    losses = 0
    for key in keys:
        results = by_method(cells, key)
        if not results:
            continue
        console.print(task_table(key, results))
        for name, metric in itertools.product(OURS[key.kind], METRICS[key.kind]):
            found = compare(results, name, metric, list(RIVALS[key.kind])) if metric in MARGINS else None
            if found is None:
                continue
            rival, gap, error, reference = found
            lost = is_loss(metric, gap, error, reference)
            losses += lost
            mine = np.mean([run[metric] for run in results[name].values() if metric in run])
            row = (" ".join(key), name, metric, f"{mine:.4f}", rival, f"{reference:.4f}")
            difference = f"{-gap:+.4f} ± {error:.4f}{' loss' if lost else ''}"
            verdicts.add_row(*row, difference, style="red" if lost else "")
    console.print(verdicts)
    console.print(f"{losses} losses in {verdicts.row_count} comparisons", style="red" if losses else "")


def summary(keys: list[Key], cells: Results) -> str:
    """Return a Markdown table: ours and the best rival by its mean for the first metrics of each task."""
    lines = ["| task | metric | ours | best of the others |", "| --- | --- | --- | --- |"]
    for key in keys:
        results = by_method(cells, key)
        for metric in METRICS[key.kind][: 1 if key.kind == "clustering" else 2]:
            means = {
                name: float(np.mean([run[metric] for run in runs.values() if metric in run]))
                for name, runs in results.items()
                if any(metric in run for run in runs.values())
            }
            mine = [f"{means[name]:.3f}" for name in OURS[key.kind] if name in means]
            others = {name: mean for name, mean in means.items() if name in RIVALS[key.kind]}
            if mine and others:
                pick = max if metric in LARGER_IS_BETTER else min
                best = pick(others, key=others.__getitem__)
                task = " ".join(part for part in key[1:] if part != "all").replace("_", " ")
                lines.append(f"| {task} | {metric} | {' / '.join(mine)} | {others[best]:.3f} {best} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    listed = {"type": lambda text: text.split(","), "default": [""]}
    parser.add_argument("--only", choices=list(NAMES))
    parser.add_argument("--data", **listed, help="beginnings of the names of data sets, with commas between")
    parser.add_argument("--methods", **listed, help="parts of the names of methods, with commas between")
    parser.add_argument("--rivals-only", action="store_true", help="do not run ours")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="number of the first split")
    parser.add_argument("--limit", type=float, default=300.0, help="most seconds of one split")
    parser.add_argument("--fresh", action="store_true", help="run again what is in the file")
    parser.add_argument("--report", action="store_true", help="run nothing, print the tables of the file")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "referee")
    options = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "WALKERNEL_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # processes that are started inherit it
    path, numbers = options.out.with_suffix(".csv"), range(options.first, options.first + options.splits)
    everything = [
        Key(kind, data, regime) for kind in NAMES for data in NAMES[kind] for regime in REGIMES[kind]
    ]
    keys = [
        key for key in everything
        if options.only in (None, key.kind) and any(key.data.startswith(part) for part in options.data)
    ]  # fmt: skip
    wanted = {
        (key, method): list(numbers[: FEWER_SPLITS.get(method)])
        for key in keys
        for method in (*RIVALS[key.kind], *(() if options.rivals_only else OURS[key.kind]))
        if any(part in method for part in options.methods)
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    if options.fresh:
        kept = {cell: run for cell, run in read(path).items() if (cell.key, cell.method) not in wanted}
        path.unlink(missing_ok=True)
        append(path, kept)
    failed: Results = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        if not options.report:
            failed = run_missing(wanted, path, options.limit)
    except KeyboardInterrupt:
        print("stopped; the same command resumes")
    cells = failed | read(path)
    options.out.with_suffix(".md").write_text(summary(everything, cells))
    with options.out.with_suffix(".txt").open("w") as file:  # all that is there, not only what was asked for
        for console, shown in ((Console(), keys), (Console(file=file, width=160), everything)):
            console.print(versions(), soft_wrap=True)
            report(console, shown, cells)


if __name__ == "__main__":
    main()
