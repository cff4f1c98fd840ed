"""The demonstration: five kernels on the karate graph, estimated with more and more of the paper's walks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from walkernel.graph import Graph
from walkernel.kernels import Diffusion, InverseCosine, Kernel, PStepRandomWalk, RegularizedLaplacian
from walkernel.operators import estimate_kernel, exact_kernel
from walkernel.walks import IndependentWalks

WALKS = (4, 16, 64, 256, 1024)
PAPER = IndependentWalks(p_halt=0.1)
KERNELS: dict[str, Kernel] = {
    "1-reg. Laplacian": RegularizedLaplacian(d=1, sigma=1.0),
    "2-reg. Laplacian": RegularizedLaplacian(d=2, sigma=1.0),
    "2-step walk": PStepRandomWalk(p=2, alpha=2.0),
    "diffusion": Diffusion(sigma=1.0),
    "inverse cosine": InverseCosine(),
}


@dataclass(frozen=True)
class ErrorCurve:
    """Relative Frobenius errors ‖K − K̂‖ / ‖K‖ of one kernel: means and standard errors over repeats."""

    name: str
    pair: str
    walks: tuple[int, ...]
    mean: NDArray[np.float64]
    stderr: NDArray[np.float64]
    exact: NDArray[np.float64]
    estimate: NDArray[np.float64]

    @property
    def slope(self) -> float:
        """Exponent of the error in the number of walks."""
        return float(np.polyfit(np.log(self.walks), np.log(self.mean), 1)[0])


def error_curves(graph: Graph, n_repeats: int, seed: int) -> Iterator[ErrorCurve]:
    """Yield the error curve of each kernel; repeats differ in their seed only."""
    for name, kernel in KERNELS.items():
        exact = exact_kernel(graph, kernel)
        errors = np.empty((n_repeats, len(WALKS)))
        for repeat in range(n_repeats):
            for column, n_walks in enumerate(WALKS):
                K = estimate_kernel(graph, kernel, n_walks, sampler=PAPER, seed=seed + repeat)
                estimate = K.to_dense()
                errors[repeat, column] = np.linalg.norm(estimate - exact) / np.linalg.norm(exact)
        spread = errors.std(axis=0, ddof=1) / np.sqrt(n_repeats)
        yield ErrorCurve(
            name, str(getattr(K, "pair", "")), WALKS, errors.mean(axis=0), spread, exact, estimate
        )
