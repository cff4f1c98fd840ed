"""Cases of which ``make test`` runs only some; ``make test-all`` runs them all."""

import pytest


def mostly_deep(cases, short):
    """Return the cases for ``parametrize``; those that are not among the short ones are deep."""
    short = list(short)
    unknown = [case for case in short if case not in cases]
    assert not unknown, unknown
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)), marks=() if case in short else pytest.mark.deep
        )
        for case in cases
    ]
