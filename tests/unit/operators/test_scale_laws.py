"""Standard errors follow the units of v and of the kernel, and relative errors do not depend on them."""

import numpy as np
import pytest

import walkernel as wk
from walkernel.planning import Accuracy, Request, make_plan, refine

pytestmark = pytest.mark.usefixtures("few_or_many_walks")
CLUB = wk.load_dataset("karate").graph
RNG = np.random.default_rng(0)
V = RNG.standard_normal(34)
DIRECTED = wk.Graph.from_edges(
    RNG.integers(0, 34, (170, 2)), n_nodes=34, weights=RNG.uniform(0.2, 2.0, 170), directed=True
)
KERNEL = wk.Diffusion(2.0)
OPERATORS = {
    "debiased": {},
    "independent": {"ensembles": "independent"},
    "shared": {"ensembles": "shared"},
    "lazy": {"pair": "lazy"},
    "stitched": {"stitches": 2},
    "stitched, shared": {"stitches": 2, "ensembles": "shared"},
    "directed": {"graph": DIRECTED},
    "directed, lazy": {"graph": DIRECTED, "pair": "lazy"},
}
UNITS = (1e-200, -1e-46, 3e60, 1e200)


def operator(name, kernel=KERNEL, **options):
    own = dict(OPERATORS[name])
    graph = own.pop("graph", CLUB)
    return wk.estimate_kernel(graph, kernel, n_walks=32, **own, **options)


@pytest.mark.parametrize("name", OPERATORS)
def test_errors_of_products_follow_the_unit_of_each_column(name):
    K = operator(name)
    expected = K.estimate_product(V).stderr
    assert expected.max() > 1e-4
    columns = np.outer(V, (1.0, *UNITS, 0.0))
    found = K.estimate_product(columns).stderr
    for column, unit in enumerate((1.0, *UNITS)):
        assert np.allclose(found[:, column] / abs(unit), expected, rtol=1e-6, atol=0)
    assert not found[:, -1].any()


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_all_errors_follow_the_unit_of_the_kernel(name, unit):
    plain, scaled = operator(name), operator(name, KERNEL * unit)
    for found, expected in (
        (scaled.estimate_product(V), plain.estimate_product(V)),
        (scaled.estimate(0, range(34)), plain.estimate(0, range(34))),
    ):
        assert np.allclose(found.stderr / unit, expected.stderr, rtol=1e-6, atol=1e-15)
        assert np.array_equal(found.rare, expected.rare)
    assert scaled.explain().error == pytest.approx(plain.explain().error, rel=1e-6)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_neighbours_and_tolerances_do_not_depend_on_the_unit(unit):
    found, expected = (
        operator("debiased", kernel).estimate_topk([0], 4) for kernel in (KERNEL * unit, KERNEL)
    )
    assert np.array_equal(found.nodes, expected.nodes)
    assert np.allclose(found.stderr / unit, expected.stderr, rtol=1e-6, atol=0)
    scaled, plain = (wk.estimate_kernel(CLUB, one, tolerance=0.05) for one in (KERNEL * unit, KERNEL))
    assert scaled.n_steps == plain.n_steps


@pytest.mark.parametrize("name", ["debiased", "lazy"])
def test_blocks_in_files_follow_the_unit(name, tmp_path):
    K = operator(name, directory=tmp_path / "features")
    expected = operator(name).estimate_product(V).stderr
    for unit in (1.0, *UNITS):
        assert np.allclose(K.estimate_product(unit * V).stderr / abs(unit), expected, rtol=1e-6, atol=0)


def test_a_column_may_have_values_of_all_sizes():
    """Two parts without an edge between them have errors each of its own size."""
    edges = np.vstack([np.column_stack([CLUB.row_indices(), CLUB.indices]) + 34 * part for part in (0, 1)])
    K = wk.estimate_kernel(wk.Graph.from_edges(edges), KERNEL, n_walks=32)
    both = K.estimate_product(np.append(1e-100 * V, V)).stderr
    alone = K.estimate_product(np.append(V, 0 * V)).stderr
    assert np.allclose(both[:34] / 1e-100, alone[:34], rtol=1e-5, atol=0)


def test_columns_of_no_numbers_have_no_errors_and_spoil_no_others():
    K = operator("debiased")
    columns = np.column_stack([V, V, V])
    columns[3, 1], columns[3, 2] = np.nan, 5e-324
    with np.errstate(invalid="ignore"):
        found = K.estimate_product(columns)
    assert np.isnan(found.value[:, 1]).any()
    assert np.isnan(found.stderr[:, 1]).all()
    assert np.array_equal(found.stderr[:, 0], K.estimate_product(V).stderr)
    tiny = K.estimate_product(np.full(34, 1e-310)).stderr
    assert np.allclose(tiny, 1e-310 * K.estimate_row_sums().stderr, rtol=1e-6, atol=2e-323)


def test_a_kernel_of_large_values_has_errors():
    K = wk.estimate_kernel(CLUB, wk.PStepRandomWalk(200), n_walks=64)
    exact = wk.exact_kernel(CLUB, wk.PStepRandomWalk(200)) @ V
    value, stderr = K.estimate_product(V)
    assert np.all(np.abs(value - exact) < 6 * stderr)
    assert np.all(stderr < np.abs(exact).max())
    assert 0 < K.explain().error < 1


def test_a_tolerance_is_met_by_a_kernel_of_large_values():
    K = wk.estimate_kernel(CLUB, wk.PStepRandomWalk(200), tolerance=0.05)
    exact = wk.exact_kernel(CLUB, wk.PStepRandomWalk(200))
    assert np.linalg.norm((K.to_dense() - exact) / 2.0**200) < 0.1 * np.linalg.norm(exact / 2.0**200)


def test_a_tolerance_that_walks_cannot_be_counted_for_is_refused_at_once():
    batches = []
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(ValueError, match=r"error of nan, from which the walks .* Give n_walks or budget"),
    ):
        wk.estimate_kernel(
            CLUB, wk.Diffusion(1.0) * 1e308, tolerance=1e-3,
            progress=lambda done, total: batches.append(done) if done == total else None,
        )  # fmt: skip
    assert len(batches) == 1


def test_a_batch_that_is_no_improvement_ends_the_search():
    """Of walks that suit the kernel far better than those before, no more are needed than there were."""
    given = dict.fromkeys(("ensembles", "n_walks", "budget", "sampler", "stitches"))
    request = Request(CLUB, KERNEL, np.arange(34), "auto", local=False, tolerance=1e-3, **given)
    plan = make_plan(request._replace(n_walks=64))
    found = Accuracy(once=4e-6, twice=0.0, signal=1.0, freedom=1e3, n_groups=16)
    assert refine(request, plan, found, n_steps=34, n_bytes=1).n_walks > 64  # too few steps for heads
    poor = wk.CoupledWalks(0.1 * np.array(plan.sampler.law), head=plan.sampler.head)
    with pytest.raises(ValueError, match="which a further batch would not make smaller"):
        refine(request, plan._replace(sampler=poor), found, n_steps=34, n_bytes=1)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("unit", UNITS)
def test_errors_of_smoothers_follow_the_unit_of_y(normalize, unit):
    known, y = range(0, 34, 2), V[::2]

    def predict(values):
        model = wk.NodeSmoother(CLUB, KERNEL, n_walks=64, average=normalize, method="walks")
        return model.fit(known, values).predict(range(34), return_std=True)

    for found, expected in zip(predict(unit * y), predict(y), strict=True):
        assert np.allclose(np.abs(found / unit), np.abs(expected), rtol=1e-6, atol=1e-13)
    if normalize:
        errors = predict(1000 + 1e-6 * y)[1]
        assert np.allclose(errors / 1e-6, predict(y)[1], rtol=1e-5, atol=0)


@pytest.mark.parametrize("unit", [1e-200, 1e200])
@pytest.mark.parametrize("options", [{}, {"nodes": [0, 5]}, {"quadrature": "monte-carlo"}])
def test_solutions_of_differential_equations_follow_the_unit(unit, options):
    def solve(c):
        return wk.solve_ode(
            CLUB, lambda t: c * np.cos(t) * V[::-1], [0.5, 1.0], initial=c * V, n_walks=32, **options
        )

    found, expected = solve(unit), solve(1.0)
    assert np.allclose(found.x / unit, expected.x, rtol=1e-12, atol=1e-12)
    assert np.allclose(found.stderr / unit, expected.stderr, rtol=1e-9, atol=1e-15)
    assert expected.stderr.max() > 1e-3


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_steady_states_follow_the_unit(unit):
    source = np.append([1.0, -1.0], np.zeros(32))

    def state(c):
        return wk.solve_ode(
            CLUB, c * source, 1.0, initial=c * V, method="polynomial", matrix="combinatorial"
        ).steady_state()  # fmt: skip

    assert np.allclose(state(unit) / unit, state(1.0), rtol=1e-9, atol=1e-12)
