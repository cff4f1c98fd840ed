"""Properties that hold for every graph, kernel and f."""

import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import walkernel as wk
from walkernel.kernels import convolve, deconvolve
from walkernel.storage import _passes as _chunks


@st.composite
def small_graphs(draw):
    n = draw(st.integers(1, 9))
    pairs = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=20, unique=True))
    directed = draw(st.booleans())
    weights = None
    if draw(st.booleans()):
        weights = draw(
            st.lists(st.floats(0.1, 10) | st.floats(-10, -0.1), min_size=len(pairs), max_size=len(pairs))
        )
    return wk.Graph.from_edges(pairs, n_nodes=n, weights=weights, directed=directed)


modulations = hnp.arrays(np.float64, st.integers(1, 12), elements=st.floats(-3, 3))
kernels = st.one_of(
    st.builds(wk.Diffusion, st.floats(0.05, 8)),
    st.builds(wk.RegularizedLaplacian, st.floats(0.2, 5), st.floats(0.1, 6)),
    st.builds(wk.Matern, st.floats(0.2, 5), st.floats(0.1, 6)),
    st.builds(wk.PStepRandomWalk, st.integers(1, 8), st.floats(2, 30)),
    st.builds(wk.InverseCosine, st.floats(0.05, 1.0)),
)


@given(kernels, st.integers(1, 3))
def test_f_convolved_with_itself_is_alpha(kernel, stitches):
    f, alpha = kernel.modulation(80, stitches=stitches), kernel.coefficients(80)
    whole = f
    for _ in range(2 * stitches - 1):
        whole = convolve(whole, f, 80)
    assert np.abs(whole - alpha).max() <= 1e-12 * np.abs(alpha).max()


@given(modulations, modulations.filter(lambda f: abs(f[0]) > 0.5))
def test_deconvolution_inverts_convolution(f1, f2):
    product = convolve(f1, f2, f1.size)
    assert np.allclose(deconvolve(product, f2), f1, atol=1e-6)


@given(small_graphs(), modulations, modulations, st.floats(-2, 2), st.integers(0, 2**64 - 1))
def test_features_are_linear_in_f(graph, f, g, c, seed):
    walks = wk.sample_walks(graph, 4, seed=seed)
    size = max(f.size, g.size)
    combined = np.pad(f, (0, size - f.size)) + c * np.pad(g, (0, size - g.size))
    left = walks.features(combined).toarray()
    right = walks.features(f).toarray() + c * walks.features(g).toarray()
    assert np.allclose(left, right, rtol=1e-9, atol=1e-9 * (1 + np.abs(right).max()))


@given(small_graphs(), modulations, st.floats(0.1, 3))
def test_scaling_the_matrix_is_scaling_f(graph, f, c):
    """W → cW and f_k → cᵏ f_k are the same; on the adjacency matrix the walks do not even change."""
    scaled = wk.Graph.from_scipy(graph.to_scipy() * c, directed=graph.directed)
    uniform = wk.IndependentWalks(transition="uniform")
    a = wk.sample_walks(scaled, 4, sampler=uniform, matrix="adjacency").features(f).toarray()
    powers = c ** np.arange(f.size)
    b = wk.sample_walks(graph, 4, sampler=uniform, matrix="adjacency").features(f * powers).toarray()
    assert np.allclose(a, b, rtol=1e-9, atol=1e-9 * (1 + np.abs(b).max()))


@given(small_graphs(), st.integers(0, 2**64 - 1), st.randoms(use_true_random=False))
def test_any_partition_of_the_rows_is_bitwise_equal(graph, seed, random):
    whole = wk.sample_walks(graph, 3, seed=seed).features(wk.Diffusion(1.0))
    nodes = list(range(graph.n_nodes))
    random.shuffle(nodes)
    cut = random.randint(0, len(nodes))
    for part in (nodes[:cut], nodes[cut:]):
        if part:
            rows = wk.sample_walks(graph, 3, seed=seed, nodes=part, engine=wk.engines.CPU(2)).features(
                wk.Diffusion(1.0)
            )
            assert np.array_equal(rows.toarray(), whole[part].toarray())


@given(small_graphs(), st.integers(0, 2**64 - 1), st.booleans(), st.sampled_from(["weights", "uniform"]))
def test_every_step_is_an_edge(graph, seed, transpose, transition):
    sampler = wk.IndependentWalks(0.2, transition=transition)
    walks = wk.sample_walks(graph, 5, seed=seed, sampler=sampler, transpose=transpose)
    A = graph.to_scipy().toarray()
    A = A.T if transpose else A
    record = walks.deposits
    step = record.lengths[1:] > 0
    assert (A[record.nodes[:-1][step], record.nodes[1:][step]] != 0).all()
    starts = np.repeat(walks.ids, np.diff(record.indptr))
    assert np.array_equal(record.nodes[record.lengths == 0], starts[record.lengths == 0])


@given(small_graphs())
def test_labels_change_nothing(graph):
    names = [("node", i) for i in range(graph.n_nodes)]
    rows, columns = np.nonzero(graph.to_scipy().toarray())
    pairs = [(names[i], names[j]) for i, j in zip(rows, columns, strict=True) if graph.directed or i <= j]
    if not pairs:
        return
    values = [graph.to_scipy().toarray()[a[1], b[1]] for a, b in pairs]
    labelled = wk.Graph.from_edges(pairs, weights=values, directed=graph.directed)
    kept = [label[1] for label in labelled.labels]
    assert np.array_equal(labelled.to_scipy().toarray(), graph.to_scipy().toarray()[np.ix_(kept, kept)])


@given(small_graphs(), st.integers(1, 5), st.integers(0, 2**64 - 1))
def test_a_stored_graph_is_the_same_in_every_bit(graph, entries, seed):
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(_chunks, "ENTRIES_AT_ONCE", entries):
        graph.save(f"{folder}/store")
        back = wk.load_graph(f"{folder}/store")
        assert (back.fingerprint, repr(back)) == (graph.fingerprint, repr(graph))
        assert np.array_equal(back.in_degrees(), graph.in_degrees())
        here, there = (wk.sample_walks(g, 3, seed=seed).deposits for g in (graph, back))
        assert np.array_equal(here.nodes, there.nodes)
        assert np.array_equal(here.loads, there.loads)


@given(small_graphs(), st.data())
def test_no_changed_byte_of_a_store_goes_unseen(graph, data):
    with tempfile.TemporaryDirectory() as folder:
        graph.save(f"{folder}/store")
        path = data.draw(st.sampled_from(sorted(Path(folder, "store").glob("*.npy"))))
        content = bytearray(path.read_bytes())
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] ^= data.draw(st.integers(1, 255))
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"{path.name} is damaged"):
            wk.load_graph(f"{folder}/store")
