"""Normals of meshes predicted from their neighbourhood: learned kernels, fixed ones, and plain means.

All kernels of a repeat see the same walks and the same hidden nodes. A kernel that uses other walks than the
paper's, with exact first hops, has walks of its own, and is compared on the same hidden nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import walkernel as wk
from walkernel.torch import FreeModulation, ModulationPair, NeuralModulation, Schedule, TaskFit, fit_to_task

Floats = NDArray[np.float64]
C = 0.6
"""The factor c of the paper's matrix c·D^-½AD^-½, for all kernels alike."""
MASKED = 0.05
N_WALKS = 16
PAPER_WALKS = wk.IndependentWalks(0.5)
EXACT_HOPS = wk.CoupledWalks([1.0, 0.5, 0.25, 0.125], head=3)
FIXED = {
    "1-reg": wk.RegularizedLaplacian(1, np.sqrt(C / (1 - C))),
    "2-reg": wk.RegularizedLaplacian(2, np.sqrt(C / (1 - C))),
    "diffusion": wk.Diffusion(np.sqrt(2 * C)),
}
MESHES = ("cylinder", "teapot", "idler-riser", "busted", "torus", "cycloidal")


class Sides(NamedTuple):
    """A pair of modulations, and the walks that it is for."""

    first: Floats
    second: Floats
    sampler: wk.IndependentWalks | wk.CoupledWalks


def learn_on(mesh: wk.Dataset, seed: int = 0) -> TaskFit:
    """Return the paper's network, trained with the angular loss on hidden nodes of a mesh."""
    return fit_to_task(
        mesh.graph, np.arange(mesh.graph.n_nodes), mesh.normals, n_walks=N_WALKS, sampler=PAPER_WALKS,
        modulation=NeuralModulation(decay=C), walks="fresh", masked=MASKED, patience=None, seed=seed,
    )  # fmt: skip


def learn_signed_on(mesh: wk.Dataset, seed: int = 0) -> TaskFit:
    """Return a filter of either sign, learned on the same mesh from walks with three exact hops."""
    start = ModulationPair(FreeModulation([0.0, 1.0, 0.0, 0.0]), FreeModulation([1.0]))
    return fit_to_task(
        mesh.graph, np.arange(mesh.graph.n_nodes), mesh.normals, n_walks=N_WALKS, sampler=EXACT_HOPS,
        modulation=start, walks="fresh", masked=MASKED, patience=None, seed=seed, normalize=True,
        schedule=Schedule(n_epochs=1000, learning_rate=0.02),
    )  # fmt: skip


def neighbour_mean(mesh: wk.Dataset, hidden: NDArray[np.int64]) -> Floats:
    """Return the mean of the known neighbours' normals, zero where there is none."""
    known = np.ones((mesh.graph.n_nodes, 1))
    known[hidden] = 0
    return (mesh.graph.to_scipy() @ (known * mesh.normals))[hidden]


def angular_errors(predicted: Floats, normals: Floats) -> Floats:
    """Return 1 − cos θ at each node; a prediction of zero counts as a right angle."""
    sizes = np.linalg.norm(predicted, axis=1) * np.linalg.norm(normals, axis=1)
    return 1 - (predicted * normals).sum(axis=1) / np.where(sizes == 0, 1.0, sizes)


def repeat(mesh: wk.Dataset, methods: dict[str, Sides], number: int) -> dict[str, float]:
    """Return the mean angular error of each method for one choice of hidden nodes and walks."""
    n = mesh.graph.n_nodes
    rng = np.random.default_rng([7, number])
    hidden, known = np.split(rng.permutation(n), [max(1, round(MASKED * n))])
    predictions = {"neighbour mean": neighbour_mean(mesh, hidden)}
    for sampler in {id(side.sampler): side.sampler for side in methods.values()}.values():
        left = wk.sample_walks(mesh.graph, N_WALKS, sampler=sampler, seed=10**6 + number, nodes=hidden)
        right = wk.sample_walks(
            mesh.graph, N_WALKS, sampler=sampler, seed=10**6 + number, stream=1, nodes=known
        )
        for name, side in methods.items():
            if side.sampler is sampler:
                columns = np.column_stack([mesh.normals[known], np.ones(known.size)])
                *values, weight = (left.features(side.first) @ (right.features(side.second).T @ columns)).T
                predictions[name] = np.transpose(values) * np.sign(weight)[:, None]
    return {name: float(angular_errors(p, mesh.normals[hidden]).mean()) for name, p in predictions.items()}


def methods_from(learned: TaskFit, signed: TaskFit) -> dict[str, Sides]:
    """Return everything that is compared, by name."""
    length = PAPER_WALKS.longest + 1

    def sides(fit: TaskFit) -> tuple[Floats, Floats]:
        first, second = (side.detach().numpy() for side in fit.modulation.sides(length))
        return first, second

    fixed = {name: kernel.modulation(length) for name, kernel in FIXED.items()}
    found = {name: Sides(f, f, PAPER_WALKS) for name, f in fixed.items()}
    found["learned"] = Sides(*sides(learned), PAPER_WALKS)
    found["signed, exact hops"] = Sides(*sides(signed), EXACT_HOPS)
    return found


class Row(NamedTuple):
    """Errors of one mesh: (repeats,) for each method."""

    name: str
    n_nodes: int
    errors: dict[str, Floats]

    def difference(self, method: str, reference: str) -> tuple[float, float]:
        """Return the mean of (error − reference's) / mean of reference's, and its standard error."""
        change = (self.errors[method] - self.errors[reference]) / self.errors[reference].mean()
        return float(change.mean()), float(change.std(ddof=1) / np.sqrt(change.size))


def compare(mesh: wk.Dataset, methods: dict[str, Sides], n_repeats: int) -> Row:
    """Return the errors of all methods over repeats."""
    found = [repeat(mesh, methods, number) for number in range(n_repeats)]
    return Row(mesh.name, mesh.graph.n_nodes, {name: np.array([f[name] for f in found]) for name in found[0]})


def mesh(name: str) -> wk.Dataset | None:
    """Return a mesh, or None where it cannot be had."""
    try:
        return wk.load_dataset(name)
    except (OSError, ImportError):
        return None
