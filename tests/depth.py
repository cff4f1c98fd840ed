"""Cases of which ``make test`` runs only some; ``make test-all`` runs them all."""

from itertools import product

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


def crossed(*tables):
    """Return all combinations for ``parametrize``; a few, with each value of each table, are not deep."""
    values = [list(table) for table in tables]
    short = {tuple(i % len(table) for table in values) for i in range(max(map(len, values)))}
    return [
        pytest.param(
            *(table[i] for table, i in zip(values, places, strict=True)),
            marks=() if places in short else pytest.mark.deep,
        )
        for places in product(*(range(len(table)) for table in values))
    ]
