"""What error bars of a product cost, as a ratio to the product without them.

    python benchmarks/error_bars.py [--quick] [--out FILE]

Both include the estimation of the kernel. Times are CPU times on one thread.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from core import machine, random_graph, table

import walkernel as wk

KERNEL = wk.Diffusion(np.sqrt(10.0))


def seconds(run: Callable[[], object]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


def cost_row(n_nodes: int, coupled: bool, ensembles: str) -> list[str]:
    """Return the times of estimate_kernel, K @ v and estimate_product, and the ratio of both ways."""
    graph, v = random_graph(n_nodes), np.random.default_rng(0).standard_normal(n_nodes)
    sampler = wk.CoupledWalks(wk.matched_law(graph, KERNEL)) if coupled else wk.IndependentWalks()

    def estimate(graph: wk.Graph) -> wk.KernelOperator:
        return wk.estimate_kernel(graph, KERNEL, 256, sampler=sampler, ensembles=ensembles)

    estimate(random_graph(100)).estimate_product(np.ones(100))
    begin = time.process_time()
    K = estimate(graph)
    sampling = time.process_time() - begin
    plain, bars = seconds(lambda: K @ v), seconds(lambda: K.estimate_product(v))
    ratio = (sampling + bars) / (sampling + plain)
    times = (f"{x:.2f} s" for x in (sampling, plain, bars))
    return [f"{n_nodes:.0e}", "coupled" if coupled else "independent", ensembles, *times, f"{ratio:.2f}"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a small graph only")
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    options = parser.parse_args()
    os.environ["WALKERNEL_NUM_THREADS"] = "1"
    n = 10**4 if options.quick else 10**5
    rows = [cost_row(n, coupled, kind) for coupled in (True, False) for kind in ("debiased", "independent")]
    header = ["nodes", "walks", "ensembles", "estimate_kernel", "K @ v", "estimate_product", "ratio"]
    title = "A product with error bars, 256 walks from each node, diffusion t = 5 (goal: a ratio below 2)"
    text = "\n".join([machine(), table(title, header, rows)])
    print(text)
    if options.out is not None:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
