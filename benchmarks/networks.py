"""A graph convolutional network without attributes, on the classes and splits of the referee.

    WALKERNEL_DATA=FOLDER python benchmarks/networks.py [--data cora,citeseer] [--splits 20] [--out FILE]

The network of Kipf and Welling (2017) with their settings for citation graphs: two layers, 16 hidden units,
dropout ½, Adam with a rate of .01 and a weight decay of 5e-4 in the first layer, 200 steps. Nodes have no
attributes, so its input is the identity, as in their comparison without features. The splits are those of
``referee.py``, whose tables have the other methods. Seconds are processor times of a fit, on one thread.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import torch
from core import machine, table
from numpy.typing import NDArray
from referee_data import Key, load

REGIME = "20/class"
HIDDEN, STEPS, RATE, DECAY, DROPOUT = 16, 200, 0.01, 5e-4, 0.5


def propagation(A: scipy.sparse.csr_matrix) -> torch.Tensor:
    """Return D^-½ (A + I) D^-½ with the degrees of A + I."""
    looped = scipy.sparse.csr_array(A) + scipy.sparse.eye_array(A.shape[0])
    scale = scipy.sparse.diags_array(np.asarray(looped.sum(axis=1)).ravel() ** -0.5)
    matrix = scipy.sparse.csr_array(scale @ looped @ scale).astype(np.float32)
    parts = (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data)
    return torch.sparse_csr_tensor(*map(torch.from_numpy, parts), matrix.shape)


def glorot(rows: int, columns: int) -> torch.nn.Parameter:
    """Return a matrix of weights as they are drawn at first."""
    bound = math.sqrt(6 / (rows + columns))
    return torch.nn.Parameter(torch.empty(rows, columns).uniform_(-bound, bound))


def predict(A: torch.Tensor, train: Any, labels: Any, n_classes: int, seed: int) -> NDArray[np.int64]:
    """Return the class of every node."""
    torch.manual_seed(seed)
    n = A.shape[0]
    first, second = glorot(n, HIDDEN), glorot(HIDDEN, n_classes)
    shift, last = torch.nn.Parameter(torch.zeros(HIDDEN)), torch.nn.Parameter(torch.zeros(n_classes))
    groups = [{"params": [first, shift], "weight_decay": DECAY}, {"params": [second, last]}]
    adam = torch.optim.Adam(groups, lr=RATE)
    rows, classes = torch.as_tensor(train), torch.as_tensor(labels)

    def scores(training: bool) -> torch.Tensor:
        inputs = first
        if training:  # entries of the identity are dropped: a node keeps its row, doubled, or loses it
            inputs = first * (torch.rand(n, 1) > DROPOUT) / (1 - DROPOUT)
        hidden = torch.relu(A @ inputs + shift)
        return A @ (torch.nn.functional.dropout(hidden, DROPOUT, training) @ second) + last

    for _ in range(STEPS):
        adam.zero_grad()
        torch.nn.functional.cross_entropy(scores(True)[rows], classes).backward()
        adam.step()
    with torch.no_grad():
        return np.asarray(scores(False).argmax(dim=1).numpy())


def measure(data: str, n_splits: int) -> list[str]:
    """Return the row of the table for one data set."""
    task = load(Key("classification", data, REGIME))
    A = propagation(task.A)
    accuracies, seconds = np.empty((2, n_splits))
    for number in range(n_splits):
        split, start = task.split(number), time.process_time()
        found = predict(A, split.train, split.y_train.astype(np.int64), task.n_classes, number)
        seconds[number] = time.process_time() - start
        accuracies[number] = (found[split.test] == split.y_test).mean()
    error = accuracies.std(ddof=1) / math.sqrt(n_splits)
    return [data, f"{accuracies.mean():.3f} ± {error:.3f}", f"{np.median(seconds):.1f}", str(n_splits)]


def main() -> None:
    """Measure, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="cora,citeseer,lastfm_asia,pubmed,facebook_pages")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # PyTorch calls its sparse tensors a prototype
    torch.set_num_threads(1)
    rows = []
    for data in options.data.split(","):
        rows.append(measure(data, options.splits))
        print(*rows[-1], sep=" | ", flush=True)
    title = "Accuracy with 20 labels for each class; ± one standard error"
    text = f"{machine()}torch {torch.__version__}\n\n"
    text += table(title, ["graph", "graph network, no attributes", "seconds", "splits"], rows)
    print(text)
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
