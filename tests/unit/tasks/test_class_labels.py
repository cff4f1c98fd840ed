"""Labels of classes that are of several kinds, or of none that has an order."""

import numpy as np
import pytest

import graphs
import walkernel as wk

NODES = [0, 1, 2, 3]


def name_of_kind(value):
    """The name of a case, the same in every process."""
    return type(value).__name__


def fit(y):
    return wk.NodeGPClassifier(
        graphs.karate(), wk.Diffusion(1.0), n_walks=4, learn=(), normalize=False, method="walks"
    ).fit(NODES, y)


MIXED = {
    "text and numbers": ["a", 1, "a", 1],
    "a number and its text": [1, "1", 1, "1"],
    "a tuple": ("a", 1, "b", 2),
    "an array": np.array(["a", 1, "b", 2], dtype=object),
    "text and bools": [True, "yes", False, "no"],
    "text and floats": ["a", 1.5, "b", 2.5],
}


@pytest.mark.parametrize("y", MIXED.values(), ids=MIXED)
def test_labels_of_several_kinds(y):
    with pytest.raises(
        TypeError,
        match=r"NodeGPClassifier.fit: y must be labels of one kind, all text or all numbers, got .* and ",
    ):
        fit(y)


@pytest.mark.parametrize("y", [["a", 1, None, "b"], [None, "a", "b", "a"], ["a", np.nan, "b", "a"]])
def test_gaps_are_named_first(y):
    with pytest.raises(
        ValueError, match=r"NodeGPClassifier.fit: y must be labels without gaps, got .* at position"
    ):
        fit(y)


@pytest.mark.filterwarnings(
    "ignore:Support for labels represented as bytes:FutureWarning"
)  # scikit-learn 1.6
@pytest.mark.parametrize("label", [{1}, 1 + 2j, b"bytes", object()], ids=name_of_kind)
def test_labels_that_are_none(label):
    with pytest.raises((TypeError, ValueError), match=r"^NodeGPClassifier.fit: y must be "):
        fit(np.array([label, 1, label, 2], dtype=object))


def test_text_of_numpy_and_of_python_is_one_kind():
    model = fit(["a", np.str_("b"), "a", np.str_("b")])
    assert model.classes_.tolist() == ["a", "b"]
