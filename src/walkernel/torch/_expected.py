"""The expected squared error of K̂ = Φ₁Φ₂ᵀ in closed form, as a function of f that can be differentiated.

For independent walks with deposits at length l of probability S(l), Q₀ = M²/P entry by entry, and

    v_l = 1ᵀ Q₀ˡ / S(l)       c_k[u] = Σ_l v_l[u] f_l f_{l+k}       μ = Σ_l f_l Mˡ,

the sum over start nodes of the second moments of one walk's features is
S = diag(c₀) + Σ_{k≥1} (diag(c_k) Mᵏ + its transpose), that of the mean of m walks is
T = S/m + (1 − 1/m) μᵀμ, and

    E‖K̂ − K‖² = ⟨T₁, T₂⟩ − 2 ⟨K, μ₁μ₂⟩ + ‖K‖²

with the right-hand side on Mᵀ. No product over pairs of nodes is left: it costs O(L·N²) for L lengths.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from walkernel._checks import check_instance, fits_in_memory, refuse, whole_number
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.operators import exact_kernel
from walkernel.torch._modulation import ModulationBase, check_modulation
from walkernel.walks import IndependentWalks, Sampler, step_law


class ExpectedError:
    r"""The expected error of a kernel's estimate as a function of f, in closed form and differentiable.

    .. math:: \mathbb{E} \, \frac{\| \widehat{K} - K \|_F^2}{\| K \|_F^2}
        \quad \text{for independent walks on both sides}

    Called with a modulation function, it returns the error as a tensor.

    Parameters
    ----------
    graph : Graph
        The graph; one dense matrix is stored for each length.
    kernel : Kernel
        K, on the matrix that is walked.
    n_walks : int
        Walks from each node, on each side.
    sampler : IndependentWalks
        How walks are drawn; other samplers have no closed form here.
    n_lengths : int
        Number of terms of f that are used.
    device : device or str, optional
        Where it is computed; the CPU if not given.
    dtype : dtype
        float64 or float32.

    Examples
    --------
    >>> import walkernel as wk
    >>> from walkernel.torch import ExpectedError, FreeModulation
    >>> kernel = wk.RegularizedLaplacian(d=2, sigma=0.8)
    >>> karate = wk.load_dataset("karate").graph
    >>> error = ExpectedError(karate, kernel, 16, wk.IndependentWalks(0.5), 40)
    >>> round(error(FreeModulation(kernel.modulation(40))).item(), 5)
    0.04599
    """

    def __init__(
        self,
        graph: Graph,
        kernel: Kernel,
        n_walks: int,
        sampler: Sampler,
        n_lengths: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        check_instance("graph", graph, Graph)
        check_instance("kernel", kernel, Kernel)
        n_walks = whole_number("n_walks", n_walks, 1)
        n_lengths = whole_number("n_lengths", n_lengths, 1)
        remedy = "The closed form does not cover coupled walks; learn from samples with walks='fresh'."
        check_instance("sampler", sampler, IndependentWalks, remedy)
        n = graph.n_nodes
        fits_in_memory((n_lengths, n, n), "Learn from samples with walks='fresh'.")
        survival = sampler.survival()[:n_lengths]
        if survival.size < n_lengths:
            refuse("n_lengths", f"at most {survival.size}, the longest walk", n_lengths)
        options = {"device": device, "dtype": dtype}
        M = graph.to_scipy(kernel.matrix)
        self._powers = torch.as_tensor(_powers(M.toarray(), n_lengths), **options)
        self._visits = [
            torch.as_tensor(self._expected_visits(graph, kernel, sampler, survival, side), **options)
            for side in (False, True)
        ]
        self._target = torch.as_tensor(exact_kernel(graph, kernel), **options)
        self._n_walks, self._n_lengths = n_walks, n_lengths

    @staticmethod
    def _expected_visits(
        graph: Graph, kernel: Kernel, sampler: Sampler, survival: np.ndarray, transpose: bool
    ) -> np.ndarray:
        """Return v_l, (lengths, nodes)."""
        turned = transpose and not graph.is_symmetric(kernel.matrix)
        moments = step_law(graph, kernel.matrix, sampler.transition, turned)
        Q = moments.second_moments().T.tocsr()
        visits = [np.ones(graph.n_nodes)]
        while len(visits) < survival.size:
            visits.append(Q @ visits[-1])
        return np.array(visits) / survival[:, None]

    def __call__(self, modulation: ModulationBase) -> Tensor:
        """Return the relative error, differentiable with respect to the parameters."""
        check_modulation(modulation)
        return self.of_sides(*modulation.sides(self._n_lengths))

    def of_sides(
        self,
        first: Tensor,  # (lengths,)
        second: Tensor,  # (lengths,)
    ) -> Tensor:
        """Return the relative error of a pair of modulation functions, differentiable.

        Parameters
        ----------
        first : Tensor, (n_lengths,)
            f₁, the weights of the rows.
        second : Tensor, (n_lengths,)
            f₂, the weights of the columns.

        Returns
        -------
        Tensor, ()
            The expected error E‖K̂ − K‖²_F / ‖K‖²_F.
        """
        left = self._moments(first, self._powers, self._visits[0])
        right = self._moments(second, self._powers.mT, self._visits[1])
        mean = _series(first, self._powers) @ _series(second, self._powers)
        size = self._target.square().sum()
        return ((left * right).sum() - 2 * (self._target * mean).sum()) / size + 1

    def _moments(self, f: Tensor, powers: Tensor, visits: Tensor) -> Tensor:
        """Return T, (nodes, nodes)."""
        n = self._n_lengths
        later = torch.nn.functional.pad(f, (0, n)).unfold(0, n, 1)[:n]  # (k, l): f_{l+k}
        c = later @ (visits * f[:, None])
        crossed = torch.einsum("ku,kuv->uv", c[1:], powers[1:])
        mean = _series(f, powers)
        own = torch.diag(c[0]) + crossed + crossed.mT
        return own / self._n_walks + (1 - 1 / self._n_walks) * mean.mT @ mean


def _powers(M: np.ndarray, n: int) -> np.ndarray:
    """Return M⁰ … Mⁿ⁻¹, (n, nodes, nodes)."""
    powers = np.empty((n, *M.shape))
    powers[0] = np.eye(len(M))
    for k in range(1, n):
        powers[k] = powers[k - 1] @ M
    return powers


def _series(f: Tensor, powers: Tensor) -> Tensor:
    """Return Σ_l f_l Mˡ."""
    return torch.tensordot(f, powers, dims=1)
