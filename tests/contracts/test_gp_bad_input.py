"""Bad input to Gaussian processes: what is raised, and what it tells.

A row is (call, error, fragments): the message must hold every one of the fragments, which are parted by "; ".
"""

import math
import traceback
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError

import walkernel as wk
from walkernel import Diffusion, Graph, PowerSeries

VALUE, TYPE = ValueError, TypeError
NAN, INF = math.nan, math.inf
N = 12
PAIRS = [(i, (i + 1) % N) for i in range(N)]
RING, DIRECTED = Graph.from_edges(PAIRS), Graph.from_edges(PAIRS, directed=True)
HUGE = Graph.from_edges(PAIRS, n_nodes=10**6)
HEAT = Diffusion()
COLUMN = np.arange(N) ** 2.0


def regress(X=(0, 1, 2), y=(1.0, 2.0, 3.0), *, graph=RING, kernel=HEAT, noise_std=None, **options):
    return wk.NodeGPRegressor(
        graph, kernel, **{"n_walks": 8, "normalize": False, "method": "walks", **options}
    ).fit(X, y, noise_std=noise_std)


def classify(X=(0, 1, 2), y=(0, 1, 1), *, graph=RING, kernel=HEAT, **options):
    return wk.NodeGPClassifier(
        graph, kernel, **{"n_walks": 8, "normalize": False, "method": "walks", **options}
    ).fit(X, y)


OWNERS = {"NodeGPRegressor": regress, "NodeGPClassifier": classify}
# fmt: off
BOTH = [
    ({"graph": DIRECTED}, VALUE, "graph must be undirected: a covariance is symmetric; directed; A + A.T"),
    ({"kernel": PowerSeries([1.0, 2.0])}, VALUE,
     "kernel must be positive semidefinite; PowerSeries(terms=(1.0, 2.0)); λ = -1 is -1. Diffusion"),
    ({"kernel": -1.0 * HEAT}, VALUE, "kernel must be positive semidefinite; factor=-1.0; at λ = 1 is -1."),
    ({"kernel": PowerSeries([0.0, 1.0])}, VALUE, "kernel must be positive semidefinite; at λ = -1 is -1."),
    ({"kernel": PowerSeries([-1.0, 0.5])}, VALUE, "kernel must be positive; at λ = -1 is -1.5."),
    ({"kernel": PowerSeries([1.0, 0.75], matrix="adjacency")}, VALUE, "kernel must be; at λ = -2 is -0.5."),
    ({"kernel": PowerSeries([0.0, 0.0, 1.0])}, VALUE, "kernel must be one with; α₀ > 0; NodeSmoother"),
    ({"learn": "lengthscale"}, TYPE, "learn must be a tuple of names among; got 'lengthscale'."),
    ({"learn": 3}, TYPE, "learn must be a tuple; or None, got 3."),
    ({"learn": ("sigma",)}, VALUE, "learn must be a tuple; 'lengthscale', 'amplitude'; got ('sigma',)."),
    ({"learn": (["noise"],)}, VALUE, "learn must be a tuple of names; got (['noise'],)."),
    ({"learn": ("amplitude", "amplitude")}, VALUE, "learn must be a tuple; got ('amplitude', 'amplitude')."),
    ({"learn": ("lengthscale",), "kernel": wk.PStepRandomWalk(2)}, VALUE,
     "learn must be without 'lengthscale' for a kernel that has none, got PStep; Use learn=None."),
    *[({"amplitude": bad}, VALUE, f"amplitude must be a finite number of at least 1e-153, got {bad}.")
      for bad in (0, -1.0, NAN, INF)],
    ({"amplitude": "1"}, TYPE, "amplitude must be a finite number of at least 1e-153, got '1'."),
    *[({"normalize": bad}, TYPE, f"normalize must be True or False, got {bad!r}.") for bad in (1, "a")],
    *[({"solver": bad}, VALUE, f"solver must be one of 'auto', 'cholesky', 'cg', got {bad!r}.")
      for bad in ("lu", None)],
    *[({"tol": bad}, VALUE, f"tol must be a finite number greater than 0 and less than 1, got {bad}.")
      for bad in (0, 1, NAN)],
    ({"max_iter": 0}, VALUE, "max_iter must be a whole number of at least 1, got 0."),
    ({"max_iter": None}, TYPE, "max_iter must be a whole number of at least 1, got None."),
    ({"y": None}, VALUE, "y must be given; requires y to be passed; the target y is None"),
    ({"y": [1, 2]}, VALUE, "y must be of length 3, one target for each node, got length 2."),
    ({"y": []}, VALUE, "y must be of length 3; got length 0."),
]
REGRESSION = [
    *[({"y": [1, bad, 2]}, VALUE, f"y must be finite, got {bad} at position 1.") for bad in (NAN, INF)],
    *[({"y": y}, VALUE, f"y must be of shape (n,) or (n, n_outputs), got shape {np.shape(y)}.")
      for y in (np.ones((3, 1, 1)), np.ones((3, 0)), 1.0)],
    ({"y": np.ones((2, 2))}, VALUE, "y must be of length 3, one target for each node, got length 2."),
    ({"y": np.full((3, 2), INF)}, VALUE, "y must be finite, got inf at position 0."),
    ({"y": np.ones((3, 2)), "learn": ("modulation",)}, VALUE, "learn must be without; several outputs"),
    ({"y": ["a", "b", "c"]}, TYPE, "y must be an array of numbers, got ['a', 'b', 'c']."),
    ({"y": [1j, 1, 1]}, TYPE, "y must be real; complex128"),
    ({"y": [[1], [1, 2], [3]]}, VALUE, "y must be a rectangular array; [[1], [1, 2], [3]]"),
    ({"y": scipy.sparse.eye_array(3)}, TYPE, "y must be an array of numbers, got <"),
    *[({"noise_std": bad}, VALUE, f"noise_std must be 3 non-negative numbers, one for each y, got {bad}.")
      for bad in ([1, -1, 1], [1, 1], 1.0)],
    ({"noise_std": [1, NAN, 1]}, VALUE, "noise_std must be finite, got nan at position 1."),
    ({"noise_std": "loud"}, TYPE, "noise_std must be an array of numbers, got 'loud'."),
    *[({"nugget": bad}, VALUE, f"nugget must be a finite number of at least 0, got {bad}.")
      for bad in (-0.1, float("inf"))],
    *[({"twins": bad}, TYPE, f"twins must be True or False, got {bad!r}.") for bad in (1, None, "a")],
    *[({"noise": bad}, VALUE, f"noise must be a finite number of at least 1e-153, got {bad}.")
      for bad in (0, -1.0, NAN, INF)],
    *[({"learn": learn}, VALUE, f"learn must be without 'lengthscale' and 'amplitude'; f itself; {learn}.")
      for learn in (("modulation", "lengthscale"), ("amplitude", "modulation"))],
    ({"learn": ("modulation",), "kernel": Diffusion(30.0)}, VALUE, "kernel must; first 32 terms; narrower"),
    ({"mean": "linear"}, VALUE, "mean must be one of 'constant', 'zero', got 'linear'."),
    ({"mean": None}, VALUE, "mean must be one of 'constant', 'zero', got None."),
    ({"covariates": np.ones(N)}, VALUE,
     "covariates must be 2 columns, the constant included; 3 observations of rank 1; mean='zero'"),
    ({"covariates": np.column_stack([COLUMN, 2 * COLUMN]), "mean": "zero"}, VALUE, "2 columns; rank 1"),
    ({"covariates": np.zeros(N), "mean": "zero"}, VALUE, "covariates must be 1 columns; rank 0"),
    ({"covariates": np.eye(N)[:, 5], "mean": "zero"}, VALUE, "covariates; at the observed nodes; rank 0"),
    ({"covariates": COLUMN, "X": [3], "y": [1.0]}, VALUE, "covariates must be 2 columns; 1 observations"),
    *[({"covariates": np.ones(shape)}, VALUE,
       f"covariates must be of shape (12,) or (12, q), a row for each node of the graph, got shape {shape}.")
      for shape in ((11,), (3, 2), (N, 1, 1), ())],
    ({"covariates": COLUMN * NAN}, VALUE, "covariates must be finite, got nan at position 0."),
    ({"covariates": "age"}, TYPE, "covariates must be an array of numbers, got 'age'."),
    *[({"features": np.ones(shape)}, VALUE,
       f"features must be of shape (12,) or (12, d), a row for each node of the graph, got shape {shape}.")
      for shape in ((11,), (3, 2), (N, 1, 1), (N, 0), ())],
    ({"features": COLUMN * NAN}, VALUE, "features must be finite, got nan at position 0."),
    ({"features": "age"}, TYPE, "features must be an array of numbers, got 'age'."),
    ({"features": np.column_stack([COLUMN, np.full(N, 0.1)])}, VALUE,
     "features must be columns that differ between nodes, got a constant column 1. Leave it out."),
    *[({"combine": bad}, VALUE, f"combine must be one of 'auto', 'product', 'sum', 'linear', got {bad!r}.")
      for bad in ("both", None)],
    ({"combine": "linear"}, VALUE, "features must be given for combine='linear', got None."),
    *[({"features": COLUMN, "combine": bad}, VALUE, f"combine must be 'auto' or 'linear'; walks; {bad!r}.")
      for bad in ("product", "sum")],
    ({"features": COLUMN, "combine": "sum", "method": "auto", "twins": True}, VALUE, "combine must; twins"),
    ({"features": np.column_stack([COLUMN, COLUMN]), "combine": "linear"}, VALUE,
     "features must be independent at the observed nodes; got 2 columns, 3 observations."),
]
CLASSES = [
    ({"y": [1, 1, 1]}, VALUE, "y must be labels of at least two classes, got one class, 1. Label nodes"),
    ({"y": ["a", "a", "a"]}, VALUE, "y must be labels of at least two classes, got one class, 'a'."),
    ({"y": [0.5, 1.2, 3.3]}, VALUE,
     "y must be class labels; Unknown label type: continuous; use NodeGPRegressor"),
    ({"y": [1j, 1, 1]}, VALUE, "y must be class labels; Complex"),
    *[({"y": y}, VALUE, f"y must be labels without gaps, got {bad} at position 1. Leave out the nodes")
      for y, bad in (([0, NAN, 1], NAN), ([0, INF, 1], INF), (["a", None, "b"], None),
                     (pd.Series(["a", None, "b"], dtype="string"), "<NA>"),
                     (pd.Series([1, None, 2], dtype="Int64"), NAN))],
    *[({"y": np.ones(shape)}, VALUE, f"y must be of shape (n,), got shape {shape}.")
      for shape in ((3, 2), (3, 1), ())],
    ({"y": [[1], [1, 2], [3]]}, VALUE, "y must be of shape (n,), got [[1], [1, 2], [3]]."),
    ({"y": scipy.sparse.eye_array(3)}, VALUE, "y must be of shape (n,)"),
    *[({"concentration": bad}, VALUE, f"concentration must be a finite number of at least 1e-153, got {bad}.")
      for bad in (0, -1, NAN)],
    ({"concentration": "few"}, TYPE, "concentration must be a finite number; got 'few'."),
    *[({"learn": (name,)}, VALUE, f"learn must be; 'amplitude', 'modulation', or None; ('{name}',)")
      for name in ("noise", "sigma")],
]
LATER = [
    ("NodeGPRegressor", lambda m: m.predict([0], return_std=True, return_cov=True), VALUE,
     "return_std must be False where return_cov is True, got True."),
    ("NodeGPRegressor", lambda m: m.predict([0], return_std=1), TYPE, "return_std must be True or False"),
    ("NodeGPRegressor", lambda m: m.predict([0], return_cov="yes"), TYPE, "return_cov must be True or False"),
    ("NodeGPRegressor", lambda m: m.predict([0], include_noise=None), TYPE, "include_noise must be True or"),
    ("NodeGPRegressor", lambda m: m.predict([99]), VALUE, "X must be ids from 0 to 11, got the id 99."),
    ("NodeGPRegressor", lambda m: m.sample_y([99]), VALUE, "X must be ids from 0 to 11, got the id 99."),
    ("NodeGPRegressor", lambda m: m.sample_y([]), VALUE, "X must be nodes of shape (n,); got shape (0,)."),
    ("NodeGPRegressor", lambda m: m.sample_y([0], 0), VALUE, "n_samples must be a whole; at least 1, got 0."),
    ("NodeGPRegressor", lambda m: m.sample_y([0], "2"), TYPE, "n_samples must be a whole number; got '2'."),
    ("NodeGPRegressor", lambda m: m.sample_y([0], 1, "x"), TYPE, "random_state must be None, a; got 'x'."),
    ("NodeGPRegressor", lambda m: m.sample_y([0], include_noise=1), TYPE, "include_noise must be True or Fa"),
    ("NodeGPRegressor", lambda m: m.log_marginal_likelihood([0.0]), VALUE,
     "theta must be one number for each of lengthscale, amplitude, noise, got 1 numbers."),
    ("NodeGPRegressor", lambda m: m.log_marginal_likelihood([NAN] * 3), VALUE, "theta must be finite; nan"),
    ("NodeGPRegressor", lambda m: m.log_marginal_likelihood("x"), TYPE, "theta must be an array of numbers"),
    ("NodeGPRegressor", lambda m: m.fit([0, 1, 2], np.eye(3)).predict([0], return_cov=True), VALUE,
     "return_cov must be False for several outputs, got True."),
    ("NodeGPRegressor", lambda m: m.fit([0, 1, 2], np.eye(3)).log_marginal_likelihood([0.0] * 3), VALUE,
     "theta must be None for several outputs, got [0.0, 0.0, 0.0]."),
    ("NodeGPRegressor", lambda m: m.condition([0, 1], [[1.0], [2.0]]), VALUE,
     "y must be of shape (n,), as in fit, got shape (2, 1)."),
    ("NodeGPRegressor", lambda m: m.fit([0, 1, 2], np.eye(3)).condition([0, 1], np.eye(2)), VALUE,
     "y must be of shape (n, 3), as in fit, got shape (2, 2)."),
    ("NodeGPClassifier", lambda m: m.predict([99]), VALUE, "X must be ids from 0 to 11, got the id 99."),
    ("NodeGPClassifier", lambda m: m.predict_proba(["a"]), TYPE, "X must be whole-number ids; got ['a']."),
    ("NodeGPClassifier", lambda m: m.latent([]), VALUE, "X must be nodes of shape (n,); got shape (0,)."),
]
# fmt: on
FITS = [
    (owner, lambda owner=owner, o=options: OWNERS[owner](**o), error, text)
    for owners, table in ((OWNERS, BOTH), (["NodeGPRegressor"], REGRESSION), (["NodeGPClassifier"], CLASSES))
    for owner in owners
    for options, error, text in table
]  # fmt: skip
FITS += [(owner, lambda owner=owner, ask=ask: ask(OWNERS[owner]()), *rest) for owner, ask, *rest in LATER]


@pytest.mark.parametrize(("owner", "call", "error", "fragments"), FITS)
def test_refusal_names_owner_parameter_and_value_and_is_raised_at_our_own_door(owner, call, error, fragments):
    with pytest.raises(Exception) as caught:  # noqa: PT011 (the type is what is tested)
        call()
    raised = caught.value
    assert type(raised) is error, f"{type(raised).__name__}: {raised}"
    missing = [part for part in (f"{owner}.", *fragments.split("; ")) if part not in str(raised)]
    assert not missing, f"{missing} not in: {raised}"
    raised_in = traceback.extract_tb(raised.__traceback__)[-1].filename
    assert Path(raised_in).is_relative_to(Path(wk.__file__).parent)


QUESTIONS = {
    "NodeGPRegressor": [
        lambda m: m.predict([0]),
        lambda m: m.sample_y([0]),
        lambda m: m.log_marginal_likelihood(),
        lambda m: m.n_iter_,
    ],
    "NodeGPClassifier": [lambda m: m.predict([0]), lambda m: m.predict_proba([0]), lambda m: m.latent([0])],
}


@pytest.mark.parametrize(
    ("owner", "ask"), [(owner, ask) for owner, many in QUESTIONS.items() for ask in many]
)
def test_nothing_is_answered_before_fit(owner, ask):
    with pytest.raises(NotFittedError, match=f"This {owner} instance is not fitted yet"):
        ask(getattr(wk, owner)(RING, HEAT))


@pytest.mark.parametrize("bad", [{"y": [1, 1, 1]}, {"y": [0, NAN, 1]}, {"X": [0, 99, 1]}])
def test_a_failed_fit_leaves_the_classes_of_the_old_model(bad):
    model = classify(y=["a", "b", "b"])
    before = model.predict_proba(range(N))
    with pytest.raises(ValueError, match="NodeGPClassifier"):
        model.fit(**{"X": [0, 1, 2], "y": [0, 1, 1], **bad})
    assert model.classes_.tolist() == ["a", "b"]
    assert np.array_equal(model.predict_proba(range(N)), before)


@pytest.mark.parametrize("owner", OWNERS)
def test_gradients_that_do_not_converge_leave_the_old_model(owner):
    model = OWNERS[owner](X=range(N), y=np.arange(N) % 3)
    before = model.predict(range(N))
    with pytest.raises(RuntimeError, match=rf"{owner}\.fit: .* tol=1e-12 in max_iter=1 iterations"):
        model.set_params(max_iter=1, tol=1e-12, solver="cg").fit(range(N), np.arange(N)[::-1] % 4)
    assert np.array_equal(model.predict(range(N)), before)


def test_a_covariance_that_does_not_fit_is_refused():
    model = regress([0, 1], [1.0, 2.0], graph=HUGE, learn=())
    with pytest.raises(
        ValueError, match=r"NodeGPRegressor.predict: a dense array .* 19 GiB .* Use return_std, or sample_y"
    ):
        model.predict(range(50_000), return_cov=True)


@pytest.mark.parametrize("kernel", [wk.PStepRandomWalk(3), wk.PStepRandomWalk(1)])
def test_roots_that_do_not_converge_are_told_of(kernel):
    with pytest.warns(wk.InfiniteVarianceWarning, match="symmetric pair of PStepRandomWalk"):
        regress(kernel=kernel, learn=())


@pytest.mark.parametrize("n", [1, 4])
def test_nodes_without_edges_are_no_error(n):
    graph = Graph.from_edges([], n_nodes=n)
    mean, std = regress(range(n), np.arange(1.0, n + 1), graph=graph).predict(range(n), return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    X, y = (range(n), np.arange(n)) if n > 1 else ([0, 0], [0, 1])
    assert np.isfinite(classify(X, y, graph=graph).predict_proba(range(n))).all()
