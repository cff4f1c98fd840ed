"""Learned modulation functions: better than unbiased, meshes, pairs, real data, and what a step costs.

    WALKERNEL_DATA=FOLDER python benchmarks/learning.py [better] [walks] [meshes] [pair] [traffic] [cost]
                                                        [--quick] [--out FOLDER]

better   f learned on a random graph of 20 nodes and used on others (Sec. 3.4, Table 2), from several seeds
walks    f learned for 4, 16, 64 and 256 walks
meshes   normals of meshes, f learned on the smallest (Sec. 3.5, Table 3), beside plain means of neighbours
pair     an asymmetric pair from a lazy and a flat start (appendix A.5)
traffic  traffic of pages: learned f against the best diffusion kernel of a grid, on the same walks
cost     milliseconds of an epoch and of a step, on one core

Tables go to FOLDER/learning.txt and pictures beside it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import learning_meshes as meshes
import numpy as np
import torch
from core import machine, table
from learning_figures import save_figures
from learning_traffic import traffic_rows

import walkernel as wk
from walkernel.datasets import binary_tree, erdos_renyi
from walkernel.torch import (
    ExpectedError,
    HeldOutErrors,
    ModulationPair,
    NeuralModulation,
    Schedule,
    fit_to_kernel,
    fit_to_task,
    held_out_errors,
)

TARGET = wk.RegularizedLaplacian(d=2, sigma=0.8)
DECAY = 0.64 / 1.64
"""c = σ²/(1 + σ²) of the target."""
AMPLITUDE = 1 / 1.64
WALKS = wk.IndependentWalks(0.5)
N_WALKS = 16
PAPER = {  # Table 2: unbiased and learned, squared errors of shared walks
    "ER 20": (0.0488, 0.0437), "ER 100": (0.0503, 0.0448), "tree": (0.0453, 0.0410),
    "karate": (0.0492, 0.0439), "dolphins": (0.0505, 0.0449), "football": (0.0520, 0.0459),
    "eurosis": (0.0551, 0.0484),
}  # fmt: skip
PAPER_MESHES = {  # Table 3: difference to learned of 1-reg, 2-reg, diffusion
    "cylinder": (0.40, 0.85, 0.029), "teapot": (0.81, 1.78, 0.059), "idler-riser": (0.52, 1.12, 0.042),
    "busted": (0.81, 1.60, 0.063), "torus": (2.13, 5.3, 0.067), "cycloidal": (0.065, 0.13, 0.011),
}  # fmt: skip


def small_graph() -> wk.Graph:
    """Return the graph that f is learned on."""
    return erdos_renyi(20, 0.2, seed=0).graph


def test_graphs() -> Iterator[tuple[str, wk.Graph]]:
    """Give the graphs that f is used on, those in files where they can be had."""
    yield "ER 20", small_graph()
    yield "ER 100", erdos_renyi(100, 0.04, seed=0).graph
    yield "tree", binary_tree(6).graph
    for name in ("karate", "dolphins", "football", "eurosis"):
        if (found := meshes.mesh(name)) is not None:
            yield name, found.graph


def better(n_seeds: int, n_samples: int) -> Iterator[str]:
    """Compare learned and unbiased f on all graphs, for two kinds of walks."""
    graphs = list(test_graphs())
    for ensembles in ("independent", "shared"):
        fits = [
            fit_to_kernel(small_graph(), TARGET, N_WALKS, ensembles=ensembles, seed=seed)
            for seed in range(n_seeds)
        ]
        rows = []
        for name, graph in graphs:
            n = n_samples if graph.n_nodes < 1000 else max(10, n_samples // 5)
            found = [
                held_out_errors(
                    graph, TARGET, fit.modulation, n_walks=N_WALKS, sampler=WALKS, n_samples=n, seed=seed,
                    ensembles=ensembles,
                )
                for seed, fit in enumerate(fits)
            ]  # fmt: skip
            rows.append(_better_row(name, graph, found, ensembles))
        columns = [
            "graph",
            "nodes",
            "unbiased",
            "learned",
            "ratio",
            "worst ratio",
            "least z",
            "paper's",
            "ratio",
        ]
        yield table(
            f"Squared error of K̂, {ensembles} walks, f from each of {n_seeds} seeds (goals: ≤ .87, z > 5)",
            columns, rows,
        )  # fmt: skip
        f = np.array([fit.modulation.modulation(6) / TARGET.modulation(6) for fit in fits])
        ends = f"{f[:, 2].min():.3f} and {f[:, 2].max():.3f}"
        yield f"f / unbiased f, mean over seeds: {_listed(f.mean(0))}; f(2) between {ends}"


def _better_row(name: str, graph: wk.Graph, found: list[HeldOutErrors], ensembles: str) -> list[str]:
    unbiased, learned = (np.array([getattr(one, k) for one in found]) for k in ("unbiased", "learned"))
    se = np.mean([one.ratio_stderr for one in found]) / np.sqrt(len(found))
    published = PAPER[name] if ensembles == "shared" else ("", "")
    return [
        name, str(graph.n_nodes), f"{unbiased.mean():.4f}", f"{learned.mean():.4f}",
        f"{np.mean([one.ratio for one in found]):.3f} ± {se:.3f}",
        f"{max(one.ratio for one in found):.3f}", f"{min(one.z for one in found):.1f}",
        f"{published[0]} {published[1]}".strip(),
        f"{published[1] / published[0]:.2f}" if ensembles == "shared" else "",
    ]  # fmt: skip


def by_walks() -> tuple[str, dict[int, np.ndarray]]:
    """Learn f for several numbers of walks, from walks and from the closed form."""
    found, rows = {}, []
    for n_walks in (4, 16, 64, 256):
        fit = fit_to_kernel(small_graph(), TARGET, n_walks)
        exact = fit_to_kernel(small_graph(), TARGET, n_walks, walks="expected")
        values, best = (one.modulation.modulation(8) / TARGET.modulation(8) for one in (fit, exact))
        found[n_walks] = values
        rows.append(
            [
                str(n_walks),
                _listed(values[:6]),
                _listed(best[:6]),
                f"{fit.ratio:.3f} ± {fit.ratio_stderr:.3f}",
            ]
        )
    title = "f / unbiased f at lengths 0 … 5, learned for a number of walks"
    return table(title, ["walks", "from walks", "from the closed form", "error ratio"], rows), found


def _listed(values: np.ndarray) -> str:
    return " ".join(f"{value:.3f}" for value in values)


def on_meshes(quick: bool) -> tuple[str, dict[str, np.ndarray]]:
    """Learn on the cylinder and compare on all meshes."""
    cylinder = meshes.mesh("cylinder") or wk.datasets.cylinder_mesh()
    learned, signed = meshes.learn_on(cylinder), meshes.learn_signed_on(cylinder)
    methods = meshes.methods_from(learned, signed)
    rows, errors = [], []
    for name in meshes.MESHES:
        data = meshes.mesh(name)
        if data is None:
            continue
        found = meshes.compare(data, methods, 10 if quick or name == "cycloidal" else 100)
        differences = [found.difference(kernel, "learned") for kernel in meshes.FIXED]
        published = PAPER_MESHES[name]
        rows.append([
            name, str(found.n_nodes),
            *(f"{d:+.3f} ± {s:.3f} ({p:+g})" for (d, s), p in zip(differences, published, strict=True)),
        ])  # fmt: skip
        gain, se = found.difference("signed, exact hops", "neighbour mean")
        names = ("learned", "neighbour mean", "signed, exact hops")
        errors.append(
            [name, *(f"{found.errors[key].mean():.5f}" for key in names), f"{gain:+.3f} ± {se:.3f}"]
        )
    text = "\n".join([
        f"Learned on the cylinder, c = {meshes.C}: f / cˡ = "
        f"{_listed(learned.modulation.modulation(6) / meshes.C ** np.arange(6))}",
        table(
            "Angular error of fixed kernels over the learned one's, less 1, on the same walks (the paper's)",
            ["mesh", "nodes", *meshes.FIXED], rows,
        ),
        f"Signed f₁, learned on the cylinder with three exact hops: {_listed(methods[names[2]].first[:4])}",
        table(
            "Mean angular errors, and that of the signed f over the neighbours' mean, less 1",
            ["mesh", *names, "signed / mean - 1"], errors,
        ),
    ])  # fmt: skip
    curves = {
        name: side.first[:8] / side.first[0]
        for name, side in methods.items()
        if side.sampler is meshes.PAPER_WALKS
    }
    return text, curves


def pair() -> tuple[str, dict[str, np.ndarray]]:
    """Train a pair from a flat f₁ and a lazy f₂."""
    scales = {"amplitude": AMPLITUDE, "decay": DECAY}
    first, second = NeuralModulation(**scales), NeuralModulation(**scales)
    with torch.no_grad():
        for layer, weight, bias in zip(second.layers, (1.0, -3.0), (1.0, 3.55), strict=True):
            layer.weight.fill_(weight)
            layer.bias.fill_(bias)
    start = ModulationPair(first, second)
    error = ExpectedError(small_graph(), TARGET, N_WALKS, WALKS, 40)
    before = [side.detach().numpy() for side in start.sides(8)]
    fit = fit_to_kernel(small_graph(), TARGET, N_WALKS, modulation=start)
    after = [side.detach().numpy() for side in fit.modulation.sides(8)]
    unbiased = TARGET.modulation(8)
    rows = [
        [when, name, _listed(side[:6] / unbiased[:6])]
        for when, sides in (("before", before), ("after", after))
        for name, side in zip(("f₁", "f₂"), sides, strict=True)
    ]
    cosines = [float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)) for a, b in (before, after)]
    symmetric = fit_to_kernel(small_graph(), TARGET, N_WALKS, walks="expected").modulation
    errors = [error(one).item() for one in (start, fit.modulation, symmetric)]
    text = "\n".join([
        table("A pair from a flat and a lazy start: f / unbiased f at lengths 0 … 5", ["", "", "f"], rows),
        f"cosine of f₁ and f₂: {cosines[0]:.4f} before, {cosines[1]:.4f} after; expected squared error "
        f"{errors[0]:.4f} before, {errors[1]:.4f} after, {errors[2]:.4f} with a symmetric pair",
    ])  # fmt: skip
    curves = {
        f"{name} {when}": s / unbiased
        for when, ss in (("before", before), ("after", after))
        for name, s in zip(("f₁", "f₂"), ss, strict=True)
    }
    return text, curves


def cost() -> str:
    """Time an epoch of Sec. 3.4 with fresh walks, and a step of Sec. 3.5 on the largest mesh."""
    rows = []
    graph = small_graph()
    start = NeuralModulation(amplitude=AMPLITUDE, decay=DECAY)

    def epochs(n: int, walks: str) -> float:
        begin = time.perf_counter()
        fit_to_kernel(
            graph,
            TARGET,
            N_WALKS,
            modulation=start,
            walks=walks,
            schedule=Schedule(n_epochs=n),
            n_held_out=2,
            n_samples=2,
        )
        return time.perf_counter() - begin

    for walks in ("fresh", "bank", "expected"):
        epochs(10, walks)
        per_epoch = (epochs(400, walks) - epochs(10, walks)) / 390
        rows.append([f"epoch of Sec. 3.4, walks={walks!r}", f"{1e3 * per_epoch:.2f}", "5"])
    data = meshes.mesh("cycloidal")
    if data is not None:
        for walks in ("fresh", "bank"):

            def steps(n: int, walks: str = walks) -> float:
                begin = time.perf_counter()
                fit_to_task(
                    data.graph,
                    np.arange(data.graph.n_nodes),
                    data.normals,
                    walks=walks,
                    n_samples=1,
                    schedule=Schedule(n_epochs=n),
                    patience=10**6,
                    validation=0.01,
                )
                return time.perf_counter() - begin

            steps(1)
            rows.append(
                [
                    f"step of Sec. 3.5 on cycloidal, walks={walks!r}",
                    f"{1e3 * (steps(21) - steps(1)) / 20:.0f}",
                    "1000",
                ]
            )
    return table("Milliseconds on one core", ["what", "ms", "goal"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("parts", nargs="*", default=[])
    parser.add_argument("--quick", action="store_true", help="3 seeds, 10 repeats")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    arguments = parser.parse_args()
    chosen = arguments.parts or ["better", "walks", "meshes", "pair", "traffic", "cost"]
    torch.set_num_threads(1)
    lines, curves = [machine() + f", torch {torch.__version__}"], {}

    def say(text: str) -> None:
        print(text, flush=True)
        lines.append(text)

    if "better" in chosen:
        for text in better(3 if arguments.quick else 10, 20 if arguments.quick else 100):
            say(text)
    for name, part in (("walks", by_walks), ("meshes", lambda: on_meshes(arguments.quick)), ("pair", pair)):
        if name in chosen:
            text, curves[name] = part()
            say(text)
    if "traffic" in chosen:
        say(traffic_rows(3 if arguments.quick else 10))
    if "cost" in chosen:
        say(cost())
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "learning.txt").write_text("\n\n".join(lines) + "\n")
    save_figures(curves, arguments.out)


if __name__ == "__main__":
    main()
