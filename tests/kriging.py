"""Gaussian processes by hand: full matrices of all observations, none merged, and the kriging system.

With Σ = Cov(y), K and k the prior covariances and H, h the columns of the mean, universal kriging solves

    [Σ  H] [λ]   [k]
    [Hᵀ 0] [μ] = [h],     mean λᵀy,   covariance K − [k h]ᵀ[λ μ],

and the restricted likelihood is that of contrasts Cᵀy with CᵀH = 0 and CᵀC = I, over √det HᵀH.
"""

import numpy as np
import scipy.linalg
from scipy.stats import multivariate_normal

import walkernel as wk

KERNELS = {
    "Diffusion": wk.Diffusion(1.7),
    "RegularizedLaplacian": wk.RegularizedLaplacian(1.5, 0.8),
    "Matern": wk.Matern(0.7, 1.9),
    "multiple": 2.5 * wk.Diffusion(1.2),
    "scaled": wk.Matern(1.5, 1.1).scaled(0.8),
    "scaled multiple": (0.3 * wk.RegularizedLaplacian(2, 1.3)).scaled(-0.6),
    "adjacency": wk.Diffusion(0.5, matrix="adjacency"),
    "combinatorial": wk.RegularizedLaplacian(1, 2.0, matrix="combinatorial"),
}
"""Kernels with a lengthscale."""


def columns(graph, mean, covariates):
    """The columns of the mean at all nodes, (n_nodes, q)."""
    parts = [np.ones((graph.n_nodes, 1))] if mean == "constant" else []
    parts += [] if covariates is None else [np.reshape(covariates, (graph.n_nodes, -1))]
    return np.hstack([np.empty((graph.n_nodes, 0)), *parts])


def twins_by_hand(graph):
    """The first node with the same row of the adjacency matrix, unless the row is zero, (n_nodes,)."""
    A = graph.to_scipy().toarray()
    same = (A[:, None, :] == A[None, :, :]).all(axis=2) & A.any(axis=1)
    return np.where(A.any(axis=1), same.argmax(axis=1), np.arange(graph.n_nodes))


class Kriging:
    """What a fitted ``NodeGPRegressor`` must answer, from its features and hyper-parameters alone."""

    def __init__(self, model, X, y, noise_std=0.0):
        graph = model.graph
        kernel = model.kernel_ if model.modulation_ is None else model.modulation_
        self.features = model.amplitude_ * wk.sample_features(
            graph, kernel, model.n_walks, sampler=model.sampler_, seed=model.random_state or 0,
            matrix=model.kernel.matrix,
        ).toarray()  # fmt: skip
        if model.normalize:
            size = 1.0 if model.modulation_ is None else np.linalg.norm(model.modulation_)
            lengths = np.linalg.norm(self.features, axis=1, keepdims=True) / (size * model.amplitude_)
            self.features = self.features / np.where(lengths > 0, lengths, 1.0)
        self.features = np.hstack([self.features, model.nugget_ * np.eye(graph.n_nodes)])
        if model.twins:
            self.features = self.features[twins_by_hand(graph)]
        self.columns = columns(graph, model.mean, model.covariates)
        self.graph, self.y, self.noise = graph, np.asarray(y, dtype=float), model.noise_
        self.ids = graph.ids(X)
        own = self.features[self.ids]
        self.H = self.columns[self.ids]
        self.Sigma = own @ own.T + np.diag(np.broadcast_to(noise_std, self.y.shape) ** 2 + self.noise**2)

    def posterior(self, nodes):
        """Mean, (n,), and covariance, (n, n), of g + h·β."""
        ids, q = self.graph.ids(nodes), self.H.shape[1]
        rows = self.features[ids]
        sides = np.vstack([self.features[self.ids] @ rows.T, self.columns[ids].T])
        solved = np.linalg.solve(np.block([[self.Sigma, self.H], [self.H.T, np.zeros((q, q))]]), sides)
        return solved[: self.y.size].T @ self.y, rows @ rows.T - sides.T @ solved

    def beta(self):
        """Generalised least squares."""
        root = np.linalg.inv(np.linalg.cholesky(self.Sigma))
        return np.linalg.lstsq(root @ self.H, root @ self.y)[0]

    def log_likelihood(self):
        """log p(y) with a flat prior on β."""
        C = scipy.linalg.null_space(self.H.T) if self.H.shape[1] else np.eye(self.y.size)
        volume = np.linalg.slogdet(self.H.T @ self.H)[1] if self.H.shape[1] else 0.0
        if not C.shape[1]:
            return -0.5 * volume
        return multivariate_normal(cov=C.T @ self.Sigma @ C).logpdf(C.T @ self.y) - 0.5 * volume
