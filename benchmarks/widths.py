"""Whether errors are what they are said to be, for kernels of all widths.

    python benchmarks/widths.py [--seeds N] [--out FILE]

The true error is ‖K̂ − K‖ / ‖K‖ in the Frobenius norm against ``exact_kernel``, the stated one
``K.explain().error``; of both the root of the mean square over seeds is shown. The goals: the true error is
at most 1.2 times the stated one, and a tolerance that is accepted is met by at least 95 % of all runs. A
kernel that walks cannot serve is refused, with the remedy that its message names; one whose error drowns it
is said to be drowned. Tolerances are asked for where walks from a node have at most ``LONGEST_TIMED`` steps.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from core import machine, table

import walkernel as wk

WIDTHS = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 300.0, 1e3, 1e4, 1e5)
KERNELS: dict[str, Callable[[float], wk.Kernel]] = {
    "diffusion": wk.Diffusion,
    "reg. Laplacian, d=1": lambda width: wk.RegularizedLaplacian(1, width),
    "reg. Laplacian, d=2": lambda width: wk.RegularizedLaplacian(2, width),
    "Matern 1.5": lambda width: wk.Matern(1.5, width),
    "p-step": lambda width: wk.PStepRandomWalk(max(1, round(width))),
    "inverse cosine": wk.InverseCosine,
}
TOLERANCE, LONGEST_TIMED = 0.1, 3000.0
MAX_TIMES, LEAST_MET = 1.2, 0.95


def random_graph(n: int, p: float, sd: float) -> wk.Graph:
    rng = np.random.default_rng(n)
    weights = (rng.random((n, n)) < p) * np.exp(sd * rng.standard_normal((n, n)))
    return wk.Graph.from_scipy(np.triu(weights, 1) + np.triu(weights, 1).T)


def frobenius(difference: np.ndarray, exact: np.ndarray) -> float:
    unit = np.abs(exact).max()
    return float(np.linalg.norm(difference / unit) / np.linalg.norm(exact / unit))


def root_mean_square(values: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def measure(graph: wk.Graph, make: Callable[[float], wk.Kernel], width: float, n_seeds: int) -> list[str]:
    """Return a row: true and stated error, their ratio, share of met tolerances, or why there is none."""
    begin = time.process_time()
    try:
        kernel = make(width)
        exact = wk.exact_kernel(graph, kernel)
        true, stated, met = [], [], []
        for seed in range(n_seeds):
            K = wk.estimate_kernel(graph, kernel, seed=seed)
            stated.append(K.explain().error)
            true.append(frobenius(K.to_dense() - exact, exact))
        is_short = K.n_steps / graph.n_nodes < LONGEST_TIMED and np.isfinite(stated).all()
        for seed in range(n_seeds if is_short else 0):
            met.append(
                frobenius(
                    wk.estimate_kernel(graph, kernel, seed=seed, tolerance=TOLERANCE).to_dense() - exact,
                    exact,
                )
                <= TOLERANCE
            )
    except ValueError as refusal:
        remedy = str(refusal).rsplit(". ", 1)[-1]
        return ["", "", "", "", f"{time.process_time() - begin:.0f}", f"refused: {remedy}"[:110]]
    drowned = not np.isfinite(stated).all()
    ratio = root_mean_square(true) / root_mean_square(stated)
    verdict = "drowned, and said so" if drowned else "" if ratio <= MAX_TIMES else "MISSED"
    if met and np.mean(met) < LEAST_MET:
        verdict = "TOLERANCE MISSED"
    return [
        f"{root_mean_square(true):.2g}",
        "inf" if drowned else f"{root_mean_square(stated):.2g}",
        "" if drowned else f"{ratio:.2f}",
        f"{np.mean(met):.2f}" if met else "",
        f"{time.process_time() - begin:.0f}",
        verdict,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    arguments = parser.parse_args()
    graphs = {"karate": wk.load_dataset("karate").graph, "random, 12, lognormal": random_graph(12, 0.35, 1.0)}
    rows = []
    for graph_name, graph in graphs.items():
        for name, make in KERNELS.items():
            for width in WIDTHS:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    row = [graph_name, name, f"{width:g}", *measure(graph, make, width, arguments.seeds)]
                rows.append(row)
                print(row, flush=True)
    missed = sum("MISSED" in row[-1] for row in rows)
    title = f"\nStated and true errors over {arguments.seeds} seeds; tolerance {TOLERANCE}"
    heads = ["graph", "kernel", "width", "true", "stated", "ratio", "met", "CPU s", ""]
    text = f"{machine()}\n{table(title, heads, rows)}\n{len(rows)} cells; goals missed in {missed}\n"
    print(text)
    if arguments.out:
        arguments.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
