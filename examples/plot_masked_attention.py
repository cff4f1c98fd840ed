"""
Attention that knows the walls
==============================

A fire spreads over a field with two walls, and a transformer is to say where it burns a while later. Its
tokens are the cells of the field. Linear attention lets each cell attend to all others at once. Masked
attention multiplies its weights by a kernel of the graph: near cells count more than far ones, and a cell
behind a wall is far. How near is near is learned, by each head for itself. The example needs PyTorch.
"""

# %%
# Edges join neighbouring cells that no wall divides. Fire grows where it is and spreads along the edges. The
# inputs are the fire, with noise, and the places of the cells; the output is the fire four units of time
# later.
import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

import walkernel as wk
from walkernel.plots import plot_nodes
from walkernel.torch import MaskedAttention, NeuralModulation

size = 16
open_field = wk.datasets.grid(size, size)
edges = np.column_stack([open_field.graph.row_indices(), open_field.graph.indices])
edges = edges[edges[:, 0] < edges[:, 1]]
row, column = np.divmod(edges, size)
lower = (row[:, 0] == 4) & (row[:, 1] == 5) & (column[:, 0] < 11)
upper = (row[:, 0] == 10) & (row[:, 1] == 11) & (column[:, 0] >= 5)
graph = wk.Graph.from_edges(edges[~lower & ~upper], n_nodes=size**2)
field = wk.Dataset(name="field", graph=graph, coordinates=open_field.coordinates)
places = torch.tensor(field.coordinates / size - 0.5, dtype=torch.float32)
A = graph.to_scipy("adjacency")
degrees = np.asarray(A.sum(axis=1)).reshape(-1, 1)


def burn(fire, duration, step=0.05):
    for _ in range(round(duration / step)):
        fire = fire + step * (fire * (1 - fire) + 0.5 * (A @ fire - degrees * fire))
    return fire


def sample_fires(rng, n_fires=64):
    sparks = np.zeros((graph.n_nodes, n_fires))
    sparks[rng.integers(graph.n_nodes, size=(3, n_fires)), np.arange(n_fires)] = 1
    now = burn(sparks, 2)
    seen = now + 0.05 * rng.standard_normal(now.shape)
    seen, later = (torch.tensor(one.T[..., None], dtype=torch.float32) for one in (seen, burn(now, 4)))
    return torch.cat([seen, places.expand(n_fires, -1, -1)], dim=2), later


# %%
# ``MaskedAttention`` takes the place of the attention in PyTorch's own layers. It is compared with linear
# attention among all cells, and with masked attention that has the grid without walls for its graph. Networks
# have two layers of four heads.
class LinearAttention(nn.Module):
    """Linear attention without a mask."""

    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads, self.project, self.out = n_heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x, *_, **options):
        """Return the attended values."""
        q, k, v = self.project(x).unflatten(-1, (3, self.n_heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = nn.functional.elu(q) + 1, nn.functional.elu(k) + 1
        result = (q @ (k.mT @ v)) / (q @ k.sum(-2, keepdim=True).mT)
        return self.out(result.transpose(1, 2).flatten(2)), None


masks = {"mask of the field": graph, "mask of an open grid": open_field.graph, "no mask": None}


def make_layer(mask, seed, dim=16, n_heads=4):
    layer = nn.TransformerEncoderLayer(dim, n_heads, 32, dropout=0, batch_first=True, norm_first=True)
    if mask is None:
        layer.self_attn = LinearAttention(dim, n_heads)
    else:
        f = NeuralModulation((8,), activation="softplus", decay=0.5)  # near 2⁻ˡ at first, always positive
        layer.self_attn = MaskedAttention(mask, dim, n_heads, kernel=f, n_walks=8, seed=seed)
    return layer


def train(mask, seed, dim=16):
    torch.manual_seed(seed)
    layers = [make_layer(mask, 2 * seed + i) for i in range(2)]
    network = nn.Sequential(nn.Linear(3, dim), *layers, nn.LayerNorm(dim), nn.Linear(dim, 1))
    adam = torch.optim.Adam(network.parameters(), lr=0.01)
    x, y = sample_fires(np.random.default_rng(seed))
    for _ in range(150):
        batch = torch.randint(len(x), (4,))
        adam.zero_grad()
        (network(x[batch]) - y[batch]).square().mean().backward()
        adam.step()
    return network


# %%
# Three networks of each kind learn from 64 fires each, and are tested on 64 others. Errors are relative to
# the standard deviation of what is predicted. Settings are the same for all; none was tuned.
x, y = sample_fires(np.random.default_rng(99))
networks, guesses, errors = {}, {}, {}
for name, mask in masks.items():
    networks[name] = [train(mask, seed) for seed in range(3)]
    with torch.no_grad():
        guesses[name] = torch.stack([network(x) for network in networks[name]])
    errors[name] = (guesses[name] - y).square().mean(dim=(1, 2, 3)).sqrt() / y.std()
    print(f"{name}: errors", *(f"{error:.3f}" for error in errors[name]))

# %%
# The fire where the walls matter most, with the predictions of the first networks. Without a mask, a network
# must find out from places which cells are near, and errors are about .8 or more. The mask of an open grid
# tells it which are near: about .5. That of the field also knows the walls: about .25. On the right, f of its
# heads: the longer the walks that count, the wider the neighbourhood that a cell attends to.
fire = int(
    (guesses["mask of an open grid"][0] - guesses["mask of the field"][0]).square().mean(dim=(1, 2)).argmax()
)
figure, axes = plt.subplots(2, 4, figsize=(15, 7), layout="constrained")
pictures = {"Fire, as it is seen": x[fire, :, 0], "Fire, four units of time later": y[fire, :, 0]}
pictures |= {f"Predicted, {name}": guesses[name][0, fire, :, 0] for name in masks}
for one, (title, values) in zip([*axes[0, :2], *axes[1, :3]], pictures.items(), strict=True):
    plot_nodes(field, values.numpy(), vmin=0, vmax=1, label="fire", title=title, ax=one)
    for ends, height in (([-0.5, 10.5], 4.5), ([4.5, 15.5], 10.5)):
        one.plot(ends, [height, height], "k", linewidth=3)
axes[0, 2].plot(range(3), [e.tolist() for e in errors.values()], "ko", fillstyle="none")
axes[0, 2].set(xlim=(-0.5, 2.5), ylim=(0, None), ylabel="relative error", title="Errors on other fires")
axes[0, 2].set_xticks(range(3), [name.replace("of ", "of\n") for name in errors])
for i, one in enumerate(axes[:, 3]):
    for head, modulation in enumerate(networks["mask of the field"][0][1 + i].self_attn.modulations):
        f = modulation.modulation(8)
        one.plot(f / f.sum(), f"{'os^D'[head]}-")
    one.plot(0.5 ** np.arange(1, 9), "k:", label="before training")
    one.set(xlabel="length l of a walk", ylabel="f(l) / sum of f", title=f"f of four heads, layer {i + 1}")
    one.legend(frameon=False)
plt.show()
