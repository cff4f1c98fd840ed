"""Labels of nodes: checked, and counted at distinct nodes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets

from walkernel._checks import Described, one_kind, refuse, shown
from walkernel.graph import Graph
from walkernel.tasks._nodes import check_same_length, given_targets, is_missing, node_ids


def count_labels(
    graph: Graph, X: Any, y: ArrayLike | None
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.float64]]:
    """Check labels; return the classes, the distinct nodes and how often each was seen, (n, classes)."""
    ids = node_ids(graph, X)
    labels = label_array(given_targets(y))
    check_same_length(labels, ids.size)
    classes, codes = class_codes(labels)
    distinct, place = np.unique(ids, return_inverse=True)
    counts = np.zeros((distinct.size, classes.size))
    np.add.at(counts, (place, codes), 1.0)
    return classes, distinct, counts


def label_array(y: ArrayLike) -> NDArray[Any]:
    """Return labels as an array, (n,); a list of mixed types becomes an array of objects."""
    mixed = isinstance(y, (list, tuple)) and len({isinstance(value, str) for value in y}) > 1
    try:
        labels = np.asarray(y, dtype=object if mixed else None)
    except ValueError:
        refuse("y", "of shape (n,)", y)
    if labels.ndim != 1:
        refuse("y", "of shape (n,)", Described(f"shape {labels.shape}"))
    return labels


def class_codes(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the classes, sorted, and the position of each label among them; refuse invalid labels."""
    missing = np.array([is_missing(label) or label in (math.inf, -math.inf) for label in labels.tolist()])
    if missing.any():
        where = int(missing.argmax())
        remedy = "Leave out the nodes without a label."
        refuse("y", "labels without gaps", Described(f"{labels[where]} at position {where}"), remedy)
    one_kind("y", labels.tolist())
    try:
        check_classification_targets(labels)
    except (ValueError, TypeError) as error:
        found = Described(str(error).partition("\n")[0].partition(". ")[0])
        remedy = "For numbers use NodeGPRegressor."
        refuse("y", "class labels: whole numbers, text or bools", found, remedy)
    classes, codes = np.unique(labels, return_inverse=True)
    if classes.size < 2:
        found = Described(f"one class, {shown(classes[0])}")
        refuse("y", "labels of at least two classes", found, "Label nodes of another class too.")
    return classes, codes
