"""Features in blocks that are kept in memory: what products see of files and of other machines."""

import numpy as np
import scipy.sparse

from walkernel.features import BlockedFeatures


class KeptBlocks(BlockedFeatures):
    """Blocks of a matrix; counts which of them are asked for."""

    def __init__(self, matrix, edges):
        self.edges = np.asarray(edges, dtype=np.int64)
        self.shape, self.nnz = matrix.shape, matrix.nnz
        self.nbytes = matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes
        self.kept = [matrix[i:k] for i, k in zip(self.edges[:-1], self.edges[1:], strict=True)]
        self.asked = []

    def _block(self, number):
        self.asked.append(number)
        return self.kept[number]


class Later:
    """A call that is not done yet; nothing may look into it."""

    def __init__(self, function, arguments):
        self.function, self.arguments = function, arguments

    def result(self):
        return self.function(*map(known, self.arguments))


def known(value):
    return value.result() if isinstance(value, Later) else value


class LaterBlocks(KeptBlocks):
    """The same as a cluster does it: calls are handed on, and done when their results are gathered."""

    def _block(self, number):
        return Later(super()._block, (number,))

    def _submit(self, function, *arguments):
        return Later(function, arguments)

    def _gather(self, results):
        return [known(result) for result in results]

    def _share(self, array):
        return Later(lambda: array, ())


def random_features(rng, n_rows, n_columns, per_row=6, *, dtype=np.int32):
    """Return a matrix with rows of several lengths, none among them, whose entries are in no order."""
    counts = rng.integers(0, min(per_row, n_columns) + 1, n_rows)
    indices = [rng.permutation(n_columns)[:count] for count in counts]
    indptr = np.append(0, np.cumsum(counts)).astype(dtype)
    columns = np.concatenate([np.empty(0, dtype), *indices]).astype(dtype)
    data = rng.normal(size=columns.size) * 10.0 ** rng.integers(-8, 9, columns.size)
    return scipy.sparse.csr_array((data, columns, indptr), shape=(n_rows, n_columns))
