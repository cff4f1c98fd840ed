"""Whether a mask from the graph helps linear attention: classes of nodes, and dynamics on a mesh.

    WALKERNEL_DATA=FOLDER python benchmarks/attention_tasks.py [--data cora] [--quick] [--out FOLDER]

Three transformers differ in their attention only. ``masked`` is MaskedAttention, each head of which learns a
positive modulation function f; ``fixed`` is MaskedAttention with the kernel Diffusion(2); ``unmasked`` is
linear attention among all nodes. They have the same layers, widths, projections and φ, and begin from the
same random numbers.

Classes: the splits of ``referee.py`` with 20 known labels of each class. These graphs have no attributes. The
input at a node is its label, if that is known: in each step of the training a random half of the known labels
are inputs, and those of the other half are predicted. With ``places``, 32 columns of NodeFeatures are inputs
too, which tell where in the graph a node is. ``reference`` is NodeRidgeClassifier.

Dynamics: a reaction with diffusion (FitzHugh and Nagumo) on the corners of the teapot. Inputs are both
quantities with noise, and the coordinates of the corner; the first quantity is predicted, six units of time
later. Initial values are smooth random functions, different ones for training and test in each split. The
error is relative to the standard deviation of what is predicted. ``reference`` is a linear regression on the
inputs at the corner itself.

The rate of Adam and the dropout are chosen for each model, task and kind of inputs from the same grid, by the
score on a split that is not among the reported ones. Differences are paired: both models have the same split
and the same seed, which is that of the walks too.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from core import machine, table
from matplotlib.figure import Figure
from numpy.typing import NDArray
from referee_data import Key, load
from torch import Tensor, nn

import walkernel as wk
from walkernel.torch import MaskedAttention, NeuralModulation

WIDTH, HEADS, LAYERS, N_WALKS = 16, 4, 2, 8
MODELS = ("masked", "fixed", "unmasked")
WEIGHT_DECAY = 0.01
TUNING = 100
"""The split on which the rate and the dropout are chosen; the reported ones are 0, 1, 2, …"""
N_PLACES, N_LANDMARKS = 32, 1000
RUNS, BATCH = 64, 8
"""Initial values of a training and of a test, and those of one step."""
DURATION, TIME_STEP, NOISE = 6.0, 0.02, 0.2
LENGTHS = 12
"""Lengths of walks at which f is reported."""
COLOURS, MARKERS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7"), "os^D"


class Problem(NamedTuple):
    """A split of a task: what is minimised, and the score of the result on what was held out."""

    graph: wk.Graph
    n_inputs: int
    n_outputs: int
    loss: Callable[[nn.Module, torch.Generator], Tensor]
    score: Callable[[nn.Module], float]
    reference: Callable[[], float]


class Task(NamedTuple):
    """A graph and a kind of inputs, with the settings of its networks."""

    name: str
    inputs: str
    problem: Callable[[int], Problem]  # by the number of the split
    n_steps: int
    rates: tuple[float, float]
    dropouts: tuple[float, float]
    larger_is_better: bool


def positive(x: Tensor) -> Tensor:
    """Return φ of queries and keys: never zero, so that nodes without edges can attend to themselves."""
    return nn.functional.elu(x) + 1.001


class PlainAttention(nn.Module):
    """Linear attention among all nodes: MaskedAttention with a mask of ones."""

    def __init__(self) -> None:
        super().__init__()
        self.in_proj_weight = nn.Parameter(torch.empty(3 * WIDTH, WIDTH))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * WIDTH))
        self.out_proj = nn.Linear(WIDTH, WIDTH)
        nn.init.xavier_uniform_(self.in_proj_weight)
        nn.init.zeros_(self.out_proj.bias)

    def forward(self, x: Tensor) -> tuple[Tensor, None]:  # (…, nodes, WIDTH)
        """Return the attended values."""
        projected = nn.functional.linear(x, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(-2, -3) for one in projected)
        q, k = positive(q), positive(k)
        result = (q @ (k.mT @ v)) / (q @ k.sum(-2, keepdim=True).mT)
        return self.out_proj(result.transpose(-2, -3).flatten(-2)), None


class GraphTransformerLayer(nn.Module):
    """Attention, then two dense layers at each node; the results of both are added to their inputs."""

    def __init__(self, attention: nn.Module, dropout: float) -> None:
        super().__init__()
        self.attention = attention
        self.dense = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:  # (…, nodes, WIDTH)
        """Return the values at the nodes behind the layer."""
        x = x + self.dropout(self.attention(self.norms[0](x))[0])
        return x + self.dropout(self.dense(self.norms[1](x)))


def new_modulation() -> NeuralModulation:
    """Return an f that begins near 2⁻ˡ and stays positive, whatever is learned."""
    return NeuralModulation((8,), activation="softplus", decay=0.5)


def make_attention(model: str, graph: wk.Graph, seed: int) -> nn.Module:
    """Return the attention of a layer."""
    if model == "unmasked":
        return PlainAttention()
    kernel = new_modulation() if model == "masked" else wk.Diffusion(2.0)
    options = {"n_walks": N_WALKS, "feature_map": positive, "seed": seed}
    return MaskedAttention(graph, WIDTH, HEADS, kernel=kernel, **options)


def train(
    model: str, task: Task, problem: Problem, rate: float, dropout: float, seed: int
) -> tuple[nn.Sequential, float]:
    """Return a network and the seconds of its training."""
    torch.manual_seed(seed)
    layers = [
        GraphTransformerLayer(make_attention(model, problem.graph, LAYERS * seed + i), dropout)
        for i in range(LAYERS)
    ]
    first, last = nn.Linear(problem.n_inputs, WIDTH), nn.Linear(WIDTH, problem.n_outputs)
    network = nn.Sequential(first, *layers, nn.LayerNorm(WIDTH), nn.Dropout(dropout), last)
    adam = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=WEIGHT_DECAY)
    generator, begin = torch.Generator().manual_seed(seed), time.process_time()
    for _ in range(task.n_steps):
        adam.zero_grad()
        problem.loss(network, generator).backward()
        adam.step()
    return network.eval(), time.process_time() - begin


def describe_places(graph: wk.Graph) -> Tensor:  # (nodes, N_PLACES)
    """Return leading features of a diffusion kernel, scaled to a standard deviation of 1."""
    landmarks = np.random.default_rng(0).permutation(graph.n_nodes)[:N_LANDMARKS]
    features = wk.NodeFeatures(graph, wk.Diffusion(4.0), n_components=N_PLACES).fit(landmarks)
    columns = features.transform(np.arange(graph.n_nodes))
    return torch.as_tensor(columns / columns.std(axis=0), dtype=torch.float32)


def classification(data: str, *, with_places: bool) -> Task:
    """Return the task to predict the classes of the nodes of a graph."""
    source = load(Key("classification", data, "20/class"))
    n, n_classes = source.graph.n_nodes, source.n_classes
    places = describe_places(source.graph) if with_places else torch.zeros(n, 0)

    def problem(number: int) -> Problem:
        split = source.split(number)
        known, test = torch.as_tensor(split.train), torch.as_tensor(split.test)
        y, y_test = torch.as_tensor(split.y_train).long(), torch.as_tensor(split.y_test).long()

        def predict(network: nn.Module, shown: Tensor) -> Tensor:
            labels = torch.zeros(n, n_classes)
            labels[known[shown], y[shown]] = 1
            return network(torch.cat([labels, places], dim=1))

        def loss(network: nn.Module, generator: torch.Generator) -> Tensor:
            shown = torch.rand(len(known), generator=generator) < 0.5
            return nn.functional.cross_entropy(predict(network, shown)[known[~shown]], y[~shown])

        def score(network: nn.Module) -> float:
            found = predict(network, torch.ones(len(known), dtype=torch.bool)).argmax(dim=1)
            return float((found[test] == y_test).double().mean())

        def reference() -> float:
            model = wk.NodeRidgeClassifier(source.graph).fit(split.train, split.y_train)
            return float(model.score(split.test, split.y_test))

        return Problem(source.graph, n_classes + places.shape[1], n_classes, loss, score, reference)

    inputs = "labels, places" if with_places else "labels"
    rates, dropouts = (0.01, 0.03), (0.1, 0.5)
    return Task(data, inputs, problem, 100 if with_places else 150, rates, dropouts, larger_is_better=True)


def simulate(graph: wk.Graph, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Return noisy states (RUNS, nodes, 2), and the first quantity later (RUNS, nodes, 1).

    u' = u − u³/3 − v − (D − A) u / 10,  v' = .08 (u + .7 − .8 v), by Euler's method.
    """
    A = graph.to_scipy("adjacency")
    degrees = np.asarray(A.sum(axis=1)).reshape(-1, 1)
    smooth = wk.polynomial_operator(graph, wk.Diffusion(1.5))
    u, v = (smooth @ rng.standard_normal((graph.n_nodes, RUNS)) for _ in range(2))
    u, v = 1.5 * u / u.std(), 0.5 * v / v.std()
    states = np.stack([u.T, v.T], axis=2) + NOISE * rng.standard_normal((RUNS, graph.n_nodes, 2))
    for _ in range(round(DURATION / TIME_STEP)):
        change = u - u**3 / 3 - v - 0.1 * (degrees * u - A @ u)
        u, v = u + TIME_STEP * change, v + TIME_STEP * 0.08 * (u + 0.7 - 0.8 * v)
    return torch.as_tensor(states, dtype=torch.float32), torch.as_tensor(u.T[..., None], dtype=torch.float32)


def dynamics(data: str) -> Task:
    """Return the task to predict the state of a mesh."""
    mesh = wk.load_dataset(data)
    places = torch.as_tensor(mesh.coordinates - mesh.coordinates.mean(axis=0), dtype=torch.float32)
    places = (places / places.std()).expand(RUNS, -1, -1)

    def problem(number: int) -> Problem:
        rng = np.random.default_rng([number, 1])
        (states, later), (test_states, test_later) = (simulate(mesh.graph, rng) for _ in range(2))
        inputs, test_inputs = (torch.cat([x, places], dim=2) for x in (states, test_states))

        def loss(network: nn.Module, generator: torch.Generator) -> Tensor:
            batch = torch.randint(RUNS, (BATCH,), generator=generator)
            return (network(inputs[batch]) - later[batch]).square().mean()

        def score(network: nn.Module) -> float:
            return float((network(test_inputs) - test_later).square().mean().sqrt() / test_later.std())

        def reference() -> float:
            one = torch.ones(RUNS, mesh.graph.n_nodes, 1)
            x, x_test = (torch.cat([some, one], dim=2) for some in (inputs, test_inputs))
            weights = torch.linalg.lstsq(x.flatten(0, 1), later.flatten(0, 1)).solution
            return score(lambda _: x_test @ weights)

        return Problem(mesh.graph, inputs.shape[2], 1, loss, score, reference)

    rates, dropouts = (0.003, 0.01), (0.0, 0.1)
    return Task(data, "state, coordinates", problem, 150, rates, dropouts, larger_is_better=False)


class Result(NamedTuple):
    """What one model reaches on a task."""

    settings: tuple[float, float]
    scores: NDArray[np.float64]  # (splits,)
    seconds: float
    f: NDArray[np.float64]  # (splits, layers, heads, LENGTHS); no heads if nothing is learned


def measure(model: str, task: Task, n_splits: int) -> Result:
    """Choose the rate and the dropout of a model, and return its scores with them."""

    def run(number: int, rate: float, dropout: float) -> tuple[nn.Sequential, float, float]:
        problem = task.problem(number)
        network, seconds = train(model, task, problem, rate, dropout, number)
        with torch.no_grad():
            return network, problem.score(network), seconds

    found = {settings: run(TUNING, *settings)[1] for settings in product(task.rates, task.dropouts)}
    best = (max if task.larger_is_better else min)(found, key=found.__getitem__)
    networks, scores, seconds = zip(*(run(number, *best) for number in range(n_splits)), strict=True)
    f = [
        [[shape(one) for one in getattr(layer.attention, "modulations", [])] for layer in network[1:-3]]
        for network in networks
    ]
    return Result(best, np.array(scores), statistics.median(seconds), np.array(f))


def shape(modulation: NeuralModulation) -> NDArray[np.float64]:  # (LENGTHS,)
    """Return f divided by its sum; attention does not depend on its scale."""
    f = modulation.modulation(LENGTHS)
    return f / f.sum()


def mean_and_error(values: NDArray[np.float64], sign: str = "") -> str:
    """Return a mean and its standard error as text."""
    return f"{values.mean():{sign}.3f} ± {values.std(ddof=1) / math.sqrt(values.size):.3f}"


def draw(learned: dict[str, NDArray[np.float64]]) -> Figure:
    """Return a picture of the modulation functions of the first split, (splits, layers, heads, LENGTHS)."""
    columns = min(4, len(learned) + 1)
    rows = math.ceil((len(learned) + 1) / columns)
    figure = Figure(figsize=(3.2 * columns, 2.9 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    before = {"color": "0.75", "linewidth": 6}
    heads = list(zip(COLOURS, MARKERS, strict=True))
    layers = ({"linestyle": "-"}, {"linestyle": "--", "markerfacecolor": "white"})
    for panel, (title, f) in zip(panels, learned.items(), strict=False):
        panel.plot(shape(new_modulation()), label="before training", **before)
        for i, layer in enumerate(layers):
            for j, (colour, marker) in enumerate(heads):
                style = {"color": colour, "marker": marker, "markersize": 4.5, "linewidth": 1.2, **layer}
                panel.plot(f[0, i, j], label=f"layer {i + 1}, head {j + 1}", **style)
        panel.set(title=title, xticks=range(0, LENGTHS, 2), xlabel="length l of a walk")
        panel.tick_params(labelbottom=True)
    for panel in panels[::columns]:
        panel.set_ylabel("f(l) / sum of f")
    for panel in panels[len(learned) :]:
        panel.axis("off")
    panels[-1].legend(*panels[0].get_legend_handles_labels(), loc="center", frameon=False)
    figure.suptitle("Modulation functions that the heads of masked attention have learned (split 0)")
    return figure


def main() -> None:
    """Measure, print and write the tables and the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer steps and three splits")
    parser.add_argument("--data", default="cora,citeseer,lastfm_asia", help="graphs with classes")
    parser.add_argument("--without-places", default="cora,citeseer", help="those with labels only, too")
    parser.add_argument("--out", type=Path, help="folder for attention_tasks.txt and attention_f.png")
    options = parser.parse_args()
    torch.set_num_threads(1)
    n_splits = 3 if options.quick else 10
    tasks = [dynamics("teapot")]
    tasks += [classification(name, with_places=True) for name in options.data.split(",")]
    tasks += [classification(name, with_places=False) for name in options.without_places.split(",")]
    if options.quick:
        tasks = [task._replace(n_steps=50) for task in tasks]
    rows, settings, lengths, learned = [], [], [], {}
    for task in tasks:
        name, scores = [task.name, task.inputs], []
        for model in MODELS:
            one = measure(model, task, n_splits)
            scores.append(one.scores)
            settings.append([*name, model, *map(str, one.settings), f"{one.seconds:.1f}"])
            print(*name, model, *one.settings, one.scores.round(4).tolist(), sep=" | ", flush=True)
            if model == "masked":
                learned[f"{task.name}\n({task.inputs})"] = one.f
                for i, means in enumerate(np.moveaxis(one.f @ np.arange(LENGTHS), 1, 0)):
                    numbers = means.mean(), means.min(), means.max()
                    lengths.append([*name, str(i + 1), *(f"{number:.2f}" for number in numbers)])
        scores.append(np.array([task.problem(number).reference() for number in range(n_splits)]))
        differences = [mean_and_error(scores[0] - scores[i], "+") for i in (2, 1)]
        quantity = "accuracy" if task.larger_is_better else "error"
        rows.append([*name, quantity, *map(mean_and_error, scores), *differences])
    start = shape(new_modulation()) @ np.arange(LENGTHS)
    tables = (
        (
            f"Means of {n_splits} splits ± their standard errors; differences are paired",
            ["score", *MODELS, "reference", "masked − unmasked", "masked − fixed"],
            rows,
        ),
        (
            "Settings that were chosen, and processor seconds of a training (median)",
            ["model", "rate", "dropout", "seconds"],
            settings,
        ),
        (
            f"Mean of l with weights f(l), over heads and splits; {start:.2f} before training",
            ["layer", "mean", "least", "most"],
            lengths,
        ),
    )
    text = f"{machine()}torch {torch.__version__}\n"
    for title, columns, cells in tables:
        text += "\n" + table(title, ["graph", "inputs", *columns], cells)
    print(text)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "attention_tasks.txt").write_text(text)
        draw(learned).savefig(options.out / "attention_f.png", dpi=130)


if __name__ == "__main__":
    main()
