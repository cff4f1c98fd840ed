"""Time and memory of masked linear attention, beside dense masking and linear attention without a mask.

    python benchmarks/attention.py [--quick | --tiny] [--out FILE]

A pass is the output, a loss, and all gradients: of queries, keys, values and one modulation function a head.
The graph has five edges a node at random; walks are those of a kernel that gives about 32 entries a row. All
three have the same inputs, in single precision, on a CUDA device. Memory is the most that a pass allocates
there beyond its inputs and walks. Exponents are slopes between sizes, in logarithms. ``card.py`` says how to
rehearse the table without a card.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable

import torch
from card import DEVICE, REHEARSES, Size, agreement, allocated, peak, random_graph, run, seconds, tell
from core import table
from torch import Tensor

import walkernel as wk
from walkernel.engines import CUDA
from walkernel.torch import WalkTensors, masked_attention

HEADS, COLUMNS = (2, 4) if REHEARSES else (8, 16)
SAMPLER = wk.IndependentWalks(0.25)
N_WALKS = 12


def walks_on(n_nodes: int) -> WalkTensors:
    """Return walks with about 32 entries a row."""
    graph = random_graph(n_nodes, degree=5)
    walks = wk.sample_walks(graph, N_WALKS, sampler=SAMPLER, engine=CUDA(DEVICE))
    return WalkTensors(walks, device=DEVICE, dtype=torch.float32)


def positive(x: Tensor) -> Tensor:
    return torch.nn.functional.elu(x) + 1


def masked(walks: WalkTensors, q: Tensor, k: Tensor, v: Tensor, f: Tensor) -> Tensor:
    return masked_attention(q, k, v, walks, f=f)


def dense(walks: WalkTensors, q: Tensor, k: Tensor, v: Tensor, f: Tensor) -> Tensor:
    features = torch.stack([walks.dense(one) for one in f])
    weights = (features @ features.mT) * (positive(q) @ positive(k).mT)
    return (weights / weights.sum(-1, keepdim=True)) @ v


def unmasked(walks: WalkTensors, q: Tensor, k: Tensor, v: Tensor, f: Tensor) -> Tensor:
    q, k = positive(q), positive(k)
    return (q @ (k.mT @ v)) / (q @ k.sum(-2, keepdim=True).mT)


def inputs_of(walks: WalkTensors) -> list[Tensor]:
    """Return queries, keys, values, and a modulation function for each head."""
    options = {"generator": torch.Generator(DEVICE).manual_seed(0), "device": DEVICE}
    tokens = [torch.randn(HEADS, walks.shape[0], COLUMNS, **options) for _ in range(3)]
    f = 0.5 ** torch.arange(walks.n_lengths, device=DEVICE, dtype=torch.float32)
    return [x.requires_grad_() for x in (*tokens, f.expand(HEADS, -1).clone())]


def measure(attend: Callable[..., Tensor], walks: WalkTensors, repeats: int) -> tuple[float, float]:
    """Return seconds and GiB of a pass, the first one apart."""
    inputs, times, most = inputs_of(walks), [], 0.0

    def take() -> None:
        attend(walks, *inputs).square().mean().backward()

    for _ in range(repeats):
        for x in inputs:
            x.grad = None
        before = allocated()
        times.append(seconds(take))
        most = peak() - before
    return statistics.median(times[1:] or times), most


def gradients(attend: Callable[..., Tensor], walks: WalkTensors) -> list[Tensor]:
    """Return the output of a pass and all its gradients."""
    inputs = inputs_of(walks)
    output = attend(walks, *inputs)
    return [output.detach(), *torch.autograd.grad(output.square().mean(), inputs)]


def attention_table(size: Size) -> str:
    """Return times and memory at several numbers of tokens."""
    sizes = size.of([1000, 2000, 4000, 8000, 16000, 10**5, 10**6], [1000, 2000, 4000], [4, 6, 8])
    largest = {masked: math.inf, unmasked: math.inf, dense: size.of(16000, 2000, 6)}
    few = walks_on(sizes[0])
    same = agreement(zip(gradients(masked, few), gradients(dense, few), strict=True), "dense masking")
    rows, first = [], {}
    for n in sizes:
        walks = walks_on(n)
        row = [str(n), f"{walks.n_entries / n:.1f}"]
        for attend, limit in largest.items():
            if n > limit:
                row += ["", ""]
                continue
            first[attend, n] = measure(attend, walks, 1 if REHEARSES else 4 if n > 10**5 else 8)
            row += [f"{1e3 * first[attend, n][0]:.2f}", f"{first[attend, n][1]:.3f}"]
        rows.append(tell(row))
    columns = [f"{attend.__name__} {unit}" for attend in largest for unit in ("ms", "GiB")]
    title = f"A pass of {HEADS} heads of {COLUMNS} (goal: 1 s for 10⁶ tokens)"
    text = table(title, ["tokens", "entries a row", *columns], rows) + same
    small, large = sizes[size.of(-2, -3, -3)], sizes[-1]
    for attend in (masked, unmasked):
        for name, a, b in zip(("time", "memory"), first[attend, small], first[attend, large], strict=True):
            if a:
                exponent = math.log(b / a) / math.log(large / small)
                text += f"exponent of {name}, {attend.__name__}, {small} to {large} tokens: {exponent:.2f}\n"
    return text


if __name__ == "__main__":
    run({"attention": attention_table})
