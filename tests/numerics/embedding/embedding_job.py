"""Tables, batches and a step for the tests of tfwave.embedding, and the same training without it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfwave.embedding import SGD, Adagrad, Call, Staged, Table, staged
from tfwave.runtime.embedding.inputs import fetched
from tfwave.runtime.embedding.packed import unpacked
from tfwave.runtime.embedding.rows import RowSets

ROWS = {"users": 9, "items": 40, "words": 7}
WIDTHS = {"users": 4, "items": 4, "words": 3}
OPTIMIZERS = {"users": SGD(0.1), "items": Adagrad(0.1), "words": Adagrad(0.05, 0.2)}
SPEC = (
    {
        "users": tf.TensorSpec([None, 2], tf.int64),
        "items": tf.TensorSpec([None], tf.int32),
        "words": tf.TensorSpec([None, 5], tf.int64),
    },
    tf.TensorSpec([None]),
)
raw = tf.raw_ops
ShardedVariable = tf.__internal__.distribute.ShardedVariable


def batches(count: int, seed: int = 1) -> list[Any]:
    """Of four sizes, one of them none; ids that repeat in a batch and across, items of which most never come."""
    random = np.random.default_rng(seed)
    found: list[Any] = []
    for k in range(count):
        size = (3, 0, 2, 4)[k % 4]
        ids = {
            "users": random.integers(0, 9, (size, 2)),
            "items": random.integers(0, 12, size).astype(np.int32),
            "words": random.integers(0, 7, (size, 5)),
        }
        found.append((ids, random.normal(size=size).astype(np.float32)))
    return found


def dataset(found: Sequence[Any]) -> tf.data.Dataset:
    def one_by_one() -> Any:
        for element in found:
            if isinstance(element, Exception):
                raise element
            yield element

    return tf.data.Dataset.from_generator(one_by_one, output_signature=SPEC)


def row_sets(train: Staged, call: Call, spec: Any = SPEC) -> list[RowSets]:
    """Those that a call of `train` has of its batches; `spec` is the dataset's."""
    vectors = [fetched(handles, spec)[0] for handles in call.args[0]]
    return [unpacked(train.wire.layout, spec[0], vector) for vector in vectors]


def starts() -> dict[str, Any]:
    random = np.random.default_rng(3)
    return {
        table: random.normal(size=(rows, WIDTHS[table])).astype(np.float32) for table, rows in ROWS.items()
    }


def loss_of(embedded: Any, weight: Any, batch: Any) -> Any:
    terms = [
        tf.reshape(tf.sin(embedded["users"] * weight), [-1]),
        tf.reshape(embedded["items"] * batch[:, None], [-1]),
        tf.reshape(tf.cos(2 * embedded["words"]), [-1]),
    ]
    return tf.reduce_sum(tf.concat(terms, 0))


def stepped(weight: Any) -> Callable[[Any, Any], Any]:
    """The step that a user would write."""

    def step(embedded: Any, batch: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(embedded)
            loss = loss_of(embedded, weight, batch)
        rows, dense = tape.gradient(loss, (embedded, weight))
        weight.assign_sub(0.01 * dense)
        return loss, rows

    return step


class Job:
    """Tables on two devices, one of them in two shards, trained by `staged`."""

    def __init__(self, steps: int, staleness: int = 0, items: Any = None, hot_bytes: int = 0) -> None:
        """`items` is that table, whole on one device if left out."""
        self.weight = tf.Variable(tf.ones([4]))
        values = starts()
        self.users = ShardedVariable(
            [_on("CPU:2", values["users"][:5]), _on("CPU:1", values["users"][5:])], name="users"
        )
        variables = {
            "users": self.users,
            "items": _on("CPU:2", values["items"]),
            "words": _on("CPU:1", values["words"]),
        }
        self.tables = {table: Table(variables[table], OPTIMIZERS[table]) for table in ROWS}
        if items is not None:
            self.tables["items"] = items
        self.staged = staged(
            stepped(self.weight), self.tables, staleness=staleness, steps=steps, hot_bytes=hot_bytes
        )
        self.losses: list[float] = []

    def train(self, found: Sequence[Any]) -> None:
        for call in self.staged.calls(dataset(found)):
            self.take(call)

    def take(self, call: Any) -> None:
        losses = call.function(*call.args)
        assert len(losses) == call.steps
        self.losses += [float(loss) for loss in losses]

    def state(self) -> dict[str, bytes]:
        """The bytes of the tables, their slots and the weight."""
        kept = {"weight": self.weight.numpy().tobytes()}
        for name, table in self.tables.items():
            kept[name] = b"".join(shard.numpy().tobytes() for shard in table.shards)
            kept[f"{name} slot"] = b"".join(slot.numpy().tobytes() for own in table.slots for slot in own)
        return kept


class Plain:
    """The same without tfwave: whole variables, a step at a time; rows are read `old` updates too early.

    But not before the first update of each `steps`.
    """

    def __init__(self, steps: int = 1, old: int = 0) -> None:
        self.weight = tf.Variable(tf.ones([4]))
        self.tables = {table: tf.Variable(value) for table, value in starts().items()}
        self.slots = {
            "items": tf.Variable(tf.fill([40, 4], 0.1)),
            "words": tf.Variable(tf.fill([7, 3], 0.2)),
        }
        self.losses: list[float] = []
        self._steps, self._old = steps, old
        self._update = tf.function(self._updated, input_signature=[self._embedded_spec(), *SPEC])

    def _embedded_spec(self) -> Any:
        shapes = {table: [*SPEC[0][table].shape, WIDTHS[table]] for table in ROWS}
        return {table: tf.TensorSpec(shape) for table, shape in shapes.items()}

    def train(self, found: Sequence[Any]) -> None:
        read: dict[int, Any] = {}
        for k, (ids, batch) in enumerate(found):
            behind = range(k, min(k + self._old + 1, len(found)))
            read |= {j: self._embedded(found[j][0]) for j in behind if self._read_at(j) == k}
            self.losses.append(float(self._update(read.pop(k), ids, batch)))

    def _read_at(self, batch: int) -> int:
        """Before which update a batch's rows are read."""
        return batch - min(self._old, batch % self._steps)

    def _embedded(self, ids: Any) -> Any:
        return {table: tf.gather(self.tables[table], ids[table]) for table in ROWS}

    def _updated(self, embedded: Any, ids: Any, batch: Any) -> Any:
        loss, gradients = stepped(self.weight)(embedded, batch)
        for table, gradient in gradients.items():
            flat = tf.reshape(ids[table], [-1])
            rows, places = tf.unique(flat)
            width = WIDTHS[table]
            summed = tf.math.unsorted_segment_sum(tf.reshape(gradient, [-1, width]), places, tf.size(rows))
            handle = self.tables[table].handle
            if table == "users":
                raw.ResourceScatterSub(resource=handle, indices=rows, updates=0.1 * summed)
            else:
                rate = 0.1 if table == "items" else 0.05
                raw.ResourceSparseApplyAdagradV2(
                    var=handle,
                    accum=self.slots[table].handle,
                    lr=rate,
                    epsilon=1e-7,
                    grad=summed,
                    indices=rows,
                )
        return loss

    def state(self) -> dict[str, bytes]:
        kept = {"weight": self.weight.numpy().tobytes(), "users slot": b""}
        kept |= {name: table.numpy().tobytes() for name, table in self.tables.items()}
        return kept | {f"{name} slot": slot.numpy().tobytes() for name, slot in self.slots.items()}


def _on(device: str, value: Any) -> Any:
    with tf.device(device):
        return tf.Variable(value)


def waited_for(op: tf.Operation, others: list[tf.Operation]) -> list[tf.Operation]:
    """Those that an op depends on, however indirectly."""
    found, left = set[str](), [op]
    while left:
        one = left.pop()
        if one.name not in found:
            found.add(one.name)
            left += [*(tensor.op for tensor in one.inputs), *one.control_inputs]
    return [other for other in others if other.name in found]
