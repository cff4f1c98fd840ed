"""Find the largest value of a hidden signal on a graph with few noisy queries: Thompson sampling.

The graph is a town of 2500 crossings with three walls, each of them open at one place. The signal is smooth
along the streets, and different on the two sides of a wall. Each strategy begins with the same 10 random
queries and has 60 more. Thompson sampling draws one function from the posterior of a Gaussian process and
queries where that is largest; random search queries anywhere; greedy search queries the neighbours of the
crossing that looked best so far, and anywhere if it knows them all. Regret is the maximum of the signal less
its value at the best crossing queried, without noise. Single searches differ a lot, so that 20 signals tell
strategies apart only just (``--repeats`` for more).
"""

import argparse
from functools import partial
from pathlib import Path

import matplotlib
import numpy as np
import scipy.sparse
from matplotlib import pyplot
from matplotlib.collections import LineCollection

import walkernel as wk
from walkernel.datasets import grid

SIZE, FIRST, QUERIES, NOISE, EVERY = 50, 10, 60, 0.5, 10
KERNELS = [wk.Diffusion(sigma) for sigma in (4, 6, 9, 12)]
WALLS = ((12, 5), (24, 40), (37, 15))  # to the right of which column, and the row where it is open


def walled_town():
    """Return a grid without the edges that cross three walls, and its edges."""
    edges = np.argwhere(scipy.sparse.triu(grid(SIZE, SIZE).graph.to_scipy()).toarray())
    x, y = edges % SIZE, edges // SIZE
    crosses = np.zeros(len(edges), dtype=bool)
    for wall, gap in WALLS:
        crosses |= (x.min(axis=1) == wall) & (x.max(axis=1) == wall + 1) & (abs(y[:, 0] - gap) > 2)
    return wk.Graph.from_edges(edges[~crosses], n_nodes=SIZE**2), edges[~crosses]


graph, edges = walled_town()
neighbours = graph.to_scipy()
sampler = wk.choose_sampler(graph, *KERNELS, n_walks=64)  # so that all models share their walks
gaussian_process = partial(wk.NodeGPRegressor, graph, n_walks=64, sampler=sampler)


def suggest(model, seed):
    """Return the node where a draw from the posterior is largest."""
    return int(model.sample_y(random_state=seed)[:, 0].argmax())


def thompson(nodes, values, previous, rng):
    """Return the next node, and the model that suggests it."""
    if len(nodes) % EVERY == 0:  # learn anew
        tried = [gaussian_process(kernel=kernel, learn=("amplitude", "noise")) for kernel in KERNELS]
        model = max(
            (one.fit(nodes, values) for one in tried), key=lambda one: one.log_marginal_likelihood_value_
        )
    else:
        model = previous.condition(nodes, values)
    return suggest(model, int(rng.integers(2**31))), model


def anywhere(nodes, values, previous, rng):
    """Return a random node."""
    return int(rng.integers(graph.n_nodes)), None


def greedy(nodes, values, previous, rng):
    """Return a neighbour of the best node so far that is not yet known, or a random node."""
    best = nodes[int(np.argmax(values))]
    unknown = np.setdiff1d(neighbours[[best]].indices, nodes)
    return int(rng.choice(unknown) if unknown.size else rng.integers(graph.n_nodes)), None


def search(strategy, signal, seed):
    """Return the nodes queried, in order."""
    rng, model = np.random.default_rng(seed), None
    nodes = list(rng.choice(graph.n_nodes, FIRST, replace=False))
    values = list(signal[nodes] + NOISE * rng.standard_normal(FIRST))
    for _ in range(QUERIES):
        node, model = strategy(nodes, values, model, rng)
        nodes.append(node)
        values.append(signal[node] + NOISE * rng.standard_normal())
    return np.array(nodes)


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("folder", nargs="?", default=".", type=Path, help="where the picture goes")
parser.add_argument("--repeats", type=int, default=20, help="signals to search")
options = parser.parse_args()

smooth = wk.polynomial_operator(graph, wk.Diffusion(6.0))
signals = smooth @ np.random.default_rng(0).standard_normal((options.repeats, graph.n_nodes)).T
signals = (signals - signals.mean(axis=0)) / signals.std(axis=0)
strategies = {"Thompson sampling": thompson, "greedy search": greedy, "random search": anywhere}
regret, queried = {}, {}
for name, strategy in strategies.items():
    queried[name] = paths = [search(strategy, signal, seed) for seed, signal in enumerate(signals.T)]
    best = [np.maximum.accumulate(s[path]) for s, path in zip(signals.T, paths, strict=True)]
    regret[name] = signals.max(axis=0)[:, None] - np.array(best)


def standard_error(values):
    """Return the standard error of means over the first axis."""
    return values.std(axis=0, ddof=1) / np.sqrt(len(values))


def mean(values):
    """Return a mean with its standard error."""
    return f"{values.mean():.2f} ± {standard_error(values):.2f}"


print(f"{graph}: regret after so many queries, {options.repeats} signals\n")
counts = (10, 30, 50, 70)
print(
    "strategy          " + "".join(f"{count:>7d}         " for count in counts) + "behind Thompson sampling"
)
for name, own in regret.items():
    behind = own[:, -1] - regret["Thompson sampling"][:, -1]
    print(f"{name:18s}" + "".join(f"{mean(own[:, k - 1])}     " for k in counts) + mean(behind))

matplotlib.use("agg")
figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 5), layout="constrained", width_ratios=(1.25, 1))
for (name, own), color in zip(regret.items(), ("tab:red", "tab:blue", "tab:gray"), strict=True):
    at, middle, error = np.arange(1, FIRST + QUERIES + 1), own.mean(axis=0), standard_error(own)
    left.plot(at[FIRST - 1 :], middle[FIRST - 1 :], color=color, label=name)
    band = slice(FIRST - 1, None)
    left.fill_between(at[band], (middle - error)[band], (middle + error)[band], color=color, alpha=0.2, lw=0)
left.set(xlim=(FIRST, FIRST + QUERIES), ylim=(0, None), xlabel="queries", ylabel="regret")
left.set_title(f"Mean of {options.repeats} signals, and its standard error")
left.legend(frameon=False)
left.grid(alpha=0.25)

middling = int(np.argsort(regret["Thompson sampling"][:, -1])[options.repeats // 2])
signal, example = signals[:, middling], queried["Thompson sampling"][middling]
places = np.column_stack([np.arange(SIZE**2) % SIZE, np.arange(SIZE**2) // SIZE])
right.add_collection(LineCollection(places[edges], colors="0.75", linewidths=0.6, zorder=1))
for wall, gap in WALLS:
    right.vlines([wall + 0.5] * 2, [-0.5, gap + 2.5], [gap - 2.5, SIZE - 0.5], color="k", linewidth=2)
dots = right.scatter(*places.T, c=signal, s=14, linewidths=0)
first, later = places[example[:FIRST]], places[example[FIRST:]]
right.scatter(*first.T, s=40, c="w", edgecolors="k", linewidths=1, label="random queries")
right.scatter(*later.T, s=40, c="tab:red", edgecolors="k", linewidths=0.6, label="Thompson sampling")
right.scatter(
    *places[signal.argmax()], s=130, marker="*", c="gold", edgecolors="k", label="maximum", zorder=4
)
right.legend(loc="upper center", bbox_to_anchor=(0.5, 0), ncols=3, frameon=False, handletextpad=0.2)
right.set(aspect="equal", title="Thompson sampling, the search of median regret")
right.set_axis_off()
figure.colorbar(dots, ax=right, label="signal", shrink=0.8)
path = options.folder / "find_maximum.png"
path.parent.mkdir(parents=True, exist_ok=True)
figure.savefig(path, dpi=110)
print(f"\nSaved {path}")
