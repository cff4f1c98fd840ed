"""Run fast-graph-gp in an interpreter that has it: ``python fast_graph_gp_child.py IN.npz OUT.npz``.

It is used as its authors' experiments use it: random-walk matrices of ``GRFSampler``, a ``GRFGP`` with a
zero mean on standardised y, their settings of GPyTorch, Adam on the marginal likelihood (their rate is 0.05
for 100 steps; here 0.1, as steps take seconds and the time is limited), and 64 posterior samples for mean
and variance. ``GeneralGRFKernel``, their choice, learns its coefficients, with walks on M = D^-½AD^-½ here;
``DiffusionGRFKernel`` has (−β/2)ᵏ/k!, so its walks are on I − M. The
package has no classification: one-hot labels are regressed on, with one set of hyper-parameters, learned on a
random mix of the classes (of the same covariance), and the means come from its features by a dense solve.
"""

from __future__ import annotations

import os
import sys
import warnings

import gpytorch
import linear_operator
import numpy as np
import scipy.linalg
import scipy.sparse
import torch
from grf_gp import GRFGP, DiffusionGRFKernel, GeneralGRFKernel, GRFSampler
from grf_gp.utils.config import set_gp_defaults
from numpy.typing import NDArray

LEARNING_RATE = 0.1
LARGEST_LENGTH = 10
P_HALT = 0.1


def walked_matrix(n: int, edges: NDArray[np.int64], kernel: str) -> torch.Tensor:
    """Return L for the diffusion kernel, I − L for learned coefficients."""
    ones = np.ones(len(edges))
    A = scipy.sparse.coo_array((ones, (edges[:, 0], edges[:, 1])), shape=(n, n)).tocsr()
    A = A + A.T
    scale = scipy.sparse.diags_array(1 / np.sqrt(np.maximum(A.sum(axis=1), 1)))
    M = scale @ A @ scale
    walked = scipy.sparse.csr_array(scipy.sparse.eye_array(n) - M if kernel == "diffusion" else M)
    parts = (walked.indptr.astype(np.int64), walked.indices.astype(np.int64), walked.data)
    return torch.sparse_csr_tensor(*map(torch.from_numpy, parts), (n, n))


def processor_seconds() -> float:
    """Return the time of this process and of those it started: other work on the machine does not count."""
    return sum(os.times()[:4])


def train(model: GRFGP, most_steps: int, most_seconds: float) -> int:
    """Maximise the marginal likelihood by Adam for a number of steps or a time; return the steps."""
    begin, steps = processor_seconds(), 0
    likelihood = model.likelihood
    model.train()
    likelihood.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    while steps < most_steps and processor_seconds() - begin < most_seconds:
        optimizer.zero_grad()
        loss = -objective(model(model.x_train), model.y_train)
        loss.backward()
        optimizer.step()
        steps += 1
    model.eval()
    likelihood.eval()
    return steps


def feature_rows(model: GRFGP) -> scipy.sparse.csr_array:
    """Return the features of all nodes with the coefficients the model has learned."""
    total = None
    for factor, matrix in zip(
        model.covar_module.modulation_function.tolist(), model.covar_module.rw_mats, strict=True
    ):
        csr = matrix.sparse_csr_tensor
        arrays = (csr.values().numpy(), csr.col_indices().numpy(), csr.crow_indices().numpy())
        term = factor * scipy.sparse.csr_array(arrays, shape=tuple(csr.shape))
        total = term if total is None else total + term
    return total


def one_hot_means(model: GRFGP, Y: NDArray[np.float64], test_ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the posterior means of all columns of Y, (n_train, n_classes), at the test nodes."""
    features, noise = feature_rows(model), float(model.likelihood.noise)
    known = features[model.x_train.numpy()]
    K = (known @ known.T).toarray()
    K[np.diag_indices_from(K)] += noise
    return features[test_ids] @ (known.T @ scipy.linalg.solve(K, Y, assume_a="pos"))


def run(data: dict[str, NDArray]) -> dict[str, NDArray]:
    """Walk, train and predict; times include all three."""
    begin, seed = processor_seconds(), int(data["seed"])
    torch.manual_seed(seed)
    n, n_classes, kind = int(data["n_nodes"]), int(data["n_classes"]), str(data["kernel"])
    # the sampler adds the number of a node to the seed: seeds far apart keep splits apart
    sampler = GRFSampler(
        walked_matrix(n, data["edges"], kind), int(data["n_walks"]), P_HALT, LARGEST_LENGTH,
        seed=1_000_003 * (seed + 1), use_tqdm=False,
    )  # fmt: skip
    matrices = sampler()
    if n_classes:
        one_hot = np.eye(n_classes)[data["y_train"]]
        priors = one_hot.mean(axis=0)
        y = (one_hot - priors) @ np.random.default_rng(seed).standard_normal(n_classes)
    else:
        y = data["y_train"].astype(np.float64)
    centre, scale = y.mean(), y.std()
    covariance = (DiffusionGRFKernel if kind == "diffusion" else GeneralGRFKernel)(matrices, LARGEST_LENGTH)
    nodes, standard = torch.from_numpy(data["train_ids"]), torch.from_numpy((y - centre) / scale)
    model = GRFGP(nodes, standard, gpytorch.likelihoods.GaussianLikelihood(), covariance).double()
    steps = train(model, int(data["n_steps"]), float(data["most_seconds"]))
    if steps < data["n_steps"]:
        print(f"fast-graph-gp: {steps} of {data['n_steps']} steps in the time given", file=sys.stderr)
    result = {}
    if n_classes:
        means = priors + one_hot_means(model, one_hot - priors, data["test_ids"])
        result["probabilities"] = means
    else:
        predicted = model.predict(torch.from_numpy(data["test_ids"]))
        variance = predicted.variance + model.likelihood.noise
        result["mean"] = predicted.mean.detach().numpy() * scale + centre
        result["std"] = np.sqrt(variance.detach().numpy()) * scale
    return result | {"seconds": processor_seconds() - begin, "steps": steps}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    set_gp_defaults(linear_operator.settings, gpytorch.settings)
    with np.load(sys.argv[1]) as file:
        arrays = dict(file)
    np.savez(sys.argv[2], **run(arrays))
