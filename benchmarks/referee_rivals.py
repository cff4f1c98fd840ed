"""The methods of other packages, and textbook methods, that the referee compares ours with.

A classifier returns scores (n_wanted, n_classes) for one setting; ``classify`` chooses the setting by folds
of the training nodes, once for the accuracy and once for the log loss, which favours the rivals. A regressor
returns mean and standard deviation of new observations, a clusterer a group for each node. What depends on
the graph alone (eigenvectors) is computed once in a process, and its seconds are added to every split.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.csgraph
from numpy.typing import NDArray
from referee_data import Floats, Ids, Split, Task
from scipy.optimize import minimize_scalar
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.semi_supervised import LabelSpreading

MOST_DENSE = 3000
"""Nodes up to which all eigenvectors are computed."""

LEAST_PROBABILITY = 1e-4
"""Probabilities are scored as if at least this large: some rivals say zero."""

DAMPINGS = (0.5, 0.7, 0.85, 0.95, 0.99)
SIZES = (8, 16, 32, 64, 128)
NEAREST = (1, 2, 3, 5, 10, 20)

_KEPT: dict[Any, tuple[Any, float]] = {}
reused: dict[Any, float] = {}
"""Seconds of what this split uses and has not computed itself."""


class NotFeasibleError(RuntimeError):
    """The graph is too large for the method."""


def once(compute: Callable[..., Any], task: Task, *options: Any) -> Any:
    """Return compute(task, *options), computed once in this process; note its seconds if it was."""
    key = compute, options
    if key in _KEPT:
        reused.setdefault(key, _KEPT[key][1])
        return _KEPT[key][0]
    begin = time.perf_counter()
    value = compute(task, *options)
    _KEPT[key], reused[key] = (value, time.perf_counter() - begin), 0.0
    return value


# classes ------------------------------------------------------------------------------------------


def log_loss(y: Ids, scores: Floats) -> float:
    """Return the mean of −log p(y), where the scores of a node are scaled to sum to one."""
    total = scores.sum(axis=1)
    p = scores[np.arange(y.size), y] / np.where(total > 0, total, 1)
    return float(-np.mean(np.log(np.maximum(p, LEAST_PROBABILITY))))


def classify(task: Task, split: Split, method: str) -> tuple[Floats, Floats]:
    """Return the scores at the test nodes of the setting that is the most accurate, and of least log loss."""
    grid, scores = CLASSIFIERS[method]
    ids, y = split.train, split.y_train
    _HOPS.clear()
    folds = StratifiedKFold(int(np.clip(np.bincount(y).max(), 2, 5)), shuffle=True, random_state=0)
    tried = []
    for setting in grid:
        pairs = [
            (y[out], with_prior(scores(task, setting, ids[kept], y[kept], ids[out]), y[kept]))
            for kept, out in folds.split(ids, y)
        ]
        right = np.mean([np.mean(p.argmax(axis=1) == truth) for truth, p in pairs])
        tried.append((-right, np.mean([log_loss(truth, p) for truth, p in pairs]), setting))
    best = min(tried, key=lambda entry: entry[:2])[2], min(tried, key=lambda entry: entry[1])[2]
    found = {
        setting: with_prior(scores(task, setting, ids, y, split.test), y) for setting in dict.fromkeys(best)
    }
    return found[best[0]], found[best[1]]


def with_prior(scores: Floats, y: Ids) -> Floats:
    """Give nodes without any score the frequencies of the classes."""
    scores[~(scores.sum(axis=1) > 0)] = np.bincount(y, minlength=scores.shape[1]) / y.size
    return scores


def known_labels(task: Task, known: Ids, y: Ids) -> Ids:
    labels = np.full(task.graph.n_nodes, -1)
    labels[known] = y
    return labels


def all_columns(task: Task, scores: Any, classes: Ids) -> Floats:
    """Return scores of all classes; those that no known node has get zero."""
    columns = np.zeros((scores.shape[0], task.n_classes))
    columns[:, classes] = scores.toarray() if scipy.sparse.issparse(scores) else scores
    return columns


def label_spreading(task: Task, alpha: float, known: Ids, y: Ids, wanted: Ids) -> Floats:
    """scikit-learn's LabelSpreading (Zhou et al., 2004), whose callable kernel returns the edges."""
    model = LabelSpreading(lambda X, Y: task.A, alpha=alpha, max_iter=300)
    model.fit(np.arange(task.graph.n_nodes)[:, None], known_labels(task, known, y))
    return all_columns(task, np.nan_to_num(model.label_distributions_[wanted]), model.classes_)


def pagerank(task: Task, damping: float, known: Ids, y: Ids, wanted: Ids) -> Floats:
    """scikit-network's PageRankClassifier; 30 iterations, as its 10 do not converge at .95."""
    from multiprocessing.dummy import Pool

    from sknetwork.classification import PageRankClassifier, base_rank

    base_rank.Pool = Pool  # a thread: it would start a process for each fit
    model = PageRankClassifier(damping, n_iter=30).fit(task.A, known_labels(task, known, y))
    scores = model.predict_proba()[wanted]
    return all_columns(task, scores, np.arange(scores.shape[1]))


def heat(task: Task, setting: tuple[int, bool, float], known: Ids, y: Ids, wanted: Ids) -> Floats:
    """scikit-network's DiffusionClassifier; known classes are numbered anew, as it keeps no others."""
    from sknetwork.classification import DiffusionClassifier

    classes, labels = np.unique(y, return_inverse=True)
    model = DiffusionClassifier(*setting).fit(task.A, known_labels(task, known, labels))
    return all_columns(task, model.predict_proba()[wanted], classes)


def harmonic(task: Task, setting: tuple[float, bool], known: Ids, y: Ids, wanted: Ids) -> Floats:
    """Harmonic functions of Zhu et al. (2003): (D + εD − A)_uu f_u = A_uk y_k, with class masses or not."""
    ridge, masses = setting
    labels = np.eye(task.n_classes)[y]
    free = np.setdiff1d(np.arange(task.graph.n_nodes), known)
    degrees = np.maximum(np.asarray(task.A.sum(axis=1)).ravel(), 1e-9) * (1 + ridge)
    rows = task.A[free]
    L = scipy.sparse.diags(degrees[free]) - rows[:, free]
    f = np.zeros((task.graph.n_nodes, task.n_classes))
    f[free], f[known] = conjugate_gradients(L, rows[:, known] @ labels, degrees[free, None]), labels
    if masses:
        f *= labels.mean(axis=0) / np.maximum(f[free].sum(axis=0), 1e-12)
    return np.maximum(f[wanted], 0)


def conjugate_gradients(A: Any, B: Floats, diagonal: Floats, tol: float = 1e-5, most: int = 1000) -> Floats:
    """Solve A X = B for all columns of B at once, preconditioned by the diagonal of A, (n, 1)."""
    X, R = np.zeros_like(B), B.copy()
    Z = R / diagonal
    P, rho = Z.copy(), (R * Z).sum(axis=0)
    limit = tol**2 * rho
    for _ in range(most):
        if (rho <= limit).all():
            break
        Q = A @ P
        curvature = (P * Q).sum(axis=0)
        step = np.divide(rho, curvature, out=np.zeros_like(rho), where=curvature > 0)
        X += step * P
        R -= step * Q
        Z = R / diagonal
        new = (R * Z).sum(axis=0)
        P = Z + np.divide(new, rho, out=np.zeros_like(rho), where=rho > 0) * P
        rho = new
    return X


_HOPS: dict[int, Floats] = {}  # from known nodes of this split to all


def distances_between(task: Task, known: Ids, wanted: Ids) -> Floats:
    """Return the hops from wanted to known nodes, (n_wanted, n_known), kept for all folds of a split."""
    new = [i for i in known if i not in _HOPS]
    if new:
        found = scipy.sparse.csgraph.dijkstra(task.A, unweighted=True, indices=new)
        _HOPS.update(zip(new, found.astype(np.float32), strict=True))
    return np.stack([_HOPS[i][wanted] for i in known], axis=1)


def neighbour_weights(distances: Floats, k: int) -> Floats:
    """Return 1 for the k nearest known nodes, and for others as near as the last of them, else 0."""
    k = min(k, distances.shape[1])
    last = np.partition(distances, k - 1, axis=1)[:, k - 1 : k]
    return ((distances <= last) & np.isfinite(distances)).astype(float)


def graph_neighbours(task: Task, k: int, known: Ids, y: Ids, wanted: Ids) -> Floats:
    """Vote of the k known nodes that are the fewest hops away."""
    return neighbour_weights(distances_between(task, known, wanted), k) @ np.eye(task.n_classes)[y]


def embedding(task: Task, size: int) -> Floats:
    """Return scikit-network's Spectral embedding."""
    from sknetwork.embedding import Spectral

    return Spectral(size, normalized=False).fit_transform(task.A)


def embedded(task: Task, size: int, largest: int = SIZES[-1]) -> Floats:
    """Return the first components of ``largest``, each row of norm 1 as scikit-network has it by default."""
    X = once(embedding, task, largest)[:, :size]
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)


def spectral_neighbours(task: Task, setting: tuple[int, int], known: Ids, y: Ids, wanted: Ids) -> Floats:
    """scikit-network's NNClassifier on its Spectral embedding, of the known and the wanted nodes only."""
    from sknetwork.classification import NNClassifier

    size, k = setting
    X, n = embedded(task, size)[np.concatenate([known, wanted])], known.size + wanted.size

    class Embedded:
        def fit_transform(self, adjacency: Any) -> Floats:
            return X

    labels = np.concatenate([y, np.full(wanted.size, -1)])
    edges = scipy.sparse.identity(n, format="csr")  # not looked at
    model = NNClassifier(min(k, known.size - 1), Embedded()).fit(edges, labels)
    scores = model.predict_proba()[known.size :]
    return all_columns(task, scores, np.arange(scores.shape[1]))


def spectral_logistic(task: Task, setting: tuple[int, float], known: Ids, y: Ids, wanted: Ids) -> Floats:
    """scikit-learn's LogisticRegression on scikit-network's Spectral embedding, rows of norm √size."""
    size, strength = setting
    X = embedded(task, size) * np.sqrt(size)
    model = LogisticRegression(C=strength, max_iter=300, tol=1e-3).fit(X[known], y)
    return all_columns(task, model.predict_proba(X[wanted]), model.classes_)


CLASSIFIERS: dict[str, tuple[list[Any], Callable[..., Floats]]] = {
    "LabelSpreading (scikit-learn)": ([*DAMPINGS], label_spreading),
    "PageRankClassifier (scikit-network)": ([*DAMPINGS], pagerank),
    "DiffusionClassifier (scikit-network)": (
        [*product((3, 10, 30, 100), (True,), (5.0, 20.0)), (10, False, 5.0), (100, False, 5.0)],
        heat,
    ),
    "NNClassifier on Spectral (scikit-network)": ([*product(SIZES, (1, 3, 5, 10))], spectral_neighbours),
    "Spectral + LogisticRegression": ([*product(SIZES, (0.1, 1.0, 10.0, 100.0))], spectral_logistic),
    "harmonic functions (Zhu 2003)": ([*product((1e-6, 0.01, 0.1), (False, True))], harmonic),
    "graph kNN": ([*NEAREST], graph_neighbours),
}


# values -------------------------------------------------------------------------------------------


def constant(task: Task, split: Split) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the known values."""
    n, y = split.test.size, split.y_train
    return np.full(n, y.mean()), np.full(n, y.std(ddof=1))


def tuned(
    task: Task, split: Split, grid: list[Any], predict: Callable[[Any, Ids, Floats, Ids], Floats]
) -> tuple[Floats, Floats]:
    """Predict with the setting of least squared error in five folds; this error is the variance."""
    ids, y = split.train, split.y_train
    _HOPS.clear()
    folds = list(KFold(5, shuffle=True, random_state=0).split(ids))

    def squared_error(setting: Any) -> float:
        errors = [y[out] - predict(setting, ids[kept], y[kept], ids[out]) for kept, out in folds]
        return float(np.mean(np.concatenate(errors) ** 2))

    losses = [squared_error(setting) for setting in grid]
    mean = predict(grid[int(np.argmin(losses))], ids, y, split.test)
    return mean, np.full(mean.size, np.sqrt(min(losses)))


def harmonic_values(task: Task, split: Split) -> tuple[Floats, Floats]:
    """Values f of least Σ (f − y)² + λ fᵀ(D − A + εD)f around the mean, λ and ε by folds."""
    degrees = np.maximum(np.asarray(task.A.sum(axis=1)).ravel(), 1e-9)

    def predict(setting: tuple[float, float], known: Ids, y: Floats, wanted: Ids) -> Floats:
        strength, ridge = setting
        fitted, targets = np.zeros(task.graph.n_nodes), np.zeros((task.graph.n_nodes, 1))
        fitted[known], targets[known, 0] = 1.0, y - y.mean()
        diagonal = fitted + strength * (1 + ridge) * degrees
        system = scipy.sparse.csr_matrix(scipy.sparse.diags(diagonal) - strength * task.A)
        return y.mean() + conjugate_gradients(system, targets, diagonal[:, None])[wanted, 0]

    grid = list(product((1e-4, 1e-2, 0.1, 0.3, 1.0, 3.0), (1e-3, 1e-2, 0.1, 0.5)))
    return tuned(task, split, grid, predict)


def neighbour_values(task: Task, split: Split) -> tuple[Floats, Floats]:
    """Mean of the k known nodes that are the fewest hops away."""

    def predict(k: int, known: Ids, y: Floats, wanted: Ids) -> Floats:
        weights = neighbour_weights(distances_between(task, known, wanted), k)
        count = weights.sum(axis=1)
        return np.where(count > 0, weights @ y / np.maximum(count, 1), y.mean())

    return tuned(task, split, [*NEAREST], predict)


def spectrum(task: Task, matrix: str) -> tuple[Floats, Floats]:
    """Return all eigenvalues of a Laplacian, the largest scaled to 2, and the eigenvectors."""
    A = task.A.toarray()
    if matrix == "normalized":
        scale = 1 / np.sqrt(np.maximum(A.sum(axis=1), 1e-9))
        L = np.eye(len(A)) - scale[:, None] * A * scale
    else:
        L = np.diag(A.sum(axis=1)) - A
    values, vectors = scipy.linalg.eigh(L, driver="evd", overwrite_a=True)
    return np.maximum(values, 0) * (1.0 if matrix == "normalized" else 2 / values[-1]), vectors


def exact_gp(task: Task, split: Split, orders: tuple[float, ...]) -> tuple[Floats, Floats]:
    """Dense Gaussian process b + a²(K + r I), b flat; Laplacian, order ν, width and r by the likelihood.

    K is (2ν/κ² + L)^−ν, exp(−κ²L/2) for ν = ∞, of mean variance 1. For each K one eigendecomposition among
    the known nodes serves all r, and a² is known in closed form.
    """
    n, y, train, test = task.graph.n_nodes, split.y_train, split.train, split.test
    if n > MOST_DENSE:
        raise NotFeasibleError(f"more than {MOST_DENSE} nodes")

    def weights(eigenvalues: Floats, order: float, width: float) -> Floats:
        if np.isinf(order):
            logs = -0.5 * width**2 * eigenvalues
        else:
            logs = -order * np.log(2 * order / width**2 + eigenvalues)
        shape = np.exp(logs - logs.max())
        return shape * (n / shape.sum())

    def fit(matrix: str, order: float, log_width: float) -> tuple[float, float]:
        """Return minus the log likelihood and the best log r."""
        eigenvalues, V = once(spectrum, task, matrix)
        w = weights(eigenvalues, order, np.exp(log_width))
        s, Q = scipy.linalg.eigh((V[train] * w) @ V[train].T, driver="evd")
        s, Qy, Q1 = np.maximum(s, 0), Q.T @ y, Q.sum(axis=0)

        def loss(log_ratio: float) -> float:
            d = s + np.exp(log_ratio)
            mass = (Q1**2 / d).sum()
            quadratic = (Qy**2 / d).sum() - (Qy * Q1 / d).sum() ** 2 / mass
            return 0.5 * ((y.size - 1) * np.log(quadratic / (y.size - 1)) + np.log(d).sum() + np.log(mass))

        start = min(np.linspace(-11, 3, 15), key=loss)
        best = minimize_scalar(loss, bounds=(start - 1, start + 1), method="bounded", options={"xatol": 0.01})
        return best.fun, best.x

    grid = product(("normalized", "combinatorial"), orders, np.log(np.geomspace(0.5, 60, 8)))
    matrix, order, coarse = min(grid, key=lambda setting: fit(*setting)[0])
    log_width = minimize_scalar(
        lambda x: fit(matrix, order, x)[0],
        bounds=(coarse - 0.7, coarse + 0.7), method="bounded", options={"xatol": 0.03, "maxiter": 8},
    ).x  # fmt: skip
    ratio = np.exp(fit(matrix, order, log_width)[1])
    eigenvalues, V = once(spectrum, task, matrix)
    w = weights(eigenvalues, order, np.exp(log_width))
    factor = scipy.linalg.cho_factor((V[train] * w) @ V[train].T + ratio * np.eye(y.size), lower=True)
    u = scipy.linalg.cho_solve(factor, np.ones(y.size))
    b = (u @ y) / u.sum()
    residual = scipy.linalg.cho_solve(factor, y - b)
    amplitude2 = (y - b) @ residual / (y.size - 1)
    cross = (V[test] * w) @ V[train].T
    half = scipy.linalg.solve_triangular(factor[0], cross.T, lower=True)
    variance = V[test] ** 2 @ w - (half**2).sum(axis=0) + (1 - cross @ u) ** 2 / u.sum()
    return b + cross @ residual, np.sqrt(amplitude2 * (np.maximum(variance, 0) + ratio))


def exact_diffusion(task: Task, split: Split) -> tuple[Floats, Floats]:
    return exact_gp(task, split, (np.inf,))


def exact_matern(task: Task, split: Split) -> tuple[Floats, Floats]:
    return exact_gp(task, split, (0.5, 1.0, 2.5))


def geometric_kernel(task: Task) -> Any:
    """Return GeometricKernels' Matérn kernel; all eigenvectors, or 1000 for more than 3000 nodes."""
    import geometric_kernels.torch  # noqa: F401
    import torch
    from geometric_kernels.kernels import MaternGeometricKernel
    from geometric_kernels.spaces import Graph

    n = task.graph.n_nodes
    space = Graph(torch.from_numpy(task.A.toarray().astype(np.float64)), normalize_laplacian=True)
    return MaternGeometricKernel(space, num=n if n <= MOST_DENSE else 1000)


def geometric_gp(task: Task, split: Split) -> tuple[Floats, Floats]:
    """GPyTorch's exact GP with GeometricKernels' Matérn kernel; at most 75 steps of Adam.

    Width, order, amplitude, noise and constant mean are learned, from the likeliest of three widths.
    """
    import gpytorch
    import torch
    from geometric_kernels.frontends.gpytorch import GPyTorchGeometricKernel

    kernel = once(geometric_kernel, task)
    torch.set_default_dtype(torch.float64)
    centre, scale = split.y_train.mean(), split.y_train.std()
    X, y = torch.from_numpy(split.train)[:, None], torch.from_numpy((split.y_train - centre) / scale)

    class Model(gpytorch.models.ExactGP):
        def __init__(self, width: float) -> None:
            super().__init__(X, y, gpytorch.likelihoods.GaussianLikelihood())
            self.mean_module = gpytorch.means.ConstantMean()
            inner = GPyTorchGeometricKernel(kernel, lengthscale=width, nu=1.5, trainable_nu=True)
            self.covar_module = gpytorch.kernels.ScaleKernel(inner)
            self.likelihood.noise = 0.1

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    def loss(model: Any) -> Any:
        objective = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
        return -objective(model(X), y)

    exact = gpytorch.settings.fast_computations(False, False, False)
    with gpytorch.settings.max_cholesky_size(10_000), exact:
        model = min((Model(width).train() for width in (1.0, 4.0, 16.0)), key=lambda m: float(loss(m)))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        values: list[float] = []
        while len(values) < 75 and not (len(values) > 20 and values[-10] - values[-1] < 1e-4):
            optimizer.zero_grad()
            value = loss(model)
            value.backward()
            optimizer.step()
            values.append(float(value))
        model.eval()
        with torch.no_grad():
            answer = model.likelihood(model(torch.from_numpy(split.test)[:, None]))
            return answer.mean.numpy() * scale + centre, answer.stddev.numpy() * scale


def fast_graph_gp(task: Task, split: Split) -> tuple[Floats, Floats]:
    """fast-graph-gp's GRFGP with learned coefficients, 256 walks, at most 100 steps or 20 s of training."""
    upper = scipy.sparse.triu(task.A, k=1, format="coo")
    edges = np.stack([upper.row, upper.col], axis=1).astype(np.int64)
    child = Path(__file__).with_name("fast_graph_gp_child.py")
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(
            asked, n_nodes=task.graph.n_nodes, edges=edges, seed=0, n_classes=0,
            train_ids=split.train, y_train=split.y_train, test_ids=split.test,
            n_walks=256, kernel="general", most_seconds=20.0, n_steps=100,
        )  # fmt: skip
        subprocess.run([sys.executable, child, asked, answered], check=True, stderr=subprocess.DEVNULL)
        with np.load(answered) as file:
            return file["mean"], file["std"]


REGRESSORS: dict[str, Callable[[Task, Split], tuple[Floats, Floats]]] = {
    "constant": constant,
    "graph kNN": neighbour_values,
    "harmonic functions, ridge": harmonic_values,
    "exact GP, diffusion": exact_diffusion,
    "exact GP, Matern": exact_matern,
    "GeometricKernels Matern + GPyTorch": geometric_gp,
    "fast-graph-gp": fast_graph_gp,
}


# groups -------------------------------------------------------------------------------------------


def louvain(task: Task, seed: int) -> NDArray[Any]:
    """scikit-network's Louvain, which chooses the number of groups."""
    from sknetwork.clustering import Louvain

    return Louvain(shuffle_nodes=True, random_state=seed).fit_predict(task.A)


def spectral_means(task: Task, seed: int) -> NDArray[Any]:
    """k-means on as many components of scikit-network's Spectral as there are classes."""
    k = task.n_classes
    return KMeans(k, n_init=10, random_state=seed).fit_predict(embedded(task, k, k))


def spectral_clustering(task: Task, seed: int) -> NDArray[Any]:
    """scikit-learn's SpectralClustering."""
    return SpectralClustering(task.n_classes, affinity="precomputed", random_state=seed).fit_predict(task.A)


CLUSTERERS: dict[str, Callable[[Task, int], NDArray[Any]]] = {
    "Louvain (scikit-network)": louvain,
    "Spectral + k-means": spectral_means,
    "SpectralClustering (scikit-learn)": spectral_clustering,
}
