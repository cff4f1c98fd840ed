"""GRFKernel: gradients, agreement with NodeGPRegressor on the same walks, and training."""

import copy
import math
import pickle

import gpytorch
import numpy as np
import pytest
import torch

import walkernel as wk
from kriging import KERNELS, Kriging
from walkernel.datasets import grid
from walkernel.torch import FreeModulation, GRFKernel, NeuralModulation

GRAPH = grid(12, 12).graph
SAMPLER = wk.choose_sampler(GRAPH, wk.Diffusion(1.0), wk.Diffusion(6.0), n_walks=64)
RNG = np.random.default_rng(0)
SIGNAL = wk.polynomial_operator(GRAPH, wk.Diffusion(4.0)) @ RNG.standard_normal(144)
IDS = RNG.choice(144, 60, replace=False)
Y = SIGNAL[IDS] / SIGNAL.std() + 0.2 * RNG.standard_normal(60)
X, TARGETS = torch.as_tensor(IDS), torch.as_tensor(Y)
AMPLITUDE, NOISE = 1.3, 0.25


class Model(gpytorch.models.ExactGP):
    """Zero mean, an amplitude, and a kernel on nodes."""

    def __init__(self, kernel, x=X, y=TARGETS, mean=None):
        likelihood = gpytorch.likelihoods.GaussianLikelihood()
        super().__init__(x, y.to(kernel.dtype), likelihood)
        self.mean_module = mean or gpytorch.means.ZeroMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel)
        self.to(kernel.dtype)
        self.covar_module.outputscale = torch.tensor(AMPLITUDE**2, dtype=kernel.dtype)
        self.likelihood.noise = torch.tensor(NOISE**2, dtype=kernel.dtype)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    def log_likelihood(self):
        objective = gpytorch.mlls.ExactMarginalLogLikelihood(self.likelihood, self)
        return objective(self(*self.train_inputs), self.train_targets) * self.train_targets.numel()


def kernel_of(kernel, **options):
    return GRFKernel(GRAPH, kernel, **{"n_walks": 64, "sampler": SAMPLER, "seed": 5, **options})


def regressor(kernel, learn=(), **options):
    model = wk.NodeGPRegressor(
        GRAPH, kernel, n_walks=64, sampler=SAMPLER, random_state=5, learn=learn, mean="zero",
        amplitude=AMPLITUDE, noise=NOISE, method="walks", **{"normalize": False, **options},
    )  # fmt: skip
    return model.fit(IDS, Y)


def predicted(model, x, **options):
    model.eval()
    with torch.no_grad():
        found = model(x)
        if options.get("noise"):
            found = model.likelihood(found)
    return found


def climb(model, steps=20):
    """L-BFGS on the log marginal likelihood."""
    model.train()
    optimizer = torch.optim.LBFGS(
        model.parameters(), line_search_fn="strong_wolfe", max_iter=10 * steps, tolerance_change=1e-12
    )

    def loss():
        optimizer.zero_grad()
        value = -model.log_likelihood()
        value.backward()
        return value

    optimizer.step(loss)
    return model


# the same walks, the same numbers -----------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_covariances_are_those_of_the_features(kernel):
    own = kernel_of(kernel, sampler=wk.IndependentWalks(0.1))
    features = wk.sample_features(
        GRAPH, kernel, 64, sampler=wk.IndependentWalks(0.1), seed=5, matrix=kernel.matrix
    )
    K = (features @ features.T).toarray()
    rows, columns = torch.tensor([3, 100, 3]), torch.tensor([7, 4])
    np.testing.assert_allclose(own(rows).to_dense().detach(), K[rows][:, rows], rtol=1e-12)
    np.testing.assert_allclose(own(rows, columns).to_dense().detach(), K[rows][:, columns], rtol=1e-12)
    np.testing.assert_allclose(own(rows, diag=True).detach(), K.diagonal()[rows], rtol=1e-12)
    np.testing.assert_allclose(own(rows[:2], columns, diag=True).detach(), K[rows[:2], columns], rtol=1e-12)


@pytest.mark.parametrize("x", [X, X.double()], ids=["integers", "floats"])
def test_objective_and_prediction_are_those_of_the_regressor(x):
    model, reference = Model(kernel_of(wk.Diffusion(3.0)), x=x), regressor(wk.Diffusion(3.0))
    assert model.log_likelihood().item() == pytest.approx(reference.log_marginal_likelihood(), rel=1e-9)
    nodes = np.arange(144)
    mean, covariance = reference.predict(nodes, return_cov=True)
    found = predicted(model, torch.as_tensor(nodes).to(x.dtype))
    np.testing.assert_allclose(found.mean, mean, atol=1e-8)
    np.testing.assert_allclose(found.covariance_matrix, covariance, atol=1e-8)
    by_hand = Kriging(reference, IDS, Y).posterior(nodes)
    np.testing.assert_allclose(found.mean, by_hand[0], atol=1e-6)
    np.testing.assert_allclose(found.variance, by_hand[1].diagonal(), atol=1e-6)
    _, std = reference.predict(nodes, return_std=True, include_noise=True)
    noisy = predicted(model, torch.as_tensor(nodes).to(x.dtype), noise=True)
    np.testing.assert_allclose(noisy.stddev, std, atol=1e-6)


def test_slopes_of_the_objective_are_those_of_the_regressor():
    model, reference = Model(kernel_of(wk.Diffusion(3.0))), regressor(wk.Diffusion(3.0), learn=None)
    model.log_likelihood().backward()
    theta, step = np.log([3.0, AMPLITUDE, NOISE]), 1e-5
    ends = [[reference.log_marginal_likelihood(theta + e) for e in h * np.eye(3)] for h in (step, -step)]
    scale = model.covar_module
    raws = (
        (1, scale.base_kernel.raw_lengthscale, scale.base_kernel.raw_lengthscale_constraint),
        (2, scale.raw_outputscale, scale.raw_outputscale_constraint),
        (2, model.likelihood.raw_noise, model.likelihood.noise_covar.raw_noise_constraint),
    )
    found = []
    for power, raw, constraint in raws:
        value = raw.detach().clone().requires_grad_()
        (slope,) = torch.autograd.grad(constraint.transform(value).log().sum(), value)
        found.append((power * raw.grad / slope).item())  # by the logarithm
    np.testing.assert_allclose(found, (np.array(ends[0]) - ends[1]) / (2 * step), rtol=1e-6)


def test_the_sampler_is_that_of_the_regressor():
    own = GRFKernel(GRAPH, wk.Diffusion(4.0), n_walks=32)
    kernels = [wk.Diffusion(4.0 * factor) for factor in (1 / 8, 1.0, 1.5)]
    assert own.sampler == wk.choose_sampler(GRAPH, *kernels, n_walks=32)
    reference = wk.NodeGPRegressor(
        GRAPH, wk.Diffusion(4.0), n_walks=32, mean="zero", normalize=False, method="walks"
    ).fit(IDS, Y)
    assert 1.0 < reference.kernel_.lengthscale < 6.0  # found with the first walks
    assert own.sampler == reference.sampler_
    fixed = wk.PowerSeries([1.0, 0.5, 0.2])
    assert GRFKernel(GRAPH, fixed, n_walks=32).sampler == wk.choose_sampler(GRAPH, fixed, n_walks=32)


# gradients ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_the_lengthscale_has_an_exact_gradient(kernel):
    own = kernel_of(kernel, n_walks=4, sampler=wk.IndependentWalks(0.3), nodes=range(10))

    def covariances(raw):
        return torch.func.functional_call(own, {"raw_lengthscale": raw}, (torch.arange(6)[:, None],) * 2)

    assert own.lengthscale.item() == pytest.approx(kernel.lengthscale, rel=1e-12)
    raw = own.raw_lengthscale.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda raw: covariances(raw).to_dense(), raw)
    assert torch.autograd.gradcheck(
        lambda raw: torch.stack(
            covariances(raw).add_jitter(0.1).inv_quad_logdet(torch.ones(6, 1).double(), logdet=True)
        ),
        raw,
    )


def test_second_derivatives_by_the_lengthscale_are_refused():
    kernel = kernel_of(wk.Diffusion(2.0))
    with pytest.raises(RuntimeError, match="first derivatives only"):
        torch.autograd.grad(kernel.modulation().square().sum(), kernel.raw_lengthscale, create_graph=True)


def test_conjugate_gradients_give_the_same_answers():
    model, reference = Model(kernel_of(wk.Diffusion(3.0))), regressor(wk.Diffusion(3.0))
    with gpytorch.settings.max_cholesky_size(1), gpytorch.settings.eval_cg_tolerance(1e-4):
        found = predicted(model, torch.arange(144))
        mean, std = reference.predict(range(144), return_std=True)
        np.testing.assert_allclose(found.mean, mean, atol=1e-3)
        np.testing.assert_allclose(found.stddev, std, atol=1e-2)


# training -----------------------------------------------------------------------------------------


def test_training_finds_what_the_regressor_finds():
    model = Model(kernel_of(wk.Diffusion(2.0)))
    model.likelihood.noise_covar.register_constraint("raw_noise", gpytorch.constraints.Positive())
    before = model.log_likelihood().item()
    climb(model)
    reference = regressor(wk.Diffusion(4.0), learn=None)
    after = model.log_likelihood().item()
    assert after > before + 1
    assert after == pytest.approx(reference.log_marginal_likelihood_value_, abs=1e-3)
    own = model.covar_module
    assert own.base_kernel.lengthscale.item() == pytest.approx(reference.kernel_.lengthscale, rel=1e-2)
    assert own.outputscale.sqrt().item() == pytest.approx(reference.amplitude_, rel=1e-2)
    assert model.likelihood.noise.sqrt().item() == pytest.approx(reference.noise_, rel=1e-2)
    assert own.base_kernel.as_kernel() == wk.Diffusion(own.base_kernel.lengthscale.item())
    found = predicted(model, torch.arange(144))
    np.testing.assert_allclose(found.mean, reference.predict(range(144)), atol=1e-2)


def test_a_free_f_is_trained():
    reference = regressor(wk.Diffusion(3.0), learn=("modulation", "noise"))
    start = FreeModulation(wk.Diffusion(3.0).modulation(reference.modulation_.size))
    kernel = kernel_of(start)
    model = Model(kernel)
    model.covar_module.raw_outputscale.requires_grad_(False)
    assert {id(p) for p in start.parameters()} <= {id(p) for p in model.parameters()}
    fixed = Model(kernel_of(wk.Diffusion(3.0)))
    assert model.log_likelihood().item() == pytest.approx(fixed.log_likelihood().item(), abs=0.2)
    before = start.modulation(4)
    model.covar_module.outputscale = torch.tensor(1.0, dtype=torch.float64)
    climb(model)
    assert (start.modulation(4) != before).all()
    assert model.log_likelihood().item() > fixed.log_likelihood().item() + 1
    assert model.log_likelihood().item() == pytest.approx(reference.log_marginal_likelihood_value_, abs=2)
    assert kernel.as_kernel().modulation(3) == pytest.approx(start.modulation(3))


def test_a_network_is_trained_by_adam():
    network = NeuralModulation((4,), decay=0.8, activation="softplus")
    model = Model(kernel_of(network))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    values = []
    for _ in range(40):
        optimizer.zero_grad()
        loss = -model.log_likelihood()
        loss.backward()
        optimizer.step()
        values.append(-loss.item())
    assert values[-1] > values[0] + 1
    assert isinstance(GRFKernel(GRAPH, NeuralModulation(signed=True), n_walks=2).sampler, wk.IndependentWalks)


def test_walks_are_selected_once():
    kernel = kernel_of(wk.Diffusion(2.0))
    first = kernel(X).evaluate_kernel()
    assert first.other is None
    assert kernel(X.double()[:, None]).evaluate_kernel().walks is first.walks
    whole = kernel(torch.arange(144)).evaluate_kernel()
    assert whole.walks is kernel.walks
    for start in range(40):
        kernel(torch.arange(start, start + 20)).evaluate_kernel()
    assert len(kernel._selections) <= 16
    assert sum(one.n_entries for one in kernel._selections.values()) <= 2 * kernel.walks.n_entries
    assert kernel(X).evaluate_kernel().walks is not first.walks  # forgotten, and the same
    assert torch.equal(kernel(X).to_dense(), first.to_dense())


def test_a_constant_mean():
    model = Model(kernel_of(wk.Diffusion(3.0)), mean=gpytorch.means.ConstantMean())
    model.mean_module.constant.data.fill_(0.7)
    reference = regressor(wk.Diffusion(3.0)).condition(IDS, Y - 0.7)
    np.testing.assert_allclose(
        predicted(model, torch.arange(144)).mean, 0.7 + reference.predict(range(144)), atol=1e-6
    )


def test_sums_and_products_of_kernels():
    first, second = kernel_of(wk.Diffusion(1.0)), kernel_of(wk.Diffusion(3.0), seed=6)
    sum_of, product = (first + second)(X), (first * second)(X)
    a, b = first(X).to_dense(), second(X).to_dense()
    torch.testing.assert_close(sum_of.to_dense(), a + b)
    torch.testing.assert_close(product.to_dense(), a * b)


def test_more_observations_without_training_again():
    first, second = X[:40], X[40:]
    model, whole = (Model(kernel_of(wk.Diffusion(3.0)), x, TARGETS[: len(x)]) for x in (first, X))
    predicted(model, X)
    with torch.no_grad():
        grown = model.get_fantasy_model(second, TARGETS[40:])
    assert grown.covar_module.base_kernel.walks is model.covar_module.base_kernel.walks
    nodes = torch.arange(144)
    torch.testing.assert_close(predicted(grown, nodes).mean, predicted(whole, nodes).mean)


def test_a_variational_classifier_is_trained():
    class Classifier(gpytorch.models.ApproximateGP):
        def __init__(self, inducing):
            law = gpytorch.variational.CholeskyVariationalDistribution(len(inducing))
            strategy = gpytorch.variational.VariationalStrategy(
                self, inducing, law, learn_inducing_locations=False
            )
            super().__init__(strategy)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(kernel_of(wk.Diffusion(3.0)))

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    labels, x = (TARGETS > 0).double(), X.double()[:, None]
    model, likelihood = Classifier(x[::2]).double(), gpytorch.likelihoods.BernoulliLikelihood().double()
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, len(labels))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(60):
        optimizer.zero_grad()
        (-objective(model(x), labels)).backward()
        optimizer.step()
    assert model.covar_module.base_kernel.raw_lengthscale.grad.abs() > 0
    rest = np.setdiff1d(np.arange(144), IDS)
    with torch.no_grad():
        likely = likelihood(model.eval()(torch.as_tensor(rest).double()[:, None])).mean > 0.5
    assert (likely.numpy() == (SIGNAL[rest] > 0)).mean() > 0.75


# dtypes, batches, copies --------------------------------------------------------------------------


def test_single_precision():
    model = Model(kernel_of(wk.Diffusion(3.0), dtype=torch.float32))
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    value = model.log_likelihood()
    value.backward()
    assert value.dtype == torch.float32
    assert value.item() == pytest.approx(regressor(wk.Diffusion(3.0)).log_marginal_likelihood(), rel=1e-4)
    found = predicted(model, torch.arange(144))
    np.testing.assert_allclose(found.mean, regressor(wk.Diffusion(3.0)).predict(range(144)), atol=1e-3)


def test_walks_go_along_with_the_module():
    kernel = kernel_of(wk.Diffusion(3.0))
    walks = kernel.walks
    kernel(X).to_dense()
    assert kernel.to("cpu").walks is walks
    assert kernel.float().walks.dtype == kernel.dtype == torch.float32
    assert kernel(X).to_dense().dtype == torch.float32
    fixed = kernel_of(wk.PowerSeries([1.0, 0.5]))
    assert not list(fixed.parameters())
    assert fixed.lengthscale is None
    assert fixed.float()(X).to_dense().dtype == torch.float32


def test_lengthscales_side_by_side():
    kernel = kernel_of(wk.Diffusion(3.0), batch_shape=torch.Size([2]))
    kernel.lengthscale = torch.tensor([2.0, 3.0], dtype=torch.float64).reshape(2, 1, 1)
    singles = [kernel_of(wk.Diffusion(scale))(X).to_dense() for scale in (2.0, 3.0)]
    torch.testing.assert_close(kernel(X).to_dense(), torch.stack(singles))
    torch.testing.assert_close(kernel(X.expand(2, -1)[..., None]).to_dense(), torch.stack(singles))
    torch.testing.assert_close(kernel[1](X).to_dense(), singles[1])
    with pytest.raises(ValueError, match="batch_shape must be"):
        kernel.as_kernel()
    single = kernel_of(wk.Diffusion(2.0))
    assert single(X.expand(2, 3, -1)[..., None]).to_dense().shape == (2, 3, 60, 60)
    assert single(X.expand(2, -1)[..., None], diag=True).shape == (2, 60)
    fixed = kernel_of(FreeModulation([0.0, 1.0]))
    torch.testing.assert_close(fixed.expand_batch(torch.Size([2]))(X).to_dense()[1], fixed(X).to_dense())
    torch.testing.assert_close(single.expand_batch(torch.Size([2]))(X).to_dense()[1], singles[0])


def test_copies_and_states():
    kernel = kernel_of(wk.Diffusion(3.0))
    expected = kernel(X).to_dense()
    copied = copy.deepcopy(kernel)
    assert copied.walks is kernel.walks
    assert copied.raw_lengthscale is not kernel.raw_lengthscale
    for same in (copied, pickle.loads(pickle.dumps(kernel))):
        assert torch.equal(same(X).to_dense(), expected)
    other = kernel_of(wk.Diffusion(2.0))
    other.load_state_dict(kernel.state_dict())
    assert torch.equal(other(X).to_dense(), expected)


def test_walks_from_some_nodes():
    kernel = kernel_of(wk.Diffusion(3.0), nodes=IDS)
    assert kernel.walks.shape == (60, 144)
    torch.testing.assert_close(kernel(X).to_dense(), kernel_of(wk.Diffusion(3.0))(X).to_dense())
    missing = np.setdiff1d(np.arange(144), IDS)[0]
    with pytest.raises(ValueError, match=f"x must be of nodes that walks start from, got node {missing}"):
        kernel(torch.tensor([IDS[0], missing])).to_dense()


def test_priors_and_constraints():
    prior = gpytorch.priors.LogNormalPrior(math.log(3.0), 0.5)
    constraint = gpytorch.constraints.Interval(0.1, 10.0)
    kernel = kernel_of(wk.Diffusion(3.0), lengthscale_prior=prior, lengthscale_constraint=constraint)
    assert kernel.lengthscale.item() == pytest.approx(3.0)
    free = Model(kernel_of(wk.Diffusion(3.0))).log_likelihood().item()
    assert Model(kernel).log_likelihood().item() == pytest.approx(
        free + prior.log_prob(torch.tensor(3.0)).item(), rel=1e-5
    )
