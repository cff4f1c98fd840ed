"""Clusters, smoothed values, heat and a Gaussian process from features that stay on a Dask cluster.

    python examples/on_a_cluster.py [--scheduler tcp://HOST:PORT] [--nodes 4000]

Without a scheduler, two worker processes are started on this machine. Features stay on the workers; what
comes back are products, and they have the bits of one process. Needs ``pip install 'walkernel[dask]'``.
"""

from __future__ import annotations

import argparse

import numpy as np
from distributed import Client, LocalCluster

import walkernel as wk
from walkernel.datasets import stochastic_block_model


def run(client: Client, n_nodes: int) -> None:
    """Do everything with one operator."""
    quarter = n_nodes // 4
    blocks = stochastic_block_model([quarter] * 4, 20 / quarter, 2 / quarter)
    graph, kernel = blocks.graph, wk.Diffusion(3.0)
    rng = np.random.default_rng(0)

    engine = wk.engines.Dask(client)
    K = wk.estimate_kernel(graph, kernel, 64, ensembles="shared", engine=engine)
    print(f"{K}: {K.n_steps:.3g} steps on the workers")

    found = wk.KernelKMeans(4, n_init=3, random_state=0).fit(K).labels_
    print(f"clusters: error {wk.clustering_error(found, blocks.labels):.3f} against the blocks")

    known = rng.choice(graph.n_nodes, 200, replace=False)
    truth = blocks.labels - blocks.labels.mean()
    values = truth[known] + 0.3 * rng.standard_normal(known.size)
    sparse = np.zeros((graph.n_nodes, 2))
    sparse[known] = np.column_stack([values, np.ones(known.size)])
    sums = K @ sparse
    smoothed = np.divide(sums[:, 0], sums[:, 1], out=np.zeros(graph.n_nodes), where=sums[:, 1] > 0)
    print(f"smoothed values: error {np.sqrt(np.mean((smoothed - truth) ** 2)):.3f}, spread {truth.std():.3f}")

    asked = rng.choice(graph.n_nodes, 500, replace=False)
    amplitude = 1 / np.sqrt(K.diagonal().mean())
    mean, std, n_iter = wk.gp_posterior(K, known, values, asked, noise=0.3, amplitude=amplitude)
    inside = np.mean(np.abs(truth[asked] - mean) < 1.96 * std)
    print(f"Gaussian process: error {np.sqrt(np.mean((mean - truth[asked]) ** 2)):.3f}, {n_iter} iterations, "
          f"95 % intervals hold {100 * inside:.0f} %")  # fmt: skip

    heat = np.zeros(graph.n_nodes)
    heat[0] = 1.0
    x = wk.solve_ode(graph, None, [0.5, 1.0], initial=heat, n_walks=32, engine=engine).x
    print(f"heat left at its source after 0.5 and 1: {x[0, 0]:.3f}, {x[1, 0]:.3f}")

    alone = wk.estimate_kernel(graph, kernel, 64, ensembles="shared")
    print(f"the same bits as in one process: {np.array_equal(K @ sparse, alone @ sparse)}")


def main() -> None:
    """Connect, or start workers."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--scheduler", help="address of a scheduler")
    parser.add_argument("--nodes", type=int, default=4_000)
    options = parser.parse_args()
    if options.scheduler:
        with Client(options.scheduler) as client:
            run(client, options.nodes)
        return
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        run(client, options.nodes)


if __name__ == "__main__":
    main()
