"""Parameters of kernels by their names, as scikit-learn's searches address them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Self

from walkernel._checks import one_of, refuse


class Parameters:
    """A frozen dataclass some fields of which may be such values themselves, as those of a sum are.

    Unlike scikit-learn's estimators it is a value: ``set_params`` returns another one, and a clone is the
    object itself. The estimators of this package put the new value in the place of the old one, so that a
    search over ``kernel__sigma`` changes no other estimator with the same kernel.
    """

    matrix: str

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool
            Whether to return those of the parts too, under names such as ``left__sigma``.

        Examples
        --------
        >>> import walkernel as wk
        >>> wk.Diffusion(2.0).get_params()
        {'matrix': 'normalized', 'sigma': 2.0}
        """
        names = [field.name for field in fields(self) if field.init]  # type: ignore[arg-type]
        own = {name: getattr(self, name) for name in names}
        of_parts = {
            f"{name}__{inner}": value
            for name, part in own.items()
            if deep and isinstance(part, Parameters)
            for inner, value in part.get_params().items()
        }
        return own | of_parts

    def set_params(self, **params: Any) -> Self:
        """Return the same kernel with other parameters, and leave this one as it is.

        Parameters
        ----------
        **params
            New values by name; ``left__sigma=2.0`` is for a part. Parts have the matrix of the whole.

        Examples
        --------
        >>> import walkernel as wk
        >>> wk.Diffusion(2.0).set_params(sigma=3.0)
        Diffusion(sigma=3.0)
        >>> (wk.Diffusion(2.0) + wk.Matern()).set_params(left__sigma=3.0).left
        Diffusion(sigma=3.0)
        """
        new = self.get_params(deep=False)
        of_parts: dict[str, dict[str, Any]] = {}
        for name, value in params.items():
            first, _, rest = name.partition("__")
            one_of("the name of a parameter", first, new)
            if rest:
                of_parts.setdefault(first, {})[rest] = value
            else:
                new[first] = value
        for name, part in new.items():
            asked = of_parts.get(name, {})
            if asked and not isinstance(part, Parameters):
                refuse(name, "a kernel, to have parameters of its own", part)
            if isinstance(part, Parameters):
                asked = {"matrix": new["matrix"]} | asked if "matrix" in params else asked
                new[name] = part = part.set_params(**asked) if asked else part
                if part.matrix != new["matrix"]:
                    rule, remedy = (
                        f"that of the whole, {new['matrix']!r}",
                        "Set matrix for all parts at once.",
                    )
                    refuse(f"{name}.matrix", rule, part.matrix, remedy)
        return type(self)(**new)

    def __sklearn_clone__(self) -> Self:
        return self
