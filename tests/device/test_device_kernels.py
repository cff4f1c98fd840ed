"""Kernels whose walks are sampled on a device are those of the CPU, to rounding, in all that they tell."""

import pickle

import numpy as np
import pytest
import torch

import graphs
import walkernel as wk
from walkernel.engines import CPU, CUDA, _device_products
from walkernel.engines._device_products import multiply, multiply_by_rows, squared_norms, with_short_rows

KERNEL = wk.Diffusion(1.0)
LAW = (0.9, 0.6, 0.3)
PLAIN, HEAD = wk.CoupledWalks(LAW), wk.CoupledWalks(LAW, head=2)
LONG = wk.choose_sampler(graphs.weighted(), KERNEL)
SIZES = KERNEL.modulation(16)
PRUNED = wk.PrunedWalks(SIZES, threshold=1e-3, head=3)
UNEQUAL = wk.PrunedWalks(SIZES, threshold=0.06, head=3, unevenness=3.0, group=8)
CASES = {
    "independent": (graphs.weighted, {"ensembles": "independent", "sampler": PLAIN}),
    "shared": (graphs.weighted, {"ensembles": "shared", "sampler": PLAIN}),
    "debiased": (graphs.weighted, {"ensembles": "debiased", "sampler": PLAIN}),
    "debiased, uneven groups": (
        graphs.weighted,
        {"ensembles": "debiased", "sampler": wk.CoupledWalks(LAW, group=4), "n_walks": 18},
    ),
    "debiased with heads": (graphs.signed, {"ensembles": "debiased", "sampler": HEAD}),
    "debiased with pruned heads": (graphs.signed, {"ensembles": "debiased", "sampler": PRUNED}),
    "unequal numbers": (graphs.karate, {"ensembles": "debiased", "sampler": UNEQUAL}),
    "lazy with unequal numbers": (graphs.directed, {"pair": "lazy", "sampler": UNEQUAL}),
    "two factors with unequal numbers": (graphs.weighted, {"stitches": 2, "sampler": UNEQUAL}),
    "lazy": (graphs.weighted, {"pair": "lazy", "sampler": wk.IndependentWalks(0.3)}),
    "lazy with heads": (graphs.isolated, {"pair": "lazy", "sampler": HEAD}),
    "two factors": (graphs.unweighted, {"stitches": 2, "sampler": PLAIN}),
    "two factors with heads": (graphs.weighted, {"stitches": 2, "sampler": HEAD}),
    "two shared factors": (graphs.weighted, {"stitches": 2, "ensembles": "shared", "sampler": HEAD}),
    "directed": (graphs.directed, {"sampler": PLAIN}),
    "directed with heads": (graphs.directed, {"sampler": HEAD}),
    "some nodes": (graphs.weighted, {"nodes": [7, 2, 29, 11], "sampler": PLAIN}),
    "some nodes with heads": (graphs.weighted, {"nodes": [7, 2, 29, 11], "sampler": HEAD}),
    "budget": (graphs.weighted, {"n_walks": None, "budget": 1000}),
}


def both(case, engine, **changes):
    """Return an operator of a device and that of the CPU."""
    make, options = CASES[case]
    graph, options = make(), {"n_walks": 32, "seed": 5, **options}
    here = wk.estimate_kernel(graph, KERNEL, **options, **changes, engine=engine)
    return here, wk.estimate_kernel(graph, KERNEL, **options, engine=CPU())


@pytest.mark.parametrize("keep_features", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_operators_are_the_same(case, keep_features, device):
    block_size = 13 if case == "debiased with heads" else None
    engine = CUDA(device, "float64", keep_features=keep_features, block_size=block_size)
    here, there = both(case, engine)
    V = np.random.default_rng(0).normal(size=(here.shape[0], 3))
    exact = {"rtol": 0, "atol": 1e-10}
    np.testing.assert_allclose(here @ V, there @ V, **exact)
    np.testing.assert_allclose(V[:, 0] @ here, V[:, 0] @ there, **exact)
    np.testing.assert_allclose(here.rows(here.nodes[:4]), there.rows(there.nodes[:4]), **exact)
    i, j = here.nodes[[0, 1, 2, 1]], here.nodes[[0, 2, 2, 3]]
    np.testing.assert_allclose(here.entries(i, j), there.entries(i, j), **exact)
    assert here.n_steps == there.n_steps
    assert (here @ V).dtype == np.float64


@pytest.mark.usefixtures("groups_on_device")
@pytest.mark.parametrize("case", [case for case in CASES if "uneven" not in case])
def test_error_bars_are_the_same(case, device):
    here, there = both(case, CUDA(device, "float64"))
    V = np.random.default_rng(0).normal(size=(here.shape[0], 2))
    i, j = here.nodes[[0, 1, 2, 1]], here.nodes[[0, 2, 2, 3]]
    close = {"rtol": 1e-9, "atol": 1e-14}
    np.testing.assert_allclose(here.estimate(i, j).stderr, there.estimate(i, j).stderr, **close)
    np.testing.assert_allclose(here.estimate_product(V).stderr, there.estimate_product(V).stderr, **close)
    assert here.explain().error == pytest.approx(there.explain().error, rel=1e-9)


@pytest.mark.usefixtures("groups_on_device")
def test_error_bars_of_features_that_are_not_kept(device):
    here, there = both("debiased with heads", CUDA(device, "float64", keep_features=False))
    V = np.random.default_rng(0).normal(size=(30, 2))
    np.testing.assert_allclose(here.estimate_product(V).stderr, there.estimate_product(V).stderr, rtol=1e-6)
    np.testing.assert_allclose(here.estimate([0], [4]).stderr, there.estimate([0], [4]).stderr, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:.*topk")
def test_nearest_nodes_are_the_same(device):
    here, there = both("debiased", CUDA(device, "float64"))
    one, other = here.topk([3, 8], 4), there.topk([3, 8], 4)
    np.testing.assert_array_equal(one.nodes, other.nodes)
    np.testing.assert_allclose(one.values, other.values, atol=1e-12)
    np.testing.assert_array_equal(here.estimate_topk([3], 2).certified, there.estimate_topk([3], 2).certified)


def test_single_precision(device):
    here, there = both("debiased with heads", CUDA(device))
    V = np.random.default_rng(0).normal(size=(30, 3))
    np.testing.assert_allclose(here @ V, there @ V, rtol=0, atol=1e-5)
    np.testing.assert_allclose(here.diagonal(), there.diagonal(), rtol=1e-5)
    np.testing.assert_array_equal(here.estimate([0], [4]).stderr, there.estimate([0], [4]).stderr)


@pytest.mark.parametrize("keep_features", [True, False])
@pytest.mark.parametrize("case", ["debiased", "lazy with heads", "directed"])
def test_factors_of_any_size_in_single_precision(case, keep_features, device):
    """Numbers beyond those of single precision, also of columns of very different sizes."""
    here, there = both(case, CUDA(device, keep_features=keep_features))
    V = np.random.default_rng(0).normal(size=(here.shape[0], 3))
    sizes, expected = np.array([1e200, 1e-200, 1.0]), there @ V
    np.testing.assert_allclose((here @ (V * sizes)) / sizes, expected, rtol=0, atol=1e-5)
    product = here @ torch.tensor(V * sizes, device=device)
    assert product.dtype == torch.float64
    np.testing.assert_allclose(product.cpu().numpy() / sizes, expected, rtol=0, atol=1e-5)
    found = ((V * sizes).T @ here) / sizes[:, None]
    np.testing.assert_allclose(found, V.T @ there, rtol=0, atol=1e-5)
    assert not (here @ np.zeros(here.shape[0])).any()
    assert np.isnan(here @ np.full(here.shape[0], np.nan)).any()


@pytest.mark.parametrize("keep_features", [True, False])
def test_kernels_of_any_size_in_single_precision(keep_features, device):
    """Features are roots of them; what a kernel itself would lose as features is refused."""
    graph, engine = graphs.weighted(), CUDA(device, keep_features=keep_features)
    for size in (1e60, 1e-50):
        options = {"n_walks": 8, "sampler": PLAIN, "ensembles": "independent"}
        K, other = (wk.estimate_kernel(graph, size * KERNEL, engine=e, **options) for e in (engine, None))
        np.testing.assert_allclose((K @ np.ones(30)) / size, (other @ np.ones(30)) / size, rtol=1e-5)
        rule = f"f must be {'small' if size > 1 else 'large'} enough for loads times f to be numbers of fl"
        with pytest.raises(ValueError, match=rule):
            wk.estimate_kernel(graph, size * KERNEL, 8, pair="lazy", sampler=LONG, engine=engine)


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_loads_that_overflow_are_refused_in_products_too(device):
    """Factors of the loads differ by more than the numbers of single precision do."""
    graph = wk.Graph.from_edges([(0, 1), (1, 2), (2, 3)], weights=[1e160, 1.0, 1.0])
    options = {"n_walks": 8, "sampler": PLAIN, "ensembles": "independent"}
    K = wk.estimate_kernel(graph, KERNEL, **options, engine=CUDA(device, keep_features=False))
    with pytest.raises(ValueError, match="f must be small enough for loads times f to be numbers of float32"):
        K @ np.ones(4)


def test_a_tolerance_is_met(device):
    K = wk.estimate_kernel(graphs.weighted(), KERNEL, tolerance=0.02, engine=CUDA(device, "float64"))
    assert K.explain().error <= 0.02


def test_the_default_sampler_is_that_of_the_cpu(device):
    graph, kernel = graphs.weighted(), wk.Diffusion(1.5)
    K = wk.estimate_kernel(graph, kernel, 64, engine=CUDA(device, "float64", keep_features=False))
    error = (K @ torch.eye(30, dtype=torch.float64)).numpy() - wk.exact_kernel(graph, kernel)
    assert np.abs(error).max() < 0.05


def test_features_are_kept_or_not(device):
    kept, _ = both("debiased", CUDA(device))
    walked, _ = both("debiased", CUDA(device, keep_features=False))
    assert kept.left.nbytes >= 8 * kept.left.nnz > 0
    assert walked.left.nbytes == 0
    assert walked.left.rows(np.empty(0, dtype=np.int64)).shape == (0, 30)
    assert kept.left.rows(np.empty(0, dtype=np.int64)).shape == (0, 30)


@pytest.mark.parametrize("keep_features", [True, False])
def test_features_in_files(keep_features, device, tmp_path):
    here, there = both("debiased", CUDA(device, "float64", keep_features=keep_features), directory=tmp_path)
    np.testing.assert_allclose(here @ np.ones(30), there @ np.ones(30), atol=1e-12)


def test_many_columns_at_a_time(device):
    here, there = both("independent", CUDA(device, "float64", keep_features=False))
    V = np.random.default_rng(0).normal(size=(30, 70))
    np.testing.assert_allclose(here @ V, there @ V, atol=1e-12)
    assert (here @ V[:, :0]).shape == (30, 0)
    assert (both("independent", CUDA(device))[0] @ V[:, :0]).shape == (30, 0)


@pytest.mark.parametrize("where", ["cpu", "kept", "walked"])
@pytest.mark.parametrize("case", ["debiased", "lazy", "two factors with heads", "directed", "some nodes"])
def test_tensors_give_tensors(case, where, device):
    engine = CPU() if where == "cpu" else CUDA(device, "float64", keep_features=where == "kept")
    K, there = both(case, engine)
    for dtype in (torch.float64, torch.float32, torch.float16):
        V = torch.randn(K.shape[0], 2, generator=torch.Generator().manual_seed(0)).to(device, dtype)
        array, tolerance = V.double().cpu().numpy(), {"rtol": 0, "atol": 100 * torch.finfo(dtype).eps}
        found = K @ V
        assert (found.dtype, found.device, found.shape) == (dtype, V.device, V.shape)
        np.testing.assert_allclose(found.cpu(), there @ array, **tolerance)
    found = K @ V[:, 0]
    assert (found.dtype, found.shape) == (dtype, V[:, 0].shape)
    np.testing.assert_allclose(found.cpu(), there @ array[:, 0], **tolerance)
    np.testing.assert_allclose((V.T @ K).cpu(), array.T @ there, **tolerance)


def test_products_of_tensors_stay_on_the_device(device, monkeypatch):
    K, _ = both("debiased with heads", CUDA(device, "float64"))

    def fail(V):
        raise AssertionError("a tensor became an array")

    monkeypatch.setattr(K, "_matmat", fail)
    assert (K @ torch.ones(30, device=device)).shape == (30,)


def test_tensors_of_other_shapes_and_kinds(device):
    K, there = both("debiased", CUDA(device, "float64"))
    whole = K @ torch.arange(30)
    assert whole.dtype == torch.float64
    np.testing.assert_allclose(whole, there @ np.arange(30), atol=1e-12)
    with pytest.raises(ValueError, match=r"of length 30, one value for each node, got shape \(29, 2\)"):
        K @ torch.ones(29, 2)
    for wrong in (torch.ones(30, 2, 2), torch.ones(30, dtype=torch.complex64), torch.eye(30).to_sparse()):
        with pytest.raises(TypeError, match="must be a real vector or matrix, got a tensor"):
            K @ wrong
    with pytest.raises(ValueError, match=r"without gradients, got one that requires them. Use v.detach"):
        K @ torch.ones(30, requires_grad=True)
    with pytest.raises(ValueError, match="of length 30"):
        torch.ones(2, 29) @ K
    negative = torch.complex(torch.zeros(30), -torch.arange(30.0)).conj().imag  # a view, not yet computed
    for operator in (K, there):
        np.testing.assert_allclose(operator @ negative, there @ np.arange(30), rtol=1e-5, atol=1e-5)
    assert isinstance(K.estimate_product(torch.ones(30)).value, np.ndarray)


@pytest.mark.parametrize("keep_features", [True, False])
def test_operators_are_pickled(keep_features, device):
    K, _ = both("debiased with heads", CUDA(device, "float64", keep_features=keep_features))
    expected = K @ np.ones(30)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(K)) @ np.ones(30), expected, atol=1e-13)


@pytest.mark.parametrize("keep_features", [True, False])
def test_features_of_either_kind_are_the_same_tensor(keep_features, device):
    engine = CUDA(device, "float64", keep_features=keep_features, block_size=8)
    graph = graphs.weighted()
    found = wk.sample_features(graph, KERNEL, 8, sampler=HEAD, engine=engine)
    expected = wk.sample_features(graph, KERNEL, 8, sampler=HEAD)
    np.testing.assert_allclose(found.to_dense().cpu(), expected.toarray(), atol=1e-13)


@pytest.mark.parametrize("n_columns", [1, 3, 5, 20])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products_by_rows(n_columns, dtype, device):
    """Rows may be empty or long, and their number may be no multiple of those of a program."""
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(21, 40)) * (rng.random((21, 40)) < 0.1)
    dense[[0, 20]], dense[7] = 0.0, 1.0
    matrix = torch.tensor(dense, dtype=dtype, device=device).to_sparse_csr()
    X = torch.tensor(rng.normal(size=(40, n_columns)), dtype=dtype, device=device)
    tolerance = {torch.float32: 1e-5, torch.float64: 1e-13}[dtype]
    np.testing.assert_allclose(multiply_by_rows(matrix, X).cpu(), dense @ X.cpu().numpy(), atol=tolerance)


@pytest.mark.parametrize("n_columns", [1, 3, 20])
def test_long_rows_are_cut_into_pieces(n_columns, device, monkeypatch):
    """A row of 40 entries is 10 pieces of at most four, whose sums are added up as three, and as one."""
    monkeypatch.setattr(_device_products, "LONGEST_ROW", 4)
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(21, 40)) * (rng.random((21, 40)) < 0.1)
    dense[[0, 20]], dense[7] = 0.0, rng.normal(size=40)
    matrix = torch.tensor(dense, device=device).to_sparse_csr()
    factors, X = with_short_rows(matrix), torch.tensor(rng.normal(size=(40, n_columns)), device=device)
    assert len(factors) == 3
    assert max(int(each.crow_indices().diff().max()) for each in factors) <= 4
    np.testing.assert_allclose(multiply(factors, X).cpu(), dense @ X.cpu().numpy(), rtol=0, atol=1e-13)
    np.testing.assert_allclose(squared_norms(matrix).cpu(), np.square(dense).sum(1), rtol=1e-13)
    assert multiply(factors, X[:, :0]).shape == (21, 0)


def graph_with_hubs(device):
    """Return a graph with rows that programs share, and with enough work for a device to be in any order."""
    n, m = (3000, 60_000) if device == "cuda" else (30, 80)
    rng = np.random.default_rng(0)
    edges = np.concatenate([rng.integers(0, n, (m, 2)), np.column_stack([np.zeros(n, dtype=int), range(n)])])
    return wk.Graph.from_edges(edges, weights=rng.lognormal(0, 1, len(edges)))


def numbers(device, dtype, keep_features=True):
    """Return all kinds of numbers that come from a device."""
    graph, engine = graph_with_hubs(device), CUDA(device, dtype, keep_features, block_size=1000)
    V = np.random.default_rng(1).normal(size=(graph.n_nodes, 20))
    options = {"sampler": wk.PrunedWalks(SIZES, threshold=1e-2, head=2, group=4), "engine": engine}
    K = wk.estimate_kernel(graph, KERNEL, 32, **options)
    features = wk.sample_features(graph, KERNEL, 32, **options)
    few, some = wk.estimate_kernel(graph, KERNEL, 32, pair="lazy", engine=engine), [0, 5, 9]
    return {
        "features": [tensor.cpu().numpy() for tensor in (features.col_indices(), features.values())],
        "rows": [K.rows(some)],
        "entries": [K.entries(some, some[::-1]), K.diagonal()],
        "row norms": [K.left.squared_norms()],
        "errors": [*K.estimate_product(V[:, :2]), *K.estimate(some, some[::-1])],
        "one column": [K @ V[:, 0], V[:, 0] @ K, few @ V[:, 0]],
        "some columns": [K @ V[:, :3], K @ V],
        "polynomials": [wk.polynomial_operator(graph, KERNEL, engine=engine) @ V[:, 0]],
    }


@pytest.mark.usefixtures("groups_on_device")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_two_runs_give_the_same_bits(dtype, device):
    one, other = numbers(device, dtype), numbers(device, dtype)
    for name, arrays in one.items():
        for k, (ours, theirs) in enumerate(zip(arrays, other[name], strict=True)):
            assert np.array_equal(ours, theirs), (name, k)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.usefixtures("groups_on_device")
@pytest.mark.parametrize(("dtype", "rounding"), [("float32", 1e-6), ("float64", 1e-15)])
def test_features_that_are_not_kept_differ_by_rounding(dtype, rounding, device):
    one, other = (numbers(device, dtype, keep_features=False) for _ in range(2))
    for name, arrays in one.items():
        for ours, theirs in zip(arrays, other[name], strict=True):
            difference, size = np.abs(ours - theirs).max(), np.abs(theirs).max()
            assert difference <= (rounding * size if "column" in name or name == "errors" else 0)
