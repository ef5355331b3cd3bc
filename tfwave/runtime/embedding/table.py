"""A table of rows on parameter servers, and what its optimizer keeps beside it."""

from importlib import import_module
from typing import Any

from tfwave.errors import TfwaveError
from tfwave.runtime.embedding.optimizers import RowOptimizer

_MATRIX = 2
_MOST_ROWS = 2**31


class Table:
    """A variable of shape [rows, width] whose rows are looked up by id, and updated by an optimizer of their own.

    The variable is the caller's, a plain one, and stays so: whole on one server, or sharded by its rows, as the
    `variable_partitioner` of a strategy makes it. Evaluation and export read it with `tf.nn.embedding_lookup`.
    """

    def __init__(self, variable: Any, optimizer: RowOptimizer) -> None:
        """Make the optimizer's slots, each beside its rows, on the same device.

        Args:
            variable: float32, a `tf.Variable` or what TensorFlow made of it under a `variable_partitioner`.
            optimizer: `SGD` or `Adagrad` of this package.

        Raises:
            TfwaveError: a variable of another shape or type, or of 2**31 rows or more.
        """
        tensorflow: Any = import_module("tensorflow")
        sharded = tensorflow.__internal__.distribute.ShardedVariable
        if len(variable.shape) != _MATRIX or variable.dtype != tensorflow.float32:
            raise TfwaveError(
                f"{_name(variable)} is {variable.dtype.name} of shape {tuple(variable.shape)}, and a table "
                "is float32 of shape [rows, width]: make the variable so"
            )
        if variable.shape[0] >= _MOST_ROWS:
            raise TfwaveError(
                f"{_name(variable)} has {variable.shape[0]} rows, and a table at most 2**31 - 1"
            )
        self.optimizer = optimizer
        self.shards: tuple[Any, ...] = (
            tuple(variable.variables) if isinstance(variable, sharded) else (variable,)
        )
        """The variables that hold the rows, in their order."""
        self.module: Any = tensorflow.Module()
        """A `tf.Module` with the table (`rows`) and its slots, for `tf.train.Checkpoint`. There each is one plain
        variable of the table's shape, however many shards it lies in; what reads it needs no tfwave."""
        self.module.rows = variable
        slots: list[list[Any]] = []
        for slot, start in optimizer.slots.items():
            parts = [_beside(shard, f"{_name(variable)}/{slot}", start) for shard in self.shards]
            slots.append(parts)
            whole = sharded(parts, name=slot) if isinstance(variable, sharded) else parts[0]
            setattr(self.module, slot, whole)
        self.slots = tuple(zip(*slots, strict=True)) if slots else ((),) * len(self.shards)
        """For each shard its slots."""

    @property
    def rows(self) -> int:
        return int(self.module.rows.shape[0])

    @property
    def width(self) -> int:
        return int(self.module.rows.shape[1])


def _beside(shard: Any, name: str, start: float) -> Any:
    tensorflow: Any = import_module("tensorflow")
    with tensorflow.device(shard.device):
        return tensorflow.Variable(tensorflow.fill(shard.shape, start), trainable=False, name=name)


def _name(variable: Any) -> str:
    return variable.name.partition(":")[0]
