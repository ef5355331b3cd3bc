"""A table whose rows lie on the workers: each owns some, and all send each other ids, rows and gradients."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import accumulate
from typing import Any

from tfwave.errors import TfwaveError
from tfwave.runtime.all_to_all import Exchange
from tfwave.runtime.embedding.dealt import ById, ByRow, Deal
from tfwave.runtime.embedding.dynamic import Rows
from tfwave.runtime.embedding.gradients import of_rows
from tfwave.runtime.embedding.optimizers import RowOptimizer


@dataclass(frozen=True)
class Pulled:
    """The rows of a batch, and what sends their gradients back; see `Table.pull`.

    Attributes:
        rows: shaped as the ids, and then [width].
        places: of each id, in the order of the batch, that of its row among those that came for the batch.
        counts: [workers], how many of these rows each worker owns.
        wanted: by worker, the rows that it asked this one for, numbered inside the shard.
    """

    rows: Any
    places: Any
    counts: Any
    wanted: Sequence[Any]


class Owners:
    """Which worker owns which rows of a table: the first has the first ones; shards may differ in length."""

    def __init__(self, group: Exchange, name: str, shard: Any, kept: Rows | None) -> None:
        """Tell the others how much of the table is here, and hear of their parts: all workers call it.

        Args:
            group: the workers.
            name: the table's, for the others and in errors.
            shard: the variable that has this worker's rows.
            kept: whose they are, of a dynamic table.

        Raises:
            TfwaveError: shards of unlike widths, or of a table that is dynamic on some workers only.
        """
        self._tf: Any = import_module("tensorflow")
        self._group, self._name, self._shard = group, name, shard
        height, self.width = map(int, shard.shape)
        own = self._tf.constant([[height, self.width, kept is not None]] * group.ranks, self._tf.int64)
        parts = [came.numpy()[0] for came in group.exchange(own, self._tf.ones(group.ranks, "int64"), name)]
        widths = {int(width) for _, width, _ in parts}
        if len(widths) > 1:
            raise TfwaveError(
                f"{name} is {' and '.join(map(str, sorted(widths)))} wide on the workers: give all one width"
            )
        if len({bool(dynamic) for *_, dynamic in parts}) > 1:
            raise TfwaveError(
                f"{name} is dynamic on some workers only: give all of them dynamic=Dynamic(...)"
            )
        heights = [int(rows) for rows, *_ in parts]
        self.layout = tuple(accumulate(heights, initial=0))
        """Where each worker's rows begin, and where the last one's end."""
        self.rows, self.rank, self.first = self.layout[-1], group.rank, self.layout[group.rank]
        self._deal: Deal = ById(group.ranks, kept) if kept else ByRow(self.layout)
        self._as_it_is: Callable[[Any], Any] = self._tf.autograph.experimental.do_not_convert

    def pull(self, ids: Any, positive: Any) -> Pulled:
        """As `Table.pull`."""
        return self._as_it_is(self._pull)(ids, positive)

    def push(self, pulled: Pulled, gradients: Any, optimizer: RowOptimizer, slots: Sequence[Any]) -> None:
        """As `Table.push`."""
        self._as_it_is(self._push)(pulled, gradients, optimizer, slots)

    def _pull(self, ids: Any, positive: Any) -> Pulled:
        tensorflow = self._tf
        with tensorflow.device("/cpu:0"):
            ids = self._numbered(ids)
            words, counts, places = self._deal.told(self._name, ids, positive)
            wanted = self._deal.rows(self._group.exchange(words, counts, f"{self._name}/ids"))
            here = tensorflow.gather(self._shard, tensorflow.concat(wanted, 0))
            sizes = tensorflow.stack([tensorflow.size(some, tensorflow.int64) for some in wanted])
            came = tensorflow.concat(self._group.exchange(here, sizes, f"{self._name}/rows"), 0)
            shape = tensorflow.concat([tensorflow.shape(ids), [self.width]], 0)
            return Pulled(tensorflow.reshape(tensorflow.gather(came, places), shape), places, counts, wanted)

    def _numbered(self, ids: Any) -> Any:
        tensorflow = self._tf
        if isinstance(ids, tensorflow.RaggedTensor | tensorflow.SparseTensor):
            raise TfwaveError(self._no_integers(type(ids).__name__))
        ids = tensorflow.convert_to_tensor(ids)
        if not ids.dtype.is_integer and ids.shape.num_elements() != 0:  # an empty list is of float32
            raise TfwaveError(self._no_integers(ids.dtype.name))
        return tensorflow.cast(ids, tensorflow.int64)

    def _no_integers(self, what: str) -> str:
        return f"the ids for table '{self._name}' are {what}, and must be a tensor of integers"

    def _push(self, pulled: Pulled, gradients: Any, optimizer: RowOptimizer, slots: Sequence[Any]) -> None:
        tensorflow = self._tf
        with tensorflow.device("/cpu:0"):
            flat = tensorflow.reshape(of_rows(gradients, pulled.rows, self._name), [-1, self.width])
            count = tensorflow.reduce_sum(pulled.counts)
            sums = tensorflow.math.unsorted_segment_sum(flat, pulled.places, count)
            came = self._group.exchange(sums, pulled.counts, f"{self._name}/gradients")
            rows, places = tensorflow.unique(tensorflow.concat(pulled.wanted, 0))
            total = tensorflow.math.unsorted_segment_sum(
                tensorflow.concat(came, 0), places, tensorflow.size(rows)
            )
            optimizer.apply(self._shard, slots, rows, total)
