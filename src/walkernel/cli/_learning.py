"""A modulation function learned for a kernel and a number of walks."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from walkernel.cli import _options as option
from walkernel.cli._app import app, progress, say
from walkernel.cli._inputs import read_graph
from walkernel.cli._kernels import read_kernel
from walkernel.cli._results import show_json

SHOWN_TERMS = 16
Source = Annotated[
    Literal["fresh", "bank", "expected"],
    typer.Option("--learn-from", help="New walks, a bank of them, or the closed form (some hundred nodes)."),
]


@app.command()
def learn(
    graph: option.GraphName,
    out: option.Out,
    kernel: option.KernelName = "diffusion",
    matrix: option.Matrix = None,
    walks: option.Walks = 16,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs of the training.")] = 1000,
    source: Source = "fresh",
    seed: option.Seed = 0,
    json: option.Json = False,
    directed: option.Directed = None,
    relabel: option.Relabel = False,
) -> None:
    """Learn the f that minimises the error of a kernel for a number of walks, and write it as JSON.

    The walks are the paper's, which halt with probability 1/2 at each step. Other commands accept the file as
    --kernel: it stands for the biased kernel with coefficients f * f. With the walks that these commands
    choose, the kernel itself has a smaller error.

    Example: walkernel learn karate --kernel "regularized-laplacian(d=2)" --learn-from expected --out f.json
    """
    from walkernel.torch import Schedule, fit_to_kernel

    wanted = read_kernel(kernel, matrix)
    network = read_graph(graph, directed, relabel)
    schedule = Schedule(n_epochs=epochs)
    with progress("epochs") as report:
        fit = fit_to_kernel(
            network, wanted, walks, walks=source, schedule=schedule, seed=seed, progress=report
        )
    fit.modulation.save(out, notes={"kernel": str(wanted), "matrix": wanted.matrix, "n_walks": walks})
    say(f"{out}: f for {walks} walks and {wanted}")
    if not json:
        print(fit.report())
        return
    errors = {
        name: getattr(fit.errors, name)
        for name in ("learned", "learned_stderr", "unbiased", "unbiased_stderr", "ratio", "ratio_stderr")
    }
    f = fit.modulation.sides(SHOWN_TERMS)[0].tolist()
    show_json({"kernel": str(wanted), "n_walks": walks, "f": f, "squared_errors": errors})
