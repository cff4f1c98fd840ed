"""Writing files for tests, and comparing what is read from them."""

import gzip

import pytest

import walkernel as wk


def write(folder, name, content):
    """Write text or bytes, packed if the name ends in .gz, and return the path."""
    path = folder / name
    data = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(data) if name.lower().endswith(".gz") else data)
    return path


def same(a, b):
    """Tell whether two graphs have the same matrix, labels and direction."""
    return (a.fingerprint, a.labels, a.directed) == (b.fingerprint, b.labels, b.directed)


def refusal(path, error=ValueError, **options):
    """Return what ``load_graph`` says when it refuses a file."""
    with pytest.raises(error) as caught:
        wk.load_graph(path, **options)
    return str(caught.value)
