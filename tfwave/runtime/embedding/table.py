"""A table of rows on parameter servers or on the workers, and what its optimizer keeps beside it."""

from collections.abc import Sequence
from dataclasses import is_dataclass
from functools import partial
from importlib import import_module
from typing import Any, Literal, Protocol, cast

import numpy as np

from tfwave.errors import TfwaveError
from tfwave.runtime.all_to_all import Exchange
from tfwave.runtime.embedding.beside import beside
from tfwave.runtime.embedding.dynamic import Dynamic, Rows, begin_anew, in_checkpoints
from tfwave.runtime.embedding.optimizers import RowOptimizer
from tfwave.runtime.embedding.owners import Owners, Pulled
from tfwave.runtime.embedding.parts import as_one, as_rows_of, rows_slice
from tfwave.runtime.embedding.whose import Whose

_MATRIX = 2
_MOST_ROWS = 2**31


class Group(Protocol):
    """Workers that hold tables together: `tfwave.embedding.Workers`."""

    exchange: Exchange


class Table:
    """A matrix of shape [rows, width] whose rows are looked up by id, and updated by an optimizer of their own.

    Its variables are the caller's, plain ones, and stay so. They hold it in one of three ways:

    1. whole, on one server: a `tf.Variable`;
    2. by rows, over servers: what the `variable_partitioner` of a strategy makes of one;
    3. by columns, over servers: a list of `tf.Variable`s, each with some columns of all rows.

    Evaluation and export read the first two with `tf.nn.embedding_lookup`, the third one variable by variable.

    Or it lies on the workers, ``where="workers"``: each has some rows in a `tf.Variable` of its own, worker 0 the
    first, and its loop calls `pull` and `push`.
    """

    def __init__(
        self,
        variable: Any,
        optimizer: RowOptimizer,
        *,
        dynamic: Dynamic | None = None,
        where: Literal["servers", "workers"] = "servers",
        workers: Group | None = None,
    ) -> None:
        """Make the optimizer's slots, each beside its rows, on the same device.

        On the workers, all of them make their tables, in the same order and of the same names: each waits for the
        others.

        Args:
            variable: float32; see above.
            optimizer: `SGD` or `Adagrad` of this package; on workers also `RowWiseAdagrad`.
            dynamic: given for a table whose ids are not the numbers of its rows. On workers each has a part of the
                ids, for which its own rows are.
            where: what holds the rows.
            workers: those that hold them, with ``where="workers"`` only.

        Raises:
            TfwaveError: what is no `tf.Variable`, or one of another shape or type, columns of unlike lengths, or
                2**31 rows or more; another optimizer; or arguments that do not go together.
        """
        _check_where(variable, dynamic, where, workers)
        _check_optimizer(optimizer)
        if optimizer.by_row and not workers:
            raise TfwaveError(
                f"{type(optimizer).__name__} updates a row by several ops, between which another worker's update "
                "of it could come on a server: use Adagrad, or where='workers'"
            )
        self.by_columns: bool = isinstance(variable, list | tuple)
        """Whether each of `shards` has some columns of all rows, and not all columns of some rows."""
        self.shards: tuple[Any, ...] = _shards_of(variable)
        """The variables that hold the rows, in their order."""
        _check(self.shards, by_columns=self.by_columns)
        self.optimizer = optimizer
        self._kept = Rows(dynamic, _height(self.shards, by_columns=self.by_columns)) if dynamic else None
        self._owners = Owners(workers.exchange, _name(variable), variable, self._kept) if workers else None
        self.module: Any = import_module("tensorflow").Module()
        """A `tf.Module` with the table (`rows`) and its slots, for `tf.train.Checkpoint`. There each is one plain
        variable of the table's shape, however many shards it lies in; what reads it needs no tfwave. On workers
        each has some of its rows there; `Workers.save` puts them together."""
        self.module.rows = self._joined(self.shards, "rows", variable)
        slots: list[list[Any]] = []
        by_row = optimizer.by_row
        for slot, start in optimizer.slots.items():
            parts = [
                beside(shard, partial(_filled, shard, start, by_row=by_row), f"{_name(shard)}/{slot}")
                for shard in self.shards
            ]
            slots.append(parts)
            setattr(self.module, slot, self._joined(parts, slot))
        self.slots = tuple(zip(*slots, strict=True)) if slots else ((),) * len(self.shards)
        """For each shard its slots."""
        self.whose = self._whose()
        """Of a dynamic table on workers, what this one knows of its ids."""
        if self._kept:
            known = self.whose or self._kept.residents
            self.module.ids = in_checkpoints(known.dumps, known.loads)

    @property
    def where(self) -> Literal["servers", "workers"]:
        """What holds the rows."""
        return "workers" if self._owners else "servers"

    def pull(self, ids: Any, positive: Any = None) -> Pulled:
        """Of a table on workers, the rows that a batch asks for: all workers call it, in each step.

        Each row comes once, however often the batch has its id. Watch ``pulled.rows`` with a `tf.GradientTape`.

        Args:
            ids: integers of any shape, also none at all.
            positive: of ids of shape [samples, ...], which samples are positive, one number each: for a dynamic
                table whose policy weighs them.

        Raises:
            TfwaveError: the table is on servers, ids are no tensor of integers, or a table that is not dynamic is
                told what is positive.
            tf.errors.InvalidArgumentError: an id that is no row of the table, or other samples that are positive.
            tf.errors.AbortedError: the group has ended; names the worker at fault.
        """
        return self._on_workers().pull(ids, positive)

    def push(self, pulled: Pulled, gradients: Any) -> None:
        """Send the gradients of rows to the workers that own them, which update each row once: all workers call it.

        The gradients of a row are summed in this order: in each worker those of its batch, from the first id on;
        then the workers' sums, from rank 0 on. So the table has the bits of one in one process that sums so.

        Args:
            pulled: what `pull` returned in this step.
            gradients: shaped as ``pulled.rows``.

        Raises:
            TfwaveError: the table is on servers, or there are no gradients, or of another shape.
            tf.errors.AbortedError: as `pull`.
        """
        self._on_workers().push(pulled, gradients, self.optimizer, self.slots[0])

    def held(self) -> dict[str, tuple[Any, str]]:
        """Of a table on workers what this one holds, by its name in `module`, and where that lies in the whole.

        Raises:
            TfwaveError: the table is on servers, or this worker has none of its rows.
        """
        owners = self._on_workers()
        if not self.shards[0].shape[0]:
            raise TfwaveError(
                f"worker {owners.rank} has no row of {_name(self.shards[0])}: give it at least one"
            )
        own = dict(zip(("rows", *self.optimizer.slots), (self.shards[0], *self.slots[0]), strict=True))
        return {name: (one, rows_slice(owners.rows, owners.first, one)) for name, one in own.items()}

    def _on_workers(self) -> Owners:
        if not self._owners:
            raise TfwaveError(
                "the table is on servers, where `staged` pulls and pushes: give it where='workers'"
            )
        return self._owners

    def numbers(self, ids: Any, batch: Any) -> Any:
        """The rows of a batch's ids, shaped as these are; of a dynamic table, new ids get rows."""
        return self._kept.of(ids, batch) if self._kept else ids

    def ids(self) -> tuple[Any, Any]:
        """Of a dynamic table the ids that have rows of their own, and these rows: what an export looks ids up by.

        On workers they are the ids of this one.

        Raises:
            TfwaveError: the table is not dynamic.
        """
        ids, rows = self._needed().residents.ids()
        return ids, rows + (self._owners.first if self._owners else 0)

    def evict(self, keep: int) -> int:
        """Free the rows of a dynamic table, of all but the ids that are worth most, and begin them anew.

        Call it behind ``coordinator.join()``, when no call is under way or prepared: those know ids by their rows.
        On workers each does it for its own ids, between two steps.

        Args:
            keep: how many ids keep their rows.

        Returns:
            How many rows were freed.

        Raises:
            TfwaveError: the table is not dynamic, or fewer than none are to be kept.
            Exception: what `Dynamic.initial` raises, or a server. All ids keep their rows then, of which some may
                have begun anew; another call frees them.
        """
        return len(self._needed().residents.evict(keep, self._begin_anew))

    def _begin_anew(self, rows: Any) -> None:
        shape = (len(rows), self.width)
        of_slots = (len(rows), 1 if self.optimizer.by_row else self.width)
        starts = [np.full(of_slots, start, np.float32) for start in self.optimizer.slots.values()]
        held = (self.shards, *zip(*self.slots, strict=True))
        values = (np.asarray(self._needed().initial(shape), np.float32), *starts)
        for shards, own in zip(held, values, strict=True):
            begin_anew(shards, rows, own, by_columns=self.by_columns)

    def _needed(self) -> Rows:
        if not self._kept:
            raise TfwaveError("the table has a row for each of its ids: give it dynamic=Dynamic(...)")
        return self._kept

    def _whose(self) -> Whose | None:
        if not (self._owners and self._kept):
            return None
        return Whose(self._kept.residents, self._owners.rank, self._owners.layout)

    def _joined(self, parts: Sequence[Any], name: str, variable: Any = None) -> Any:
        """Parts as a checkpoint has them; `variable` is what they are parts of, if there is such a one."""
        if self._owners:
            rows, first, own = self._owners.rows, self._owners.first, parts[0]
            return as_rows_of(rows, first, own) if own.shape[0] else own
        if self.by_columns:
            return as_one(parts)
        if variable is not None:
            return variable
        return parts[0] if len(parts) == 1 else _sharded()(parts, name=name)

    @property
    def rows(self) -> int:
        if self._owners:
            return self._owners.rows
        return _height(self.shards, by_columns=self.by_columns)

    @property
    def width(self) -> int:
        widths = [int(shard.shape[1]) for shard in self.shards]
        return sum(widths) if self.by_columns else widths[0]


def _check_where(variable: Any, dynamic: Dynamic | None, where: str, workers: Group | None) -> None:
    if where not in ("servers", "workers") or (where == "workers") != (workers is not None):
        raise TfwaveError(f"where={where!r}: give 'servers', or 'workers' with workers=Workers(...)")
    if workers and isinstance(variable, (list, tuple, _sharded())):
        raise TfwaveError("a table on workers has the rows of this one in a tf.Variable: give that")
    if workers and dynamic and dynamic.positive:
        raise TfwaveError("a step on workers says itself what is positive: give it to pull(ids, positive)")


def _height(shards: Sequence[Any], *, by_columns: bool) -> int:
    heights = [int(shard.shape[0]) for shard in shards]
    return heights[0] if by_columns else sum(heights)


def _sharded() -> Any:
    tensorflow: Any = import_module("tensorflow")
    return tensorflow.__internal__.distribute.ShardedVariable


def _shards_of(variable: Any) -> tuple[Any, ...]:
    if isinstance(variable, list | tuple):
        return tuple(cast("Sequence[Any]", variable))
    return tuple(variable.variables) if isinstance(variable, _sharded()) else (variable,)


def _check(shards: Sequence[Any], *, by_columns: bool) -> None:
    tensorflow: Any = import_module("tensorflow")
    if not shards:
        raise TfwaveError("a table of no columns: give the variables that have them")
    for shard in shards:
        if not isinstance(shard, tensorflow.Variable):
            raise TfwaveError(
                f"a table is of tf.Variables, and this is a {_kind(shard)}: give {_instead(shard)}"
            )
        if len(shard.shape) != _MATRIX or shard.dtype != tensorflow.float32:
            raise TfwaveError(
                f"{_name(shard)} is {shard.dtype.name} of shape {tuple(shard.shape)}, and a table "
                "is float32 of shape [rows, width]: make the variable so"
            )
    heights = [int(shard.shape[0]) for shard in shards]
    if by_columns and len(set(heights)) > 1:
        raise TfwaveError(
            f"the columns of a table have {' and '.join(map(str, heights))} rows: give each all of its rows"
        )
    if sum(heights) >= _MOST_ROWS:
        raise TfwaveError(f"{_name(shards[0])} has {sum(heights)} rows, and a table at most 2**31 - 1")


def _instead(given: Any) -> str:
    """What to give instead of what is no `tf.Variable`."""
    if isinstance(given, _sharded()):  # as a strategy makes of each variable that is to be one of the columns
        return (
            "it by itself, not in a list; or make columns in tf.device(...), outside of the strategy's scope"
        )
    return "a tf.Variable, and of a Keras variable its value, as in Table(layer.embeddings.value, ...)"


def _check_optimizer(optimizer: Any) -> None:
    if not all(hasattr(optimizer, name) for name in ("slots", "by_row", "apply")):
        raise TfwaveError(
            f"a {_kind(optimizer)} updates no rows of a table: give tfwave.embedding.SGD(...) or Adagrad(...)"
        )
    if callable(getattr(optimizer, "rate", None)) and not is_dataclass(optimizer):
        raise TfwaveError(
            f"the rate of a {_kind(optimizer)} is a function, which is asked once for all tables: make the class a "
            "dataclass, of which a copy can have the number that came"
        )


def _kind(thing: Any) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


def _name(variable: Any) -> str:
    return variable.name.partition(":")[0]


def _filled(shard: Any, start: float, *, by_row: bool) -> Any:
    """What a slot of its rows begins with."""
    return import_module("tensorflow").fill([shard.shape[0], 1] if by_row else shard.shape, start)
