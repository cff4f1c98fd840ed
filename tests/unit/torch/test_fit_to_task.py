"""Learning f for a task: what is hidden, predicted from what, judged by what, and when training ends."""

import math

import numpy as np
import pytest
import torch

import graphs
import walkernel as wk
from pairs import keyed_walks
from walkernel.torch import (
    FreeModulation,
    ModulationPair,
    NeuralModulation,
    Schedule,
    angular_loss,
    cross_entropy_loss,
    fit_to_task,
    learned_bounds,
    squared_loss,
)

HALF = wk.IndependentWalks(0.5)
SHORT = Schedule(n_epochs=5, learning_rate=0.03)
LONGER = Schedule(n_epochs=80, learning_rate=0.03)
MESH = wk.datasets.cylinder_mesh(12, 6)
N = MESH.graph.n_nodes


def fit(graph=MESH.graph, nodes=range(N), y=MESH.normals, **options):
    return fit_to_task(graph, nodes, y, **{"schedule": SHORT, "n_samples": 2, **options})


def split(n, seed=0, validation=0.1):
    """The generator that hides nodes, and positions of validation and training nodes."""
    rng = np.random.default_rng(seed)
    validation, training = np.split(rng.permutation(n), [round(validation * n)])
    return rng, validation, training


def hide(rng, training, share):
    """Nodes that are hidden in an epoch, and the others."""
    hidden = rng.choice(training, round(share * training.size), replace=False, shuffle=False)
    return hidden, np.setdiff1d(training, hidden)


class Recorder:
    """A loss that remembers what it was given."""

    def __init__(self, loss=squared_loss):
        self.loss, self.calls = loss, []

    def __call__(self, prediction, target):
        self.calls.append((prediction.detach().clone(), target.clone()))
        return self.loss(prediction, target)


@pytest.mark.parametrize("walks", ["bank", "fresh"])
def test_normals_of_a_mesh_are_learned(walks):
    result = fit(walks=walks, schedule=LONGER)
    assert result.loss < 0.7 * result.validation[0, 1]
    assert result.loss == result.validation[:, 1].min()
    assert result.history.shape == (80,)
    assert result.history[-20:].mean() < 0.8 * result.history[:20].mean()
    assert result.classes is None
    assert not result.interrupted
    assert np.allclose(result.kernel.coefficients(9), result.modulation.coefficients(9), rtol=1e-12)


@pytest.mark.parametrize("labels", ["numbers", "names"])
def test_blocks_are_told_apart(labels):
    blocks = wk.datasets.stochastic_block_model((30, 30, 30), 0.3, 0.02)
    y = blocks.labels if labels == "numbers" else np.array(blocks.label_names)[blocks.labels]
    result = fit(
        blocks.graph, range(90), y, loss=cross_entropy_loss, masked=0.2, validation=0.2, n_walks=64,
        schedule=Schedule(n_epochs=80, learning_rate=0.05),
    )  # fmt: skip
    assert result.loss < 0.1 < math.log(3), "chance is log 3"
    assert result.loss < 0.5 * result.validation[0, 1]
    assert result.classes.tolist() == sorted(set(y.tolist()))


@pytest.mark.parametrize("ensembles", ["independent", "shared"])
@pytest.mark.parametrize("normalize", [False, True])
def test_predictions_are_products_with_features(normalize, ensembles):
    """Judged: validation from training nodes; then the hidden ones from the others, in the bank's turn."""
    loss, start = Recorder(), NeuralModulation(decay=0.6, init="random", seed=3)
    still = Schedule(n_epochs=2, learning_rate=1e-12)
    y = MESH.normals * [1.0, 2.0, 3.0]
    result = fit(
        y=y, loss=loss, modulation=start, schedule=still, normalize=normalize, ensembles=ensembles, seed=9,
        masked=0.2, n_walks=4,
    )  # fmt: skip
    rng, validation, training = split(N, 9)
    f = start.modulation(65)

    def predicted(key, hidden, known):
        left, right = keyed_walks(MESH.graph, 4, key[0], 9, key[1], ensembles=ensembles)
        K = left.features(f).toarray() @ right.features(f).toarray().T
        K = K[np.ix_(hidden, known)]
        return K @ y[known] / (K.sum(axis=1, keepdims=True) if normalize else 1)

    hidden, known = hide(rng, training, 0.2)
    later, others = hide(rng, training, 0.2)
    expected = [
        ((2, 0), validation, training),
        ((0, 1), hidden, known),
        ((2, 0), validation, training),
        ((0, 0), later, others),
        ((2, 0), validation, training),
    ]
    assert len(loss.calls) == len(expected)
    for (prediction, target), (key, at, from_) in zip(loss.calls, expected, strict=True):
        assert np.array_equal(target.numpy(), y[at])
        assert np.allclose(prediction.numpy(), predicted(key, at, from_), rtol=1e-7, atol=1e-9)
    means = [np.square(prediction.numpy() - target.numpy()).mean() for prediction, target in loss.calls]
    assert result.history == pytest.approx([means[1], means[3]], rel=1e-9)
    assert result.validation[:, 1] == pytest.approx([means[0], means[2], means[4]], rel=1e-9)
    assert result.validation[:, 0].tolist() == [0, 1, 2]


def test_fresh_walks_are_new_in_every_epoch():
    loss, start = Recorder(), NeuralModulation(decay=0.6)
    still = Schedule(n_epochs=2, learning_rate=1e-12)
    fit(loss=loss, modulation=start, schedule=still, walks="fresh", seed=2)
    rng, _, training = split(N, 2)
    f = start.modulation(65)
    for epoch in (1, 2):
        hidden, known = hide(rng, training, 0.05)
        left, right = keyed_walks(MESH.graph, 16, 0, 2, epoch)
        K = (left.features(f) @ right.features(f).T).toarray()
        prediction = loss.calls[2 * epoch - 1][0].numpy()
        assert np.allclose(prediction, K[np.ix_(hidden, known)] @ MESH.normals[known], rtol=1e-7)


def test_validation_values_never_enter_the_training():
    _, validation, training = split(N)
    changed = MESH.normals.copy()
    changed[validation] = 100.0
    a, b = fit(loss=squared_loss), fit(y=changed, loss=squared_loss)
    assert np.array_equal(a.history, b.history)
    assert not np.allclose(a.validation[:, 1], b.validation[:, 1])
    assert a.bounds.n_samples == training.size


def test_some_nodes_in_any_order():
    loss, start, nodes = Recorder(), NeuralModulation(decay=0.6), [40, 3, 17, 8, 60]
    fit(nodes=nodes, y=np.arange(5.0), loss=loss, modulation=start, schedule=Schedule(n_epochs=1), seed=1)
    _, validation, training = split(5, 1, validation=0.2)
    left, right = keyed_walks(MESH.graph, 16, 2, 1, 0, nodes=nodes)
    f = start.modulation(65)
    K = (left.features(f) @ right.features(f).T).toarray()
    prediction, target = loss.calls[0]
    assert target.tolist() == [[float(v)] for v in validation]
    assert np.allclose(prediction.numpy()[:, 0], K[np.ix_(validation, training)] @ training.astype(float))


def test_targets_in_reverse_order():
    """Views with negative strides, which PyTorch does not take."""
    expected = fit(nodes=np.arange(N)[::-1].copy(), y=MESH.normals[::-1].copy())
    found = fit(nodes=np.arange(N)[::-1], y=MESH.normals[::-1])
    np.testing.assert_array_equal(found.history, expected.history)


def test_minibatches_cut_the_hidden_nodes():
    loss = Recorder()
    fit(loss=loss, masked=0.4, batch_size=10, schedule=Schedule(n_epochs=1))
    _, validation, training = split(N)
    sizes = [len(target) for _, target in loss.calls]
    n_hidden = round(0.4 * training.size)
    assert sizes[1:-1] == [10] * (n_hidden // 10) + [n_hidden % 10] * (n_hidden % 10 > 0)
    assert sizes[0] == sizes[-1] == validation.size
    whole, parts = (fit(masked=0.4, batch_size=b, schedule=LONGER).loss for b in (None, 10))
    assert parts < 1.5 * whole


def test_labelled_graphs():
    names = [f"v{i}" for i in range(12)]
    graph = wk.Graph.from_edges([(names[i], names[(i + 1) % 12]) for i in range(12)])
    y = ["low"] * 6 + ["high"] * 6
    result = fit(graph, names, y, loss=cross_entropy_loss, masked=0.3)
    assert result.classes.tolist() == ["high", "low"]
    with pytest.raises((KeyError, TypeError, ValueError), match="0"):
        fit(graph, range(12), y, loss=cross_entropy_loss)


def test_directed_graphs_walk_both_ways():
    loss, graph, y = Recorder(), graphs.directed(), np.arange(30.0)
    start = NeuralModulation(decay=0.5)
    fit(graph, range(30), y, loss=loss, modulation=start, schedule=Schedule(n_epochs=1))
    _, validation, training = split(30)
    f = start.modulation(65)
    left, right = keyed_walks(graph, 16, 2, 0, 0)
    K = (left.features(f) @ right.features(f).T).toarray()
    assert np.allclose(loss.calls[0][0].numpy()[:, 0], K[np.ix_(validation, training)] @ y[training])


def test_patience_ends_the_training():
    calls = []

    def flat(prediction, target):
        return 1 + 0 * prediction.sum()

    schedule = Schedule(n_epochs=400)
    result = fit(loss=flat, schedule=schedule, patience=20, progress=lambda *call: calls.append(call))
    assert result.history.size == 20
    assert calls == [(epoch, 400) for epoch in range(1, 21)]
    assert result.validation[:, 0].tolist() == [0, 5, 10, 15, 20]
    assert fit(loss=flat, schedule=Schedule(n_epochs=30), patience=None).history.size == 30
    assert fit(loss=flat, schedule=Schedule(n_epochs=30), patience=30).history.size == 30
    improving = fit(schedule=Schedule(n_epochs=60, learning_rate=0.01), patience=20)
    assert improving.history.size > 20


def test_the_best_parameters_are_kept():
    loss = Recorder(angular_loss)
    result = fit(loss=loss, schedule=Schedule(n_epochs=30, learning_rate=2.0, gamma=1.0), patience=None)
    again = fit(modulation=result.modulation, schedule=Schedule(n_epochs=1, learning_rate=1e-12))
    assert again.validation[0, 1] == pytest.approx(result.loss, rel=1e-12)
    assert result.validation[-1, 1] > result.loss


def test_an_interrupt_returns_the_best_so_far():
    def interrupt(done, total):
        if done == 3:
            raise KeyboardInterrupt

    result = fit(schedule=LONGER, progress=interrupt)
    assert result.interrupted
    assert result.history.size == 3
    assert result.report().startswith("3 epochs, ended by an interrupt; f = ")


def test_report_says_what_was_learned():
    result = fit()
    text = result.report()
    f = " ".join(f"{value:.4g}" for value in result.modulation.modulation(6))
    assert text.startswith(f"5 epochs; f = {f} …\n")
    assert f"{result.validation[0, 1]:.5g} before, {result.loss:.5g} at best" in text
    assert f"Rademacher complexity at most {result.bounds.complexity:.4g}" in text
    length = result.kernel.degree // 2 + 1
    _, _, training = split(N)
    assert result.bounds == learned_bounds(result.modulation, MESH.graph, training.size, length=length)


def test_own_losses_and_starts():
    def absolute(prediction, target):
        return (prediction - target).abs().mean()

    start = FreeModulation(6, decay=0.5)
    before = start.theta.detach().clone()
    result = fit(loss=absolute, modulation=start, schedule=LONGER)
    assert result.loss < result.validation[0, 1]
    assert torch.equal(start.theta, before)
    pair = fit(modulation=ModulationPair(NeuralModulation(decay=0.6), FreeModulation([1.0])))
    assert isinstance(pair.modulation, ModulationPair)


def test_starts_that_do_not_fall_off():
    result = fit(modulation=NeuralModulation(init="random", seed=1))
    assert result.kernel.degree <= 2 * HALF.longest


def test_the_usual_start_has_finite_variance():
    assert fit().modulation.decay == pytest.approx(0.85 * math.sqrt(0.5))
    assert fit(sampler=wk.IndependentWalks(0.2)).modulation.decay == pytest.approx(0.85 * math.sqrt(0.8))
    headed = wk.CoupledWalks((1.0, 0.5, 0.2), head=2, group=4)
    assert fit(sampler=headed).loss < 0.2


def test_the_usual_start_suits_large_entries_of_the_matrix():
    """On A of a d-regular graph ρ(Q₀) is d²w²: f must fall off that much faster."""
    ring = wk.Graph.from_edges([(i, (i + 1) % 12) for i in range(12)], weights=np.full(12, 40.0))
    y = np.sin(np.arange(12.0))
    result = fit(ring, range(12), y, loss=squared_loss, matrix="adjacency")
    assert result.modulation.decay == pytest.approx(0.85 * math.sqrt(0.5) / 80, rel=1e-6)
    assert result.validation[:, 1].max() < 10


def test_single_precision():
    result = fit(modulation=NeuralModulation(decay=0.6, dtype=torch.float32))
    assert next(result.modulation.parameters()).dtype == torch.float32
    assert result.loss == pytest.approx(fit(modulation=NeuralModulation(decay=0.6)).loss, rel=1e-3)


def test_other_matrices():
    result = fit(matrix="combinatorial", loss=squared_loss)
    assert result.kernel.matrix == "combinatorial"


@pytest.mark.parametrize("walks", ["bank", "fresh"])
def test_the_same_seed_gives_the_same_result(walks):
    a, b, c = (fit(walks=walks, seed=seed) for seed in (3, 3, 4))
    assert np.array_equal(a.history, b.history)
    assert np.array_equal(a.validation, b.validation)
    assert not np.array_equal(a.history, c.history)


def test_nodes_that_nothing_reaches_are_predicted_as_zero():
    graph = wk.Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0)], n_nodes=40)
    for normalize in (False, True):
        loss = Recorder()
        result = fit(graph, range(40), np.ones(40), loss=loss, normalize=normalize)
        assert np.isfinite(result.loss)
        assert all(prediction.isfinite().all() for prediction, _ in loss.calls)


def test_something_is_always_known():
    loss = Recorder()
    fit(nodes=[0, 1, 2], y=[1.0, 2.0, 3.0], loss=loss, masked=0.99, validation=0.9)
    assert all(len(target) == 1 for _, target in loss.calls)
    assert all(prediction.any() for prediction, _ in loss.calls[:1])


def test_labels_need_a_loss_of_labels():
    with pytest.raises(ValueError, match=r"fit_to_task: .*For labels use cross_entropy_loss"):
        fit(y=np.arange(N) % 2)


BAD_LOSSES = {
    "a float": (lambda p, y: 1.0, TypeError, r"loss must be one that returns a number .* got 1\.0"),
    "nothing": (lambda p, y: None, TypeError, "loss must be one that returns a number .* got None"),
    "a vector": (lambda p, y: (p - y).sum(1), TypeError, r"loss must be .* got a tensor of shape \(\d+,\)"),
    "a constant": (
        lambda p, y: torch.tensor(1.0),
        TypeError,
        "loss must be one .* depends on the prediction",
    ),
    "nan": (lambda p, y: p.sum() * math.nan, ValueError, "loss must be finite, got nan in epoch 1"),
    "infinity": (lambda p, y: p.sum() + math.inf, ValueError, "loss must be finite, got inf in epoch 1"),
    "no function": (3, TypeError, r"loss must be a function of \(prediction, target\), got 3"),
}


@pytest.mark.parametrize("name", BAD_LOSSES)
def test_losses_that_cannot_be_minimised_are_refused(name):
    loss, error, message = BAD_LOSSES[name]
    with pytest.raises(error, match=f"^fit_to_task: {message}"):
        fit(loss=loss)


FIVE = {"nodes": range(5)}
BAD = {
    "graph": ({"graph": 3}, TypeError, "graph must be a Graph"),
    "no nodes": ({"nodes": [], "y": []}, ValueError, "nodes must be a non-empty"),
    "two nodes": ({"nodes": [0, 1], "y": [1.0, 2.0]}, ValueError, "nodes must be at least 3, .* got 2"),
    "a node twice": (
        {"nodes": [0, 1, 1], "y": [1.0] * 3},
        ValueError,
        "distinct nodes, got 1 more than once",
    ),
    "too few values": ({"y": [1.0, 2.0]}, ValueError, rf"y must be one row for each of {N} nodes, got shape"),
    "no values": ({"y": None}, ValueError, rf"y must be one row for each of {N} nodes, got shape \(\)"),
    "three dimensions": ({"y": np.ones((N, 1, 1))}, ValueError, "y must be of one or two dimensions"),
    "no columns": ({"y": np.ones((N, 0))}, ValueError, "y must be .* not empty"),
    "nan": ({**FIVE, "y": [1.0, math.nan, 1, 1, 1]}, ValueError, "y must be finite, got nan at position 1"),
    "ragged": ({**FIVE, "y": [[1], [1, 2], [1], [1], [1]]}, ValueError, "y must be a rectangular array"),
    "complex": ({**FIVE, "y": np.ones(5) * 1j}, TypeError, "y must be real"),
    "one class": (
        {**FIVE, "y": ["a"] * 5},
        ValueError,
        "y must be labels of at least two classes, got only 'a'",
    ),
    "mixed labels": (
        {**FIVE, "y": np.array([1, "a", None, 2, 3], dtype=object)},
        TypeError,
        "y must be labels",
    ),
    "text in columns": ({**FIVE, "y": [["a", "b"]] * 5}, TypeError, "y must be an array of numbers"),
    "n_walks": ({"n_walks": 0}, ValueError, "n_walks must be .* got 0"),
    "sampler": ({"sampler": 0.5}, TypeError, r"sampler must be a Sampler, got 0\.5"),
    "modulation": ({"modulation": 3}, TypeError, "modulation must be .* got 3"),
    "matrix": ({"matrix": "laplacian"}, ValueError, "matrix must be one of .* got 'laplacian'"),
    "walks": ({"walks": "expected"}, ValueError, "walks must be one of 'bank', 'fresh', got 'expected'"),
    "ensembles": ({"ensembles": "debiased"}, ValueError, "ensembles must be one of .* got 'debiased'"),
    "shared, directed": (
        {"graph": graphs.directed(), "nodes": range(30), "y": np.ones(30), "ensembles": "shared"},
        ValueError,
        "ensembles must be 'independent' for a directed graph, got 'shared'",
    ),
    "n_samples": ({"n_samples": 0}, ValueError, "n_samples must be .* got 0"),
    "masked": ({"masked": 0.0}, ValueError, r"masked must be .* got 0\.0"),
    "validation": ({"validation": 1.0}, ValueError, r"validation must be .* got 1\.0"),
    "normalize": ({"normalize": 1}, TypeError, "normalize must be True or False, got 1"),
    "normalize as an array": ({"normalize": np.ones(2)}, TypeError, "normalize must be True or False"),
    "batch_size": ({"batch_size": 0}, ValueError, "batch_size must be .* got 0"),
    "patience": ({"patience": 0}, ValueError, "patience must be .* got 0"),
    "schedule": ({"schedule": 5}, TypeError, "schedule must be a Schedule"),
    "seed": ({"seed": -1}, ValueError, "seed must be .* got -1"),
    "progress": ({"progress": 1}, TypeError, "progress must be None or a function"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_refused(name):
    options, error, message = BAD[name]
    with pytest.raises(error, match=f"^fit_to_task: .*{message}"):
        fit(**options)
