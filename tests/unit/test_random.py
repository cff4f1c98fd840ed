"""Philox-4x32-10 against the published known answers and an independent implementation."""

import numpy as np
import pytest

from oracles import philox as reference
from walkernel._philox import key_words, philox

# Known-answer vectors of the Random123 distribution: counter, key, output.
PUBLISHED = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "expected"), PUBLISHED)
def test_published_vectors(counter, key, expected):
    assert tuple(int(word) for word in philox(*map(np.uint64, counter), *map(np.uint64, key))) == expected
    assert tuple(reference(counter, key)) == expected


def test_arrays_equal_scalars():
    rng = np.random.default_rng(0)
    words = rng.integers(0, 2**32, (6, 50), dtype=np.uint64)
    results = np.array(philox(*words))
    for column in range(50):
        assert results[:, column].tolist() == reference(
            words[:4, column].tolist(), words[4:, column].tolist()
        )


def test_bits_are_balanced():
    counters = np.arange(2**14, dtype=np.uint64)
    zero = np.zeros_like(counters)
    words = np.array(philox(counters, zero, zero, zero, np.uint64(1), np.uint64(2)))
    ones = np.array([(words >> np.uint64(bit) & np.uint64(1)).mean() for bit in range(32)])
    assert np.abs(ones - 0.5).max() < 5 * 0.5 / np.sqrt(words.size)


def test_key_words_split_the_seed():
    assert key_words(0x1234567890ABCDEF) == (0x90ABCDEF, 0x12345678)
