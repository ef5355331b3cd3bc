"""Tables of fewer rows than there are ids: which ids have one, and rows that are begun anew."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from tfwave.errors import TfwaveError
from tfwave.kept.policies import Policy
from tfwave.kept.residents import NONE, Residents


@dataclass(frozen=True)
class Dynamic:
    """Ids of a table may be any of int64: they get rows as they come.

    The table's last row is that of all ids which have none of their own. Free rows are as the variable began, or as
    `initial` makes them when an id is evicted.

    Attributes:
        policy: which ids `Table.evict` leaves: `Score`, `LFU` or `LRU`.
        initial: of a shape [rows, width] the values, as initializers of TensorFlow and Keras give them.
        admit: an id gets a row in the batch in which it has come so often, about.
        positive: of what the dataset has beside the ids which samples are positive (clicks), shape [samples] or
            [samples, 1], for a policy that weighs them; ids are of shape [samples, ...]. None are if left out. On
            workers `Table.pull` is told instead.
    """

    policy: Policy
    initial: Callable[[Any], Any]
    admit: int = 1
    positive: Callable[[Any], Any] | None = None


class Rows:
    """The rows of a dynamic table, by ids."""

    def __init__(self, dynamic: Dynamic, rows: int) -> None:
        """Of a table of so many rows, the shared one included; on workers of those of one of them."""
        self._positives, self._shared = dynamic.positive, rows - 1
        self.initial = dynamic.initial
        self.residents = Residents(self._shared, dynamic.policy, admit=dynamic.admit)

    def of(self, ids: Any, batch: Any) -> Any:
        """The rows of a batch's ids, shaped as they are.

        Raises:
            TfwaveError: it does not say of each sample whether it is positive.
        """
        return self._or_shared(self.residents.rows_of(ids, self._positive(ids, batch)))

    def of_told(self, told: Any) -> Any:
        """The rows, int32 of shape [n], of what workers tell: [n, 3], an id, how often it came in a batch, and how
        often in positive samples.
        """
        ids, came, positive = told.T
        return self._or_shared(self.residents.rows_of(ids, positive, came)).astype(np.int32)

    def _or_shared(self, rows: Any) -> Any:
        return np.where(rows == NONE, self._shared, rows)

    def _positive(self, ids: Any, batch: Any) -> Any:
        if self._positives is None:
            return None
        clicks: Any = np.asarray(self._positives(batch), bool)
        clicks = (
            clicks.reshape(clicks.shape[:1]) if clicks.shape[1:] == (1,) else clicks
        )  # as labels are at times
        if clicks.shape != ids.shape[: clicks.ndim]:
            raise TfwaveError(
                f"Dynamic.positive gives {clicks.shape} for ids of shape {ids.shape}: give one number a sample"
            )
        return np.broadcast_to(clicks.reshape(clicks.shape + (1,) * (ids.ndim - clicks.ndim)), ids.shape)


def in_checkpoints(dumps: Callable[[], bytes], loads: Callable[[bytes], None]) -> Any:
    """What `tf.train.Checkpoint` saves and restores by these."""
    tensorflow: Any = import_module("tensorflow")

    class State(tensorflow.train.experimental.PythonState):
        def serialize(self) -> bytes:
            return dumps()

        def deserialize(self, string_value: bytes) -> None:
            loads(string_value)

    return State()


def begin_anew(shards: Sequence[Any], rows: Any, values: Any, *, by_columns: bool) -> None:
    """Set rows of a table.

    Args:
        shards: the table's variables.
        rows: sorted.
        values: of these rows, all columns.
        by_columns: whether each shard has some columns of all rows.
    """
    done = 0
    for shard in shards:
        height, width = shard.shape
        if by_columns:
            _set(shard, rows, values[:, done : done + width])
            done += width
        else:
            here = (rows >= done) & (rows < done + height)
            _set(shard, rows[here] - done, values[here])
            done += height


def _set(shard: Any, rows: Any, values: Any) -> None:
    tensorflow: Any = import_module("tensorflow")
    with tensorflow.device(shard.device):
        tensorflow.raw_ops.ResourceScatterUpdate(
            resource=shard.handle, indices=rows.astype(np.int32), updates=values
        )
