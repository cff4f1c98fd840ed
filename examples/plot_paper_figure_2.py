"""
The paper's Figure 2 in ten lines
=================================

The paper on general graph random features (Reid, Choromanski, Berger, Weller, ICLR 2024) estimates five
kernels from random walks and shows that the error falls with the root of the number of walks. The walks
know no kernel: one sample serves all five, each with a modulation function of its own.
"""

# %%
# Zachary's karate club is one of the paper's graphs. ``walkernel reproduce`` runs the whole experiment, on
# all of its graphs; its core is short. (Of the inverse cosine of the matrix itself, these walks would have
# no finite variance; that of 0.0625 times the matrix is taken.)
import matplotlib.pyplot as plt
import numpy as np

import walkernel as wk

graph, walks = wk.datasets.karate().graph, [1, 2, 4, 8, 16, 32, 64, 128]
kernels = {
    "1-regularized Laplacian": wk.RegularizedLaplacian(1, 0.25),
    "2-regularized Laplacian": wk.RegularizedLaplacian(2, 0.25),
    "2-step random walk": wk.PStepRandomWalk(2, 20.0),
    "diffusion": wk.Diffusion(0.25),
    "inverse cosine": wk.InverseCosine(0.0625),
}
error = np.zeros((5, len(walks), 10))
for j, count in enumerate(walks):
    for seed in range(10):
        left, right = (wk.sample_walks(graph, count, seed=seed, stream=stream) for stream in (0, 1))
        for i, kernel in enumerate(kernels.values()):
            K, estimate = wk.exact_kernel(graph, kernel), left.features(kernel) @ right.features(kernel).T
            error[i, j, seed] = np.linalg.norm(estimate - K) / np.linalg.norm(K)
slopes = [np.polyfit(np.log(walks[2:]), np.log(own.mean(axis=1)[2:]), 1)[0] for own in error]
print("slopes from 4 walks on:", np.round(slopes, 2))

# %%
# The slope of an unbiased estimate is −1/2.
figure, axes = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
for (name, own), marker in zip(zip(kernels, error, strict=True), "osD^v", strict=True):
    axes.errorbar(
        walks, own.mean(axis=1), 2 * own.std(axis=1, ddof=1) / 10**0.5, marker=marker, capsize=2, label=name
    )
axes.plot(walks, 0.2 / np.sqrt(walks), "k--", label="slope −1/2")
axes.set(xscale="log", yscale="log", xlabel="walks from each node", ylabel="relative error, Frobenius norm")
axes.set_title("Karate club (bars: two standard errors)")
axes.legend(frameon=False)
axes.grid(alpha=0.25)
plt.show()
