"""A record sorted for weighing: features for any f are one pass of additions over its terms."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from walkernel._threads import over_threads
from walkernel.walks._heads import count_walks, offsets
from walkernel.walks._sampling import NO_NORMS, Deposits, Rows


class Terms(NamedTuple):
    """Features as sums: those of a row are load · f(length) added up by place, for every f."""

    indptr: NDArray[np.int64]  # (rows + 1,): features of row i are at indptr[i] : indptr[i + 1]
    indices: NDArray[np.signedinteger[Any]]  # (features,): their columns
    starts: NDArray[np.int64]  # (rows + 1,): terms of row i are at starts[i] : starts[i + 1]
    places: NDArray[Any]  # (terms,): the feature of its row that a term goes to
    lengths: NDArray[Any]  # (terms,)
    loads: NDArray[np.float64]  # (terms,)

    def weighted(self, f: NDArray[np.float64], rows: NDArray[np.int64], n_threads: int) -> Rows:
        """Return Σ load · f(length) on each node of some rows."""
        from walkernel.walks._terms import weigh

        indptr = offsets(self.indptr[rows + 1] - self.indptr[rows])
        indices, data = np.empty(indptr[-1], dtype=self.indices.dtype), np.empty(indptr[-1])

        def work(first: int, last: int) -> None:
            weigh.for_work(self.loads.size)(first, last, rows, *self, f, indptr, indices, data)

        over_threads(work, indptr, n_threads)
        return Rows(indptr, indices, data, NO_NORMS, 0)


def sort_terms(record: Deposits, n_walks: int, n_threads: int) -> Terms:
    """Find where each deposit and each entry of a head goes."""
    from walkernel.walks._terms import locate, move_together

    n, head = record.indptr.size - 1, record.head
    loose_starts, walks = record.indptr + head.indptr, count_walks(n_walks, head.shifts, n)
    starts = loose_starts - offsets(walks - 1)
    places = np.empty(starts[-1], dtype=_narrowest(np.diff(loose_starts)))
    lengths = np.empty(starts[-1], dtype=_narrowest(record.lengths))
    loads, loose = np.empty(starts[-1]), np.empty(loose_starts[-1], dtype=record.nodes.dtype)
    counts = np.empty(n, dtype=np.int64)

    def find(first: int, last: int) -> None:
        locate.for_work(loads.size)(
            first, last, n_walks, walks, starts, *record[:4], *head[:4], counts, loose, places, lengths, loads
        )

    over_threads(find, loose_starts, n_threads)
    indptr = offsets(counts)
    indices = np.empty(indptr[-1], dtype=loose.dtype)

    def close(first: int, last: int) -> None:
        move_together.for_work(loads.size)(first, last, loose_starts, indptr, loose, indices)

    over_threads(close, loose_starts, n_threads)
    return Terms(indptr, indices, starts, places, lengths, loads)


def _narrowest(values: NDArray[Any]) -> Any:
    """Return an integer type of two bytes, or four where some value needs it."""
    return np.uint16 if values.max(initial=0) < 2**16 else np.int32
