"""Speed of the core on the CPU, as ratios to baselines measured in the same run.

    python benchmarks/core.py [--grams] [--quick] [--out FILE]

Baselines: a bare loop of interleaved dependent gathers on the same CSR arrays (no random numbers worth the
name, nothing written), the authors' Algorithm 1 in plain Python, dense ``expm``, SciPy's CSR product, and
fast-graph-gp, if FAST_GRAPH_GP_PYTHON names an interpreter that has it (it needs PyTorch and GPyTorch). Times
are the best of several interleaved runs.
"""

from __future__ import annotations

import argparse
import gc
import importlib.metadata
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import numpy as np
import scipy.linalg
from numpy.typing import NDArray

import walkernel as wk
from walkernel.engines import checked_spec
from walkernel.features import gram
from walkernel.walks import WalkSpec, _sampling

P_HALT = 0.1
KERNEL = wk.Diffusion(1.0)
HASH, TURN, HALF, SHIFT = (np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xD1342543DE82EF95, 32, 29))


@numba.njit(nogil=True)
def bare_gathers(first, last, n_steps, indptr, indices):
    """Advance walkers in blocks of 1024, one step at a time, to a neighbour chosen by a hash."""
    here = np.empty(1024, dtype=np.int64)
    n_nodes, checksum = indptr.size - 1, 0
    for begin in range(first, last, 1024):
        for j in range(1024):
            here[j] = (begin + j) % n_nodes
        for t in range(n_steps):
            for j in range(1024):
                node = here[j]
                start = indptr[node]
                degree = np.uint64(indptr[node + 1] - start)
                x = np.uint64(begin + j) * HASH + np.uint64(t) * TURN
                x ^= x >> SHIFT
                here[j] = indices[start + np.int64(((x >> HALF) * degree) >> HALF)]
        checksum += here[0]
    return checksum


def random_graph(n_nodes: int, *, weighted: bool = False, degree: int = 10) -> wk.Graph:
    """Return a random graph of ``degree`` edges for each node, every node having at least one."""
    rng = np.random.default_rng(n_nodes)
    edges = rng.integers(0, n_nodes, (degree * n_nodes, 2))
    edges[:n_nodes, 0] = np.arange(n_nodes)
    return wk.Graph.from_edges(
        edges, n_nodes=n_nodes, weights=rng.random(degree * n_nodes) + 0.1 if weighted else None
    )


def best_of(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Run everything once to warm up, then interleaved; return the least time of each."""
    times = dict.fromkeys(runs, np.inf)
    for run in runs.values():
        run()
    for _ in range(repeats):
        for name, run in runs.items():
            begin = time.perf_counter()
            run()
            times[name] = min(times[name], time.perf_counter() - begin)
    return times


def bare_run(graph: wk.Graph, n_walkers: int, n_threads: int) -> None:
    size = -(-n_walkers // n_threads // 1024) * 1024
    with ThreadPoolExecutor(n_threads) as pool:
        jobs = [
            pool.submit(bare_gathers, i * size, (i + 1) * size, 9, graph.indptr, graph.indices)
            for i in range(n_threads)
        ]
        [job.result() for job in jobs]


def walks_only(spec: WalkSpec, n_threads: int) -> int:
    """Walk all walks, deposits left in buffers that are used again; return the number of steps."""
    factors = spec.law.factors()
    pool = _sampling.Pool([spec.table.indices.dtype, np.float64])
    size = max(1, _sampling.TASK_WALKS // spec.n_walks)

    def work(part: NDArray[np.int64]) -> int:
        own = spec.at(part)
        walked = _sampling.walk(own, factors, own.heads()[1], pool)
        pool.give_back(walked.arrays)
        return walked.n - walked.lengths.size

    parts = [spec.ids[i : i + size] for i in range(0, spec.ids.size, size)]
    with ThreadPoolExecutor(n_threads) as threads:
        return sum(threads.map(work, parts))


def speed_rows(n_nodes: int, n_walks: int, n_threads: int, repeats: int) -> list[list[str]]:
    """Millions of steps a second of bare gathers, walks, features and the record, and ratios to the first."""
    plain, heavy = random_graph(n_nodes), random_graph(n_nodes, weighted=True)
    nodes = np.arange(min(n_nodes, 200_000))
    specs = {
        kind: checked_spec(g, n_walks, None, 0, 0, nodes, "normalized", False)
        for kind, g in (("unweighted", plain), ("weighted", heavy))
    }
    steps = {kind: walks_only(s, 1) for kind, s in specs.items()}
    n_walkers = steps["unweighted"] // 9
    runs: dict[str, Callable[[], object]] = {"bare": lambda: bare_run(plain, n_walkers, n_threads)}
    for kind, s in specs.items():
        options = {"n_threads": n_threads, "nodes": nodes}
        runs[f"{kind} walks"] = lambda s=s: walks_only(s, n_threads)
        runs[f"{kind} features"] = lambda s=s, o=options: wk.sample_features(s.graph, KERNEL, n_walks, **o)
    runs["record"] = lambda: wk.sample_walks(plain, n_walks, nodes=nodes, engine=wk.engines.CPU(n_threads))
    times = best_of(runs, repeats)
    bare = (-(-n_walkers // n_threads // 1024) * 1024 * n_threads * 9) / times["bare"] / 1e6
    row = [f"{n_nodes:.0e}", str(n_walks), str(n_threads), f"{bare:.0f}"]
    for name in list(runs)[1:]:
        speed = steps["weighted" if name.startswith("weighted") else "unweighted"] / times[name] / 1e6
        row.append(f"{speed:.0f} ({speed / bare:.2f})")
    return [row]


def algorithm_one(graph: wk.Graph, n_walks: int, rng: np.random.Generator) -> int:
    """Run Algorithm 1 in plain Python into a dense matrix, the authors' way; return the number of steps."""
    neighbors = [graph.indices[a:b] for a, b in zip(graph.indptr[:-1], graph.indptr[1:], strict=True)]
    degrees, f = np.diff(graph.indptr), KERNEL.modulation(500)
    features = np.zeros((graph.n_nodes, graph.n_nodes))
    steps = 0
    for i in range(graph.n_nodes):
        for _ in range(n_walks):
            load, here, length = 1.0, i, 0
            while True:
                features[i, here] += load * f[length]
                if rng.random() < P_HALT:
                    break
                new = neighbors[here][rng.integers(degrees[here])]
                load *= degrees[here] / (1 - P_HALT) / np.sqrt(degrees[here] * degrees[new])
                here, length, steps = new, length + 1, steps + 1
    return steps


def slow_rivals(n_nodes: int, n_walks: int) -> list[list[str]]:
    """Full features of a small graph: ours against slower ways, in millions of steps a second."""
    graph = random_graph(n_nodes)
    steps = wk.sample_walks(graph, n_walks).n_steps
    times = best_of(
        {"ours": lambda: wk.sample_features(graph, KERNEL, n_walks, engine=wk.engines.CPU(1))}, 20
    )
    ours = steps / times["ours"]
    rows = [["walkernel, one thread", f"{ours / 1e6:.1f}", "1"]]
    begin = time.perf_counter()
    count = algorithm_one(graph, n_walks, np.random.default_rng(0))
    speed = count / (time.perf_counter() - begin)
    rows.append(["Algorithm 1 in plain Python", f"{speed / 1e6:.3f}", f"{ours / speed:.0f}"])
    rows += fast_graph_gp(graph, n_walks, ours)
    L = np.eye(n_nodes) - graph.to_scipy("normalized").toarray()
    begin = time.perf_counter()
    scipy.linalg.expm(-0.5 * L)
    seconds = time.perf_counter() - begin
    rows.append([f"dense expm ({seconds:.2f} s)", "", f"{seconds / times['ours']:.0f}"])
    return rows


def fast_graph_gp(graph: wk.Graph, n_walks: int, ours: float) -> list[list[str]]:
    """Features of fast-graph-gp in one process of the interpreter it is installed for."""
    interpreter = os.environ.get("FAST_GRAPH_GP_PYTHON")
    if interpreter is None:
        return [["fast-graph-gp (FAST_GRAPH_GP_PYTHON is not set)", "", ""]]
    code = (
        "import sys, time, numpy as np, torch; from grf_gp import GRFSampler; d = np.load(sys.argv[1])\n"
        "n = len(d['indptr']) - 1\n"
        "parts = (torch.from_numpy(d[k]) for k in ('indptr', 'indices', 'data'))\n"
        "A = torch.sparse_csr_tensor(*parts, (n, n))\n"
        f"s = GRFSampler(A, {n_walks}, {P_HALT}, max_walk_length=60, n_processes=1, use_tqdm=False)\n"
        "t = time.perf_counter(); s(); print(time.perf_counter() - t)"
    )
    M = graph.to_scipy("normalized")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.npz"
        np.savez(path, indptr=M.indptr.astype(np.int64), indices=M.indices.astype(np.int64), data=M.data)
        command = [interpreter, "-W", "ignore", "-c", code, str(path)]
        seconds = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    speed = graph.n_nodes * n_walks * (1 - P_HALT) / P_HALT / seconds
    return [["fast-graph-gp, one process", f"{speed / 1e6:.3f}", f"{ours / speed:.0f}"]]


def product_rows(n_nodes: int, repeats: int) -> list[list[str]]:
    """Φ(ΦᵀV) for 16 columns against SciPy's product on the same matrix."""
    from walkernel.features import _products as products

    features = wk.sample_features(random_graph(n_nodes), KERNEL, 8)
    V = np.random.default_rng(0).standard_normal((n_nodes, 16))

    def ours(threads: int) -> Callable[[], object]:
        return lambda: products.multiply(
            features, products.multiply_transposed(features, V, threads), threads
        )

    runs = {"scipy": lambda: features @ (features.T @ V), "1": ours(1), "2": ours(2)}
    times = best_of(runs, repeats)
    return [
        [
            f"{n_nodes:.0e}",
            f"{times['scipy']:.3f} s",
            *(f"{times['scipy'] / times[k]:.2f}" for k in ("1", "2")),
        ]
    ]


def query_rows(sizes: list[int]) -> list[list[str]]:
    """Time a query of 100 nodes, 64 walks, 3 edges a node; the graph's walk table is warm, nothing else."""
    rows = []
    for n_nodes in sizes:
        graph = random_graph(n_nodes, degree=3)
        nodes = np.arange(0, n_nodes, n_nodes // 100)[:100]

        def query(graph: wk.Graph = graph, nodes: NDArray[np.int64] = nodes) -> object:
            return wk.estimate_kernel(graph, KERNEL, 64, nodes=nodes).to_dense()

        times = best_of({"query": query}, 10)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        query()
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        rows.append([f"{n_nodes:.0e}", f"{1e3 * times['query']:.1f} ms", f"{grown / 1024:.1f} MiB"])
        del graph
        gc.collect()
    return rows


def memory_row(n_nodes: int, n_walks: int) -> list[str]:
    """Return the peak of memory while features are made, beyond what was there before, and the result's."""
    code = (
        "import resource, sys; sys.path.insert(0, 'benchmarks'); import core, walkernel as wk\n"
        f"g = core.random_graph({n_nodes}); wk.sample_features(g, core.KERNEL, {n_walks}, nodes=[0, 1])\n"
        "now = lambda: int(open('/proc/self/statm').read().split()[1]) * resource.getpagesize()\n"
        "open('/proc/self/clear_refs', 'w').write('5'); before = now()\n"
        f"phi = wk.sample_features(g, core.KERNEL, {n_walks})\n"
        "lines = open('/proc/self/status').read().splitlines()\n"
        "peak = next(int(line.split()[1]) * 1024 for line in lines if line.startswith('VmHWM'))\n"
        "print(peak - before, phi.data.nbytes + phi.indices.nbytes + phi.indptr.nbytes)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    peak, result = map(int, output.split())
    return [
        f"{n_nodes:.0e}",
        str(n_walks),
        f"{result / 2**20:.0f} MiB",
        f"{peak / 2**20:.0f} MiB",
        f"{peak / result:.2f}",
    ]


def first_call_rows() -> list[list[str]]:
    """Time a fresh process up to its first estimate on karate, numba's cache empty and full."""
    code = "import walkernel as wk; wk.estimate_kernel(wk.load_dataset('karate').graph, wk.Diffusion(), 16)"
    with tempfile.TemporaryDirectory() as cache:
        seconds = []
        for _ in range(2):
            begin = time.perf_counter()
            subprocess.run(
                [sys.executable, "-c", code], check=True, env={**os.environ, "NUMBA_CACHE_DIR": cache}
            )
            seconds.append(time.perf_counter() - begin)
    return [["cold", f"{seconds[0]:.1f} s"], ["warm", f"{seconds[1]:.1f} s"]]


def table(title: str, header: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in [header, *rows]
    ]
    return "\n".join([title, lines[0], "-" * len(lines[0]), *lines[1:], ""])


def machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "?")
    names = ("walkernel", "numpy", "scipy", "numba")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    cores = len(os.sched_getaffinity(0))
    return (
        f"{cpu}, {cores} cores, Python {platform.python_version()}, {versions}, {time.strftime('%Y-%m-%d')}\n"
    )


def gram_table(quick: bool) -> str:
    """Return the times of ΦΦᵀ for wider and wider kernels, 256 walks a node, beside SciPy's product."""
    graph = random_graph(50_000 if quick else 500_000)
    ids, rows = np.random.default_rng(0).choice(graph.n_nodes, 250, replace=False), []
    for sigma in (2, 8, 20):
        kernel = wk.Diffusion(float(sigma))
        sampler = wk.choose_sampler(graph, kernel, n_walks=256)
        features = wk.sample_walks(graph, 256, sampler=sampler, nodes=ids).features(kernel)
        runs = {
            "scipy": lambda own=features: (own @ own.T).toarray(),
            "1": lambda own=features: gram(own, own, 1),
            "2": lambda own=features: gram(own, own, 2),
        }
        times = best_of(runs, 3)
        speedups = [f"{times['scipy'] / times[n]:.2f}" for n in "12"]
        share = features.nnz / np.prod(features.shape)
        rows.append([str(sigma), f"{share:.2%}", f"{times['scipy']:.4f} s", *speedups])
    title = f"ΦΦᵀ of 250 nodes of {graph.n_nodes:.0e}: SciPy's time, our speed relative to it"
    return table(title, ["σ", "entries", "scipy", "1 thread", "2 threads"], rows)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    parser.add_argument("--out", type=Path, help="also write the tables to this file")
    parser.add_argument("--grams", action="store_true", help="the table of Gram matrices alone")
    options = parser.parse_args()
    if options.grams:
        report(options.out, machine(), gram_table(options.quick))
        return
    sizes = [10**4, 10**5] if options.quick else [10**4, 10**5, 10**6]
    repeats = 3 if options.quick else 5
    speed = [row for n in sizes for m in (16, 8) for t in (1, 2) for row in speed_rows(n, m, t, repeats)]
    header = ["nodes", "walks", "threads", "bare", "walks", "features", "w. walks", "w. features", "record"]
    rivals = ["", "M steps/s", "ours is faster by"]
    query_sizes = [10**5] if options.quick else [10**5, 10**7]
    parts = [
        machine(),
        table(
            "Million steps a second (ratio to bare gathers; goals: walks 0.7, features 0.5); "
            "w.: weighted graph",
            header,
            speed,
        ),
        table("Full features of 2000 nodes, 16 walks", rivals, slow_rivals(2000, 16)),
        table(
            "K @ V, 16 columns: SciPy's time, our speed relative to it",
            ["nodes", "scipy", "1 thread", "2 threads"],
            product_rows(sizes[-1] // 10, repeats),
        ),
        gram_table(options.quick),
        table("A query of 100 nodes, warm", ["nodes", "time", "memory"], query_rows(query_sizes)),
        table("Features", ["nodes", "walks", "result", "peak", "ratio"], [memory_row(sizes[-1], 8)]),
        table("First estimate in a fresh process", ["numba cache", "time"], first_call_rows()),
    ]
    report(options.out, *parts)


def report(path: Path | None, *parts: str) -> None:
    """Print tables, and write them to a file if one is given."""
    text = "\n".join(parts)
    print(text)
    if path is not None:
        path.write_text(text)


if __name__ == "__main__":
    main()
