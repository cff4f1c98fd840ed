"""Masked linear attention: dense masking with the same features, its gradients, and what is refused."""

import copy
import itertools

import numpy as np
import pytest
import torch

import graphs
import walkernel as wk
from depth import mostly_deep
from walkernel.torch import FreeModulation, MaskedAttention, WalkTensors, _attention, masked_attention

CLUB = graphs.karate()
FUNCTIONS = {"elu": lambda x: torch.nn.functional.elu(x) + 1, "exp": torch.exp}


def random(*shape, seed=0, dtype=torch.float64, grad=True):
    values = np.random.default_rng([seed, *shape]).standard_normal(shape)
    return torch.tensor(values, dtype=dtype, requires_grad=grad)


def tokens(n, *, batch=(2,), heads=3, d=4, d_v=5, seed=0, dtype=torch.float64):
    return tuple(
        random(*batch, heads, n, columns, seed=seed + i, dtype=dtype) for i, columns in enumerate((d, d, d_v))
    )


def walks_on(graph, n_walks=6, stream=0, **options):
    return WalkTensors(wk.sample_walks(graph, n_walks, stream=stream), **options)


def dense(q, k, v, M, *, feature_map="elu", normalize=True):
    """Attention with the matrix of weights."""
    function = FUNCTIONS[feature_map]
    weights = M * (function(q) @ function(k).mT)
    return (weights / weights.sum(-1, keepdim=True) if normalize else weights) @ v


def relative(a, b):
    return float((a - b).detach().abs().max() / b.detach().abs().max())


@pytest.fixture
def small_tiles(monkeypatch):
    """Products are made of a few columns at a time."""
    monkeypatch.setattr(_attention, "TILE_ENTRIES", 500)


@pytest.mark.parametrize("feature_map", ["elu", "exp"])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("per_head", [True, False])
@pytest.mark.parametrize("sets", [1, 2])
def test_equals_dense_masking_with_all_gradients(feature_map, normalize, per_head, sets, small_tiles):
    q, k, v = tokens(CLUB.n_nodes)
    f = random(*((3, 4) if per_head else (4,))).detach().abs().requires_grad_()
    sides = [walks_on(CLUB, stream=stream) for stream in range(sets)]
    features = sides[0] if sets == 1 else tuple(sides)
    found = masked_attention(q, k, v, features, f=f, feature_map=feature_map, normalize=normalize)
    masks = [sides[0].dense(one) @ sides[-1].dense(one).T for one in torch.atleast_2d(f)]
    expected = dense(q, k, v, torch.stack(masks), feature_map=feature_map, normalize=normalize)
    assert relative(found, expected) < 1e-12
    weights = random(5, grad=False)
    gradients = (torch.autograd.grad((x * weights).square().sum(), (q, k, v, f)) for x in (found, expected))
    assert all(relative(a, b) < 1e-11 for a, b in zip(*gradients, strict=True))


@pytest.mark.parametrize("seed", mostly_deep(range(10), [0]))
def test_single_precision_equals_dense_masking(seed):
    graph = wk.datasets.erdos_renyi(2000, 0.002, seed=seed).graph
    features = wk.sample_features(graph, wk.Diffusion(), 8, seed=seed).astype(np.float32)
    parts = (torch.from_numpy(x) for x in (features.indptr, features.indices, features.data))
    sparse = torch.sparse_csr_tensor(*parts, features.shape, check_invariants=True).requires_grad_()
    q, k, v = tokens(2000, batch=(), heads=2, seed=seed, dtype=torch.float32)
    found = masked_attention(q, k, v, sparse)
    whole = torch.tensor(features.toarray(), requires_grad=True)
    expected = dense(q, k, v, whole @ whole.T)
    assert relative(found, expected) < 1e-5
    ours = torch.autograd.grad(found.square().sum(), (q, k, v, sparse))
    theirs = torch.autograd.grad(expected.square().sum(), (q, k, v, whole))
    assert all(relative(a, b) < 1e-5 for a, b in zip(ours[:3], theirs[:3], strict=True))
    rows = np.repeat(np.arange(2000), np.diff(features.indptr))
    assert relative(ours[3].values(), theirs[3][rows, features.indices]) < 1e-5


def test_gradients_pass_gradcheck():
    graph = wk.Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)])
    sides = walks_on(graph, 3), walks_on(graph, 3, stream=1)
    f = torch.tensor([[1.0, 0.5, 0.2], [0.9, 0.1, 0.3]], dtype=torch.float64, requires_grad=True)
    q, k, v = tokens(4, batch=(), heads=2, d=2, d_v=2)
    assert torch.autograd.gradcheck(lambda *x: masked_attention(*x[:3], sides, f=x[3]), (q, k, v, f))


def test_some_gradients_equal_those_of_all(small_tiles):
    sides = walks_on(CLUB), walks_on(CLUB, stream=1)
    q, k, v = tokens(CLUB.n_nodes)
    inputs = q, k, v, *(random(3, 4, seed=seed).detach().abs().requires_grad_() for seed in range(2))
    loss = masked_attention(q, k, v, sides, f=inputs[3:]).square().sum()
    expected = torch.autograd.grad(loss, inputs)
    for size in range(1, 5):
        for some in itertools.combinations(range(5), size):
            q, k, v, *f = (x.detach().requires_grad_(i in some) for i, x in enumerate(inputs))
            loss = masked_attention(q, k, v, sides, f=f).square().sum()
            found = torch.autograd.grad(loss, [(q, k, v, *f)[i] for i in some])
            assert all(relative(a, expected[i]) < 1e-12 for a, i in zip(found, some, strict=True))


def test_second_derivatives_are_refused():
    q, k, v = (x.requires_grad_() for x in torch.ones(3, 34, 2, dtype=torch.float64))
    f = torch.tensor([1.0, 0.5], dtype=torch.float64, requires_grad=True)
    for x in (q, v, f):
        loss = masked_attention(q, k, v, walks_on(CLUB, 3), f=f).square().sum()
        with pytest.raises(RuntimeError, match="first derivatives only"):
            torch.autograd.grad(loss, x, create_graph=True)


def test_elu_is_positive_where_one_plus_it_rounds_to_zero():
    graph, far = wk.Graph.from_edges([(0, 1)], n_nodes=3), torch.full((3, 1), -30.0)
    walks = WalkTensors(wk.sample_walks(graph, 2), dtype=torch.float32)
    v = torch.tensor([[1.0], [2.0], [5.0]])
    found = masked_attention(far, far, v, walks, f=torch.ones(1))
    assert torch.allclose(found, v)  # f is that of single nodes: each attends to itself


def test_queries_and_keys_may_be_different_nodes():
    left = WalkTensors(wk.sample_walks(CLUB, 6, nodes=[3, 1, 7]))
    right = WalkTensors(wk.sample_walks(CLUB, 6, nodes=[0, 33, 5, 2]))
    f = torch.tensor([1.0, 0.5], dtype=torch.float64)
    q, k, v = random(3, 4), random(4, 4, seed=1), random(4, 2, seed=2)
    found = masked_attention(q, k, v, (left, right), f=f)
    assert relative(found, dense(q, k, v, left.dense(f) @ right.dense(f).T)) < 1e-12
    two = f, torch.tensor([0.3, 0.1], dtype=torch.float64)
    found = masked_attention(q, k, v, (left, right), f=two)
    assert relative(found, dense(q, k, v, left.dense(two[0]) @ right.dense(two[1]).T)) < 1e-12


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_summed_in_single(dtype):
    q, k, v = (x.detach().to(dtype) for x in tokens(CLUB.n_nodes))
    walks, f = walks_on(CLUB, dtype=torch.float32), torch.tensor([1.0, 0.5])
    found = masked_attention(q, k, v, walks, f=f)
    assert found.dtype == dtype
    expected = dense(*(x.float() for x in (q, k, v)), walks.dense(f) @ walks.dense(f).T)
    assert relative(found.float(), expected) < torch.finfo(dtype).eps
    with torch.autocast("cpu", dtype=torch.bfloat16):
        again = masked_attention(q.float(), k.float(), v.float(), walks, f=f)
    assert relative(again, expected) < 1e-5


def mask_error(n_walks):
    """Root mean square of numerators with estimated masks less those with the exact kernel."""
    kernel, q, k, v = wk.Diffusion(1.0), *tokens(CLUB.n_nodes, batch=(), heads=1)
    f = torch.tensor(kernel.modulation(60))
    exact = dense(q, k, v, torch.tensor(wk.exact_kernel(CLUB, kernel)), normalize=False)
    errors = []
    for seed in range(20):
        sides = (WalkTensors(wk.sample_walks(CLUB, n_walks, seed=seed, stream=stream)) for stream in range(2))
        errors.append(masked_attention(q, k, v, tuple(sides), f=f, normalize=False) - exact)
    return float(torch.stack(errors).detach().square().mean().sqrt())


def test_error_falls_as_one_over_the_root_of_the_walks():
    assert 3.2 < mask_error(8) / mask_error(128) < 5.0  # 4 in the limit


REFUSED = {
    "v with a row for each key": lambda q, k, v, w: masked_attention(q, k, v[..., :5, :], w, f=F),
    "k of as many columns as q": lambda q, k, v, w: masked_attention(q, k[..., :2], v, w, f=F),
    "features of as many rows as q has tokens": lambda q, k, v, w: masked_attention(
        *(x[..., :9, :] for x in (q, k, v)), w, f=F
    ),
    "f given for WalkTensors": masked_attention,
    "f of one row, or one for each head": lambda q, k, v, w: masked_attention(q, k, v, w, f=F.expand(2, 2)),
    "f None for CSR tensors": lambda q, k, v, w: masked_attention(q, k, v, w.dense(F).to_sparse_csr(), f=F),
    "features a CSR tensor, WalkTensors": lambda q, k, v, w: masked_attention(q, k, v, w.dense(F)),
    "features a pair with one column": lambda q, k, v, w: masked_attention(
        q, k, v, (w, torch.ones(34, 3, dtype=q.dtype).to_sparse_csr()), f=(F, None)
    ),
    "features one for both sides, or a pair": lambda q, k, v, w: masked_attention(q, k, v, [w, w, w], f=F),
    "feature_map one of 'elu', 'exp'": lambda q, k, v, w: masked_attention(
        q, k, v, w, f=F, feature_map="relu"
    ),
    "k on the device of q, and in double": lambda q, k, v, w: masked_attention(q, k.float(), v, w, f=F),
    "normalize False where a sum of weights": lambda q, k, v, w: masked_attention(
        q, k, v, w, f=F, feature_map=torch.zeros_like
    ),
    "normalize False where a sum": lambda q, k, v, w: masked_attention(
        q, k, v, w, f=F, feature_map=lambda x: torch.stack([x[..., 0], -x[..., 0]], -1) * (x is not k)
    ),
    "q small enough": lambda q, k, v, w: masked_attention(
        1e3 * q, 1e3 * k, v, w, f=F, feature_map="exp", normalize=False
    ),
}
F = torch.tensor([1.0, 0.5], dtype=torch.float64)


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    rule = case.partition(" ")[2]
    with pytest.raises((ValueError, TypeError)) as caught:
        REFUSED[case](*tokens(CLUB.n_nodes), walks_on(CLUB))
    message = str(caught.value)
    assert message.startswith("masked_attention: ")
    assert rule in message


def test_cancelling_weights_are_refused():
    ones = torch.ones(1, 2, 1, dtype=torch.float64)
    features = (
        torch.eye(2, dtype=torch.float64).to_sparse_csr(),
        torch.tensor([[1.0, 0.0], [-1.0, 0.0]], dtype=torch.float64).to_sparse_csr(),
    )
    with pytest.raises(ValueError, match="close to zero or overflows, got 0 at token 0"):
        masked_attention(ones, ones, ones, features)
    assert masked_attention(ones, ones, ones, features, normalize=False).shape == (1, 2, 1)


class TestModule:
    def layer(self, **options):
        torch.manual_seed(0)
        return MaskedAttention(CLUB, 8, 2, **options)

    def test_is_the_function_with_its_projections(self):
        module, x = self.layer(n_walks=8, seed=3), random(5, 34, 8, dtype=torch.float32)
        output, weights = module(x)
        assert weights is None
        q, k, v = (
            part.unflatten(-1, (2, 4)).transpose(-2, -3)
            for part in torch.nn.functional.linear(x, module.in_proj_weight, module.in_proj_bias).chunk(3, -1)
        )
        walks = WalkTensors(wk.sample_walks(CLUB, 8, seed=3, sampler=module.sampler), dtype=torch.float32)
        heads = masked_attention(q, k, v, walks, f=module.f())
        expected = module.out_proj(heads.transpose(-2, -3).flatten(-2))
        assert torch.allclose(output, expected, atol=1e-6)

    @pytest.mark.parametrize("ensembles", ["shared", "independent"])
    def test_parameters_learn_and_walks_are_not_saved(self, ensembles):
        module, x = self.layer(ensembles=ensembles), random(34, 8, dtype=torch.float32)
        before, _ = module(x)
        before.square().sum().backward()
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in module.parameters())
        state = module.state_dict()
        assert not any("walk" in name for name in state)
        other = MaskedAttention(CLUB, 8, 2, ensembles=ensembles)
        other.load_state_dict(state)
        assert torch.equal(other(x)[0], before)
        assert torch.equal(copy.deepcopy(module)(x)[0], before)

    def test_heads_learn_functions_of_their_own(self):
        module = self.layer(kernel=FreeModulation([1.0, 0.5, 0.2]))
        module.modulations[0].theta.data[1] = 3.0
        assert module.f()[0, 1] != module.f()[1, 1]

    def test_kernels_are_fixed(self):
        module = self.layer(kernel=wk.Diffusion(2.0), n_walks=4)
        assert len(module.modulations) == 0
        assert np.allclose(module.f().numpy(), wk.Diffusion(2.0).modulation(module.f().numel()))

    def test_moves_to_other_dtypes(self):
        module = self.layer().double()
        assert module.walks[0].dtype == torch.float64
        assert module(random(34, 8))[0].dtype == torch.float64

    @pytest.mark.parametrize("batch_first", [True, False])
    def test_encoder_layers_call_it_in_training_and_evaluation(self, batch_first):
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=batch_first)
        parameters = layer.self_attn.state_dict()
        plain = copy.deepcopy(layer)
        layer.self_attn = self.layer(batch_first=batch_first)
        assert not layer.self_attn.load_state_dict(parameters, strict=False).unexpected_keys
        x = random(3, 34, 8, dtype=torch.float32, grad=False)
        x = x if batch_first else x.transpose(0, 1)
        trained = layer(x)
        layer.eval()
        with torch.no_grad():
            assert torch.allclose(layer(x), trained, atol=1e-6)
            assert not torch.allclose(plain(x), trained, atol=1e-2)

    @pytest.mark.parametrize(
        ("arguments", "options", "message"),
        [
            ((CLUB, 8, 3), {}, "dim must be a multiple of n_heads=3"),
            ((CLUB, 8, 2), {"kernel": "heat"}, "kernel must be"),
            ((CLUB, 8, 2), {"ensembles": "debiased"}, "ensembles must be one of 'shared', 'independent'"),
            (
                (CLUB, 8, 2),
                {"matrix": "adjacency", "kernel": wk.Diffusion()},
                "matrix must be that of the kernel",
            ),
            ((wk.Graph.from_edges([(0, 1)], directed=True), 8, 2), {}, "graph must be undirected"),
        ],
    )
    def test_refusals(self, arguments, options, message):
        with pytest.raises((ValueError, TypeError), match=message):
            MaskedAttention(*arguments, **options)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"need_weights": True}, "need_weights must be False"),
            ({"attn_mask": torch.ones(1)}, "attn_mask must be None"),
            ({"is_causal": True}, "is_causal must be False"),
            ({"key": torch.ones(34, 7)}, r"key must be a tensor of shape \(…, 34, 8\)"),
            (
                {"value": torch.ones(33, 8)},
                r"value must be a tensor of shape \(…, 34, 8\), got shape \(33, 8\)",
            ),
        ],
    )
    def test_refused_calls(self, options, message):
        with pytest.raises(ValueError, match=message):
            self.layer()(torch.ones(34, 8), **options)

    def test_default_modulations_stay_positive(self):
        layer = self.layer()
        assert torch.allclose(layer.f()[0, :6].detach(), 0.5 ** torch.arange(6.0), rtol=0.05)
        with torch.no_grad():
            for parameter in layer.modulations.parameters():
                parameter.normal_()
        assert (layer.f() > 0).all()

    def test_half_precision_is_refused_by_name(self):
        with pytest.raises(
            ValueError, match=r"^MaskedAttention: dtype must be torch.float64 or torch.float32"
        ):
            self.layer().to(torch.bfloat16)
