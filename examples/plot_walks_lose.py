"""
Where walks lose, and what to use
=================================

Random walks are not the best tool for everything. If the kernel has to be multiplied by a vector over the
whole graph, polynomials of the matrix are faster by far, and as exact as you ask. This example
measures by how much.
"""

# %%
# One product K @ v on a grid of 10,000 nodes, for a narrow and for a wide diffusion kernel. The error is
# relative to a product of twelve digits.
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse.linalg import expm_multiply

import walkernel as wk

graph = wk.datasets.grid(100, 100).graph
v = np.random.default_rng(0).standard_normal(graph.n_nodes)
W = graph.to_scipy("normalized")


def walks(kernel, steps):
    return wk.estimate_kernel(graph, kernel, budget=steps * graph.n_nodes) @ v


def polynomial(kernel, tolerance):
    return wk.polynomial_operator(graph, kernel, tol=tolerance) @ v


def scipy_expm(kernel, time):
    return np.exp(-time) * expm_multiply(time * W, v, traceA=0.0)


def measure(product, kernel, setting):
    """Return the least time of four calls, the first of which may compile, and the error."""
    seconds = []
    for _ in range(4):
        begin = perf_counter()
        found = product(kernel, setting)
        seconds.append(perf_counter() - begin)
    exact = wk.polynomial_operator(graph, kernel, tol=1e-12) @ v
    return min(seconds), np.linalg.norm(found - exact) / np.linalg.norm(exact)


# %%
# Printed is the last setting of each: 400 steps from each node for walks, a tolerance of 1e-8 for the
# polynomial. SciPy has no such choice.
results = {}
for sigma in 2.0, 8.0:
    settings = {
        "walks": (walks, [50, 100, 200, 400]),
        "polynomial": (polynomial, [1e-2, 1e-4, 1e-6, 1e-8]),
        "SciPy's expm_multiply": (scipy_expm, [sigma**2 / 2]),
    }
    for name, (product, values) in settings.items():
        results[sigma, name] = [measure(product, wk.Diffusion(sigma), value) for value in values]
        seconds, error = results[sigma, name][-1]
        print(f"Diffusion({sigma:g}), {name:22s} {1000 * seconds:7.1f} ms, error {error:.0e}")

# %%
# So use ``polynomial_operator`` for whole products; ``NodeGPRegressor`` and its relatives do so by
# themselves. Walks are for explicit features, for many kernels on one sample, for a few nodes of a huge
# graph, and for an f that is learned.
figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained", sharey=True)
for sigma, one in zip((2.0, 8.0), axes, strict=True):
    for name, style in ("walks", "o-"), ("polynomial", "s-"), ("SciPy's expm_multiply", "^"):
        seconds, error = zip(*results[sigma, name], strict=True)
        one.plot(seconds, error, style, label=name)
    one.set(xscale="log", yscale="log", xlabel="seconds", title=f"K @ v, Diffusion({sigma:g}), 10,000 nodes")
    one.grid(alpha=0.25)
axes[0].set_ylabel("relative error")
axes[0].legend(frameon=False)
plt.show()
