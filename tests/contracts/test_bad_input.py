"""Bad input over the whole public API: what is raised, and what the message tells.

A row is (id, call, error, fragments); the message must hold every one of the fragments, which are parted
by "; ": the parameter, the rule, the value received and, where there is one, the remedy.
"""

import math
import traceback
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
import scipy.sparse

import walkernel as wk
from walkernel import Diffusion, Graph, IndependentWalks, PowerSeries, Walks
from walkernel.kernels import convolve, deconvolve
from walkernel.theory import batch_length, generalization_bound, margin_loss, rademacher_bound
from walkernel.walks import Deposits

VALUE, TYPE, DIVERGES = ValueError, TypeError, wk.DivergentKernelError
NAN, INF = math.nan, math.inf
from_edges, from_scipy = Graph.from_edges, Graph.from_scipy
from_networkx, from_pyg = Graph.from_networkx, Graph.from_pyg
from_function = PowerSeries.from_function
PAIRS = [(0, 1), (1, 2)]
ASYMMETRIC = np.array([[0.0, 1.0], [0.0, 0.0]])
TRIANGLE = from_edges([(0, 1), (1, 2), (2, 0)])
NAMED = from_edges([("a", "b"), ("b", "c"), ("c", "a")])
DIRECTED = from_edges([(0, 1), (1, 2), (2, 0), (0, 2)], directed=True)
HUGE = from_edges(PAIRS, n_nodes=10**6)
HEAT = Diffusion()
WILD = wk.RegularizedLaplacian(sigma=2.0, matrix="adjacency")
THREAD_RULE = "WALKERNEL_NUM_THREADS must be a whole number of at least 1"


def sample(graph=TRIANGLE, n_walks=8, **options):
    return wk.sample_walks(graph, n_walks, **options)


def estimate(graph=TRIANGLE, kernel=HEAT, n_walks=None, **options):
    return wk.estimate_kernel(graph, kernel, n_walks, **options)


def nearest(graph=TRIANGLE, kernel=HEAT, nodes=0, k=1, **options):
    return wk.nearest(graph, kernel, nodes, k, **options)


def polynomial(graph=TRIANGLE, kernel=HEAT, **options):
    return wk.polynomial_operator(graph, kernel, **options)


def rank(seeds=0, graph=TRIANGLE, **options):
    return wk.personalized_pagerank(graph, seeds, **options)


class Elsewhere(wk.engines.Engine):
    def record(self, spec, progress=None):
        raise AssertionError("walked")


operator = cache(partial(estimate, n_walks=8))
walks = cache(partial(sample, n_walks=4))
features = cache(lambda: walks().features(HEAT))
huge = cache(lambda: polynomial(HUGE))


def pyg(edge_index, **rest):
    return SimpleNamespace(edge_index=np.array(edge_index), **rest)


# fmt: off
CASES = [
    # graphs: weights
    ("weights-nan", lambda: from_edges(PAIRS, weights=[1, NAN]), VALUE, "weights; finite; nan at position 1"),
    ("weights-inf", lambda: from_edges(PAIRS, weights=[INF, 1]), VALUE, "weights; finite; inf at position 0"),
    ("weights-complex", lambda: from_edges(PAIRS, weights=[1j, 1]), TYPE, "weights; real; complex128"),
    ("weights-text", lambda: from_edges(PAIRS, weights=["1", "b"]), TYPE, "weights; numbers; ['1', 'b']"),
    ("weights-few", lambda: from_edges(PAIRS, weights=[1]), VALUE, "weights; one per edge (2); 1 weights"),
    ("weights-2d", lambda: from_edges(PAIRS, weights=[[1, 2]]), VALUE, "weights; 1-dimensional; (1, 2)"),
    ("weights-scalar", lambda: from_edges(PAIRS, weights=2.5), VALUE, "weights; 1-dimensional; got 2.5"),
    ("weights-ragged", lambda: from_edges(PAIRS, weights=[[1], [1, 2]]), VALUE, "weights; [[1], [1, 2]]"),
    ("overflow", lambda: from_edges([(0, 1), (1, 0)], weights=[1e308, 1e308]), VALUE, "weights; finite"),
    # graphs: ids and labels
    ("id-negative", lambda: from_edges([(0, -1)]), VALUE, "edges; at least 0; -1"),
    ("id-negative-generator", lambda: from_edges(e for e in [(0, -1)]), VALUE, "edges; at least 0; -1"),
    ("id-float", lambda: from_edges([(0, 1.5)]), TYPE, "edges; whole-number ids; 1.5; Convert ids to int"),
    ("id-float-array", lambda: from_edges(np.ones((1, 2))), TYPE, "edges; 1.0; Convert ids to int"),
    ("id-bool", lambda: from_edges([(True, False)]), TYPE, "edges; whole-number ids; True"),
    ("id-bool-among-ints", lambda: from_edges([(0, True)]), TYPE, "edges; whole-number ids; True"),
    ("id-beyond", lambda: from_edges(PAIRS, n_nodes=2), VALUE, "edges; n_nodes=2; the id 2; from 0"),
    ("id-sparse", lambda: from_edges([(0, 10**6)]), VALUE, "edges; 1000000; relabel=True; n_nodes="),
    ("id-sparse-object", lambda: from_edges(np.array([[0, 999]], dtype=object)), VALUE, "999; relabel=True"),
    ("id-64-bit", lambda: from_edges([(0, 2**63)]), VALUE, "edges; below 2**63; 9223372036854775808"),
    ("n_nodes-zero", lambda: from_edges(PAIRS, n_nodes=0), VALUE, "n_nodes; whole number; got 0"),
    ("n_nodes-text", lambda: from_edges(PAIRS, n_nodes="3"), TYPE, "n_nodes; whole number; '3'"),
    ("n_nodes-2**70", lambda: from_edges(PAIRS, n_nodes=2**70), VALUE, "n_nodes; whole number"),
    ("n_nodes-labels", lambda: from_edges([("a", "b")], n_nodes=4), VALUE, "n_nodes; None; 4; networkx"),
    ("label-unhashable", lambda: from_edges([([1], "b")]), TYPE, "edges[0]; hashable; ([1], 'b')"),
    ("label-nan", lambda: from_edges([(NAN, "b")]), VALUE, "edges[0]; nan; NaN is not equal to itself"),
    # graphs: shapes
    ("edges-2xm", lambda: from_edges(np.ones((2, 4), int)), VALUE, "edges; (m, 2); (2, 4); transpose"),
    ("edges-2x3", lambda: from_edges(np.ones((2, 3), int)), VALUE, "(m, 2); (2, 3); transpose; weights="),
    ("edges-mx3", lambda: from_edges(np.ones((4, 3), int)), VALUE, "edges; (m, 2); (4, 3); weights="),
    ("edges-triples", lambda: from_edges([(0, 1, 2.0)]), VALUE, "edges[0]; pair; (0, 1, 2.0); weights="),
    ("edges-ragged", lambda: from_edges([(0, 1), (1,)]), VALUE, "edges[1]; a pair of nodes; (1,)"),
    ("edges-flat", lambda: from_edges(np.arange(4)), VALUE, "edges; (m, 2); (4,)"),
    ("edges-set", lambda: from_edges([{0, 1}]), VALUE, "edges[0]; a pair of nodes; {0, 1}"),
    ("edges-text", lambda: from_edges("ab"), TYPE, "edges; a list of pairs of nodes; 'ab'"),
    ("edges-none", lambda: from_edges(None), TYPE, "edges; a list of pairs of nodes; None"),
    ("edges-empty", lambda: from_edges([]), VALUE, "at least one node; none; n_nodes="),
    ("edges-matrix", lambda: from_edges(scipy.sparse.eye_array(3)), TYPE, "edges; pairs; from_scipy"),
    ("directed-text", lambda: from_edges(PAIRS, directed="yes"), TYPE, "directed; True or False; 'yes'"),
    # graphs: other sources
    ("scipy-not-square", lambda: from_scipy(np.ones((2, 3))), VALUE, "from_scipy: A; square; (2, 3)"),
    ("scipy-1d", lambda: from_scipy(np.ones(3)), VALUE, "from_scipy: A; 2-dimensional; (3,)"),
    ("scipy-ragged", lambda: from_scipy([[0, 1], [1]]), VALUE, "from_scipy: A; rectangular; [[0, 1], [1]]"),
    ("scipy-empty", lambda: from_scipy(np.empty((0, 0))), VALUE, "from_scipy; at least one node"),
    ("scipy-nan", lambda: from_scipy([[0, NAN], [NAN, 0]]), VALUE, "from_scipy: A; finite; nan"),
    ("lil-nan", lambda: from_scipy(scipy.sparse.lil_array([[NAN]])), VALUE, "from_scipy: A; finite; nan"),
    ("csr-complex", lambda: from_scipy(scipy.sparse.csr_array([[1j]])), TYPE, "A must be real; complex128"),
    ("scipy-text", lambda: from_scipy("abc"), TYPE, "from_scipy: A; numbers; 'abc'"),
    ("scipy-asymmetric", lambda: from_scipy(ASYMMETRIC, directed=False), VALUE,
     "from_scipy: A; symmetric; directed=False; (A + A.T) / 2; directed=True"),
    ("networkx-text", lambda: from_networkx("graph"), TYPE, "networkx: G; a NetworkX graph; 'graph'"),
    ("networkx-class", lambda: from_networkx(nx.Graph), TYPE, "networkx: G; a NetworkX graph"),
    ("networkx-empty", lambda: from_networkx(nx.Graph()), VALUE, "from_networkx; at least one node"),
    ("networkx-nan-node", lambda: from_networkx(nx.Graph([(NAN, "b")])), VALUE, "from_networkx; nan"),
    ("nx-nan-weight", lambda: from_networkx(nx.Graph([(0, 1, {"weight": NAN})])), VALUE, "weight; nan"),
    ("pyg-shape", lambda: from_pyg(pyg([[0, 1]] * 3)), VALUE, "edge_index; (2, m); (3, 2)"),
    ("pyg-float", lambda: from_pyg(pyg([[0.5], [1.0]])), VALUE, "edge_index; integer; float64"),
    ("pyg-negative", lambda: from_pyg(pyg([[0], [-2]])), VALUE, "edge_index; at least 0; -2"),
    ("pyg-sparse", lambda: from_pyg(pyg([[0], [10**6]])), VALUE, "edge_index; 1000000; num_nodes"),
    ("pyg-weights", lambda: from_pyg(pyg([[0], [1]], edge_weight=[])), VALUE, "edge_weight; one per edge"),
    ("pyg-none", lambda: from_pyg(None), TYPE, "data; edge_index; None"),
    ("to_scipy", lambda: TRIANGLE.to_scipy("laplacian"), VALUE, "matrix; 'adjacency'; 'laplacian'"),
    # nodes
    ("ids-beyond", lambda: TRIANGLE.ids([0, 3]), VALUE, "nodes; ids from 0 to 2; the id 3"),
    ("ids-negative", lambda: TRIANGLE.ids(-1), VALUE, "nodes; ids from 0 to 2; the id -1"),
    ("ids-2**70", lambda: TRIANGLE.ids(2**70), VALUE, "nodes; ids from 0 to 2; 1180591620717411303424"),
    ("ids-float", lambda: TRIANGLE.ids([1.0]), TYPE, "nodes; whole-number ids; [1.0]"),
    ("ids-bool", lambda: TRIANGLE.ids(True), TYPE, "nodes; whole-number ids; True"),
    ("ids-ragged", lambda: TRIANGLE.ids([[0], [1, 2]]), TYPE, "nodes; whole-number ids; [[0], [1, 2]]"),
    ("ids-label", lambda: TRIANGLE.ids(["a"]), TYPE, "nodes; whole-number ids; no labels; ['a']"),
    ("labels-unknown", lambda: NAMED.ids(["a", "z"]), VALUE, "nodes; labels of; the unknown 'z'"),
    ("labels-id", lambda: NAMED.ids(0), VALUE, "nodes; the unknown 0; takes labels only"),
    ("labels-id-array", lambda: NAMED.ids(np.array([0])), VALUE, "nodes; the unknown 0.; takes labels only"),
    ("labels-unhashable", lambda: NAMED.ids(["a", {}]), VALUE, "nodes; labels of; the unknown {}"),
    ("labels-ragged", lambda: NAMED.ids([["a"], ["b", "c"]]), VALUE, "nodes; [['a'], ['b', 'c']]"),
    # samplers and walks
    ("p_halt-zero", lambda: IndependentWalks(0), VALUE, "p_halt; greater than 0; less than 1; got 0"),
    ("p_halt-one", lambda: IndependentWalks(1.0), VALUE, "p_halt; greater than 0; less than 1; got 1.0"),
    ("p_halt-nan", lambda: IndependentWalks(NAN), VALUE, "p_halt; finite; nan"),
    ("p_halt-text", lambda: IndependentWalks("0.1"), TYPE, "p_halt; number; '0.1'"),
    ("p_halt-small", lambda: IndependentWalks(1e-9), VALUE, "p_halt; at least 1e-06; 1e-09"),
    ("p_halt-10**400", lambda: IndependentWalks(10**400), VALUE, "p_halt; less than 1"),
    ("transition", lambda: IndependentWalks(transition="lazy"), VALUE, "transition; 'uniform'; 'lazy'"),
    ("walks-graph", lambda: sample(np.eye(3)), TYPE, "graph; a Graph; (3, 3); from_scipy"),
    ("n_walks-zero", lambda: sample(n_walks=0), VALUE, "n_walks; from 1 to 4294967294; got 0"),
    ("n_walks-float", lambda: sample(n_walks=1.5), VALUE, "n_walks; whole number; 1.5"),
    ("n_walks-bool", lambda: sample(n_walks=True), TYPE, "n_walks; whole number; True"),
    ("n_walks-text", lambda: sample(n_walks="8"), TYPE, "n_walks; whole number; '8'"),
    ("n_walks-many", lambda: sample(n_walks=2**32), VALUE, "n_walks; to 4294967294; got 4294967296"),
    ("sampler", lambda: sample(sampler=0.1), TYPE, "sampler; IndependentWalks; 0.1; float"),
    ("seed-float", lambda: sample(seed=1.5), VALUE, "seed; whole number; 1.5"),
    ("seed-none", lambda: sample(seed=None), TYPE, "seed; whole number; None"),
    ("seed-negative", lambda: sample(seed=-1), VALUE, "seed; from 0; -1"),
    ("seed-large", lambda: sample(seed=2**64), VALUE, "seed; 18446744073709551615; 551616"),
    ("stream-negative", lambda: sample(stream=-1), VALUE, "stream; from 0 to 65535; -1"),
    ("stream-large", lambda: sample(stream=65536), VALUE, "stream; from 0 to 65535; 65536"),
    ("nodes-twice", lambda: sample(nodes=[1, 1]), VALUE, "nodes; distinct; 1 more than once"),
    ("nodes-label-twice", lambda: sample(NAMED, nodes=["b", "b"]), VALUE, "nodes; distinct; 'b' more"),
    ("nodes-empty", lambda: sample(nodes=[]), VALUE, "nodes; non-empty, flat list; (0,)"),
    ("nodes-scalar", lambda: sample(nodes=2), VALUE, "nodes; non-empty, flat list; got 2."),
    ("nodes-2d", lambda: sample(nodes=[[0, 1]]), VALUE, "nodes; flat list; (1, 2)"),
    ("walks-matrix", lambda: sample(matrix="L"), VALUE, "matrix; 'combinatorial'; 'L'"),
    ("transpose", lambda: sample(transpose="no"), TYPE, "transpose; True or False; 'no'"),
    ("threads-zero", lambda: sample(engine=wk.engines.CPU(0)), VALUE, "CPU: n_threads; at least 1; 0"),
    ("threads-text", lambda: sample(engine=wk.engines.CPU("all")), TYPE, "n_threads; whole number; 'all'"),
    ("progress", lambda: sample(progress=True), TYPE, "progress; function of (done, total); True"),
    ("concatenate-none", lambda: Walks.concatenate([]), VALUE, "parts; at least one Walks; []"),
    ("concatenate-other", lambda: Walks.concatenate([walks(), 3]), TYPE, "parts; Walks; got 3"),
    ("concatenate-seeds", lambda: Walks.concatenate([walks(), sample(n_walks=4, seed=7)]), VALUE,
     "seed; the same in all parts; got 7"),
    # features
    ("f-2d", lambda: walks().features([[1.0, 2.0]]), VALUE, "features: f; 1-dimensional; (1, 2)"),
    ("f-nan", lambda: walks().features([1.0, NAN]), VALUE, "features: f; finite; nan at position 1"),
    ("f-texts", lambda: walks().features(["a"]), TYPE, "features: f; numbers; ['a']"),
    ("f-length", lambda: walks().features(lambda k: [1.0]), VALUE, "f must be one value for each; (1,)"),
    ("f-scalar", lambda: walks().features(lambda k: 1.5), VALUE, "features: f; 1-dimensional; got 1.5"),
    ("f-other-matrix", lambda: walks().features(WILD), VALUE, "matrix; 'normalized'; 'adjacency'; Sample"),
    ("f-no-root", lambda: walks().features(PowerSeries([0.0, 1.0])), VALUE, "positive α₀; got 0; lazy"),
    ("dtype-int", lambda: walks().features(HEAT, dtype=int), VALUE, "dtype; float64 or float32; int"),
    ("dtype", lambda: walks().features(HEAT, dtype="tiny"), VALUE, "dtype; float64 or float32; 'tiny'"),
    # kernels
    ("sigma-zero", lambda: Diffusion(0), VALUE, "Diffusion; sigma; finite; greater than 0; got 0"),
    ("sigma-nan", lambda: Diffusion(NAN), VALUE, "Diffusion; sigma; finite; nan"),
    ("sigma-text", lambda: Diffusion("1"), TYPE, "Diffusion; sigma; number; '1'"),
    ("sigma-squared-overflows", lambda: Diffusion(1e200), VALUE, "Diffusion; sigma; 1e+200"),
    ("sigma-squared-underflows", lambda: Diffusion(1e-200), VALUE, "Diffusion; sigma; 1e-200"),
    ("diffusion-matrix", lambda: Diffusion(matrix="L"), VALUE, "Diffusion; matrix; 'adjacency'; 'L'"),
    ("laplacian-d", lambda: wk.RegularizedLaplacian(d=0), VALUE, "d must be; greater than 0; got 0"),
    ("laplacian-sigma", lambda: wk.RegularizedLaplacian(sigma=INF), VALUE, "Laplacian; sigma; inf"),
    ("laplacian-sigma-small", lambda: wk.RegularizedLaplacian(sigma=1e-200), VALUE, "sigma; 1e-200"),
    ("matern-nu", lambda: wk.Matern(nu=-1), VALUE, "Matern; nu; greater than 0; -1"),
    ("matern-kappa", lambda: wk.Matern(kappa=[1.0]), TYPE, "Matern; kappa; number; [1.0]"),
    ("pstep-p", lambda: wk.PStepRandomWalk(p=1.5), VALUE, "PStepRandomWalk: p; whole number; 1.5"),
    ("pstep-alpha", lambda: wk.PStepRandomWalk(alpha=1.9), VALUE, "PStepRandomWalk; alpha; at least 2; 1.9"),
    ("cosine-scale", lambda: wk.InverseCosine(0), VALUE, "InverseCosine; scale; other than 0; got 0"),
    ("cosine-scale-nan", lambda: wk.InverseCosine(NAN), VALUE, "InverseCosine; scale; finite; nan"),
    ("series-empty", lambda: PowerSeries([]), VALUE, "PowerSeries; coefficients; non-empty; []"),
    ("series-nan", lambda: PowerSeries([1, NAN]), VALUE, "PowerSeries; coefficients; finite; nan at"),
    ("series-2d", lambda: PowerSeries([[1, 2]]), VALUE, "PowerSeries; coefficients; 1-dimensional; (1, 2)"),
    ("series-complex", lambda: PowerSeries([1j]), TYPE, "PowerSeries; coefficients; real; complex128"),
    ("fn-number", lambda: from_function(3), TYPE, "from_function; fn; function; 3"),
    ("fn-sqrt", lambda: from_function(np.sqrt), VALUE, "fn must be; analytic; shift their argument"),
    ("fn-math", lambda: from_function(math.exp), VALUE, "fn must be; vectorised; TypeError"),
    ("fn-sum", lambda: from_function(np.sum), VALUE, "fn must be; elementwise; shape ()"),
    ("fn-complex", lambda: from_function(lambda x: 1j * x), VALUE, "fn must be real on the real axis"),
    ("fn-matrix", lambda: from_function(np.exp, matrix="A"), VALUE, "from_function; matrix; 'A'"),
    ("sum-matrices", lambda: HEAT + WILD, VALUE, "matrix; same on both; 'normalized'; 'adjacency'"),
    ("sum-number", lambda: HEAT + 1, TYPE, "Diffusion: ; other side; a Kernel; 1; int"),
    ("multiple-text", lambda: HEAT * "2", TYPE, "factor; finite number; '2'"),
    ("multiple-nan", lambda: NAN * HEAT, VALUE, "factor; finite number; nan"),
    ("multiple-array", lambda: np.ones(3) * HEAT, TYPE, "factor; finite number; (3,)"),
    ("scaled-inf", lambda: HEAT.scaled(INF), VALUE, "beta; finite number; inf"),
    ("length-zero", lambda: HEAT.coefficients(0), VALUE, "length; at least 1; got 0"),
    ("length-float", lambda: HEAT.modulation(2.5), VALUE, "length; whole number; 2.5"),
    ("length-text", lambda: (HEAT + HEAT).coefficients("3"), TYPE, "length; whole number; '3'"),
    ("stitches", lambda: HEAT.modulation(4, stitches=0), VALUE, "stitches; at least 1; got 0"),
    ("no-root", lambda: PowerSeries([-1, 1]).modulation(3), VALUE, "positive α₀; got -1; pair='lazy'"),
    ("root-overflows", lambda: PowerSeries([1e-300, 1]).modulation(5), VALUE, "overflow"),
    ("interval", lambda: HEAT.is_positive_semidefinite((1, 2, 3)), VALUE, "semidefinite; interval"),
    ("deconvolve-zero", lambda: deconvolve([1, 2], [0, 1]), VALUE, "modulation; other than zero; f₂(0) ≠ 0"),
    ("deconvolve-empty", lambda: deconvolve([], [1.0]), VALUE, "deconvolve; coefficients; non-empty"),
    ("deconvolve-nan", lambda: deconvolve([NAN], [1.0]), VALUE, "deconvolve; coefficients; finite; nan"),
    ("deconvolve-2d", lambda: deconvolve([1.0], [[1.0]]), VALUE, "modulation; 1-dimensional; (1, 1)"),
    ("deconvolve-length", lambda: deconvolve([1.0], [1.0], 0), VALUE, "deconvolve; length; at least 1; 0"),
    ("convolve-text", lambda: convolve(["a"], [1.0], 2), TYPE, "convolve; numbers; ['a']"),
    ("convolve-length", lambda: convolve([1.0], [1.0], -1), VALUE, "convolve; length; at least 1; got -1"),
    # estimates
    ("kernel-text", lambda: estimate(kernel="heat"), TYPE, "kernel; a Kernel; 'heat'; from_function"),
    ("pair", lambda: estimate(pair="both"), VALUE, "pair; 'auto', 'symmetric', 'lazy'; 'both'"),
    ("ensembles", lambda: estimate(ensembles="one"), VALUE, "ensembles; 'shared'; 'one'"),
    ("shared-lazy", lambda: estimate(pair="lazy", ensembles="shared"), VALUE,
     "ensembles; 'independent' with the lazy pair; 'shared'; unbiased already"),
    ("debiased-lazy", lambda: estimate(pair="lazy", ensembles="debiased"), VALUE, "lazy pair; 'debiased'"),
    ("shared-directed", lambda: estimate(DIRECTED, ensembles="shared"), VALUE,
     "ensembles; 'independent' for a directed graph; 'shared'; symmetric M only"),
    ("debiased-one", lambda: estimate(n_walks=1, ensembles="debiased"), VALUE, "n_walks; at least 2; got 1"),
    ("no-root-pair", lambda: estimate(kernel=PowerSeries([0, 1]), pair="symmetric"), VALUE,
     "positive α₀; got 0; pair='lazy'"),
    ("budget-and-walks", lambda: estimate(n_walks=8, budget=100), VALUE, "budget; None if n_walks; 100"),
    ("budget-small", lambda: estimate(budget=3), VALUE, "budget; at least 8 steps; 2 walks; 3; fewer nodes"),
    ("budget-nan", lambda: estimate(budget=NAN), VALUE, "budget; finite; nan"),
    ("estimate-walks", lambda: estimate(n_walks="8"), TYPE, "n_walks; whole number; '8'"),
    ("estimate-seed", lambda: estimate(n_walks=8, seed=-1), VALUE, "seed; from 0; -1"),
    ("estimate-nodes", lambda: estimate(NAMED, nodes=[0]), VALUE, "nodes; labels only"),
    ("diverges", lambda: estimate(kernel=WILD), DIVERGES,
     "RegularizedLaplacian; sigma=2.0; spectral radius; adjacency; is 2; below 1.25; matrix='normalized'"),
    ("diverges-exact", lambda: wk.exact_kernel(TRIANGLE, WILD), DIVERGES, "radius; below 1.25"),
    ("diverges-polynomial", lambda: polynomial(DIRECTED, WILD), DIVERGES, "below 1.25"),
    ("diverges-features", lambda: sample(n_walks=4, matrix="adjacency").features(WILD), DIVERGES,
     "radius; below 1.25"),
    # operators
    ("product-length", lambda: operator() @ np.ones(4), VALUE, "right-hand side; of length 3; shape (4,)"),
    ("product-complex", lambda: operator() @ np.array([1j, 1, 1]), TYPE, "right-hand side; real; complex128"),
    ("product-texts", lambda: operator() @ ["a", "b", "c"], TYPE, "right-hand side; real; ['a', 'b', 'c']"),
    ("product-ragged", lambda: operator() @ [[1], [1, 2], [3]], TYPE, "right-hand side; real; [[1], [1, 2]"),
    ("product-dot", lambda: operator().dot(np.ones(4)), VALUE, "right-hand side; of length 3; shape (4,)"),
    ("product-left", lambda: np.ones(4) @ operator(), VALUE, "left-hand side; of length 3; shape (4,)"),
    ("entries-shapes", lambda: operator().entries([0, 1], [0, 1, 2]), VALUE, "rows and cols; (2,) and (3,)"),
    ("entries-label", lambda: operator().entries("a", 0), TYPE, "nodes; whole-number ids; 'a'"),
    ("entries-unknown", lambda: operator(NAMED).entries(["a"], ["z"]), VALUE, "nodes; labels of; 'z'"),
    ("entries-outside", lambda: operator(nodes=(0, 2)).entries([0], [1]), VALUE, "cols; K.nodes; got 1."),
    ("rows-outside", lambda: operator(nodes=(0, 2)).rows([1]), VALUE, "nodes; own nodes (K.nodes); got 1."),
    ("rows-beyond", lambda: operator().rows([7]), VALUE, "nodes; ids from 0 to 2; the id 7"),
    ("rows-2d", lambda: operator().rows([[0, 1]]), VALUE, "rows; nodes; flat; (1, 2)"),
    ("topk-zero", lambda: operator().topk([0], 0), VALUE, "topk: k; at least 1; got 0"),
    ("topk-float", lambda: operator().topk([0], 1.5), VALUE, "topk: k; whole number; 1.5"),
    ("topk-2d", lambda: operator().topk([[0, 1]], 1), VALUE, "topk; nodes; flat; (1, 2)"),
    ("topk-memory", lambda: operator().topk([0], 10**15), VALUE, "topk; GiB; limit"),
    ("nearest-graph", lambda: wk.nearest(np.eye(3), HEAT, [0], 1), TYPE, "nearest: graph; Graph; from_scipy"),
    ("nearest-kernel", lambda: nearest(kernel=0.5), TYPE, "nearest: kernel; Kernel; 0.5; from_function"),
    ("nearest-node", lambda: nearest(nodes=[3]), VALUE, "nearest: nodes; 3"),
    ("nearest-label", lambda: nearest(NAMED, nodes=[0]), VALUE, "nearest: nodes; 0"),
    ("nearest-2d", lambda: nearest(nodes=[[0, 1]]), VALUE, "nearest: nodes; flat; (1, 2)"),
    ("nearest-k", lambda: nearest(k=0), VALUE, "nearest: k; at least 1; got 0"),
    ("nearest-k-float", lambda: nearest(k=1.5), VALUE, "nearest: k; whole number; 1.5"),
    ("nearest-memory", lambda: nearest(k=10**15), VALUE, "nearest; GiB; k"),
    ("nearest-tolerance", lambda: nearest(tolerance=0.0), VALUE, "nearest: tolerance; greater than 0; 0.0"),
    ("nearest-tolerance-one", lambda: nearest(tolerance=1), VALUE, "nearest: tolerance; less than 1; 1"),
    ("nearest-method", lambda: nearest(method="ball"), VALUE, "nearest: method; 'push'; 'ball'"),
    ("nearest-seed", lambda: nearest(seed=-1), VALUE, "nearest: seed; from 0; -1"),
    ("nearest-engine", lambda: nearest(engine=Elsewhere()), VALUE, "nearest: engine; a CPU or a CUDA device"),
    ("nearest-progress", lambda: nearest(progress=3), TYPE, "nearest: progress; function; 3"),
    ("nearest-diverges", lambda: nearest(kernel=WILD), DIVERGES, "diverges; matrix='normalized'"),
    ("dense-memory", lambda: huge().to_dense(), VALUE, "to_dense; 7451 GiB; K @ v; K.rows(nodes)"),
    ("rows-memory", lambda: huge().rows(range(1000)), VALUE, "rows; 7 GiB; fewer rows"),
    ("diagonal-cost", lambda: huge().diagonal(), VALUE, "few enough rows; 1000000 rows; estimate_kernel"),
    ("exact-memory", lambda: wk.exact_kernel(HUGE, HEAT), VALUE,
     "exact_kernel; 7451 GiB; polynomial_operator"),
    ("polynomial-engine", lambda: polynomial(engine=3), TYPE, "polynomial_operator: engine; CPU(2), got 3"),
    ("polynomial-far", lambda: polynomial(engine=Elsewhere()), VALUE, "engine; a CPU or a CUDA device"),
    ("tol-zero", lambda: polynomial(tol=0), VALUE, "tol; greater than 0; got 0"),
    ("tol-tiny", lambda: polynomial(tol=1e-99), VALUE, "tol; 1e-99; Use a larger tol"),
    # personalised PageRank
    ("rank-graph", lambda: rank(graph="karate"), TYPE, "personalized_pagerank: graph; a Graph; 'karate'"),
    ("rank-unknown", lambda: rank([0, 3]), VALUE, "pagerank: seeds; ids from 0 to 2; the id 3"),
    ("rank-label", lambda: rank("z", NAMED), VALUE, "pagerank: seeds; labels of this graph; the unknown 'z'"),
    ("rank-id", lambda: rank({0: 1}, NAMED), VALUE, "seeds; labels of this graph; takes labels only"),
    ("rank-text", lambda: rank("a"), TYPE, "pagerank: seeds; whole-number ids; 'a'"),
    ("rank-vector", lambda: rank(np.ones(3)), TYPE,
     "seeds; a mapping of nodes to weights; of shape (k, n_nodes); (3,) and dtype float64; (1, n_nodes)"),
    ("rank-none", lambda: rank([]), VALUE, "seeds; at least one node; shape (0,)"),
    ("rank-empty", lambda: rank({}), VALUE, "seeds; at least one node; got {}"),
    ("rank-empty-one", lambda: rank([{0: 1}, {}]), VALUE, "seeds; at least one node; got {}"),
    ("rank-no-rows", lambda: rank(np.ones((0, 3))), VALUE, "seeds; (k, n_nodes); (0, 3)"),
    ("rank-shape", lambda: rank(np.ones((3, 2))), VALUE, "seeds; (k, n_nodes); an array of shape (3, 2)"),
    ("rank-sparse", lambda: rank(scipy.sparse.eye_array(4)), VALUE, "seeds; an array of shape (4, 4)"),
    ("rank-lists", lambda: rank([[0, 1], [2]]), VALUE, "seeds; rectangular; [[0, 1], [2]]"),
    ("rank-3d", lambda: rank(np.ones((1, 1, 3))), TYPE, "seeds; (k, n_nodes); an array of shape (1, 1, 3)"),
    ("rank-negative", lambda: rank({0: 1, 1: -0.5}), VALUE, "seeds; not negative; the weight -0.5"),
    ("rank-zero", lambda: rank({0: 0.0}), VALUE, "seeds; of a positive weight for some node; got none"),
    ("rank-zero-row", lambda: rank([{0: 1}, {1: 0}]), VALUE, "seeds; a positive weight; none in row 1"),
    ("rank-nan", lambda: rank({0: NAN}), VALUE, "seeds; finite; nan at position 0"),
    ("rank-sparse-inf", lambda: rank(scipy.sparse.csr_array([[0, INF, 1]])), VALUE, "seeds; finite; inf"),
    ("rank-complex", lambda: rank([[1j, 0, 0]]), TYPE, "seeds; real; complex128"),
    ("rank-weight-text", lambda: rank({0: "1"}), TYPE, "seeds; numbers; ['1']"),
    ("rank-signed", lambda: rank(graph=from_edges(PAIRS, weights=[1, -1])), VALUE,
     "graph; without negative weights; down to -1; PageRank(matrix='normalized')"),
    ("rank-damping", lambda: rank(damping=1.0), VALUE, "pagerank: damping; less than 1; got 1.0"),
    ("rank-damping-text", lambda: rank(damping="high"), TYPE, "pagerank: damping; a finite number; 'high'"),
    ("rank-tol", lambda: rank(tol=1e-15), VALUE, "pagerank: tol; of at least 1e-14; got 1e-15"),
    ("rank-engine", lambda: rank(engine=Elsewhere()), VALUE, "pagerank: engine; a CPU or a CUDA device"),
    ("rank-memory", lambda: rank([{0: 1}] * 1000, HUGE), VALUE, "pagerank; 7 GiB; fewer distributions"),
    # reduction, theory, data
    ("anchors-many", lambda: wk.anchor_points(features(), 4), VALUE, "n_anchors; from 1 to 3; got 4"),
    ("anchors-dense", lambda: wk.anchor_points(np.eye(3), 2), TYPE, "features; csr_array; (3, 3)"),
    ("projection-zero", lambda: wk.johnson_lindenstrauss(features(), 0), VALUE,
     "n_components; at least 1; 0"),
    ("projection-memory", lambda: wk.johnson_lindenstrauss(features(), 10**15), VALUE, "GiB; limit"),
    ("batch-walks", lambda: batch_length(0, 0.1), VALUE, "n_walks; at least 1; got 0"),
    ("batch-p_halt", lambda: batch_length(16, 1.0), VALUE, "p_halt; less than 1; got 1.0"),
    ("batch-delta", lambda: batch_length(16, 0.1, 0.0), VALUE, "delta; greater than 0; got 0.0"),
    ("rademacher-sign", lambda: rademacher_bound([-1], 1.0, 9), VALUE, "coefficient_bounds; non-negative"),
    ("rademacher-empty", lambda: rademacher_bound([], 1.0, 9), VALUE, "coefficient_bounds; non-empty"),
    ("rademacher-radius", lambda: rademacher_bound([1], NAN, 9), VALUE, "spectral_radius; finite; nan"),
    ("rademacher-samples", lambda: rademacher_bound([1], 1.0, 0), VALUE, "n_samples; at least 1; got 0"),
    ("margin-labels", lambda: margin_loss([1, 0], [1, 1], 1.0), VALUE, "labels; -1 or 1; got 0"),
    ("margin-empty", lambda: margin_loss([], [], 1.0), VALUE, "labels; non-empty"),
    ("margin-scores", lambda: margin_loss([1, -1], [1], 1.0), VALUE, "scores; one for each of 2; (1,)"),
    ("margin-zero", lambda: margin_loss([1], [1], 0), VALUE, "margin; greater than 0; got 0"),
    ("bound-delta", lambda: generalization_bound([1], [1], margin=1, complexity=1, delta=2), VALUE,
     "delta; less than 1; 2"),
    ("dataset", lambda: wk.load_dataset("core"), VALUE, "load_dataset; name; 'karate'; 'cora'; 'core'"),
]
# fmt: on

every_case = pytest.mark.parametrize(
    ("call", "error", "fragments"), [pytest.param(*case[1:], id=case[0]) for case in CASES]
)


def refusal(call):
    with pytest.raises(Exception) as caught:  # noqa: PT011 (the type is what is tested)
        call()
    return caught.value


@every_case
def test_message_names_parameter_rule_value_and_remedy(call, error, fragments):
    raised = refusal(call)
    assert type(raised) is error, f"{type(raised).__name__}: {raised}"
    missing = [fragment for fragment in fragments.split("; ") if fragment not in str(raised)]
    assert not missing, f"{missing} not in: {raised}"


@every_case
def test_refusal_is_a_whole_sentence_raised_at_our_own_door(call, error, fragments):
    raised = refusal(call)
    assert len(str(raised)) >= 25
    assert not isinstance(raised.__context__, (AssertionError, AttributeError, IndexError))
    raised_in = traceback.extract_tb(raised.__traceback__)[-1].filename
    assert Path(raised_in).is_relative_to(Path(wk.__file__).parent)


@pytest.mark.parametrize(
    "source", [lambda: Graph.from_scipy(np.empty((0, 0))), lambda: Graph.from_networkx(nx.Graph())]
)
def test_remedy_is_an_argument_of_the_constructor_that_refuses(source):
    assert "n_nodes=" not in str(refusal(source))


@pytest.mark.parametrize("value", ["two", "0", "-1", "1.5"])
def test_rubbish_in_the_environment_is_refused(monkeypatch, value):
    monkeypatch.setenv("WALKERNEL_NUM_THREADS", value)
    with pytest.raises(ValueError, match=f"{THREAD_RULE}, got '{value}'"):
        sample()


@pytest.mark.parametrize("change", [lambda g: setattr(g, "directed", True), lambda g: delattr(g, "directed")])
def test_a_graph_is_immutable(change):
    graph = Graph.from_edges(PAIRS)
    with pytest.raises(AttributeError, match=r"immutable.*'directed'"):
        change(graph)
    assert graph.directed is False


@pytest.mark.parametrize("kept", [0.0, 0.02, 0.5, 0.999])
def test_a_truncated_file_of_walks_is_refused(tmp_path, kept):
    path = tmp_path / "walks.npz"
    walks().save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept * len(whole))])
    with pytest.raises(
        ValueError, match=r"path must be an intact file written by Walks\.save, got .*walks\.npz"
    ):
        Walks.load(path, TRIANGLE)


ABOUT = {"list": "[1]", "empty": "{}", "incomplete": '{"format": "walkernel walks 1"}', "text": "hello"}


@pytest.mark.parametrize("kind", ["array", "notes", *ABOUT])
def test_a_file_that_holds_no_walks_is_refused(tmp_path, kind):
    path = tmp_path / "other.npz"
    with path.open("wb") as file:
        if kind == "array":
            np.save(file, np.ones(3))
        elif kind == "notes":
            file.write(b"some notes")
        else:
            *walked, head = walks().deposits
            arrays = dict(zip(Deposits._fields, walked, strict=False))
            arrays |= {f"head_{name}": array for name, array in head._asdict().items()}
            np.savez(file, about=np.array(ABOUT[kind]), ids=walks().ids, **arrays)
    with pytest.raises(ValueError, match=r"Walks\.load: path must be "):
        Walks.load(path, TRIANGLE)


def test_walks_of_another_graph_are_refused(tmp_path):
    walks().save(tmp_path / "walks.npz")
    with pytest.raises(ValueError, match="graph must be the graph these walks were sampled on, got Graph"):
        Walks.load(tmp_path / "walks.npz", HUGE)
    with pytest.raises(TypeError, match="graph must be a Graph, got None"):
        Walks.load(tmp_path / "walks.npz", None)
    with pytest.raises(FileNotFoundError, match=r"missing\.npz"):
        Walks.load(tmp_path / "missing.npz", TRIANGLE)


@pytest.mark.parametrize("target", ["folder", "missing/walks.npz"])
def test_saving_into_an_unwritable_place_leaves_nothing_behind(tmp_path, target):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match=target.split("/")[0]):
        walks().save(tmp_path / target)
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["folder"]
