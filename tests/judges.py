"""The rules by which a sample of estimates is judged unbiased; both must hold.

(i)  80 random ±1 projections xᵀK̂y, half of them with y = x: mean z² in 0.4 … 1.8.
(ii) Entries within two hops: |z| below the 1e-6 two-sided quantile, Bonferroni over entries, and mean z² in
     0.8 … 1.25. Entries further off are reached so rarely that z is far from normal.
"""

import numpy as np
from scipy.stats import norm


def z_scores(estimates, exact):
    """z of every entry; entries that never vary must be exact and have z = 0."""
    error = estimates.mean(axis=0) - exact
    spread = estimates.std(axis=0, ddof=1) / np.sqrt(len(estimates))
    constant = spread <= 1e-13 * (1 + np.abs(exact))
    z = np.divide(error, spread, out=np.zeros_like(error), where=~constant)
    return np.where(constant & (np.abs(error) > 1e-9), np.inf, z), ~constant


def within_two_hops(graph):
    near = (abs(graph.to_scipy()) > 0).toarray() + np.eye(graph.n_nodes)
    return near @ near > 0


def verdict(estimates, exact, near):
    """Return the statistics of both rules and whether they hold."""
    rng = np.random.default_rng(20240507)
    x = rng.choice([-1.0, 1.0], (80, len(exact)))
    y = np.where(np.arange(80)[:, None] < 40, x, rng.choice([-1.0, 1.0], (80, len(exact))))
    projections = np.einsum("ki,rij,kj->rk", x, estimates, y)
    z_projected, _ = z_scores(projections, np.einsum("ki,ij,kj->k", x, exact, y))
    z, varies = z_scores(estimates, exact)
    symmetric = bool(np.allclose(estimates, estimates.transpose(0, 2, 1), rtol=0, atol=1e-12))
    judged = near & varies & (np.triu(np.ones_like(near, dtype=bool)) if symmetric else True)
    constant_right = np.isfinite(z[~varies]).all()
    z = z[judged]
    limit = norm.isf(1e-6 / (2 * z.size))
    statistics = {
        "projections": float((z_projected**2).mean()),
        "entries": float((z**2).mean()),
        "largest": float(np.abs(z).max() / limit),
    }
    holds = (
        constant_right
        and 0.4 < statistics["projections"] < 1.8
        and 0.8 < statistics["entries"] < 1.25
        and statistics["largest"] < 1
    )
    return holds, statistics
