"""A ledger of numbers, so that a change which should change none of them can be shown to change none.

    python benchmarks/ledger.py write before.npz      # in the state before
    python benchmarks/ledger.py compare before.npz    # in the state after, with the same versions of all else

The numbers are compared byte by byte: walks, features, operators of every ensemble, pair and stitching,
entries, error bars, products, plans, equations, tasks, features in files and on a Dask cluster.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

import walkernel as wk

SEED = 11


def random_graph(n: int, degree: float, *, weights: str = "", directed: bool = False) -> wk.Graph:
    """Return a random graph, with lognormal or signed weights if asked for."""
    rng = np.random.default_rng(n)
    A = np.triu(rng.random((n, n)) < degree / n, 1)
    A = A | (rng.random((n, n)) < degree / n) & ~np.eye(n, dtype=bool) if directed else A | A.T
    W = A.astype(float)
    if weights:
        values = np.exp(rng.normal(size=(n, n))) * (
            rng.choice([-1.0, 1.0], (n, n)) if weights == "signed" else 1
        )
        W *= values if directed else np.triu(values, 1) + np.triu(values, 1).T
    return wk.Graph.from_scipy(scipy.sparse.csr_array(W), directed=directed)


def named_graph() -> wk.Graph:
    """Return a graph with labels, a loop and a node without edges."""
    edges = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "d"), ("e", "f"), ("f", "a")]
    return wk.Graph.from_edges(edges, weights=[1, 2, 0.5, 3, 1, 0.25, 1])


GRAPHS = {
    "plain": lambda: random_graph(40, 5),
    "weighted": lambda: random_graph(41, 5, weights="lognormal"),
    "signed": lambda: random_graph(42, 5, weights="signed"),
    "directed": lambda: random_graph(43, 5, weights="lognormal", directed=True),
    "sparse": lambda: random_graph(44, 1.2),
    "named": named_graph,
    "leaves": lambda: random_graph(700, 4),
}
SAMPLERS = {
    "paper": wk.IndependentWalks(0.2),
    "uniform": wk.IndependentWalks(0.2, transition="uniform"),
    "coupled": wk.CoupledWalks(0.8 ** np.arange(1, 40)),
    "head": wk.CoupledWalks(0.8 ** np.arange(1, 40), head=2),
}
KERNELS = {
    "diffusion": wk.Diffusion(1.5),
    "wide": wk.Diffusion(4.0),
    "laplacian": wk.RegularizedLaplacian(1.5, 2.0),
    "matern": wk.Matern(1.5, 2.0),
    "steps": wk.PStepRandomWalk(4, 2.0),
    "cosine": wk.InverseCosine(),
    "series": wk.PowerSeries([1.0, 0.5, 0.25]),
    "function": wk.PowerSeries.from_function(lambda x: np.exp(x) / (3 - x)),
    "adjacency": wk.Diffusion(0.5, matrix="adjacency"),
    "combinatorial": wk.Diffusion(2.0, matrix="combinatorial"),
    "sum": wk.Diffusion(1.0) + 0.5 * wk.Matern(0.5, 1.0),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "walks": {"n_walks": 32},
    "paper": {"n_walks": 24, "sampler": SAMPLERS["paper"]},
    "independent": {"n_walks": 32, "ensembles": "independent"},
    "shared": {"n_walks": 32, "ensembles": "shared"},
    "lazy": {"n_walks": 32, "pair": "lazy"},
    "stitched": {"n_walks": 32, "stitches": 2},
    "stitched head": {"n_walks": 32, "stitches": 3, "sampler": SAMPLERS["head"]},
    "stitched independent": {"n_walks": 32, "stitches": 2, "ensembles": "independent"},
    "budget": {"budget": 200_000},
    "tolerance": {"tolerance": 0.05},
}


def entries_of(K: Any) -> dict[str, Any]:
    """Return all that an operator can be asked for."""
    n = K.shape[0]
    V, nodes = np.random.default_rng(1).normal(size=(n, 3)), K.nodes
    some = [nodes[k] for k in (n - 1, 0, n // 2)]
    rows, columns = [some[0], some[1], some[0]], [some[1], some[1], some[2]]
    estimate, product = K.estimate(rows, columns), K.estimate_product(V[:, :2])
    best, likely, about = K.topk(some, 3), K.estimate_topk(some[:2], 2), K.explain()
    return {
        "product": K @ V, "transposed product": K.T @ V, "entries": K.entries(rows, columns),
        "diagonal": K.diagonal(), "rows": K.rows(some), "value": estimate.value, "stderr": estimate.stderr,
        "upper": estimate.upper, "rare": estimate.rare, "product value": product.value,
        "product stderr": product.stderr, "topk": best.values, "likely": likely.values,
        "likely stderr": likely.stderr, "certified": likely.certified, "steps": K.n_steps,
        "error": about.error, "text": about.text,
    }  # fmt: skip


def of_walks() -> Iterator[tuple[str, Any]]:
    """Yield deposits and features of every kind of graph and sampler."""
    for graph_name, make in GRAPHS.items():
        graph = make()
        for sampler_name, sampler in SAMPLERS.items():
            for matrix in ("normalized", "adjacency", "combinatorial"):
                if sampler_name == "uniform" and matrix == "combinatorial":
                    continue
                name = f"walks/{graph_name}/{sampler_name}/{matrix}"
                own = {"sampler": sampler, "seed": SEED, "matrix": matrix}
                walks = wk.sample_walks(graph, 16, **own)
                *walked, head = walks.deposits
                yield f"{name}/deposits", np.concatenate([np.asarray(a, float) for a in (*walked, *head)])
                kernel = wk.Diffusion(0.5, matrix=matrix)
                yield f"{name}/features", walks.features(kernel).toarray()
                yield (
                    f"{name}/sampled",
                    wk.sample_features(graph, kernel, 16, sampler=sampler, seed=3).toarray(),
                )
        few = graph.names(np.array([3, 1]))
        yield f"walks/{graph_name}/nodes", wk.sample_features(graph, wk.Diffusion(), 8, nodes=few).toarray()


def of_updates() -> Iterator[tuple[str, Any]]:
    """Yield walks that were brought to a changed graph."""
    before, after = random_graph(40, 5), random_graph(40, 5.2)
    for name, sampler in SAMPLERS.items():
        walks = wk.sample_walks(before, 16, sampler=sampler, seed=SEED).update(after)
        yield f"update/{name}", walks.features(wk.Diffusion()).toarray()
        yield f"update/{name}/count", walks.n_rewalked


def of_operators() -> Iterator[tuple[str, Any]]:
    """Yield all numbers of operators: every option, every kernel and every graph."""
    plain, default = "plain", "default"
    cases = [(plain, "wide", option) for option in OPTIONS]
    cases += [(plain, kernel, default) for kernel in KERNELS] + [
        (plain, kernel, "walks") for kernel in KERNELS
    ]
    cases += [(graph, "diffusion", option) for graph in GRAPHS for option in ("walks", "lazy", "stitched")]
    cases += [("directed", kernel, "walks") for kernel in KERNELS]
    for graph_name, kernel_name, option_name in dict.fromkeys(cases):
        graph, kernel = GRAPHS[graph_name](), KERNELS[kernel_name]
        options = OPTIONS[option_name]
        for nodes in (None, [5, 2, 3]) if graph.labels is None else (None,):
            if nodes and option_name in ("budget", "tolerance"):
                continue
            name = f"operator/{graph_name}/{kernel_name}/{option_name}/{'nodes' if nodes else 'all'}"
            try:
                K = wk.estimate_kernel(graph, kernel, seed=SEED, nodes=nodes, **options)
            except ValueError as error:
                yield name, type(error).__name__
                continue
            for what, value in entries_of(K).items():
                yield f"{name}/{what}", value


def of_polynomials() -> Iterator[tuple[str, Any]]:
    """Yield polynomial operators and exact kernels."""
    for name, kernel in KERNELS.items():
        graph = GRAPHS["weighted"]()
        P = wk.polynomial_operator(graph, kernel)
        yield f"polynomial/{name}", P @ np.random.default_rng(2).normal(size=(graph.n_nodes, 2))
        yield f"polynomial/{name}/rows", P.rows([3, 4])
        yield f"exact/{name}", wk.exact_kernel(graph, kernel)


def of_equations() -> Iterator[tuple[str, Any]]:
    """Yield solutions of equations."""
    engine = "engine" if "method" not in inspect.signature(wk.solve_ode).parameters else "method"
    for name in ("plain", "weighted", "directed"):
        graph = GRAPHS[name]()
        source, initial = np.random.default_rng(3).normal(size=(2, graph.n_nodes))
        for method in ("walks", "polynomial"):
            problem = {"initial": initial, "seed": SEED, engine: method}
            found = wk.solve_ode(graph, source, [0.5, 1.0], **problem)
            yield f"ode/{name}/{method}/x", found.x
            yield f"ode/{name}/{method}/stderr", found.stderr


def of_tasks() -> Iterator[tuple[str, Any]]:
    """Yield what estimators predict."""
    graph = GRAPHS["leaves"]()
    rng = np.random.default_rng(4)
    nodes, rest = np.split(rng.permutation(graph.n_nodes), [60])
    y = wk.exact_kernel(graph, wk.Diffusion(2.0))[nodes] @ rng.normal(size=graph.n_nodes)
    rest = rest[:40]
    for name, kernel in {"diffusion": wk.Diffusion(1.0), "matern": wk.Matern(1.5, 2.0)}.items():
        gp = wk.NodeGPRegressor(graph, kernel, random_state=1, normalize=False, method="walks").fit(
            nodes, y + 0.1 * rng.normal(size=nodes.size)
        )
        mean, std = gp.predict(rest, return_std=True)
        yield f"gp/{name}/mean", mean
        yield f"gp/{name}/std", std
        yield f"gp/{name}/likelihood", gp.log_marginal_likelihood_value_
        yield f"gp/{name}/draw", gp.sample_y(rest, 2, random_state=1)
    labels = (y > 0).astype(int)
    classifier = wk.NodeGPClassifier(
        graph, wk.Diffusion(2.0), random_state=1, normalize=False, method="walks"
    ).fit(nodes, labels)
    yield "classifier/probabilities", classifier.predict_proba(rest)
    smoother = wk.NodeSmoother(graph, wk.Diffusion(2.0), random_state=1, average=False, method="walks").fit(
        nodes, y
    )
    yield "smoother", smoother.predict(rest)
    yield (
        "ridge",
        wk.NodeRidge(graph, wk.Diffusion(2.0), random_state=1, normalize=False, alpha=1.0, method="walks")
        .fit(nodes, y)
        .predict(rest),
    )
    yield (
        "features",
        wk.NodeFeatures(graph, wk.Diffusion(2.0), random_state=1, normalize=False, method="walks")
        .fit_transform(nodes)
        .toarray(),
    )
    yield (
        "components",
        wk.NodeFeatures(
            graph, wk.Diffusion(2.0), n_components=8, random_state=1, normalize=False, method="walks"
        ).fit_transform(nodes),
    )
    means = wk.KernelKMeans(3, random_state=1).fit(wk.estimate_kernel(graph, wk.Diffusion(2.0), seed=SEED))
    yield "k-means", means.labels_


def of_files() -> Iterator[tuple[str, Any]]:
    """Yield numbers of operators whose features are in files."""
    for option in ("walks", "independent", "lazy", "stitched"):
        with tempfile.TemporaryDirectory() as folder:
            K = wk.estimate_kernel(
                GRAPHS["leaves"](),
                wk.Diffusion(2.0),
                seed=SEED,
                directory=Path(folder) / "f",
                **OPTIONS[option],
            )
            for what, value in entries_of(K).items():
                yield f"files/{option}/{what}", value


def of_clusters() -> Iterator[tuple[str, Any]]:
    """Yield numbers of operators whose features are on the workers of a cluster."""
    from distributed import Client, LocalCluster

    graph = GRAPHS["leaves"]()
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        engine = wk.engines.Dask(client)
        for option in ("walks", "independent", "lazy", "stitched"):
            K = wk.estimate_kernel(graph, wk.Diffusion(2.0), seed=SEED, **OPTIONS[option], engine=engine)
            for what, value in entries_of(K).items():
                yield f"cluster/{option}/{what}", value


PARTS = (of_walks, of_updates, of_operators, of_polynomials, of_equations, of_tasks, of_files, of_clusters)


def numbers() -> dict[str, np.ndarray]:
    """Return everything by name."""
    found: dict[str, np.ndarray] = {}
    for part in PARTS:
        for name, value in part():
            found[name] = np.asarray(value)
        print(f"{part.__name__}: {len(found)} numbers and arrays so far", file=sys.stderr, flush=True)
    return found


def differences(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> list[str]:
    """Say what differs, name by name."""
    said = [f"{name}: missing" for name in before.keys() - after.keys()]
    said += [f"{name}: new" for name in after.keys() - before.keys()]
    for name in before.keys() & after.keys():
        old, new = before[name], after[name]
        if old.shape != new.shape or old.dtype.kind != new.dtype.kind or old.tobytes() != new.tobytes():
            far = ""
            if old.shape == new.shape and old.dtype.kind in "fiu":
                most, size = (np.nanmax(np.abs(values), initial=0) for values in (old - new, old))
                far = f" by up to {most:.3g} of {size:.3g}"
            elif old.dtype.kind == "U":
                far = f": {old} | {new}"
            said.append(f"{name}: differs{far}")
    return sorted(said)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["write", "compare"])
    parser.add_argument("file")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    found = numbers()
    if chosen.action == "write":
        np.savez_compressed(chosen.file, **found)
    else:
        with np.load(chosen.file) as file:
            said = differences(dict(file), found)
        print(*said, f"{len(found)} compared, {len(said)} differ", sep="\n")
        sys.exit(bool(said))
