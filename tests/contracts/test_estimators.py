"""One suite over all estimators: scikit-learn's own checks, and the same rules with nodes for X.

Most of scikit-learn's checks make X of floats, which name no nodes. They are listed here with the reason they
fail for; the rules they stand for are checked below with nodes.
"""

import pickle
import re
import subprocess
import sys
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from joblib import parallel_config
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, BaggingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

import walkernel as wk
from depth import crossed, mostly_deep
from walkernel.engines import CPU
from walkernel.tasks import WALK_CACHE, _solvers

N = 24
EDGES = [(i, (i + 1) % N) for i in range(N)] + [(i, (5 * i + 7) % N) for i in range(0, N, 2)]
GRAPH = wk.Graph.from_edges(EDGES)
NAMES = {"text": [f"node {i}" for i in range(N)], "tuples": [("node", i) for i in range(N)]}
NAMES["integers"] = [7 * i % N for i in range(N)]
HEAT, WIDE = wk.Diffusion(1.5), wk.Diffusion(4.0)
NODES, KNOWN = np.arange(N), np.arange(0, N, 2)
VALUES = np.sin(2 * np.pi * NODES / N) + NODES % 3
CLASSES = (VALUES > 1).astype(int)
TARGETS = VALUES[KNOWN]
MODELS = ("NodeFeatures", "NodeSmoother", "NodeRidge", "NodeGPRegressor", "NodeGPClassifier")
every_model = pytest.mark.parametrize("name", MODELS)


def build(name, graph=GRAPH, kernel=HEAT, **options):
    own = {"NodeSmoother": {"average": False}, "NodeRidge": {"alpha": 1.0, "normalize": False}}
    common = {"n_walks": 16, "method": "walks", **own.get(name, {"normalize": False})}
    return getattr(wk, name)(graph, kernel, **{**common, **options})


def values(name, nodes=KNOWN):
    """Targets that suit the model."""
    return (CLASSES if name == "NodeGPClassifier" else VALUES)[nodes]


def fitted(name, X=KNOWN, y=None, **options):
    return build(name, **options).fit(X, values(name) if y is None else y)


def ask(model, nodes=NODES):
    method = next(m for m in ("transform", "predict_proba", "predict") if hasattr(model, m))
    return dense(getattr(model, method)(nodes))


def dense(result):
    return result.toarray() if scipy.sparse.issparse(result) else np.asarray(result)


def same(a, b):
    return a.shape == b.shape and np.array_equal(a, b)


def close(a, b):
    return a.shape == b.shape and np.allclose(a, b, rtol=1e-9, atol=1e-12)


# scikit-learn's checks ----------------------------------------------------------------------------------

FLOATS = "X is floats, which name no nodes"
FLAT = "X is made flat for the tag one_d_array, and then taken for a table"
TABLE = "X is a table of 0 or more than 1 columns, and a node is one column"
TARGET = "X names one node in rows of different targets"
SPARSE = "SciPy has no lil format of the flat sparse X that the check makes"
SAID = {FLOATS: "whole-number ids", FLAT: "too many indices|not enough values to unpack", TABLE: r"\(n, 1\)",
        TARGET: "different targets for node", SPARSE: "Cannot convert a 1d sparse array"}  # fmt: skip
COMMON = {
    FLOATS: """fit_score_takes_y estimators_overwrite_params estimators_fit_returns_self readonly_memmap_input
        n_features_in_after_fitting positive_only_tag_during_fit estimators_dtypes complex_data dtype_object
        pipeline_consistency estimators_nan_inf estimators_pickle fit_idempotent fit_check_is_fitted
        n_features_in fit1d""",
    FLAT: """dont_overwrite_parameters f_contiguous_array_estimator methods_sample_order_invariance
        methods_subset_invariance fit2d_1sample fit2d_1feature dict_unchanged fit2d_predict1d""",
    TABLE: "estimators_empty_data_messages",
    SPARSE: "estimator_sparse_array",
}
TRANSFORMER = {
    FLOATS: "transformer_preserve_dtypes",
    FLAT: "transformer_data_not_an_array transformer_general",
}
REGRESSOR = {
    FLOATS: """regressors_train regressor_data_not_an_array supervised_y_2d supervised_y_no_nan
        regressors_int requires_y_none""",
    FLAT: "regressors_no_decision_function",
}
CLASSIFIER = {
    FLOATS: """classifiers_one_label classifiers_classes classifiers_train classifiers_regression_target
        supervised_y_2d supervised_y_no_nan requires_y_none"""
}
OUTPUTS, ITERATIONS = {FLOATS: "regressor_multioutput"}, {FLOATS: "non_transformer_estimators_n_iter"}
WEIGHTED = {
    FLOATS: """sample_weights_list all_zero_sample_weights_error sample_weights_not_overwritten
        sample_weight_equivalence_on_dense_data""",
    TABLE: "sample_weights_shape",
    TARGET: "sample_weights_not_an_array sample_weights_pandas_series",
}
GROUPS = {"NodeFeatures": [COMMON, TRANSFORMER], "NodeSmoother": [COMMON, REGRESSOR, OUTPUTS],
          "NodeRidge": [COMMON, REGRESSOR, OUTPUTS, WEIGHTED, ITERATIONS],
          "NodeGPRegressor": [COMMON, REGRESSOR, OUTPUTS, ITERATIONS],
          "NodeGPClassifier": [COMMON, CLASSIFIER, ITERATIONS], "KernelKMeans": []}  # fmt: skip


def says(error, pattern):
    return error is not None and (re.search(pattern, str(error)) or says(error.__context__, pattern))


OLD = not hasattr(estimator_checks, "check_all_zero_sample_weights_error")


@pytest.mark.skipif(OLD, reason="this scikit-learn has other checks")
@pytest.mark.parametrize("name", GROUPS)
def test_exactly_the_listed_checks_of_scikit_learn_fail_and_for_the_reason_given(name):
    reasons = {
        f"check_{check}": why for g in GROUPS[name] for why, many in g.items() for check in many.split()
    }
    model = wk.KernelKMeans(3) if name == "KernelKMeans" else build(name)
    names = {"failed": [], "passed": [], "skipped": [], "xfail": []}
    for result in estimator_checks.check_estimator(
        model, expected_failed_checks=reasons, on_skip=None, on_fail=None
    ):
        names[result["status"]].append(check := result["check_name"])
        if result["status"] == "xfail":
            assert says(result["exception"], SAID[reasons[check]]), result
    assert names["failed"] == []
    assert set(names["xfail"]) == set(reasons)
    assert set(names["passed"]).isdisjoint(reasons)
    assert set(names["skipped"]) <= {"check_array_api_input"}
    assert len(set(names["passed"])) >= (45 if name == "KernelKMeans" else 14)


# the same rules with nodes ------------------------------------------------------------------------------


@every_model
def test_fit_returns_self_and_changes_fitted_attributes_only(name):
    model = build(name)
    before = model.get_params(deep=False)
    assert set(vars(model)) == set(before)
    assert model.fit(KNOWN, values(name)) is model
    assert all(model.get_params(deep=False)[key] is value for key, value in before.items())
    assert all(key.endswith("_") or key.startswith("_") for key in set(vars(model)) - set(before))
    assert model.n_features_in_ == 1
    after = vars(model).copy()
    ask(model)
    assert vars(model).keys() == after.keys()
    assert all(vars(model)[key] is value for key, value in after.items())


@every_model
def test_fit_forgets_what_was_learned_before(name):
    for X, y in ((KNOWN, values(name)), ([1, 2, 3], [5.0, 6.0, 7.0])):
        assert same(ask(build(name).fit(X, y).fit(KNOWN, values(name))), ask(fitted(name)))


FORMS = {
    "list": list, "Series": pd.Series, "Index": pd.Index, "uint64": np.uint64, "int8": np.int8,
    "column": lambda nodes: np.array(nodes)[:, None],
    "not an array": lambda nodes: memoryview(np.array(nodes)),
    "column of lists": lambda nodes: [[node] for node in nodes],
    "fortran column": lambda nodes: np.asfortranarray(np.array(nodes)[:, None]),
    "view": lambda nodes: np.repeat(nodes, 2)[::2],
    "objects": lambda nodes: np.array(nodes, dtype=object),
    "DataFrame": lambda nodes: pd.DataFrame({"node": nodes}, index=nodes[::-1]),
    "category": lambda nodes: pd.Series(nodes, dtype="category"),
    "Int64": lambda nodes: pd.Series(nodes, dtype="Int64"),
    "big-endian": lambda nodes: np.array(nodes, dtype=">i4"),
}  # fmt: skip
LABEL_FORMS = {
    "list": list, "Series": pd.Series, "array": np.array, "MultiIndex": pd.MultiIndex.from_tuples,
    "column": lambda names: [[name] for name in names],
    "DataFrame": lambda names: pd.DataFrame({"node": pd.Series(names)}),
    "category": lambda names: pd.Series(names).astype("category"),
    "objects": lambda names: np.array(names, dtype=object),
    "string": lambda names: pd.Series(names, dtype="string"),
}  # fmt: skip
NOT_FOR = {
    "text": {"MultiIndex"},
    "tuples": {"array", "objects", "string"},
    "integers": {"MultiIndex", "string"},
}
LABEL_CASES = [(kind, form) for kind in NAMES for form in LABEL_FORMS if form not in NOT_FOR[kind]]


@pytest.mark.parametrize(("name", "form"), crossed(MODELS, FORMS))
def test_nodes_in_every_form_are_the_same_nodes(name, form):
    model = build(name).fit(FORMS[form](KNOWN.tolist()), values(name))
    assert same(ask(model, FORMS[form](NODES.tolist())), ask(fitted(name)))


@pytest.mark.parametrize(("name", "labels"), crossed(MODELS, LABEL_CASES))
def test_labels_in_every_form_are_the_same_nodes(name, labels):
    kind, form = labels
    labels, give = NAMES[kind], LABEL_FORMS[form]
    graph = wk.Graph.from_edges([(labels[i], labels[j]) for i, j in EDGES], relabel=True)
    model = build(name, graph).fit(give([labels[i] for i in KNOWN]), values(name))
    assert same(ask(model, give(labels)), ask(fitted(name)))


@every_model
def test_read_only_memory_maps_are_read(name, tmp_path):
    arrays = []
    for i, array in enumerate((KNOWN, values(name), NODES)):
        np.save(tmp_path / f"{i}.npy", array)
        arrays.append(np.load(tmp_path / f"{i}.npy", mmap_mode="r"))
    assert same(ask(build(name).fit(*arrays[:2]), arrays[2]), ask(fitted(name)))


@every_model
def test_answers_depend_on_neither_batch_nor_order_nor_what_was_asked_before(name, monkeypatch):
    model, order = fitted(name), np.random.default_rng(0).permutation(N)
    WALK_CACHE.clear()
    whole = ask(model)
    WALK_CACHE.clear()
    assert same(np.concatenate([ask(model, batch) for batch in np.array_split(order, 5)]), whole[order])
    assert same(ask(model, [3, 7, 3, 3]), whole[[3, 7, 3, 3]])
    assert close(ask(fitted(name, KNOWN[::-1], values(name)[::-1])), whole)
    if name != "NodeGPClassifier":  # which needs two classes
        assert np.isfinite(ask(fitted(name, [4], [2.5]))).all()
    monkeypatch.setattr(WALK_CACHE, "limit", 0)
    assert close(ask(fitted(name)), whole)


@every_model
def test_pickles_and_clones_answer_the_same(name):
    model = fitted(name)
    for copy in (pickle.loads(pickle.dumps(build(name))), clone(model)):
        assert copy.get_params().keys() == model.get_params().keys()
        with pytest.raises(NotFittedError, match=f"This {name} instance is not fitted yet"):
            ask(copy)
        assert same(ask(copy.fit(KNOWN, values(name))), ask(model))
    assert same(ask(pickle.loads(pickle.dumps(model))), ask(model))
    changed = clone(model).set_params(n_walks=32, random_state=5).fit(KNOWN, values(name))
    assert same(ask(changed), ask(fitted(name, n_walks=32, random_state=5)))


def test_pickles_answer_the_same_in_another_process(tmp_path):
    models = [(build(name), fitted(name), values(name)) for name in MODELS]
    (tmp_path / "models").write_bytes(pickle.dumps((models, KNOWN, NODES)))
    program = (
        "import pickle, sys; models, X, nodes = pickle.load(open(sys.argv[1], 'rb'));"
        "method = lambda m: next(x for x in ('transform', 'predict_proba', 'predict') if hasattr(m, x));"
        "dense = lambda a: a.toarray() if hasattr(a, 'toarray') else a;"
        "ask = lambda m: dense(getattr(m, method(m))(nodes));"
        "pickle.dump([(ask(a.fit(X, y)), ask(b)) for a, b, y in models], open(sys.argv[2], 'wb'))"
    )
    files = [str(tmp_path / "models"), str(tmp_path / "answers")]
    subprocess.run([sys.executable, "-c", program, *files], check=True)
    for name, pair in zip(MODELS, pickle.loads((tmp_path / "answers").read_bytes()), strict=True):
        assert all(same(found, ask(fitted(name))) for found in pair)


@every_model
def test_a_seed_is_an_integer_or_a_generator_and_none_is_zero(name):
    def seeded(seed):
        return ask(fitted(name, random_state=seed))

    drawn = np.random.RandomState
    for a, b in ((None, 0), (3, np.int64(3)), (drawn(3), drawn(3))):
        assert same(seeded(a), seeded(b))
    for a, b in ((3, 4), (drawn(3), drawn(4)), (once := drawn(3), once)):
        assert not same(seeded(a), seeded(b))


CHANGES = {
    "kernel": wk.Diffusion(3.0), "n_walks": 5, "random_state": 7, "sampler": wk.IndependentWalks(0.3),
    "graph": wk.Graph.from_edges([("a", "b")]), "alpha": 9.0, "fit_intercept": False, "normalize": True,
    "n_components": 3, "sparse_output": False, "learn": (), "amplitude": 9.0, "noise": 3.0, "mean": "zero",
    "covariates": NODES, "features": NODES, "combine": "sum", "concentration": 0.5, "solver": "cg",
    "tol": 0.5, "max_iter": 1, "engine": "nowhere",
}  # fmt: skip
CHANGED = [(name, key) for name in MODELS for key in CHANGES if key in build(name).get_params()]


@pytest.mark.parametrize(("name", "key"), CHANGED)
def test_parameters_changed_after_fit_count_from_the_next_fit(name, key):
    model = fitted(name)
    answer = getattr(model, "transform", None) or model.predict
    before = answer(NODES)
    model.set_params(**{key: CHANGES[key]})
    assert type(answer(NODES)) is type(before)
    assert same(dense(answer(NODES)), dense(before))


@pytest.mark.parametrize("name", ["NodeSmoother", "NodeRidge", "NodeGPRegressor"])
def test_several_outputs_are_predicted_as_each_alone(name):
    own = {"learn": ()} if name == "NodeGPRegressor" else {}  # what it learns, the outputs share
    both = np.column_stack([TARGETS, 3 - TARGETS])
    alone = np.column_stack([ask(fitted(name, y=y, **own)) for y in both.T])
    assert close(ask(fitted(name, y=both, **own)), alone)
    assert close(ask(fitted(name, y=pd.DataFrame(both), **own)), alone)
    assert ask(fitted(name, y=TARGETS[:, None], **own)).shape == (N, 1)
    whole = np.rint(TARGETS)
    assert same(ask(fitted(name, y=whole.astype(int), **own)), ask(fitted(name, y=whole, **own)))


WEIGHTS = np.array([1, 2, 0, 3, 1, 1, 0, 2, 1, 1, 4, 1])
REPEATED = np.repeat(np.arange(KNOWN.size), WEIGHTS)
FEATURES = np.random.default_rng(1).normal(size=(KNOWN.size, 3))


def ridge(rows, w):
    return ask(build("NodeRidge", tol=1e-13).fit(KNOWN[rows], TARGETS[rows], sample_weight=w))


def classifier(rows, w):
    model = make_pipeline(build("NodeFeatures"), LogisticRegression(tol=1e-10))
    model.fit(KNOWN[rows], CLASSES[KNOWN][rows], logisticregression__sample_weight=w)
    return np.rint(1e5 * model.predict_proba(NODES))


def kmeans(rows, w, features=FEATURES):
    model = wk.KernelKMeans(3).fit(features[rows], sample_weight=w)
    clusters = np.zeros(KNOWN.size)
    clusters[rows] = model.labels_
    return np.append(clusters[WEIGHTS > 0], model.inertia_)


FAR = partial(kmeans, features=np.random.default_rng(3).normal(size=(KNOWN.size, 40)))


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("result", [ridge, classifier, kmeans, FAR])
def test_a_weight_counts_as_so_many_rows(result, direct, monkeypatch):
    monkeypatch.setattr(_solvers, "MAX_DIRECT_NODES", 4096 if direct else 0)
    every, kept, given = np.arange(KNOWN.size), np.flatnonzero(WEIGHTS), WEIGHTS.astype(float)
    weighted = result(every, given)
    assert same(given, WEIGHTS)
    for rows, weights in ((REPEATED, None), (kept, WEIGHTS[kept]), (every, pd.Series(WEIGHTS))):
        assert close(result(rows, weights), weighted)
    assert close(result(every, [1] * every.size), result(every, None))
    assert not close(result(every, None), weighted)


# scikit-learn around us ---------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", [None, "johnson-lindenstrauss", "anchors"])
@pytest.mark.parametrize("sparse_output", [True, False])
def test_features_in_every_shape(reduction, sparse_output):
    options = {"sparse_output": sparse_output}
    options |= {} if reduction is None else {"n_components": 5, "reduction": reduction}
    model = build("NodeFeatures", **options)
    features = model.fit_transform(NODES)
    assert same(ask(model.fit(KNOWN)), dense(features))
    assert scipy.sparse.issparse(features) is (sparse_output and reduction != "johnson-lindenstrauss")
    assert (
        (names := model.get_feature_names_out()).shape == features.shape[1:] == ((5,) if reduction else (N,))
    )
    model.set_output(transform="pandas")
    if scipy.sparse.issparse(features):
        with pytest.raises(ValueError, match=r"sparse.*set_output\(transform='default'\)"):
            model.transform(NODES)
    else:
        table = model.transform(pd.DataFrame({"node": NODES}, index=NODES + 100))
        assert list(table.columns) == list(names)
        assert list(table.index) == list(NODES + 100)
        assert same(table.to_numpy(), features)


@pytest.mark.parametrize("name", mostly_deep(MODELS, ["NodeFeatures", "NodeSmoother"]))
def test_a_grid_over_kernels_is_the_same_in_threads_and_processes(name):
    grid = {"kernel": [HEAT, wk.RegularizedLaplacian()], "n_walks": [4, 16]}
    grid |= {"n_components": [None, 4]} if name == "NodeFeatures" else {}
    model = make_pipeline(build(name), Ridge()) if name == "NodeFeatures" else make_pipeline(build(name))
    grid = {f"{name.lower()}__{key}": values for key, values in grid.items()}
    scoring = "neg_log_loss" if name == "NodeGPClassifier" else None
    search = GridSearchCV(model, grid, cv=3, scoring=scoring, error_score="raise")
    y = values(name, NODES)
    scores = search.fit(NODES, y).cv_results_["mean_test_score"]
    assert np.unique(scores).size == scores.size
    for backend in ("threading", "loky"):
        WALK_CACHE.clear()
        with parallel_config(backend, n_jobs=2):
            again = clone(search).set_params(n_jobs=2).fit(NODES[:, None], y)
        assert close(again.cv_results_["mean_test_score"], scores)
        assert again.best_params_ == search.best_params_


@pytest.mark.parametrize("name", MODELS[1:])
def test_models_inside_models(name):
    assert same(ask(make_pipeline(build(name)).fit(KNOWN, values(name))), ask(fitted(name)))
    assert cross_val_predict(build(name), NODES, values(name, NODES), cv=4).shape == (N,)
    assert np.isfinite(cross_val_score(build(name), NODES, values(name, NODES), cv=4)).all()
    bagging = BaggingClassifier if name == "NodeGPClassifier" else BaggingRegressor
    bag = bagging(build(name), n_estimators=3, random_state=0).fit(NODES[:, None], values(name, NODES))
    assert np.isfinite(bag.predict(NODES[:, None])).all()


# where walks are sampled --------------------------------------------------------------------------------


@pytest.fixture
def sampled_by(monkeypatch):
    """The engines that sampled walks, call by call."""
    used = []
    for method in ("record", "features"):
        own = getattr(CPU, method)

        def counted(self, *args, own=own):
            used.append(self)
            return own(self, *args)

        monkeypatch.setattr(CPU, method, counted)
    WALK_CACHE.clear()
    return used


@pytest.mark.parametrize("limit", [WALK_CACHE.limit, 0])
@every_model
def test_every_engine_of_this_machine_gives_the_same_bits(name, limit, monkeypatch):
    monkeypatch.setattr(WALK_CACHE, "limit", limit)
    answers = []
    for engine in (None, "cpu", CPU(1), CPU(3)):
        WALK_CACHE.clear()
        model = fitted(name, engine=engine)
        answers.append(ask(model))
        if name in ("NodeSmoother", "NodeGPRegressor"):
            answers[-1] = np.append(answers[-1], model.predict(NODES, return_std=True)[1])
        if name == "NodeGPRegressor":
            answers[-1] = np.append(answers[-1], model.sample_y(n_samples=2))
    assert all(same(answer, answers[0]) for answer in answers)


@pytest.mark.parametrize("limit", [WALK_CACHE.limit, 0])
@every_model
def test_walks_are_sampled_by_the_engine_and_once_for_all_numbers_of_threads(
    name, limit, monkeypatch, sampled_by
):
    monkeypatch.setattr(WALK_CACHE, "limit", limit)
    model = fitted(name, engine=CPU(2))
    ask(model)
    if name == "NodeSmoother":
        model.predict(NODES, return_std=True)
    assert set(sampled_by) == {CPU(2)}
    sampled_by.clear()
    ask(fitted(name, engine=CPU(1)))
    assert set(sampled_by) == (set() if limit else {CPU(1)})


@every_model
def test_the_engine_is_looked_up_by_fit_and_kept(name, monkeypatch, sampled_by):
    monkeypatch.setenv("WALKERNEL_ENGINE", "nowhere")
    model = build(name)
    with pytest.raises(ValueError, match=f"{name}.fit: WALKERNEL_ENGINE must be .* got 'nowhere'"):
        model.fit(KNOWN, values(name))
    assert same(ask(fitted(name, engine=CPU(1))), ask(fitted(name, engine="cpu")))
    monkeypatch.setenv("WALKERNEL_ENGINE", "cpu")
    model.fit(KNOWN, values(name))
    monkeypatch.setenv("WALKERNEL_ENGINE", "nowhere")
    WALK_CACHE.clear()
    ask(model)
    assert sampled_by[-1] == CPU()


@every_model
def test_an_engine_is_a_parameter_like_any_other(name):
    engine = CPU(2)
    model = fitted(name, engine=engine)
    assert model.get_params()["engine"] is model.engine is clone(model).engine is engine
    assert "engine=CPU(n_threads=2)" in repr(model)
    assert "engine" not in repr(build(name))
    for copy in (pickle.loads(pickle.dumps(model)), clone(model).fit(KNOWN, values(name))):
        assert copy.engine == engine
        assert same(ask(copy), ask(model))
    assert model.set_params(engine="cpu").engine == "cpu"


@every_model
def test_a_grid_over_kernels_with_an_engine(name, sampled_by):
    def search(engine):
        model = build(name, engine=engine)
        model = make_pipeline(model, Ridge()) if name == "NodeFeatures" else make_pipeline(model)
        grid = {f"{name.lower()}__kernel": [HEAT, WIDE]}
        scoring = "neg_log_loss" if name == "NodeGPClassifier" else None
        return GridSearchCV(model, grid, cv=2, scoring=scoring, error_score="raise").fit(
            NODES, values(name, NODES)
        )

    with_engine = search(CPU(2))
    assert set(sampled_by) == {CPU(2)}
    scores = with_engine.cv_results_["mean_test_score"]
    assert same(scores, search(None).cv_results_["mean_test_score"])
    engines = clone(with_engine).set_params(param_grid={f"{name.lower()}__engine": [None, "cpu", CPU(3)]})
    found = engines.fit(NODES, values(name, NODES)).cv_results_["mean_test_score"]
    assert same(found, np.repeat(scores[:1], 3))


def test_kernels_for_gpytorch_take_engines(sampled_by):
    torch, wing = pytest.importorskip("torch"), pytest.importorskip("walkernel.torch")
    nodes, found = torch.arange(N), []
    for engine in (None, "cpu", CPU(3)):
        kernel = wing.GRFKernel(GRAPH, HEAT, n_walks=16, engine=engine)
        found.append(kernel(nodes).to_dense().detach().numpy())
    assert sampled_by == [CPU(), CPU(), CPU(3)]
    assert all(same(one, found[0]) for one in found)
    with pytest.raises(TypeError, match=r"GRFKernel: engine must be None, 'cpu', .* got 3"):
        wing.GRFKernel(GRAPH, HEAT, engine=3)
