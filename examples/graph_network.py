"""A graph network before and after its edges are replaced by those of a kernel.

The graph is the largest component of cora, 2485 papers on 7 topics; the words in them are not used. A network
of two graph convolutions learns the topics from 20 papers of each, and is tested on all others. It passes
messages along citations, or, after ``KernelDiffusion``, along the 64 largest entries of each row of
personalised PageRank. Nodes start from random numbers, which say nothing, so that all the network learns
comes by messages; or from ``LaplacianEncoding``, 16 eigenvectors that tell where in the graph a node is.
Where cora cannot be had, a random graph with planted blocks takes its place.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np
import torch
from matplotlib import pyplot
from torch.nn.functional import cross_entropy, dropout
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

import walkernel as wk
from walkernel.datasets import stochastic_block_model
from walkernel.torch import KernelDiffusion, LaplacianEncoding

KERNEL = wk.PageRank(0.9, matrix="normalized")


class Network(torch.nn.Module):
    """Two graph convolutions."""

    def __init__(self, n_features, n_classes):
        super().__init__()
        self.first, self.second = GCNConv(n_features, 16), GCNConv(16, n_classes)

    def forward(self, data):
        """Return scores of the classes at all nodes."""
        hidden = self.first(dropout(data.x, 0.5, self.training), data.edge_index, data.edge_attr).relu()
        return self.second(dropout(hidden, 0.5, self.training), data.edge_index, data.edge_attr)


def trained_accuracy(data, labelled, n_epochs):
    """Train a network on some nodes and return the share of all others that it classifies correctly."""
    torch.manual_seed(0)
    model = Network(data.num_features, int(data.y.max()) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(n_epochs):
        optimizer.zero_grad()
        cross_entropy(model(data)[labelled], data.y[labelled]).backward()
        optimizer.step()
    with torch.no_grad():
        right = model.eval()(data).argmax(dim=1) == data.y
    return (right.sum() - right[labelled].sum()).item() / (len(right) - len(labelled))


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("folder", nargs="?", default=".", type=Path, help="where the picture goes")
parser.add_argument("--choices", type=int, default=3, help="random choices of labelled papers")
parser.add_argument("--epochs", type=int, default=40, help="steps of the training of a network")
options = parser.parse_args()

try:
    papers = wk.load_dataset("cora")
except (OSError, ImportError):
    papers = stochastic_block_model([200] * 7, p_within=0.025, p_between=0.0015)
graph, topics = papers.graph, papers.labels
index = np.stack([graph.row_indices(), graph.indices.astype(np.int64)])
data = Data(edge_index=torch.tensor(index), y=torch.tensor(topics, dtype=torch.long), num_nodes=graph.n_nodes)

places = LaplacianEncoding(16, attr_name=None)(data)
places.x = places.x / places.x.std(dim=0)
noise = data.clone()
noise.x = torch.randn(graph.n_nodes, 64, generator=torch.Generator().manual_seed(0))
diffusion = KernelDiffusion(KERNEL, k=64)
networks = {
    ("random numbers", "edges"): noise,
    ("random numbers", "kernel"): diffusion(noise),
    ("eigenvectors", "edges"): places,
    ("eigenvectors", "kernel"): diffusion(places),
}
rng, accuracy = np.random.default_rng(0), np.zeros((len(networks), options.choices))
members = [np.flatnonzero(topics == topic) for topic in np.unique(topics)]
for choice in range(options.choices):
    labelled = torch.tensor(np.concatenate([rng.choice(nodes, 20, replace=False) for nodes in members]))
    for i, own in enumerate(networks.values()):
        accuracy[i, choice] = trained_accuracy(own, labelled, options.epochs)

errors = accuracy.std(axis=1, ddof=1) / np.sqrt(options.choices)
print(f"{papers.name}: {graph}, chance {1 / len(members):.3f}\n{diffusion}\n")
print("features         messages   edges     accuracy")
for (features, messages), own, mean, error in zip(
    networks, networks.values(), accuracy.mean(axis=1), errors, strict=True
):
    print(f"{features:16s} {messages:8s} {own.num_edges:7d}   {mean:.3f} ± {error:.3f}")

matplotlib.use("agg")
figure, axes = pyplot.subplots(figsize=(7.5, 4.8), layout="constrained")
for i, color in enumerate(("tab:gray", "tab:red", "tab:gray", "tab:red")):
    axes.plot(np.full(options.choices, i), accuracy[i], "o", color=color, alpha=0.6)
    axes.hlines(accuracy[i].mean(), i - 0.2, i + 0.2, color=color, linewidth=3)
axes.axhline(1 / len(members), color="k", linestyle=":", linewidth=1)
axes.set_xticks(range(4), [f"{features},\nmessages by {by}" for features, by in networks], fontsize=11)
axes.set(xlim=(-0.5, 3.5), ylim=(0, 1), ylabel="share of the other nodes classified correctly")
axes.set_title(f"A graph network on {papers.name}, 20 labelled nodes of each class\n(dotted: chance)")
axes.grid(axis="y", alpha=0.25)
path = options.folder / "graph_network.png"
path.parent.mkdir(parents=True, exist_ok=True)
figure.savefig(path, dpi=130)
print(f"\nSaved {path}")
