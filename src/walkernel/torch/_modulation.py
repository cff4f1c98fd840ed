"""Modulation functions with parameters: f is what is learned, and walks never see it.

    f(l) = amplitude · decayˡ · g(l)

with g a small network of the length (Sec. 3.4), or one parameter for each length. The factor decayˡ is that
of a matrix decay · M: the paper's U = c·D^-½AD^-½ is decay = c. A modulation is a module, and what was
learned is the kernel with coefficients f * f.
"""

from __future__ import annotations

import json
import math
import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from walkernel._checks import Described, check_flag, one_of, real_array, real_number, refuse, whole_number
from walkernel._files import atomic_write
from walkernel.kernels import Kernel, PowerSeries, SquaredSeries

FORMAT = "walkernel modulation 1"
ACTIVATIONS = {
    "relu": nn.functional.relu,
    "leaky_relu": nn.functional.leaky_relu,
    "softplus": nn.functional.softplus,
}
INITS = ("flat", "random")
ONE = math.log(math.e - 1)
"""The argument at which softplus is 1."""
MAX_TERMS = 4096
NEGLIGIBLE = 1e-12
DTYPES = (torch.float64, torch.float32)


class ModulationBase(nn.Module):
    """Base class of modulation functions and pairs: the kernel that they stand for, and files."""

    @abstractmethod
    def sides(self, length: int) -> tuple[Tensor, Tensor]:
        """Return (f₁, f₂) at 0 … length − 1, differentiable, each (length,)."""

    @abstractmethod
    def as_kernel(self, *, length: int | None = None, matrix: str = "normalized") -> Kernel:
        """Return the kernel that is estimated with this modulation: Σ (f₁ * f₂)_k Mᵏ."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return the settings of the module, and its parameters, as they are written to a file."""

    def penalty(self) -> Tensor | float:
        """Return the penalty that a prior adds to the loss."""
        return 0.0

    def coefficients(self, length: int) -> NDArray[np.float64]:
        """Return the Taylor coefficients f₁ * f₂ of the kernel that is estimated.

        Parameters
        ----------
        length : int
            Number of coefficients.

        Returns
        -------
        ndarray of float64, (length,)
            The coefficients, α₀ first.
        """
        first, second = (_values(side) for side in self.sides(whole_number("length", length, 1)))
        return np.convolve(first, second)[:length]

    def n_terms(self, longest: int | None = None) -> int:
        """Return the number of terms beyond which both sides are below 1e-12 of their maximum.

        ``longest`` is the largest number of terms in use, for instance by walks; without it, f must decay.
        """
        needed = 1
        for side in self.sides(MAX_TERMS if longest is None else whole_number("length", longest, 1)):
            sizes = np.abs(_values(side))
            needed = max(
                needed, int(np.flatnonzero(sizes > NEGLIGIBLE * sizes.max())[-1]) + 1 if sizes.any() else 1
            )
        if longest is None and needed == MAX_TERMS:
            refuse(
                "length", "given if f does not decay", None,
                "Give the length at which f ends, or a modulation with decay < 1.",
            )  # fmt: skip
        return needed

    def save(self, path: str | os.PathLike[str], *, notes: Mapping[str, Any] | None = None) -> None:
        """Write settings and parameters to a JSON file; numbers are kept to the last bit.

        Parameters
        ----------
        path : str or path
            Where to write.
        notes : mapping, optional
            Notes that document the file, for instance what f was learned for; nothing depends on them.

        See Also
        --------
        load_modulation : Read the file.
        """
        content = {"format": FORMAT, "notes": dict(notes or {}), **self.settings()}
        text = json.dumps(content, indent=1, default=_python_number)
        with atomic_write(path) as file:
            file.write(text.encode())


def _python_number(value: object) -> object:
    """Return a number or an array of NumPy as Python numbers, for JSON."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    refuse("notes", "text, numbers, lists and dicts", value, error=TypeError)


class Modulation(ModulationBase):
    """A modulation function f for both sides; subclasses give ``forward``."""

    @abstractmethod
    def forward(self, length: int) -> Tensor:
        """Return f(0) … f(length − 1), differentiable, (length,)."""

    def sides(self, length: int) -> tuple[Tensor, Tensor]:
        """Return (f, f)."""
        f = self(length)
        return f, f

    def modulation(self, length: int) -> NDArray[np.float64]:
        """Return the values of f as an array.

        Parameters
        ----------
        length : int
            Number of values.

        Returns
        -------
        ndarray of float64, (length,)
            f(0) … f(length − 1).
        """
        return _values(self(whole_number("length", length, 1)))

    def as_kernel(self, *, length: int | None = None, matrix: str = "normalized") -> Kernel:
        """Return the kernel with coefficients f * f, usable wherever kernels are.

        Parameters
        ----------
        length : int, optional
            Number of terms of f, zero beyond; as many as are not negligible if not given.
        matrix : {"normalized", "adjacency", "combinatorial", "random-walk"}
            The matrix M that f was learned for.

        Returns
        -------
        Kernel
            The kernel, without a gradient.
        """
        return SquaredSeries(self.modulation(self.n_terms() if length is None else length), matrix=matrix)

    def _state(self, names: Sequence[str]) -> dict[str, Any]:
        """Return attributes, and the parameters as lists of numbers, which JSON keeps to the last bit."""
        parameters = {name: tensor.cpu().double().tolist() for name, tensor in self.state_dict().items()}
        return {**{name: getattr(self, name) for name in names}, "parameters": parameters}


class NeuralModulation(Modulation):
    r"""A modulation function given by a small neural network of the length: the paper's, or a larger one.

    .. math:: f(l) = \text{amplitude} \cdot \text{decay}^l \cdot
        \text{softplus}\left(w_2 \, \text{relu}(w_1 l + b_1) + b_2\right)

    That is the default, with four parameters.

    Parameters
    ----------
    hidden : sequence of int
        Widths of the hidden layers. Wider ones fit shapes that do not just decay.
    activation : {"relu", "leaky_relu", "softplus"}
        Activation of the hidden layers; "relu" units can die in training, the others cannot.
    signed : bool
        Omit the final softplus, so that f may be negative.
    decay : float
        Fixed factor of f at each step: the paper's c where the matrix is c·D^-½AD^-½. Choose it below 1 if
        walks are long, so that their variance is finite.
    amplitude : float
        Fixed factor of f.
    init : {"flat", "random"}
        "flat" starts with f nearly amplitude · decayˡ and every unit alive; "random" as PyTorch does.
    seed : int
        Seed of the random initial values.
    device : device or str, optional
        Where the parameters are placed; the CPU if not given.
    dtype : dtype
        float64 or float32.

    Examples
    --------
    >>> from walkernel.torch import NeuralModulation
    >>> net = NeuralModulation(decay=0.4)
    >>> net.modulation(3).round(3)
    array([0.994, 0.395, 0.157])
    >>> net.as_kernel().coefficients(2).round(3)
    array([0.987, 0.785])
    """

    def __init__(
        self,
        hidden: Sequence[int] = (1,),
        *,
        activation: str = "relu",
        signed: bool = False,
        decay: float = 1.0,
        amplitude: float = 1.0,
        init: str = "flat",
        seed: int = 0,
        device: torch.device | str | None = None,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__()
        self.hidden = tuple(whole_number("hidden", width, 1) for width in _sequence("hidden", hidden))
        self.activation = one_of("activation", activation, ACTIVATIONS)
        check_flag("signed", signed)
        self.signed = bool(signed)
        self.decay, self.amplitude = _scales(decay, amplitude)
        sizes = [1, *self.hidden, 1]
        device = torch.get_default_device() if device is None else device
        options = {"device": device, "dtype": check_dtype(dtype)}
        generator = torch.Generator().manual_seed(whole_number("seed", seed))
        self.layers = nn.ModuleList(_layer(a, b, generator, options) for a, b in pairwise(sizes))
        if one_of("init", init, INITS) == "flat":
            self._flatten(generator)

    @torch.no_grad()
    def _flatten(self, generator: torch.Generator) -> None:
        """Set f near a constant 1, with hidden units that are different and active at every length.

        Their weights are large and those of the last layer small, so that training changes f long before a
        unit can die.
        """
        for layer in self.layers[:-1]:
            width = layer.out_features
            spread = torch.ones(width) if width == 1 else 0.5 + torch.rand(width, generator=generator)
            layer.weight.copy_((spread[:, None] / layer.in_features).expand_as(layer.weight))
            layer.bias.copy_(spread)
        last = self.layers[-1]
        last.weight.fill_(-0.01 / last.in_features)
        last.bias.fill_(1.0 if self.signed else ONE)

    def forward(self, length: int) -> Tensor:
        """Return the values of f, differentiable in the parameters.

        Parameters
        ----------
        length : int
            Number of values.

        Returns
        -------
        Tensor, (length,)
            f(0) … f(length − 1).
        """
        first = self.layers[0].weight
        lengths = torch.arange(length, dtype=first.dtype, device=first.device)
        x = lengths[:, None]
        for layer in self.layers[:-1]:
            x = ACTIVATIONS[self.activation](layer(x))
        x = self.layers[-1](x).squeeze(1)
        return self.amplitude * self.decay**lengths * (x if self.signed else nn.functional.softplus(x))

    def settings(self) -> dict[str, Any]:
        """Return kind, structure and parameters."""
        names = ("hidden", "activation", "signed", "decay", "amplitude")
        return {"kind": "neural", **self._state(names)}


class FreeModulation(Modulation):
    r"""A modulation function with one parameter for each length, zero beyond.

    .. math:: f(l) = \text{amplitude} \cdot \text{decay}^l \cdot \theta_l

    Parameters
    ----------
    initial : int or array of float, (k,)
        Number of terms, which then start as amplitude · decayˡ; or f(0) … f(k − 1) themselves.
    decay : float
        Factor of the scale at each step: a priori f(l) is normal with standard deviation amplitude · decayˡ.
    amplitude : float
        Scale of f(0).
    strength : float
        Weight of that prior, in units of the loss. Increase it where few values are known: ``strength`` · Σ
        θ_l² / 2 is added to the loss; 0 for no prior.
    device : device or str, optional
        Where the parameters are placed; the CPU if not given.
    dtype : dtype
        float64 or float32.

    Examples
    --------
    >>> from walkernel.torch import FreeModulation
    >>> FreeModulation(3, decay=0.5).modulation(4)
    array([1.  , 0.5 , 0.25, 0.  ])
    """

    def __init__(
        self,
        initial: int | ArrayLike,
        *,
        decay: float = 1.0,
        amplitude: float = 1.0,
        strength: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__()
        self.decay, self.amplitude = _scales(decay, amplitude)
        self.strength = real_number("strength", strength, minimum=0)
        if isinstance(initial, (int, np.integer)):
            theta = np.ones(whole_number("initial", initial, 1))
        else:
            f = real_array("initial", initial, ndim=1)
            if f.size == 0:
                refuse("initial", "a non-empty list", initial)
            with np.errstate(all="ignore"):
                theta = f / (self.amplitude * self.decay ** np.arange(f.size))
            if not np.isfinite(theta).all():
                remedy = "Give fewer terms, or a larger decay."
                refuse("initial", "of terms that amplitude · decayˡ can be a factor of", f, remedy)
        self.theta = nn.Parameter(torch.as_tensor(theta, dtype=check_dtype(dtype), device=device))

    def forward(self, length: int) -> Tensor:
        """Return the values of f, differentiable in the parameters.

        Parameters
        ----------
        length : int
            Number of values.

        Returns
        -------
        Tensor, (length,)
            f(0) … f(length − 1).
        """
        lengths = torch.arange(self.theta.shape[0], dtype=self.theta.dtype, device=self.theta.device)
        f = (self.amplitude * self.decay**lengths * self.theta)[:length]
        return nn.functional.pad(f, (0, length - f.shape[0]))

    def penalty(self) -> Tensor:
        """Return the negative logarithm of the prior, a constant apart."""
        return 0.5 * self.strength * self.theta.square().sum()

    def settings(self) -> dict[str, Any]:
        """Return kind, structure and parameters."""
        names = ("decay", "amplitude", "strength")
        return {"kind": "free", "initial": self.theta.shape[0], **self._state(names)}


class ModulationPair(ModulationBase):
    """An asymmetric pair: f₁ for the rows of the kernel and f₂ for its columns, with coefficients f₁ * f₂.

    Parameters
    ----------
    first : NeuralModulation or FreeModulation
        f₁, the weights of the rows.
    second : NeuralModulation or FreeModulation
        f₂, the weights of the columns.

    Examples
    --------
    >>> from walkernel.torch import FreeModulation, ModulationPair
    >>> ModulationPair(FreeModulation([1.0, 2.0]), FreeModulation([1.0])).coefficients(3)
    array([1., 2., 0.])
    """

    def __init__(self, first: Modulation, second: Modulation) -> None:
        super().__init__()
        for name, side in (("first", first), ("second", second)):
            if not isinstance(side, Modulation):
                refuse(name, "a modulation", side, error=TypeError)
        self.first, self.second = first, second

    def sides(self, length: int) -> tuple[Tensor, Tensor]:
        """Return (f₁, f₂)."""
        return self.first(length), self.second(length)

    def penalty(self) -> Tensor | float:
        """Return the sum of both."""
        return self.first.penalty() + self.second.penalty()

    def as_kernel(self, *, length: int | None = None, matrix: str = "normalized") -> Kernel:
        """Return the kernel with coefficients f₁ * f₂, usable wherever kernels are.

        Parameters
        ----------
        length : int, optional
            Number of terms of f₁ and of f₂, zero beyond; as many as are not negligible if not given.
        matrix : {"normalized", "adjacency", "combinatorial", "random-walk"}
            The matrix M that the pair was learned for.

        Returns
        -------
        Kernel
            The kernel, without a gradient.
        """
        n = self.n_terms() if length is None else whole_number("length", length, 1)
        first, second = (_values(side) for side in self.sides(n))
        return PowerSeries(np.convolve(first, second), matrix=matrix)

    def settings(self) -> dict[str, Any]:
        """Return the settings of both sides."""
        return {"kind": "pair", "first": self.first.settings(), "second": self.second.settings()}


def _layer(inputs: int, outputs: int, generator: torch.Generator, options: dict[str, Any]) -> nn.Linear:
    """Return a layer with PyTorch's initial law, from a generator of its own: the global one is not used."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, inputs, outputs, **options)
    bound = 1 / math.sqrt(inputs)
    with torch.no_grad():
        for parameter in (layer.weight, layer.bias):
            drawn = torch.rand(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(bound * (2 * drawn - 1))
    return layer


def _values(f: Tensor) -> NDArray[np.float64]:
    """Return f as an array, and refuse values that are not finite."""
    values = f.detach().cpu().double().numpy()
    if not np.isfinite(values).all():
        where = int(np.flatnonzero(~np.isfinite(values))[0])
        got = Described(f"{values[where]} at length {where}")
        refuse("f", "finite", got, "Train it again from another start, or with a smaller rate.")
    return values


def _sequence(name: str, values: Any) -> tuple[Any, ...]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence) or not values:
        refuse(name, "a non-empty list of whole numbers", values, error=TypeError)
    return tuple(values)


def _scales(decay: float, amplitude: float) -> tuple[float, float]:
    decay = real_number("decay", decay, above=0)
    return decay, real_number("amplitude", amplitude, above=0)


def check_modulation(modulation: object) -> None:
    """Refuse anything but a modulation."""
    if not isinstance(modulation, ModulationBase):
        remedy = "Use NeuralModulation, FreeModulation or a ModulationPair of them."
        refuse("modulation", "a modulation", modulation, remedy, TypeError)


def check_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of a module, or refuse it."""
    if dtype not in DTYPES:
        refuse("dtype", "torch.float64 or torch.float32", Described(str(dtype)))
    return dtype
