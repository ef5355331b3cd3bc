"""Which worker owns an id's row, and what it is told of the ids of a batch."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from tfwave.errors import TfwaveError
from tfwave.runtime.embedding.dynamic import Rows

_ODD = 0x9E3779B97F4A7C15
_MIXED_BITS, _OWN_BITS = 29, 33
"""By which a product is mixed, and which are left out: 31 stay, of which a remainder is as good as even."""


class Told(NamedTuple):
    """What owners hear of a batch.

    Attributes:
        words: of each of the batch's different ids one, by owner.
        counts: [workers], how many of these are each owner's; int64.
        places: of each id, in the order of the batch, that of its word.
    """

    words: Any
    counts: Any
    places: Any


class Deal(Protocol):
    """How ids belong to workers."""

    def told(self, name: str, ids: Any, positive: Any) -> Told:
        """Of ids, int64 of any shape, and of which samples are positive, if that is known."""
        ...

    def rows(self, words: Sequence[Any]) -> Sequence[Any]:
        """By worker, the rows that its words are of, numbered inside the shard; int32."""
        ...


class ByRow:
    """An id is the number of its row: the first worker has the first ones."""

    def __init__(self, layout: Sequence[int]) -> None:
        """Where each worker's rows begin, and where the last one's end."""
        self._tf: Any = import_module("tensorflow")
        self._layout, self._rows = layout, layout[-1]

    def told(self, name: str, ids: Any, positive: Any) -> Told:
        if positive is not None:
            raise TfwaveError(
                f"table '{name}' keeps all rows, whatever is positive: give it dynamic=Dynamic(...)"
            )
        tensorflow = self._tf
        flat = tensorflow.reshape(ids, [-1])
        in_range = tensorflow.reduce_all((flat >= 0) & (flat < self._rows))
        complaint = f"table '{name}' has rows 0 to {self._rows - 1}, and a batch asks for others:"
        tensorflow.debugging.Assert(in_range, [complaint, flat])
        rows = tensorflow.sort(tensorflow.unique(flat).y)
        ends = tensorflow.constant(self._layout[1:], tensorflow.int64)
        until = tensorflow.searchsorted(rows, ends, out_type=tensorflow.int64)
        counts = until - tensorflow.concat([[0], until[:-1]], 0)
        starts = tensorflow.repeat(tensorflow.constant(self._layout[:-1], tensorflow.int64), counts)
        local = tensorflow.cast(rows - starts, tensorflow.int32)
        return Told(local, counts, tensorflow.searchsorted(rows, flat))

    def rows(self, words: Sequence[Any]) -> Sequence[Any]:
        return words


class ById:
    """Of a dynamic table: a worker owns the ids that a hash says, and gives them rows as they come."""

    def __init__(self, workers: int, own: Rows) -> None:
        """`own`: the rows of this worker."""
        self._tf: Any = import_module("tensorflow")
        self._workers, self._own = workers, own

    def told(self, name: str, ids: Any, positive: Any) -> Told:
        tensorflow = self._tf
        flat = tensorflow.reshape(ids, [-1])
        different, places = tensorflow.unique(flat)
        each = [tensorflow.ones_like(flat), self._of_ids(name, positive, ids)]
        sums = [
            tensorflow.math.unsorted_segment_sum(some, places, tensorflow.size(different)) for some in each
        ]
        owners = self._owners(different)
        by_owner = tensorflow.argsort(owners, stable=True)
        words = tensorflow.gather(tensorflow.stack([different, *sums], 1), by_owner)
        counts = tensorflow.math.unsorted_segment_sum(tensorflow.ones_like(owners), owners, self._workers)
        return Told(words, counts, tensorflow.gather(tensorflow.math.invert_permutation(by_owner), places))

    def rows(self, words: Sequence[Any]) -> Sequence[Any]:
        tensorflow = self._tf
        rows = tensorflow.numpy_function(self._own.of_told, [tensorflow.concat(words, 0)], tensorflow.int32)
        sizes = [tensorflow.shape(some)[0] for some in words]
        return tensorflow.split(tensorflow.ensure_shape(rows, [None]), sizes, num=len(words))

    def _owners(self, ids: Any) -> Any:
        tensorflow = self._tf
        bits, unsigned = tensorflow.bitwise, tensorflow.uint64
        odd = tensorflow.constant(_ODD, unsigned)
        mixed = tensorflow.cast(ids, unsigned) * odd
        mixed = odd * bits.bitwise_xor(
            mixed, bits.right_shift(mixed, tensorflow.constant(_MIXED_BITS, unsigned))
        )
        own = bits.right_shift(mixed, tensorflow.constant(_OWN_BITS, unsigned))
        return tensorflow.math.floormod(tensorflow.cast(own, tensorflow.int64), self._workers)

    def _of_ids(self, name: str, positive: Any, ids: Any) -> Any:
        """Of each id whether its sample is positive, int64 of shape [ids]."""
        tensorflow = self._tf
        if positive is None:
            return tensorflow.zeros([tensorflow.size(ids)], tensorflow.int64)
        samples = tensorflow.shape(ids)[0]
        of_samples = tensorflow.reshape(tensorflow.cast(positive, tensorflow.bool), [-1])
        tensorflow.debugging.assert_equal(
            tensorflow.size(of_samples),
            samples,
            f"table '{name}': give one number for each sample as `positive`",
        )
        each = tensorflow.size(ids) // tensorflow.maximum(samples, 1)
        return tensorflow.repeat(tensorflow.cast(of_samples, tensorflow.int64), each)
