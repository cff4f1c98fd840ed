"""solve_ode against scipy.integrate.solve_ivp, and what it says of growth and steady states."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.stats import beta, uniform

import graphs
import walkernel as wk
from depth import crossed
from walkernel.engines import CPU, Engine
from walkernel.tasks._generators import GENERATORS, generator, null_space

KINDS = ["unweighted", "directed", "isolated"]
TIMES = [0.4, 1.0]
RNG = np.random.default_rng(0)
START, LEVEL = RNG.normal(size=30), RNG.normal(size=30)
SOURCES = {"none": None, "constant": LEVEL, "varying": lambda t: np.cos(3 * t) * LEVEL}


class Elsewhere(Engine):
    def record(self, spec, progress=None):
        raise AssertionError("walked")


def reference(graph, source, times, initial, matrix):
    """Solve with SciPy's adaptive integrator, from the sparse matrix."""
    A, G = graph.to_scipy().toarray(), np.eye(graph.n_nodes)
    W = graph.to_scipy("normalized").toarray()
    G = {
        "laplacian": W - np.eye(len(A)),
        "combinatorial": A - np.diag(abs(A).sum(axis=1)),
        "normalized": W,
        "adjacency": A,
        "positive-laplacian": np.eye(len(A)) - W,
    }[matrix]

    def rate(t, x):
        return G @ x + (0 if source is None else source(t) if callable(source) else source)

    return solve_ivp(rate, (0, times[-1]), initial, t_eval=times, rtol=1e-11, atol=1e-12).y.T


@pytest.mark.filterwarnings("ignore:solve_ode. with matrix:UserWarning")
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("matrix", GENERATORS)
@pytest.mark.parametrize("kind", ["weighted", "directed", "signed"])
def test_polynomials_are_exact(kind, matrix, source):
    graph = graphs.KINDS[kind]()
    exact = reference(graph, SOURCES[source], TIMES, START, matrix)
    solution = wk.solve_ode(graph, SOURCES[source], TIMES, initial=START, matrix=matrix, method="polynomial")
    assert np.abs(solution.x - exact).max() < 1e-8 * np.abs(exact).max()
    assert solution.t.tolist() == TIMES
    assert not solution.stderr.any()


@pytest.mark.filterwarnings("ignore:solve_ode. with matrix:UserWarning")
@pytest.mark.parametrize(("kind", "matrix", "pair"), crossed(KINDS, GENERATORS, ["symmetric", "lazy"]))
def test_walks_agree_within_their_error(kind, matrix, pair):
    graph = graphs.KINDS[kind]()
    initial, source = RNG.normal(size=(2, graph.n_nodes))
    times = np.array(TIMES) / (4 if matrix == "adjacency" else 1)  # its spectral radius is near 6
    exact = wk.solve_ode(graph, source, times, initial=initial, matrix=matrix, method="polynomial").x
    solution = wk.solve_ode(
        graph, source, times, initial=initial, matrix=matrix, n_walks=512, pair=pair, seed=3
    )
    error = np.abs(solution.x - exact)
    assert (error < 7 * solution.stderr + 1e-5 * np.abs(exact).max()).all()
    assert np.linalg.norm(error) < 0.25 * np.linalg.norm(exact)


class Named(Engine):
    """An engine of its own, which only walks can use."""

    def record(self, spec, progress=None):
        return CPU(1).record(spec, progress)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("polynomial", {}),
        ("polynomial", {"nodes": [0, 33], "seed": 5}),
        ("polynomial", {"engine": "cpu"}),
        ("polynomial", {"engine": CPU(2), "quadrature": "monte-carlo", "n_points": 4}),
        ("walks", {"n_walks": 32}),
        ("walks", {"sampler": wk.IndependentWalks(0.1)}),
        ("walks", {"pair": "symmetric"}),
        ("walks", {"engine": Named()}),
    ],
)
def test_the_method_follows_from_what_is_given(method, options):
    graph, y = graphs.karate(), np.eye(34)[0]
    found, named = (wk.solve_ode(graph, y, TIMES, **options, **how) for how in ({}, {"method": method}))
    assert np.array_equal(found.x, named.x)
    assert np.array_equal(found.stderr, named.stderr)
    assert found.stderr.any() == (method == "walks" or "quadrature" in options)


def test_an_engine_for_walks_in_the_environment_does_not_choose_the_method(monkeypatch):
    monkeypatch.setenv("WALKERNEL_ENGINE", "cuda")
    assert not wk.solve_ode(graphs.karate(), np.eye(34)[0], 1.0).stderr.any()


def test_one_time_is_a_row_and_callables_may_be_constant():
    graph = graphs.karate()
    y = np.eye(34)[0]
    one = wk.solve_ode(graph, y, 1.0, n_walks=32)
    assert one.x.shape == one.stderr.shape == (1, 34)
    same = wk.solve_ode(graph, lambda t: y, [1.0], n_walks=32)
    assert np.allclose(one.x, same.x, rtol=1e-12)


def test_all_times_use_the_same_walks():
    graph = graphs.karate()
    y = np.eye(34)[0]
    both = wk.solve_ode(graph, y, [0.5, 2.0], n_walks=32, sampler=wk.IndependentWalks(0.1))
    late = wk.solve_ode(graph, y, 2.0, n_walks=32, sampler=wk.IndependentWalks(0.1))
    assert np.array_equal(both.x[1], late.x[0])


def test_chunks_of_times_change_nothing(monkeypatch):
    graph, done = graphs.karate(), []
    y = np.eye(34)[0]
    whole = wk.solve_ode(graph, y, [0.5, 1.0, 2.0], n_walks=32)
    monkeypatch.setattr("walkernel.tasks._ode_walks.NUMBERS_AT_ONCE", 1)
    monkeypatch.setattr("walkernel.tasks._ode_walks.DEPOSITS_AT_ONCE", 50)
    parts = wk.solve_ode(graph, y, [0.5, 1.0, 2.0], n_walks=32, progress=lambda *where: done.append(where))
    assert np.allclose(whole.x, parts.x, rtol=1e-13)
    assert np.allclose(whole.stderr, parts.stderr, rtol=1e-10)
    assert done == [(1, 3), (2, 3), (3, 3)]


def test_chunks_without_a_random_time_change_nothing(monkeypatch):
    graph, y = graphs.karate(), np.eye(34)[0]
    options = {"initial": y, "n_walks": 32, "quadrature": "monte-carlo", "n_points": 4}
    with pytest.warns(UserWarning, match="none of 4 random times"):
        whole = wk.solve_ode(graph, y, [1e-6, 2.0], **options)
    monkeypatch.setattr("walkernel.tasks._ode_walks.NUMBERS_AT_ONCE", 1)
    with pytest.warns(UserWarning, match="none of 4 random times"):
        parts = wk.solve_ode(graph, y, [1e-6, 2.0], **options)
    assert np.allclose(whole.stderr, parts.stderr, rtol=1e-10)


def test_some_nodes_are_those_of_all():
    graph = wk.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])
    y = np.array([1.0, 0.0, 0.0, 2.0])
    whole = wk.solve_ode(graph, y, 1.0, n_walks=32, pair="lazy")
    some = wk.solve_ode(graph, y, 1.0, n_walks=32, nodes=["d", "a"])
    assert np.array_equal(some.x, whole.x[:, [3, 0]])
    assert np.array_equal(some.stderr, whole.stderr[:, [3, 0]])
    exact = wk.solve_ode(graph, y, 1.0, method="polynomial").x
    assert np.array_equal(wk.solve_ode(graph, y, 1.0, method="polynomial", nodes=["d"]).x, exact[:, [3]])


@pytest.mark.parametrize(
    "density", [None, *(pytest.param(d, marks=pytest.mark.deep) for d in (uniform(0, 1), beta(1, 1.3)))]
)
def test_monte_carlo_quadrature_says_its_error(density):
    """With exact kernels only the times are random: z² is 1 on average; twin: half the error."""
    graph, y = graphs.karate(), np.eye(34)[0]
    exact = wk.solve_ode(graph, y, 1.0, method="polynomial").x[0]
    z = []
    for seed in range(200):
        solution = wk.solve_ode(
            graph, y, 1.0, method="polynomial", quadrature="monte-carlo", n_points=40, density=density,
            seed=seed,
        )  # fmt: skip
        z.append((solution.x[0] - exact)[:5] / solution.stderr[0, :5])
    squares = np.mean(np.square(z))
    assert 0.75 < squares < 1.35
    assert not 0.75 < 4 * squares < 1.35


@pytest.mark.deep
def test_monte_carlo_with_several_times_an_initial_state_and_walks():
    """Unbiased at both times, with the variance it states: mean (x − exact)² / stderr² over 150 seeds."""
    graph, y = graphs.karate(), np.eye(34)[0]
    options = {"initial": np.eye(34)[5], "quadrature": "monte-carlo", "n_points": 30}
    paper = wk.IndependentWalks(0.1)
    exact = wk.solve_ode(graph, y, [0.5, 2.0], initial=np.eye(34)[5], method="polynomial").x
    solutions = [
        wk.solve_ode(graph, y, [0.5, 2.0], n_walks=32, sampler=paper, seed=s, **options) for s in range(150)
    ]
    x, stderr = (
        np.array([getattr(one, name)[:, [0, 5, 6]] for one in solutions]) for name in ("x", "stderr")
    )
    error = x - exact[:, [0, 5, 6]]
    assert np.abs(error.mean(0) / (x.std(0, ddof=1) / np.sqrt(150))).max() < 4
    ratio = (error**2).mean(0) / (stderr**2).mean(0)
    assert ratio.min() > 0.7
    assert ratio.max() < 1.4
    deterministic = wk.solve_ode(graph, y, [0.5, 2.0], method="polynomial", **options)
    assert (deterministic.stderr[:, 0] < stderr[0][:, 0]).all()  # the walks' share is missing


def test_times_before_all_samples_are_told_of():
    graph, y = graphs.karate(), np.eye(34)[0]
    with pytest.warns(UserWarning, match=r"none of 2 random times is before t=0\.001"):
        wk.solve_ode(graph, y, [0.001, 1.0], method="polynomial", quadrature="monte-carlo", n_points=2)


@pytest.mark.parametrize("method", ["walks", "polynomial"])
def test_oscillating_sources_get_enough_points(method):
    """1 + sin, odd about the middle, has the right integral with any rule, and mostly the wrong solution."""
    graph, y = graphs.karate(), np.eye(34)[0]

    def source(t):
        return y * (1 + np.sin(20 * np.pi * t))

    exact = reference(graph, source, [1.0], np.zeros(34), "laplacian")
    solution = wk.solve_ode(graph, source, 1.0, method=method, n_walks=256)
    assert (np.abs(solution.x - exact) < 6 * solution.stderr + 1e-8).all()


def test_smooth_sources_without_a_mean_are_not_called_rough():
    graph, y = graphs.karate(), np.eye(34)[0]
    wk.solve_ode(graph, lambda t: y * np.sin(2 * np.pi * t), 1.0, method="polynomial")


@pytest.mark.parametrize("t", [1e-3, 1.0, 50.0, 1e5])
def test_long_times_are_exact(t):
    """x(t) of a constant source, by eigenvectors."""
    graph, y = graphs.karate(), np.eye(34)[0]
    values, vectors = np.linalg.eigh(np.eye(34) - graph.to_scipy("normalized").toarray())
    values = np.maximum(values, 0.0)
    with np.errstate(invalid="ignore"):
        factors = np.where(values * t < 1e-9, t, -np.expm1(-values * t) / values)
    exact = vectors @ (factors * (vectors.T @ y))
    x = wk.solve_ode(graph, y, t, method="polynomial").x[0]
    assert np.abs(x - exact).max() < 1e-8 * np.abs(exact).max()


@pytest.mark.parametrize("pair", ["symmetric", "lazy"])
@pytest.mark.filterwarnings("ignore:solve_ode. with matrix:UserWarning")
def test_heavy_weights_overflow_nothing(pair):
    graph = wk.Graph.from_scipy(1e6 * graphs.random_matrix())
    t = 5 / np.linalg.eigvalsh(graph.to_scipy().toarray()).max()
    exact = wk.solve_ode(graph, None, t, initial=np.ones(30), matrix="adjacency", method="polynomial").x
    solution = wk.solve_ode(graph, None, t, initial=np.ones(30), matrix="adjacency", n_walks=512, pair=pair)
    assert (np.abs(solution.x - exact) < 7 * solution.stderr).all()
    assert np.linalg.norm(solution.x - exact) < 0.3 * np.linalg.norm(exact)


def test_isolated_nodes_are_exact():
    """No walk leaves them, so that the quadrature of walks is seen alone."""
    graph = graphs.isolated()
    exact = wk.solve_ode(graph, lambda t: np.full(33, np.cos(t)), 2.0, method="polynomial").x[0, 30:]
    for pair in ("symmetric", "lazy"):
        x = wk.solve_ode(graph, lambda t: np.full(33, np.cos(t)), 2.0, n_walks=2, pair=pair).x[0, 30:]
        assert np.allclose(x, exact, rtol=1e-5)


def test_walks_are_rounded_up_to_groups_and_suit_the_last_time():
    graph, y = graphs.karate(), np.eye(34)[0]
    one, two = (wk.solve_ode(graph, y, 1.0, n_walks=n) for n in (24, 32))
    assert np.array_equal(one.x, two.x)
    both = wk.solve_ode(graph, y, [0.1, 100.0], n_walks=64)
    late = wk.solve_ode(graph, y, 100.0, n_walks=64)
    assert np.array_equal(both.x[1], late.x[0])


def test_growing_solutions_say_so():
    graph = graphs.karate()
    with pytest.warns(UserWarning, match=r"matrix='positive-laplacian' solutions grow, up to e\^\(2 t\)"):
        solution = wk.solve_ode(graph, np.eye(34)[0], 1.0, matrix="positive-laplacian", method="polynomial")
    assert solution.growth == 2.0
    with pytest.raises(ValueError, match="No steady state: with matrix='positive-laplacian' solutions grow"):
        solution.steady_state()


def test_rough_sources_say_so():
    graph = graphs.karate()
    with pytest.warns(UserWarning, match="512 points of quadrature leave an error"):
        wk.solve_ode(graph, lambda t: np.eye(34)[0] * (t > 0.7123), 1.0, method="polynomial")


@pytest.mark.parametrize("matrix", ["laplacian", "combinatorial"])
@pytest.mark.parametrize("kind", ["weighted", "isolated", "signed"])
def test_the_steady_state_is_the_limit(kind, matrix):
    graph = graphs.KINDS[kind]()
    initial, source = RNG.normal(size=(2, graph.n_nodes))
    null = null_space(generator(graph, matrix))
    assert np.abs(generator(graph, matrix).to_scipy() @ null.toarray()).max(initial=0) < 1e-12
    source -= null @ (null.T @ source)
    solution = wk.solve_ode(graph, source, 300.0, initial=initial, matrix=matrix, method="polynomial")
    assert np.allclose(solution.steady_state(), solution.x[0], atol=1e-5)


def test_no_steady_state_without_balance():
    graph = graphs.karate()
    solution = wk.solve_ode(graph, np.eye(34)[0], 1.0, method="polynomial")
    with pytest.raises(
        ValueError, match="No steady state: the source has a net flow into 1 of 1 connected components"
    ):
        solution.steady_state()
    with pytest.raises(ValueError, match="the source changes with time"):
        wk.solve_ode(graph, lambda t: np.eye(34)[0] * t, 1.0, method="polynomial").steady_state()
    with pytest.raises(ValueError, match="No steady state is computed for directed"):
        wk.solve_ode(graphs.directed(), np.ones(30), 1.0, method="polynomial").steady_state()


def test_null_spaces_of_signed_graphs():
    """A triangle with one negative edge is unbalanced; with two it is balanced."""
    edges = [(0, 1), (1, 2), (2, 0)]
    sizes = [null_space(generator(wk.Graph.from_edges(edges, weights=w), "laplacian")).shape[1]
             for w in ([1, 1, 1], [1, 1, -1], [1, -1, -1], [-1, -1, -1])]  # fmt: skip
    assert sizes == [1, 0, 1, 0]


@pytest.mark.parametrize("engine", ["cpu", CPU(1), CPU(3)])
@pytest.mark.parametrize("pair", ["symmetric", "lazy"])
def test_the_engine_does_not_show(monkeypatch, pair, engine):
    monkeypatch.setattr("walkernel._threads.SMALL", 0)  # so that threads are used
    graph, y = graphs.karate(), np.eye(34)[0]
    options = {"initial": np.eye(34)[5], "n_walks": 32, "pair": pair}
    own, given = (wk.solve_ode(graph, y, TIMES, engine=one, **options) for one in (None, engine))
    assert np.array_equal(own.x, given.x)
    assert np.array_equal(own.stderr, given.stderr)


def test_walks_come_from_the_engine(monkeypatch):
    graph, used = graphs.karate(), []
    record = CPU.record
    monkeypatch.setattr(CPU, "record", lambda self, *rest: used.append(self) or record(self, *rest))
    wk.solve_ode(graph, None, 1.0, initial=np.eye(34)[0], n_walks=16, engine=CPU(2))
    assert set(used) == {CPU(2)}


def test_polynomials_are_computed_where_matrices_are_multiplied(monkeypatch):
    graph, y = graphs.karate(), np.eye(34)[0]
    x = wk.solve_ode(graph, y, 1.0, method="polynomial").x
    for engine in ("cpu", CPU(2)):
        assert np.array_equal(wk.solve_ode(graph, y, 1.0, method="polynomial", engine=engine).x, x)
    with pytest.raises(ValueError, match=r"solve_ode: engine must be None, a CPU or a CUDA device, "):
        wk.solve_ode(graph, y, 1.0, method="polynomial", engine=Elsewhere())
    monkeypatch.setenv("WALKERNEL_ENGINE", "cuda")  # which is meant for walks
    assert np.array_equal(wk.solve_ode(graph, y, 1.0, method="polynomial").x, x)


def test_a_device_that_is_missing_is_not_taken_for_a_time_that_is_too_long():
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("the device is there")
    with pytest.raises(
        ValueError, match=r"solve_ode: device must be an available device, got cuda, but (no|this)"
    ):
        wk.solve_ode(graphs.karate(), None, 1.0, initial=np.ones(34), engine="cuda")
