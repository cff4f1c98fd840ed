"""Modulation functions with parameters: values by hand, the kernels they stand for, files, copies."""

import copy
import json
import math
import pickle

import numpy as np
import pytest
import torch

import graphs
import walkernel as wk
from walkernel.torch import FreeModulation, ModulationPair, NeuralModulation, held_out_errors, load_modulation

KERNEL = wk.RegularizedLaplacian(d=2, sigma=0.8)


def softplus(x):
    return np.log1p(np.exp(x))


def neural(**options):
    return NeuralModulation(**{"init": "random", "seed": 3, "decay": 0.4, **options})


MODULATIONS = {
    "flat": lambda: NeuralModulation(decay=0.4),
    "paper": neural,
    "wide and deep": lambda: neural(hidden=(5, 3), activation="leaky_relu", amplitude=1.7),
    "softplus inside": lambda: neural(hidden=[4], activation="softplus"),
    "signed": lambda: neural(hidden=(6,), signed=True),
    "free": lambda: FreeModulation([0.9, -0.3, 0.0, 0.2], decay=0.7, amplitude=2.0, strength=0.1),
    "pair": lambda: ModulationPair(neural(), FreeModulation([1.0, 0.3, -0.2], decay=0.5)),
}
each = pytest.mark.parametrize("name", MODULATIONS)


def set_paper(net, w1, b1, w2, b2):
    with torch.no_grad():
        for parameter, value in zip(net.parameters(), (w1, b1, w2, b2), strict=True):
            parameter.fill_(value)


def test_the_papers_network_is_its_formula():
    net = NeuralModulation()
    set_paper(net, -0.3, 0.8, 1.7, -0.4)
    lengths = np.arange(9)
    expected = softplus(1.7 * np.maximum(-0.3 * lengths + 0.8, 0) - 0.4)
    assert np.allclose(net.modulation(9), expected, rtol=1e-14)
    assert sum(p.numel() for p in net.parameters()) == 4


def test_flat_start_is_active_and_nearly_one():
    net = NeuralModulation()
    values = [p.item() for p in net.parameters()]
    assert values == pytest.approx([1.0, 1.0, -0.01, math.log(math.e - 1)])
    assert net.modulation(1)[0] == pytest.approx(softplus(math.log(math.e - 1) - 0.01))
    f = net.modulation(20)
    assert ((f > 0.85) & (f < 1.0)).all()


@pytest.mark.parametrize("activation", ["relu", "leaky_relu", "softplus"])
@pytest.mark.parametrize("signed", [False, True])
def test_flat_starts_of_larger_networks(activation, signed):
    net = NeuralModulation((8, 4), activation=activation, signed=signed)
    f = net(30)
    assert 0.7 < f.min() < f.max() < 1.05
    f.sum().backward()
    assert all((p.grad != 0).all() for p in net.parameters()), "every unit is alive"
    first = net.layers[0].weight.detach()
    assert first.unique().numel() == 8, "and no two are the same"


def test_deep_network_by_hand():
    net = neural(hidden=(3, 2), activation="leaky_relu", decay=1.0)
    (w1, b1), (w2, b2), (w3, b3) = (
        [p.detach().numpy() for p in (layer.weight, layer.bias)] for layer in net.layers
    )

    def leaky(x):
        return np.where(x > 0, x, 0.01 * x)

    x = np.arange(7.0)[:, None]
    x = leaky(leaky(x @ w1.T + b1) @ w2.T + b2) @ w3.T + b3
    assert np.allclose(net.modulation(7), softplus(x[:, 0]), rtol=1e-13)
    signed = neural(hidden=(3, 2), activation="leaky_relu", decay=1.0, signed=True)
    assert np.allclose(signed.modulation(7), x[:, 0], rtol=1e-13)


def test_decay_and_amplitude_are_factors():
    plain, scaled = neural(decay=1.0), neural(decay=0.3, amplitude=2.5)
    assert np.allclose(scaled.modulation(8), 2.5 * 0.3 ** np.arange(8) * plain.modulation(8), rtol=1e-13)


def test_random_starts_are_their_seeds():
    state = torch.get_rng_state()
    assert np.array_equal(neural().modulation(5), neural().modulation(5))
    assert not np.allclose(neural().modulation(5), neural(seed=4).modulation(5))
    assert torch.equal(state, torch.get_rng_state()), "PyTorch's own generator is left alone"
    wide = neural(hidden=(400, 100))
    for layer in wide.layers:
        bound = 1 / math.sqrt(layer.in_features)
        assert layer.weight.abs().max() <= bound
        assert layer.weight.min() < -0.9 * bound
        assert layer.weight.max() > 0.9 * bound


def test_free_modulation_is_its_list():
    free = FreeModulation([1.0, -0.5, 0.25], decay=0.5, amplitude=3.0)
    assert np.allclose(free.modulation(5), [1.0, -0.5, 0.25, 0, 0], rtol=1e-15)
    assert np.allclose(free.modulation(2), [1.0, -0.5])
    assert np.array_equal(FreeModulation(3, decay=0.5, amplitude=2.0).modulation(4), [2.0, 1.0, 0.5, 0.0])
    assert np.allclose(FreeModulation(torch.tensor([1.0, 0.5])).modulation(2), [1.0, 0.5])


def test_the_prior_is_normal_with_decaying_spread():
    free = FreeModulation([1.0, -0.5, 0.25], decay=0.5, amplitude=2.0, strength=3.0)
    theta = np.array([1.0, -0.5, 0.25]) / (2.0 * 0.5 ** np.arange(3))
    assert free.penalty().item() == pytest.approx(1.5 * (theta**2).sum())
    assert FreeModulation([1.0]).penalty().item() == 0
    assert NeuralModulation().penalty() == 0
    both = ModulationPair(free, FreeModulation([2.0], strength=1.0))
    assert both.penalty().item() == pytest.approx(1.5 * (theta**2).sum() + 2.0)


def test_pairs_have_two_sides():
    first, second = FreeModulation([1.0, 2.0]), FreeModulation([3.0])
    pair = ModulationPair(first, second)
    left, right = pair.sides(3)
    assert left.tolist() == [1, 2, 0]
    assert right.tolist() == [3, 0, 0]
    assert len(list(pair.parameters())) == 2
    one = neural()
    assert torch.equal(*one.sides(4))


@each
def test_coefficients_are_the_convolution_of_the_sides(name):
    modulation = MODULATIONS[name]()
    first, second = (side.detach().numpy() for side in modulation.sides(12))
    for length in (1, 5, 12):
        expected = np.convolve(first, second)[:length]
        assert np.allclose(modulation.coefficients(length), expected, rtol=1e-13, atol=1e-16)


@each
@pytest.mark.parametrize("matrix", ["normalized", "adjacency", "combinatorial"])
def test_as_kernel_is_the_sum_of_powers(name, matrix):
    modulation, graph = MODULATIONS[name](), graphs.unweighted()
    kernel = modulation.as_kernel(length=6, matrix=matrix)
    M = graph.to_scipy(matrix).toarray()
    first, second = (side.detach().numpy() for side in modulation.sides(6))
    alpha = np.convolve(first, second)
    exact = sum(a * np.linalg.matrix_power(M, k) for k, a in enumerate(alpha))
    assert kernel.matrix == matrix
    assert np.allclose(kernel.coefficients(14)[:11], alpha)
    assert not kernel.coefficients(14)[11:].any()
    assert np.allclose(wk.exact_kernel(graph, kernel), exact, rtol=1e-9, atol=1e-9 * np.abs(exact).max())


@pytest.mark.parametrize("name", [name for name in MODULATIONS if name != "pair"])
def test_features_of_the_kernel_are_those_of_f(name):
    modulation = MODULATIONS[name]()
    walks = wk.sample_walks(graphs.weighted(), 8, seed=2)
    kernel = modulation.as_kernel()
    whole = walks.features(modulation.modulation(kernel_length(kernel))).toarray()
    assert np.allclose(walks.features(kernel).toarray(), whole, rtol=1e-12, atol=1e-12 * np.abs(whole).max())


def kernel_length(kernel):
    return kernel.degree // 2 + 1


def test_learned_kernels_are_estimated_like_others():
    graph, kernel = graphs.karate(), neural(hidden=(6,), signed=True).as_kernel()
    exact = wk.exact_kernel(graph, kernel)
    size = np.linalg.norm(exact)
    assert np.linalg.norm(wk.estimate_kernel(graph, kernel, 500).to_dense() - exact) < 0.2 * size
    v = np.random.default_rng(0).standard_normal(34)
    assert np.allclose(wk.polynomial_operator(graph, kernel) @ v, exact @ v, atol=1e-9 * size)
    assert np.allclose(wk.exact_kernel(graph, kernel.scaled(0.5)), spectral(graph, kernel, 0.5))
    other = wk.Diffusion(1.0)
    total = exact + wk.exact_kernel(graph, other)
    assert np.allclose(wk.exact_kernel(graph, kernel + other), total)
    assert np.allclose(wk.exact_kernel(graph, kernel * other), exact @ wk.exact_kernel(graph, other))
    assert wk.estimate_kernel(graph, kernel + other, 8).shape == (34, 34)
    assert wk.estimate_kernel(graph, kernel * other, 8).shape == (34, 34)


def spectral(graph, kernel, factor):
    M = factor * graph.to_scipy("normalized").toarray()
    return sum(a * np.linalg.matrix_power(M, k) for k, a in enumerate(kernel.coefficients(60)))


@pytest.mark.parametrize("name", ["paper", "signed", "pair"])
def test_learned_kernels_serve_estimators(name):
    graph, kernel = graphs.karate(), MODULATIONS[name]().as_kernel()
    y = np.sin(np.arange(34.0))
    smoother = wk.NodeSmoother(
        graph, kernel, n_walks=1000, random_state=1, average=False, method="walks"
    ).fit(range(30), y[:30])
    exact = wk.exact_kernel(graph, kernel)[30:, :30] @ y[:30]
    assert np.abs(smoother.predict(range(30, 34)) - exact).max() < 0.2 * np.abs(y).max()
    assert smoother.pair_ == "symmetric"


def test_learned_kernels_serve_gaussian_processes():
    graph, kernel = graphs.karate(), neural().as_kernel()
    y = np.sin(np.arange(34.0))
    gp = wk.NodeGPRegressor(graph, kernel, n_walks=64, random_state=0, normalize=False, method="walks").fit(
        range(30), y[:30]
    )
    mean, std = gp.predict(range(30, 34), return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()


def test_n_terms_are_those_that_count():
    assert FreeModulation([1.0, 0.5, 0.0, 0.25, 0.0]).n_terms() == 4
    assert FreeModulation([1.0, 0.5, 1e-13]).n_terms() == 2
    assert FreeModulation([0.0, 0.0]).n_terms() == 1
    assert ModulationPair(FreeModulation([1.0]), FreeModulation([1.0, 0.0, 2.0])).n_terms() == 3
    flat = NeuralModulation(decay=0.5)
    f = flat.modulation(100)
    n = flat.n_terms()
    assert f[n - 1] > 1e-12 * f.max() >= f[n]
    assert kernel_length(flat.as_kernel()) == n
    growing = FreeModulation(5000)
    with pytest.raises(ValueError, match=r"length must be given if f does not decay.*decay < 1"):
        growing.n_terms()
    assert growing.n_terms(64) == 64
    assert flat.n_terms(5) == 5
    assert kernel_length(growing.as_kernel(length=7)) == 7


@each
def test_files_keep_every_bit(name, tmp_path):
    modulation = MODULATIONS[name]()
    modulation.save(tmp_path / "f.json")
    again = load_modulation(tmp_path / "f.json")
    assert type(again) is type(modulation)
    assert again.settings() == modulation.settings()
    for a, b in zip(modulation.sides(50), again.sides(50), strict=True):
        assert torch.equal(a, b)
    assert torch.equal(torch.as_tensor(again.penalty()), torch.as_tensor(modulation.penalty()))
    assert [path.name for path in tmp_path.iterdir()] == ["f.json"], "nothing else is left behind"


def test_notes_are_for_readers_of_the_file(tmp_path):
    path = tmp_path / "f.json"
    neural().save(path, notes={"matrix": "adjacency", "n_walks": 16})
    assert json.loads(path.read_text())["notes"] == {"matrix": "adjacency", "n_walks": 16}
    assert load_modulation(path).settings() == neural().settings()


def test_files_of_single_precision(tmp_path):
    net = neural(dtype=torch.float32)
    assert net(4).dtype == torch.float32
    net.save(tmp_path / "f.json")
    again = load_modulation(tmp_path / "f.json", dtype=torch.float32)
    assert again(4).dtype == torch.float32
    assert torch.equal(net(50), again(50))
    assert np.allclose(net.modulation(9), neural().modulation(9), rtol=1e-5)
    assert load_modulation(tmp_path / "f.json")(4).dtype == torch.float64


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "f.json"
    neural().save(path)
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        neural(seed=9).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def changed(settings, **changes):
    return json.dumps({**settings, **changes})


NEURAL = {"format": "walkernel modulation 1", **neural().settings()}
DAMAGED = {
    "no JSON": "{ half a fi",
    "empty": "",
    "a list": "[1, 2]",
    "a number": "3",
    "binary": b"\xff\xfe\x00",
    "no kind": json.dumps({"format": "walkernel modulation 1"}),
    "another kind": changed(NEURAL, kind="spline"),
    "a kind that is a list": changed(NEURAL, kind=[]),
    "an unknown setting": changed(NEURAL, colour="red"),
    "a wrong setting": changed(NEURAL, decay=-1.0),
    "no parameters": changed(NEURAL, parameters={}),
    "parameters as a list": changed(NEURAL, parameters=[1.0]),
    "parameters as text": changed(NEURAL, parameters={"layers.0.weight": "a"}),
    "wrong shapes": changed(NEURAL, hidden=[2]),
    "a parameter that is no number": changed(
        NEURAL, parameters={**NEURAL["parameters"], "layers.1.bias": [math.nan]}
    ),
    "half a pair": json.dumps({"format": "walkernel modulation 1", "kind": "pair", "first": NEURAL}),
    "a pair of numbers": json.dumps({"format": "walkernel modulation 1", "kind": "pair", "first": 1}),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files_are_refused(name, tmp_path):
    content = DAMAGED[name]
    path = tmp_path / "f.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match="load_modulation: path must be an intact file") as caught:
        load_modulation(path)
    assert "f.json" in str(caught.value)


def test_other_versions_and_missing_files_are_named(tmp_path):
    path = tmp_path / "f.json"
    path.write_text(changed(NEURAL, format="walkernel modulation 9"))
    with pytest.raises(ValueError, match=r"of format 'walkernel modulation 1', got 'walkernel modulation 9'"):
        load_modulation(path)
    path.write_text("{}")
    with pytest.raises(ValueError, match="got None"):
        load_modulation(path)
    with pytest.raises(FileNotFoundError, match=r"There is no file .*nowhere\.json"):
        load_modulation(tmp_path / "nowhere.json")
    path.write_text(json.dumps(NEURAL))
    with pytest.raises(ValueError, match=r"load_modulation: dtype must be torch\.float64 or torch\.float32"):
        load_modulation(path, dtype=torch.int64)


@each
def test_modules_are_copied_pickled_and_restored(name):
    modulation = MODULATIONS[name]()
    before = [side.detach().clone() for side in modulation.sides(9)]
    twin, pickled = copy.deepcopy(modulation), pickle.loads(pickle.dumps(modulation))
    state = copy.deepcopy(modulation.state_dict())
    with torch.no_grad():
        for parameter in modulation.parameters():
            parameter.add_(0.1)
    assert not torch.equal(modulation.sides(9)[0], before[0])
    modulation.load_state_dict(state)
    for one in (twin, pickled, modulation):
        assert all(torch.equal(a, b) for a, b in zip(one.sides(9), before, strict=True))


@each
def test_sides_are_differentiable(name):
    modulation = MODULATIONS[name]()
    sum(side.square().sum() for side in modulation.sides(6)).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in modulation.parameters())
    assert any(p.grad.any() for p in modulation.parameters())


def test_values_that_are_no_numbers_are_refused():
    net = neural()
    set_paper(net, 1.0, 1.0, 1.0, math.nan)
    for use in (net.modulation, net.coefficients):
        with pytest.raises(ValueError, match=": f must be finite, got nan at length 0"):
            use(4)
    with pytest.raises(ValueError, match=r"f must be finite, got inf at length \d+"):
        NeuralModulation(decay=2.0).as_kernel()


BAD = {
    "hidden as a number": (lambda: NeuralModulation(3), TypeError, "hidden must be a non-empty list"),
    "no hidden layer": (lambda: NeuralModulation(()), TypeError, "hidden must be a non-empty list"),
    "width 0": (lambda: NeuralModulation((0,)), ValueError, "hidden must be a whole number of at least 1"),
    "activation": (lambda: NeuralModulation(activation="tanh"), ValueError, "activation must be one of"),
    "signed": (lambda: NeuralModulation(signed=1), TypeError, "signed must be True or False, got 1"),
    "decay": (lambda: NeuralModulation(decay=0), ValueError, "decay must be a finite number greater than 0"),
    "amplitude": (lambda: FreeModulation(2, amplitude=-1.0), ValueError, "amplitude must be .*got -1.0"),
    "init": (lambda: NeuralModulation(init="zero"), ValueError, "init must be one of 'flat', 'random'"),
    "seed": (lambda: NeuralModulation(seed=-1), ValueError, "seed must be .*got -1"),
    "dtype": (lambda: NeuralModulation(dtype=torch.float16), ValueError, "dtype must be .*torch.float16"),
    "initial 0": (lambda: FreeModulation(0), ValueError, "initial must be .* at least 1, got 0"),
    "initial empty": (lambda: FreeModulation([]), ValueError, "initial must be a non-empty list"),
    "initial nan": (lambda: FreeModulation([1.0, math.nan]), ValueError, "initial must be finite"),
    "initial 2-d": (lambda: FreeModulation(np.ones((2, 2))), ValueError, "initial must be 1-dimensional"),
    "initial beyond decay": (lambda: FreeModulation(np.ones(300), decay=0.01), ValueError, "larger decay"),
    "strength": (lambda: FreeModulation(2, strength=-0.1), ValueError, "strength must be .*got -0.1"),
    "pair": (lambda: ModulationPair(neural(), 3), TypeError, "second must be a modulation, got 3"),
    "length": (lambda: neural().modulation(0), ValueError, "length must be a whole number of at least 1"),
    "length of a pair": (lambda: MODULATIONS["pair"]().as_kernel(length=1.5), ValueError, "length must be"),
    "longest": (lambda: neural().n_terms(0), ValueError, "length must be"),
    "matrix": (lambda: neural().as_kernel(matrix="laplacian"), ValueError, "matrix must be one of"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_refused(name):
    call, error, message = BAD[name]
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("other", [KERNEL, torch.nn.Linear(1, 1), np.exp, KERNEL.modulation(9)])
def test_nothing_else_is_a_modulation(other):
    with pytest.raises(TypeError, match="modulation must be a modulation"):
        held_out_errors(graphs.karate(), KERNEL, other, n_walks=2, sampler=wk.IndependentWalks(0.5))
