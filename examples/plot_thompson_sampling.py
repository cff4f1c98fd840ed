"""
Finding a maximum with few queries
==================================

Where in a town is the air worst? Every measurement costs a visit and is noisy. Thompson sampling draws one
function from the posterior of a Gaussian process and measures next where that function is largest: it looks
where values are high, and where they may be.
"""

# %%
# A town of 900 crossings with two walls, each of them open at one place only. The signal is smooth along
# the streets, and different on the two sides of a wall.
import matplotlib.pyplot as plt
import numpy as np

import walkernel as wk
from walkernel.plots import plot_nodes

size, kernel = 30, wk.Diffusion(5.0, matrix="combinatorial")
full = wk.datasets.grid(size, size)
edges = np.column_stack([full.graph.row_indices(), full.graph.indices])
column, row = np.moveaxis(full.coordinates[edges], 2, 0).astype(int)
closed = np.zeros(len(edges), dtype=bool)
for wall, gap in (9, 4), (19, 25):
    closed |= (column.min(axis=1) == wall) & (column.max(axis=1) == wall + 1) & (abs(row[:, 0] - gap) > 1)
graph = wk.Graph.from_edges(np.unique(np.sort(edges[~closed], axis=1), axis=0), n_nodes=size**2)
signals = wk.polynomial_operator(graph, kernel) @ np.random.default_rng(0).standard_normal((size**2, 10))
signals = (signals - signals.mean(axis=0)) / signals.std(axis=0)


# %%
# Both strategies begin with the same 10 random queries and have 30 more. The hyper-parameters are learned
# from the first 10 and again after 10 and 20 more; between these, the posterior is only conditioned on what
# was measured. Regret is the maximum of the signal less its value at the best crossing queried.
def search(signal, seed, is_thompson):
    """Return the nodes queried, in order."""
    rng = np.random.default_rng(seed)
    nodes = list(rng.choice(size**2, 10, replace=False))
    values = list(signal[nodes] + 0.3 * rng.standard_normal(10))
    for query in range(30):
        node = rng.integers(size**2)
        if is_thompson:
            if query % 10 == 0:
                model = wk.NodeGPRegressor(graph, wk.Diffusion(matrix="combinatorial")).fit(nodes, values)
            else:
                model = model.condition(nodes, values)
            node = model.sample_y(random_state=query)[:, 0].argmax()
        nodes.append(int(node))
        values.append(signal[node] + 0.3 * rng.standard_normal())
    return nodes


regret, paths = {}, {}
for name, is_thompson in ("Thompson sampling", True), ("random search", False):
    paths[name] = [search(signal, seed, is_thompson) for seed, signal in enumerate(signals.T)]
    best = [np.maximum.accumulate(own[path]) for own, path in zip(signals.T, paths[name], strict=True)]
    regret[name] = signals.max(axis=0)[:, None] - best
    last = regret[name][:, -1]
    print(f"{name:18s} regret {last.mean():.2f} ± {last.std(ddof=1) / np.sqrt(last.size):.2f}", end=", ")
    print(f"maximum found in {(last == 0).sum()} of {last.size} searches")

# %%
# On the right, one search: the queries gather around the maximum.
figure, axes = plt.subplots(1, 2, figsize=(11.5, 4.6), layout="constrained")
for name, own in regret.items():
    mean, stderr = own.mean(axis=0)[9:], own.std(axis=0, ddof=1)[9:] / np.sqrt(len(own))
    axes[0].plot(range(10, 41), mean, label=name)
    axes[0].fill_between(range(10, 41), mean - stderr, mean + stderr, alpha=0.2, linewidth=0)
axes[0].set(xlabel="queries", ylabel="regret", ylim=(0, None))
axes[0].set_title("Mean of ten signals and its standard error")
axes[0].legend(frameon=False)
axes[0].grid(alpha=0.25)
queries = paths["Thompson sampling"][0]
plot_nodes(
    graph, signals[:, 0], positions=full.coordinates, observed=np.unique(queries), label="signal", ax=axes[1]
)
axes[1].plot(*full.coordinates[signals[:, 0].argmax()], "*", color="tab:red", markersize=16, label="maximum")
axes[1].legend(loc="upper center", bbox_to_anchor=(0.5, 0.02), frameon=False)
axes[1].vlines([9.5, 9.5], [-0.5, 5.5], [2.5, 29.5], color="k")  # the walls
axes[1].vlines([19.5, 19.5], [-0.5, 26.5], [23.5, 29.5], color="k")
axes[1].set_title("Signal, walls, and the crossings queried")
plt.show()
