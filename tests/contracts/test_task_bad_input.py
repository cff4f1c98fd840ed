"""Bad input to estimators, clustering and differential equations: what is raised, and what it tells.

A row is (id, call, error, fragments) as in ``test_bad_input.py``: the message must hold every one of the
fragments, which are parted by "; ".
"""

import itertools
import math
import traceback
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import scipy.stats
from scipy.sparse.linalg import aslinearoperator
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

import walkernel as wk
from walkernel import Diffusion, Graph, IndependentWalks, KernelKMeans, PowerSeries, clustering_error
from walkernel.engines import CPU
from walkernel.tasks import WalkCache, _solvers

VALUE, TYPE, DIVERGES = ValueError, TypeError, wk.DivergentKernelError
NAN, INF = math.nan, math.inf
N = 12
PAIRS = [(i, (i + 1) % N) for i in range(N)]
RING = Graph.from_edges(PAIRS)
NAMED = Graph.from_edges([(f"n{i}", f"n{j}") for i, j in PAIRS])
TENS = Graph.from_edges([(10 * i + 5, 10 * j + 5) for i, j in PAIRS], relabel=True)
HUGE = Graph.from_edges(PAIRS, n_nodes=10**6)
SIGNED = Graph.from_edges(PAIRS, weights=[1.0] * (N - 1) + [-1.0])
HEAT, ROOTLESS = Diffusion(), PowerSeries([0.0, 1.0])
WILD = wk.RegularizedLaplacian(sigma=2.0, matrix="adjacency")
ONES = np.ones(N)
FEATURES = np.random.default_rng(0).normal(size=(N, 3))
HALVES = [0, 1] * (N // 2)
MODELS = ("NodeFeatures", "NodeSmoother", "NodeRidge")
GAUSSIAN = ("NodeGPRegressor", "NodeGPClassifier")  # more of them in test_gp_bad_input.py
EVERY = MODELS + GAUSSIAN
ENGINES = "None, 'cpu', 'cuda', 'cuda:' and a number, or an engine such as walkernel.engines.CPU(2)"


def fit(owner, X=(0, 1, 2), y=(1.0, 2.0, 3.0), *, graph=RING, kernel=HEAT, weights=None, **options):
    own = {"NodeSmoother": {"average": False}}
    common = {"n_walks": 8, "method": "walks", **own.get(owner, {"normalize": False})}
    model = getattr(wk, owner)(graph, kernel, **{**common, **options})
    return model.fit(X, y) if weights is None else model.fit(X, y, sample_weight=weights)


def ask(model, nodes=range(N)):
    return model.transform(nodes).toarray() if hasattr(model, "transform") else model.predict(nodes)


def cluster(n_clusters=2, X=FEATURES, weights=None, **options):
    return KernelKMeans(n_clusters, **options).fit(X, sample_weight=weights)


def ode(source=None, t=1.0, *, graph=RING, initial=ONES, n_walks=4, sampled=None, **options):
    if sampled is not None:
        source, options = ONES, {"quadrature": "monte-carlo", "density": sampled, **options}
    return wk.solve_ode(graph, source, t, initial=initial, n_walks=n_walks, **options)


def drawn(rvs=lambda size: np.full(size, 0.5), pdf=np.ones_like):
    """A density on the times from 0 to 1."""
    return SimpleNamespace(rvs=lambda size, random_state: rvs(size), pdf=pdf)


CALLS = {
    **{name: partial(fit, name) for name in EVERY},
    "KernelKMeans": cluster,
    "solve_ode": ode,
    "clustering_error": lambda a, b=(0, 1): clustering_error(a, b),
    "choose_sampler": lambda graph=RING, kernels=(HEAT,): wk.choose_sampler(graph, *kernels),
    "WalkCache": WalkCache,
}


def rows(owners, table):
    """Rows for all owners of a table (id, options, error, text); after "~" a text does without the owner."""
    made = []
    for owner in owners:
        call = f"{owner}.fit" if owner in (*EVERY, "KernelKMeans") else owner
        for name, options, error, text in table:
            text = text[1:] if text[0] == "~" else f"{call}: {text}"
            made.append((f"{owner}-{name}", partial(CALLS[owner], **options), error, text))
    return made


def refused(parameter, rule, values, others):
    """Rows for values of one parameter that are refused, and for others that are of the wrong type."""
    return [
        (f"{parameter}={value!r}", {parameter: value}, error, f"{parameter} must be {rule}, got {value!r}.")
        for many, error in ((values, VALUE), (others, TYPE)) for value in many
    ]  # fmt: skip


# fmt: off
PARAMETERS = [
    ("graph-array", {"graph": np.eye(3)}, TYPE, "graph must be a Graph; (3, 3); Graph.from_edges"),
    ("kernel-text", {"kernel": "heat"}, TYPE, "kernel must be a Kernel; 'heat' of type str; from_function"),
    ("kernel-class", {"kernel": Diffusion}, TYPE, "kernel must be a Kernel; got <class"),
    ("kernel-diverges", {"kernel": WILD}, DIVERGES, "~sigma=2.0; radius; is 2 and; below 1.25; 'normalized'"),
    *refused("n_walks", "a whole number from 1 to 4294967294", [0, -1, 1.5, NAN, 2**32], [True, "8", None]),
    ("sampler-number", {"sampler": 0.1}, TYPE, "sampler must be a Sampler, got 0.1 of type float"),
    ("sampler-class", {"sampler": IndependentWalks}, TYPE, "sampler must be a Sampler, got <class"),
    *refused("engine", ENGINES, ["nowhere", "CPU", ""], [3, True, CPU]),
    *[(f"X-shape-{np.shape(X)}", {"X": X}, VALUE, f"X must be nodes of; (n, 1); got shape {np.shape(X)}")
      for X in ([], np.zeros((3, 2), int), np.zeros((3, 1, 1), int), 3, np.array(3))],
    *[(f"X={X!r}", {"X": X}, TYPE, f"~must be whole-number ids; no labels; got {X!r}")
      for X in ([0.0, 1.0], [NAN], [True, False], ["a"], None, {0, 1})],
    *[(f"X={X!r}", {"X": X}, VALUE, f"~ids from 0 to 11, got the id {X[-1]}") for X in ([0, N], [-1])],
    ("X-ragged", {"X": [[0], [1, 2]]}, TYPE, "~must be whole-number ids; rectangular; [[0], [1, 2]]"),
    ("X-sparse", {"X": scipy.sparse.eye_array(3)}, TYPE, "~must be whole-number ids; got <"),
    ("X-missing", {"X": pd.Series([0, None], dtype="Int64")}, TYPE, "~must be whole-number ids; <NA>"),
    *[(f"X={X!r}", {"graph": graph, "X": X}, VALUE, f"~must be labels of; the unknown {X[-1]!r}")
      for graph, X in ((NAMED, ["n0", "z"]), (NAMED, [0]), (TENS, [0]), (TENS, ["5"]), (NAMED, [b"n0"]))],
    ("X-id-for-label", {"graph": NAMED, "X": [0]}, VALUE, "~the unknown 0. It is not an id; labels only"),
    ("X-missing-label", {"graph": NAMED, "X": pd.Series(["n0", None])}, VALUE, "~labels; the unknown"),
    ("X-one-label", {"graph": NAMED, "X": "n0"}, VALUE, "X must be; got shape ()"),
]
TARGETS = [
    ("y-none", {"y": None}, VALUE, "y must be given; requires y to be passed; the target y is None"),
    *[(f"y-{bad}", {"y": [1, bad, 2]}, VALUE, f"y must be finite, got {bad} at") for bad in (NAN, INF)],
    ("y-missing", {"y": pd.Series([1.0, None, 2.0], dtype="Float64")}, VALUE, "y must be finite, got nan at"),
    *[(f"y-{len(y)}", {"y": y}, VALUE, f"y must be of length 3; got length {len(y)}.")
      for y in ([1.0], range(4))],
    ("y-text", {"y": ["a", "b", "c"]}, TYPE, "y must be an array of numbers, got ['a', 'b', 'c']."),
    ("y-complex", {"y": [1j, 1, 1]}, TYPE, "y must be real; complex128"),
    *[(f"y-{np.shape(y)}", {"y": y}, VALUE, f"y must be of shape (n,) or; got shape {np.shape(y)}.")
      for y in (np.ones((3, 1, 1)), 1.0, np.ones((3, 0)), [])],
    ("y-ragged", {"y": [[1], [1, 2], [3]]}, VALUE, "y must be a rectangular array; [[1], [1, 2], [3]]"),
    ("y-sparse", {"y": scipy.sparse.eye_array(3)}, TYPE, "y must be an array of numbers, got <"),
    ("y-differs", {"X": [2, 0, 0]}, VALUE, "y must be the same; different targets for node 0. Average"),
    ("y-differs-label", {"X": ["n1"] * 3, "graph": NAMED}, VALUE, "y; different targets for node 'n1'."),
]
MODEL_CASES = [
    *rows(EVERY, PARAMETERS),
    *rows(MODELS[1:], TARGETS),
    *rows(["NodeFeatures"], [
        *refused("n_components", "a whole number of at least 1", [0, 1.5, NAN], ["3", True]),
        *refused("reduction", "one of 'johnson-lindenstrauss', 'anchors'", ["pca", None, 1], []),
        *refused("sparse_output", "True or False", [], [1, None]),
        ("anchors-13", {"n_components": 13, "reduction": "anchors"}, VALUE, "n_components; to 12, got 13."),
    ]),
    *rows(["NodeSmoother"], refused("normalize", "True or False", [], [1, "yes"])),
    *rows(["NodeRidge"], [
        *refused("alpha", "a finite number greater than 0", [-1, 0, NAN, INF], ["1", True]),
        *refused("tol", "a finite number greater than 0 and less than 1", [0, 1, -1e-9, NAN], ["small"]),
        *refused("max_iter", "a whole number of at least 1", [0, 1.5], [True, None]),
        *refused("fit_intercept", "True or False", [], [0, "yes", None]),
    ]),
]
WEIGHTS = [
    ("weight-negative", {"weights": [-1, 1, 1]}, VALUE, "sample_weight; 3 non-negative numbers; [-1, 1, 1]"),
    ("weight-zeros", {"weights": [0, 0, 0]}, VALUE, "sample_weight must be; not all zero, got [0, 0, 0]."),
    *[(f"weight-{bad}", {"weights": [1, bad, 1]}, VALUE, f"sample_weight; finite, got {bad} at position 1.")
      for bad in (NAN, INF)],
    ("weight-few", {"weights": [1, 1]}, VALUE, "sample_weight must be 3 non-negative numbers; got [1, 1]."),
    ("weight-column", {"weights": np.ones((3, 1))}, VALUE, "sample_weight must be 3; shape (3, 1)"),
    ("weight-text", {"weights": "balanced"}, TYPE, "sample_weight; an array of numbers, got 'balanced'."),
]
LABELS = "init must be 'k-means++' or 12 whole numbers, one label for each point, got"
OTHER_CASES = [
    *rows(["NodeRidge"], WEIGHTS),
    *rows(["KernelKMeans"], [(name, {**w, "X": FEATURES[:3]}, *rest) for name, w, *rest in WEIGHTS]),
    *rows(["KernelKMeans"], [
        *refused("n_clusters", "a whole number of at least 1", [0, -1, 1.5, NAN], [True, "2", None]),
        *refused("n_clusters", "at most n_samples=12, the number of points with weight", [13], []),
        *refused("max_iter", "a whole number of at least 1", [0, 1.5], [True, None]),
        *refused("method", "one of 'auto', 'eigenvectors', 'polynomial', 'walks'", ["spectral", None], []),
        *refused("engine", ENGINES, ["nowhere"], [3]),
        *refused("n_init", "a whole number of at least 1", [0, 1.5], ["auto", None]),
        *refused("init", "'k-means++' or an array of labels", ["random"], []),
        ("init-short", {"init": [0, 1]}, VALUE, f"{LABELS} [0, 1]."),
        *[(f"init-{init.dtype}", {"init": init}, VALUE, f"{LABELS} an array of shape {init.shape}")
          for init in (FEATURES[:2], ONES, ONES > 0, np.array(["a"] * N), np.array(HALVES, dtype=object))],
        *[(f"init-{labels}", {"init": labels * 6}, VALUE, f"init; 0 to 1, each used; got the labels {used}.")
          for labels, used in (([0, 0], [0]), ([0, 2], [0, 2]), ([-1, 1], [-1, 1]))],
    ]),
    *rows(["clustering_error"], [
        ("lengths", {"a": [0, 1], "b": [0, 1, 2]}, VALUE, "b must be of length 2, as a is, got length 3."),
        ("one", {"a": [0], "b": [0]}, VALUE, "a must be labels of at least two nodes; got [0]."),
        ("2d", {"a": [0, 1], "b": [[0, 1]]}, VALUE, "b must be labels of; (n,); got [[0, 1]]."),
        ("none", {"a": None, "b": [0, 1]}, VALUE, "a must be labels of; got None."),
        ("nan", {"a": [0, NAN], "b": [0, 1]}, VALUE, "a must be labels of all nodes; got nan among them."),
    ]),
    *rows(["choose_sampler"], [
        ("none", {"kernels": []}, VALUE, "kernels must be at least one Kernel, got []."),
        ("graph", {"graph": None}, TYPE, "graph must be a Graph, got None"),
        ("text", {"kernels": ["heat"]}, TYPE, "kernels must be a Kernel, got 'heat' of type str."),
        ("matrices", {"kernels": [HEAT, WILD]}, VALUE, "kernel.matrix; the same for all; got 'adjacency'."),
        ("diverges", {"kernels": [WILD]}, DIVERGES, "~sigma=2.0; radius; below 1.25"),
    ]),
]
STATE = "must be of shape (12,), one value for each node, got shape"
DISTRIBUTION = "density must be a distribution with rvs and pdf; scipy.stats.uniform(0, 1)"
ODE_CASES = rows(["solve_ode"], [
    ("graph", {"graph": np.eye(N)}, TYPE, "graph must be a Graph; (12, 12); from_scipy"),
    *refused("t", "a positive time or increasing positive times", [0, -1.5, [], [1, 1], [2, 1], [[1]]], []),
    *refused("t", "an array of numbers", [], ["1", None, ["a"]]),
    ("t-nan", {"t": [1, NAN]}, VALUE, "t must be finite, got nan at position 1."),
    ("t-inf", {"t": INF}, VALUE, "t must be finite, got inf at position 0."),
    ("t-growth", {"t": 800, "matrix": "normalized"}, VALUE, "t must be small enough; e^800; got 800"),
    *refused("matrix", "one of 'laplacian', 'combinatorial', 'normalized', 'adjacency', 'positive-laplacian'",
             ["L", None], []),
    *refused("method", "one of 'auto', 'polynomial', 'walks'", ["cg", None], []),
    *refused("engine", ENGINES, ["nowhere", "walks"], [3, True, CPU]),
    *refused("pair", "one of 'auto', 'symmetric', 'lazy'", ["both"], []),
    *refused("quadrature", "one of 'gauss-legendre', 'monte-carlo'", ["simpson"], []),
    *refused("n_points", "a whole number from 1 to 4096", [0, 1.5, 4097], [True, "4"]),
    *refused("n_walks", "a whole number from 2 to 67108864", [0, 1, 2.5], [True, "8"]),
    *refused("seed", "a whole number from 0 to 18446744073709551615", [-1, 1.5, 2**64], [None, "x", True]),
    *refused("progress", "None or a function of (done, total)", [], [True]),
    *refused("density", "None unless quadrature='monte-carlo'", ["uniform"], []),
    ("points-1", {"n_points": 1, "quadrature": "monte-carlo"}, VALUE, "n_points; from 2 to 4096, got 1."),
    *[(f"{name}-{np.shape(v)}", {name: v}, VALUE, f"{name} {STATE} {np.shape(v)}.")
      for name in ("initial", "source") for v in (np.ones(11), np.ones((N, 1)), 3)],
    ("initial-nan", {"initial": [NAN] * N}, VALUE, "initial must be finite, got nan at position 0."),
    ("initial-dict", {"initial": {0: 1.0}}, TYPE, "initial must be an array of numbers, got {0: 1.0}."),
    ("source-text", {"source": "x"}, TYPE, "source must be an array of numbers, got 'x'."),
    ("source-complex", {"source": 1j * ONES}, TYPE, "source must be real; complex128"),
    ("function-few", {"source": lambda t: np.ones(11)}, VALUE, f"source(1) {STATE} (11,)."),
    ("function-none", {"source": lambda t: None}, TYPE, "source(1) must be an array of numbers, got None."),
    ("nan-early", {"source": lambda t: ONES * (NAN if t < 0.5 else 1)}, VALUE, "source(0.0; finite, got nan"),
    ("few-early", {"source": lambda t: np.ones(N - (t < 0.5))}, VALUE, f"source(0.0; {STATE} (11,)."),
    ("nodes-beyond", {"nodes": [N]}, VALUE, "~nodes must be ids from 0 to 11, got the id 12."),
    ("nodes-float", {"nodes": [0.5]}, TYPE, "~nodes must be whole-number ids; got [0.5]"),
    ("nodes-twice", {"nodes": [0, 0]}, VALUE, "nodes; distinct nodes, got 0 more than once."),
    ("nodes-empty", {"nodes": []}, VALUE, "nodes must be a non-empty, flat list of nodes; (0,)"),
    ("nodes-label", {"graph": NAMED, "nodes": [0]}, VALUE, "~nodes must be labels; unknown 0; labels only"),
    ("density-text", {"sampled": "uniform"}, VALUE, f"{DISTRIBUTION}; got 'uniform'."),
    ("density-discrete", {"sampled": scipy.stats.randint(0, 2)}, VALUE, DISTRIBUTION),
    ("density-late", {"sampled": scipy.stats.uniform(1, 2)}, VALUE, "density; (1), got one from 1 to 3."),
    ("density-early", {"sampled": scipy.stats.norm(0, 1)}, VALUE, "density; (1), got one from -inf"),
    ("rvs-nan", {"sampled": drawn(lambda n: np.full(n, NAN))}, VALUE, "density.rvs(); finite, got nan"),
    ("pdf-nan", {"sampled": drawn(pdf=lambda t: NAN * t)}, VALUE, "density.pdf() must be finite, got nan"),
    ("pdf-scalar", {"sampled": drawn(pdf=lambda t: 1.0)}, VALUE, "density.pdf(); 1-dimensional, got 1.0."),
])
SEED_ROWS = [(f"random_state={value!r:.9}", {"random_state": value}, error, "random_state must be")
             for value, error in ((-1, VALUE), (2**64, VALUE), (1.5, TYPE), ("x", TYPE), (True, TYPE),
                                  (NAN, TYPE), (np.random.default_rng(0), TYPE))]
MORE_CASES = [row for owners, *table in [
    *[([*EVERY, "KernelKMeans"], *row) for row in SEED_ROWS],
    (EVERY, "X", {"X": [0, N]}, VALUE, "X must be; the id 12"),
    (EVERY, "X-label", {"X": ["n0", "z"], "graph": NAMED}, VALUE, "X must be; the unknown 'z'"),
    (EVERY, "set", {"X": {"n0", "n1", "n2"}, "graph": NAMED}, TYPE, "X must be"),
    (MODELS[::2], "root", {"kernel": ROOTLESS}, VALUE, "kernel must; α₀"),
    *[(["solve_ode"], f"polynomial-{name}", {**options, "method": "polynomial"}, TYPE, text)
      for name, options, text in [
        ("engine", {"engine": 2}, "engine must be"), ("walks", {"n_walks": "8"}, "n_walks must"),
        ("progress", {"progress": 3}, "progress must be"), ("sampler", {"sampler": 0.1}, "sampler must be")]],
    *[(["solve_ode"], *row) for row in [
        ("sampler", {"sampler": 0.1}, TYPE, "sampler must be a Sampler, got 0.1"),
        ("many", {"n_walks": 2**40}, VALUE, "n_walks must be; got 1099511627776."),
        ("short", {"t": 1e-300}, VALUE, "t must be; 1e-300"),
        ("pdf-0", {"sampled": drawn(pdf=np.zeros_like)}, VALUE, "density.pdf() must be"),
        ("pdf-negative", {"sampled": drawn(pdf=lambda t: -t)}, VALUE, "density.pdf() must be"),
        ("pdf-few", {"sampled": drawn(pdf=lambda t: t[:3])}, VALUE, "density.pdf() must be; length 3"),
        ("rvs-few", {"sampled": drawn(lambda n: ONES[:3] / 2)}, VALUE, "density.rvs(); length 3")]],
    *[(["KernelKMeans"], *row) for row in [
        ("init-ragged", {"init": [[0], [1, 2]]}, VALUE, "init must be; [[0], [1, 2]]"),
        ("n_init", {"init": HALVES, "n_init": 0}, VALUE, "n_init must be; got 0."),
        ("kernel-features", {"kernel": HEAT}, VALUE, "kernel must be None unless X is a Graph, got"),
        ("method-features", {"method": "walks"}, VALUE, "method must be 'auto' unless X is a Graph"),
        ("kernel-K", {"X": wk.polynomial_operator(RING, HEAT), "kernel": HEAT}, VALUE, "kernel must be None"),
        ("none-labels", {"X": RING, "n_clusters": None, "init": HALVES}, VALUE, "n_clusters; given if init"),
        ("none-signed", {"X": SIGNED, "n_clusters": None}, VALUE, "n_clusters; given; negative weights"),
        ("graph-many", {"X": RING, "n_clusters": 13}, VALUE, "n_clusters must be at most n_samples=12"),
        ("graph-kernel", {"X": RING, "kernel": 2.0}, TYPE, "kernel must be a Kernel, got 2.0"),
        ("graph-diverges", {"X": RING, "kernel": WILD}, DIVERGES, "~sigma=2.0; radius; below 1.25"),
        ("graph-diagonal", {"X": RING, "kernel": ROOTLESS}, VALUE, "kernel; positive diagonal; α₀ > 0"),
        ("graph-method", {"X": SIGNED, "method": "eigenvectors"}, VALUE,
         "method must be 'polynomial' or 'walks'; got 'eigenvectors'; some weights are negative"),
        ("matrix-method", {"X": RING, "kernel": Diffusion(matrix="adjacency"), "method": "eigenvectors"},
         VALUE, "method must be; matrix='adjacency'"),
        ("graph-weights", {"X": RING, "weights": [1, 1]}, VALUE, "sample_weight must be 12 non-negative"),
        ("X-scipy", {"X": aslinearoperator(np.eye(4))}, TYPE, "X must be; KernelOperator"),
        ("X-overflow", {"X": 1e200 * FEATURES}, VALUE, "X must be"),
        ("support", {"n_clusters": 3, "weights": [1, 1] + [0] * 10}, VALUE, "n_clusters must be; 2"),
        ("no-weight", {"init": [0] * 11 + [1], "weights": [1] * 11 + [0]}, VALUE, "init must be")]],
    *[(["clustering_error"], *row) for row in [
        ("objects-none", {"a": np.array(["a", None])}, VALUE, "a must be"),
        ("missing", {"a": pd.Series(["a", None], dtype="string")}, VALUE, "a must be"),
        ("ragged", {"a": [[0], [1, 2]]}, VALUE, "a must be"),
        ("nan-array", {"a": np.array([NAN, 0.0])}, VALUE, "a must be; nan")]],
    (["WalkCache"], "limit", {"limit": "1 GiB"}, TYPE, "limit must be; '1 GiB'"),
] for row in rows(owners, [table])]
# fmt: on
CASES = [pytest.param(*row, id=name) for name, *row in MODEL_CASES + OTHER_CASES + ODE_CASES + MORE_CASES]


@pytest.mark.filterwarnings("ignore:solve_ode. with matrix")
@pytest.mark.parametrize(("call", "error", "fragments"), CASES)
def test_refusal_names_owner_parameter_and_value_and_is_raised_at_our_own_door(call, error, fragments):
    with pytest.raises(Exception) as caught:  # noqa: PT011 (the type is what is tested)
        call()
    raised = caught.value
    assert type(raised) is error, f"{type(raised).__name__}: {raised}"
    missing = [fragment for fragment in fragments.split("; ") if fragment not in str(raised)]
    assert not missing, f"{missing} not in: {raised}"
    raised_in = traceback.extract_tb(raised.__traceback__)[-1].filename
    assert Path(raised_in).is_relative_to(Path(wk.__file__).parent)


def test_what_scikit_learn_refuses_itself():
    model = make_pipeline(wk.NodeFeatures(RING, HEAT, normalize=False, method="walks"), LogisticRegression())
    with pytest.raises(ValueError, match="at least 2 classes"):
        model.fit([0, 1], [1, 1])
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[2, 3\]"):
        model.fit([0, 1], [1, 0, 1])
    for X, message in ((FEATURES * NAN, "NaN"), (FEATURES[0], "2D array"), (FEATURES[:0], "0 sample")):
        with pytest.raises(ValueError, match=message):
            cluster(X=X)


@pytest.mark.parametrize("options", [{"sparse_output": False}, {"n_components": 10**7}])
def test_dense_features_that_do_not_fit_are_refused(options):
    with pytest.raises(ValueError, match=r"a dense array .* GiB \(the limit is 4 GiB\)\. Use .*components"):
        fit("NodeFeatures", graph=HUGE, **options).transform(range(1000))


BAD_FITS = {
    "nodes": lambda model: model.fit([0, 99], [1.0, 2.0]),
    "targets": lambda model: model.fit([0, 1, 2], [NAN, 1.0, 2.0]),
    "parameter": lambda model: model.set_params(n_walks=0).fit([0, 1], [1.0, 2.0]),
    "kernel": lambda model: model.set_params(kernel=ROOTLESS).fit([0, 99], [NAN, 1.0]),
    "divergence": lambda model: model.set_params(kernel=WILD).fit([0, 1], [1.0, 2.0]),
}


STATES = list(itertools.product(EVERY, BAD_FITS, (True, False)))


@pytest.mark.parametrize(("owner", "bad", "first"), STATES)
def test_a_failed_fit_leaves_the_old_model_or_none(owner, bad, first):
    model = getattr(wk, owner)(RING, HEAT, n_walks=8, method="walks") if first else fit(owner)
    before = None if first else ask(model)
    if (owner, bad) == ("NodeFeatures", "targets"):
        return  # it has none
    with pytest.raises((ValueError, TypeError)):
        BAD_FITS[bad](model)
    if first:
        with pytest.raises(NotFittedError):
            ask(model)
    else:
        assert np.array_equal(ask(model), before)


def test_gradients_that_do_not_converge_say_so_and_leave_the_old_model(monkeypatch):
    monkeypatch.setattr(_solvers, "MAX_DIRECT_NODES", 0)
    model = fit("NodeRidge", range(N), range(N))
    before = ask(model)
    with pytest.raises(
        RuntimeError, match=r"NodeRidge.fit: .* tol=1e-12 in max_iter=1 iterations .*Use a larger max_iter"
    ):
        model.set_params(max_iter=1, tol=1e-12).fit(range(N), range(N)[::-1])
    assert np.array_equal(ask(model), before)


def test_a_failed_clustering_leaves_nothing():
    model = KernelKMeans(99)
    with pytest.raises(ValueError, match="n_clusters"):
        model.fit(FEATURES)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)


@pytest.mark.parametrize("n", [1, 4])
def test_nodes_without_edges_are_no_error(n):
    graph = Graph.from_edges([], n_nodes=n)
    values = np.arange(1.0, n + 1)
    smooth = fit("NodeSmoother", range(n), values, graph=graph)
    assert np.allclose(smooth.predict(range(n)), values / math.sqrt(math.e))
    assert np.isfinite(fit("NodeRidge", range(n), values, graph=graph).predict(range(n))).all()
    assert fit("NodeFeatures", range(n), graph=graph).transform(range(n)).shape == (n, n)
    assert cluster(1, wk.estimate_kernel(graph, HEAT, 4)).labels_.tolist() == [0] * n
    assert np.allclose(ode(graph=graph, initial=values).x, values / math.e)


# silently wrong -----------------------------------------------------------------------------------------


def test_a_source_may_reuse_its_array():
    reused = np.zeros(N)
    found = ode(lambda t: np.copyto(reused, t) or reused, method="polynomial").x
    assert np.allclose(found, ode(lambda t: np.full(N, t), method="polynomial").x)


def test_times_that_no_walk_reaches_are_told_of():
    with pytest.warns(wk.InfiniteVarianceWarning):
        ode(t=1e4, n_walks=64)


def test_a_row_without_weight_is_not_there():
    model = fit("NodeRidge", [0, 0, 1], [1.0, 9.0, 3.0], weights=[1, 0, 1])
    assert np.allclose(ask(model), ask(fit("NodeRidge", [0, 1], [1.0, 3.0])))
