"""Gaussian processes with the exact diffusion kernel: dense, from one eigendecomposition of the graph.

The best that features from walks can hope for, and the yardstick of their calibration. What depends on the
graph alone (eigenvectors) is computed once, and its time is added to every call.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.special
from gp_data import ClassPrediction, Prediction, all_columns
from numpy.typing import NDArray
from scipy.optimize import minimize

import walkernel as wk

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

ALPHA_EPSILON = 0.01
"""Concentration given to the classes a node does not have (Milios et al., 2018, Section 4)."""

MOST_DOUBLE = 4000
"""Nodes up to which eigenvectors are in double precision; single is twice as fast, with errors of 1e-6."""

FIRST_SIGMAS = (0.5, 1.5, 4.0, 10.0)


class Hyperparameters(NamedTuple):
    """Parameters of a² exp(−σ²L/2) + s² I."""

    sigma: float
    amplitude: float
    noise: float


_KEPT: weakref.WeakKeyDictionary[wk.Graph, dict[Any, Any]] = weakref.WeakKeyDictionary()


def timed_once(graph: wk.Graph, compute: Callable[[wk.Graph], Any]) -> tuple[Any, float]:
    """Return compute(graph) and the seconds it took when first called."""
    kept = _KEPT.setdefault(graph, {})
    if compute not in kept:
        begin = time.perf_counter()
        value = compute(graph)
        kept[compute] = value, time.perf_counter() - begin
    return kept[compute]


def full_spectrum(graph: wk.Graph) -> tuple[Floats, Floats]:
    """Return all eigenvalues of L and the eigenvectors as columns."""
    dtype = np.float64 if graph.n_nodes <= MOST_DOUBLE else np.float32
    M = graph.to_scipy("normalized").toarray().astype(dtype)
    values, vectors = scipy.linalg.eigh(M, driver="evd", overwrite_a=True, check_finite=False)
    return 1.0 - values, vectors


class ExactKernel:
    """Blocks of exp(−σ²L/2) from the eigenvectors of L."""

    def __init__(self, graph: wk.Graph) -> None:
        (self.eigenvalues, self.vectors), self.seconds = timed_once(graph, full_spectrum)

    def block(self, rows: Ids, columns: Ids, weights: Floats) -> Floats:
        """Return V[rows] diag(weights) V[columns]ᵀ."""
        left = self.vectors[rows] * weights.astype(self.vectors.dtype)
        return (left @ self.vectors[columns].T).astype(np.float64)

    def with_slope(self, nodes: Ids, sigma: float) -> tuple[Floats, Floats]:
        """Return K among some nodes and its derivative by log σ."""
        spectrum = np.exp(-0.5 * sigma**2 * self.eigenvalues)
        slope = -(sigma**2) * self.eigenvalues * spectrum
        return self.block(nodes, nodes, spectrum), self.block(nodes, nodes, slope)

    def diagonal(self, nodes: Ids, sigma: float) -> Floats:
        """Return K(i, i)."""
        return (self.vectors[nodes] ** 2) @ np.exp(-0.5 * sigma**2 * self.eigenvalues)


def log_evidence(A: Floats, y: Floats) -> tuple[float, Floats]:
    """Return log p(y), y ~ N(b 1, A) with a flat prior of b, and its derivative by the entries of A."""
    ones = np.ones(y.size)
    factor = scipy.linalg.cho_factor(A, lower=True)
    inverse = scipy.linalg.cho_solve(factor, np.eye(y.size))
    u = inverse @ ones
    projected = inverse - np.outer(u, u) / u.sum()
    residual = projected @ y
    log_determinant = 2 * np.log(np.diag(factor[0])).sum() + np.log(u.sum())
    value = -0.5 * (y @ residual + log_determinant + (y.size - 1) * np.log(2 * np.pi))
    return value, 0.5 * (np.outer(residual, residual) - projected)


def posterior(A: Floats, y: Floats, cross: Floats, diagonal: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of f with covariance ``cross`` (n_test, n_train) to y, b integrated out."""
    factor = scipy.linalg.cho_factor(A, lower=True)
    u = scipy.linalg.cho_solve(factor, np.ones(y.size))
    b = (u @ y) / u.sum()
    half = scipy.linalg.solve_triangular(factor[0], cross.T, lower=True, check_finite=False)
    variance = diagonal - (half**2).sum(axis=0) + (1 - cross @ u) ** 2 / u.sum()
    return b + cross @ scipy.linalg.cho_solve(factor, y - b), np.maximum(variance, 0)


def fit_hyperparameters(kernel: ExactKernel, nodes: Ids, y: Floats) -> Hyperparameters:
    """Return the maximum of the evidence that is reached from the best of several σ."""
    scale, shape = y.std(), np.eye(y.size)

    def objective(logs: Floats) -> tuple[float, Floats]:
        sigma, amplitude, noise = np.exp(logs)
        K, slope = kernel.with_slope(nodes, sigma)
        value, by_entry = log_evidence(amplitude**2 * K + noise**2 * shape, y / scale)
        by_log = [amplitude**2 * np.vdot(by_entry, slope), 2 * amplitude**2 * np.vdot(by_entry, K)]
        return -value, -np.array([*by_log, 2 * noise**2 * np.trace(by_entry)])

    bounds = np.log([(0.05, 100), (1e-3, 1e3), (1e-3, 10)])
    starts = [np.log([sigma, 1.0, 0.5]) for sigma in FIRST_SIGMAS]
    start = min(starts, key=lambda logs: objective(logs)[0])
    options = {"ftol": 1e-7}
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    sigma, amplitude, noise = np.exp(found.x)
    return Hyperparameters(float(sigma), float(amplitude * scale), float(noise * scale))


def exact_gp_regression(
    graph: wk.Graph, train_ids: Ids, y_train: Floats, test_ids: Ids, seed: int = 0
) -> Prediction:
    """Dense Gaussian process b + a² exp(−σ²L/2) + s² I, b flat; σ, a, s from the evidence."""
    kernel, begin = ExactKernel(graph), time.perf_counter()
    sigma, amplitude, noise = fit_hyperparameters(kernel, train_ids, y_train)
    spectrum = amplitude**2 * np.exp(-0.5 * sigma**2 * kernel.eigenvalues)
    A = kernel.block(train_ids, train_ids, spectrum) + noise**2 * np.eye(y_train.size)
    diagonal = amplitude**2 * kernel.diagonal(test_ids, sigma)
    mean, variance = posterior(A, y_train, kernel.block(test_ids, train_ids, spectrum), diagonal)
    return Prediction(mean, np.sqrt(variance + noise**2), time.perf_counter() - begin + kernel.seconds)


def dirichlet_targets(labels: Ids, n_classes: int) -> tuple[Floats, Floats]:
    """Return values and noise variances, (n, n_classes), of labels as log-normal Gamma variables.

    Milios et al. (2018), Eq. 6: concentrations α have log-normals of variance log(1 + 1/α) and mean
    log α − variance/2.
    """
    concentrations = ALPHA_EPSILON + np.eye(n_classes)[labels]
    variances = np.log1p(1 / concentrations)
    return np.log(concentrations) - variances / 2, variances


def sum_of_evidences(K: Floats, values: Floats, variances: Floats) -> tuple[float, Floats]:
    """Return Σ_c log p(values[:, c]) with noise ``variances[:, c]``, and its derivative by the entries of K.

    The noise of a class differs from the common, largest one at the nodes of the class only, so that one
    inverse serves all classes, corrected by Woodbury's formula.
    """
    n, largest = len(K), variances.max()
    factor = scipy.linalg.cho_factor(K + largest * np.eye(n), lower=True)
    inverse = scipy.linalg.cho_solve(factor, np.eye(n))
    common = 2 * np.log(np.diag(factor[0])).sum() + (n - 1) * np.log(2 * np.pi)
    total, by_entry = 0.0, -inverse * values.shape[1]
    for y, noise in zip(values.T, variances.T, strict=True):
        own = np.flatnonzero(noise < largest)
        gaps, left = largest - noise[own], inverse[:, own]
        small = scipy.linalg.cho_factor(np.diag(1 / gaps) - left[own], lower=True)
        right = scipy.linalg.cho_solve(small, left.T)
        u, solved = (inverse @ v + left @ (right @ v) for v in (np.ones(n), y))
        residual = solved - u * (u @ y) / u.sum()
        corrected = 2 * np.log(np.diag(small[0])).sum() + np.log(gaps).sum() + np.log(u.sum())
        total -= 0.5 * (y @ residual + common + corrected)
        by_entry += np.outer(residual, residual) - left @ right + np.outer(u, u) / u.sum()
    return total, by_entry / 2


def fit_dirichlet(kernel: ExactKernel, nodes: Ids, values: Floats, variances: Floats) -> tuple[float, float]:
    """Return σ and amplitude, shared by all classes, of the largest sum of evidences."""

    def objective(logs: Floats) -> tuple[float, Floats]:
        sigma, amplitude = np.exp(logs)
        K, slope = kernel.with_slope(nodes, sigma)
        total, by_entry = sum_of_evidences(amplitude**2 * K, values, variances)
        by_log = [amplitude**2 * np.vdot(by_entry, slope), 2 * amplitude**2 * np.vdot(by_entry, K)]
        return -total, -np.array(by_log)

    bounds = np.log([(0.05, 30), (1e-2, 1e2)])
    options = {"maxiter": 25, "ftol": 1e-6}
    found = minimize(
        objective, np.log([3.0, 3.0]), jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    return tuple(np.exp(found.x))


def exact_gp_classification(
    graph: wk.Graph,
    train_ids: Ids,
    y_train: Ids,
    test_ids: Ids,
    seed: int = 0,
    *,
    n_classes: int | None = None,
    n_samples: int = 256,
) -> ClassPrediction:
    """Gaussian processes with the exact kernel on labels turned into regression (Milios et al., 2018)."""
    kernel, begin = ExactKernel(graph), time.perf_counter()
    classes, labels = np.unique(y_train, return_inverse=True)
    values, variances = dirichlet_targets(labels, classes.size)
    sigma, amplitude = fit_dirichlet(kernel, train_ids, values, variances)
    spectrum = amplitude**2 * np.exp(-0.5 * sigma**2 * kernel.eigenvalues)
    K, cross = (kernel.block(rows, train_ids, spectrum) for rows in (train_ids, test_ids))
    diagonal = amplitude**2 * kernel.diagonal(test_ids, sigma)
    parts = [
        posterior(K + np.diag(noise), y, cross, diagonal)
        for y, noise in zip(values.T, variances.T, strict=True)
    ]
    mean, std = np.stack([m for m, _ in parts], axis=1), np.sqrt(np.stack([v for _, v in parts], axis=1))
    rng, probabilities = np.random.default_rng(seed), np.zeros_like(mean)
    for _ in range(n_samples):
        probabilities += scipy.special.softmax(mean + std * rng.standard_normal(mean.shape), axis=1)
    columns = all_columns(probabilities / n_samples, classes, n_classes or int(classes[-1]) + 1)
    return ClassPrediction(columns, time.perf_counter() - begin + kernel.seconds)
