"""How rows travel, as ops of a traced function: one tensor each way between the worker and each server."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tfwave.runtime.embedding.handles import free
from tfwave.runtime.embedding.kept import KeptRows
from tfwave.runtime.embedding.ledger import Push, PushLedger
from tfwave.runtime.embedding.optimizers import RowOptimizer, as_it_is
from tfwave.runtime.embedding.rows import EARLY, FIRST, LATE, NEW, REST, SETS, Layout, RowSets
from tfwave.runtime.embedding.table import Table


@dataclass(frozen=True)
class Pulled:
    """Rows of some sets on the worker: by set, slot and column, those of each server.

    Slot 0 is the rows' own values. `sent` is by server what it sent last.
    """

    rows: dict[tuple[int, int], list[list[Any]]]
    sent: list[Any]

    def __or__(self, other: "Pulled") -> "Pulled":
        return Pulled(self.rows | other.rows, other.sent)


@dataclass(frozen=True)
class Sums:
    """Gradients of the rows of a batch, each of which comes once, and what takes them; both by column."""

    gradients: Sequence[Any]
    optimizers: Sequence[RowOptimizer]


class Wire:
    """The tables of a job and how they lie."""

    def __init__(self, tables: Mapping[str, Table], layout: Layout) -> None:
        """`layout` is of the shards of all tables, table by table."""
        self.layout = layout
        shards = [(t, k) for t in tables.values() for k in range(len(t.shards))]
        self._shards = [shards[place] for place in layout.order]
        firsts = [self.table_and_shard(layout.places(server)[0]) for server in layout.servers]
        self.ledger = PushLedger([table.shards[k] for table, k in firsts])

    def asked(self, sets: RowSets) -> "Asked":
        """Tell the servers which rows a batch needs."""
        return Asked(self, sets)

    def handles(self) -> list[list[Any]]:
        """Of the shards, by their places, the handles of rows and slots."""
        return [[held.handle for held in (table.shards[k], *table.slots[k])] for table, k in self._shards]

    def free_handles(self) -> list[list[Any]]:
        """The same for accesses that wait for no other; see `free`."""
        pairs = zip(self.layout.shards, self.handles(), strict=True)
        return [free(handles, shard.server) for shard, handles in pairs]

    def kept(self, rows: Any) -> list[KeptRows]:
        """Room on the worker for so many rows of each column, as a vector says."""
        layout = self.layout
        counts = import_module("tensorflow").unstack(rows, len(layout.widths))
        return [KeptRows(*of) for of in zip(layout.slots, counts, layout.widths, strict=True)]

    def optimizers(self) -> list[RowOptimizer]:
        """By column, with the rates of this moment."""
        own = {self.layout.columns[place]: table.optimizer for place, (table, _) in enumerate(self._shards)}
        now = {optimizer: as_it_is(optimizer) for optimizer in own.values()}
        return [now[own[column]] for column in range(len(self.layout.widths))]

    def table_and_shard(self, place: int) -> tuple[Table, int]:
        return self._shards[place]


class Asked:
    """The rows of one batch: pulled, looked up and pushed."""

    def __init__(self, wire: Wire, sets: RowSets) -> None:
        self._wire, self._layout, self._sets = wire, wire.layout, sets
        tensorflow: Any = import_module("tensorflow")
        self._tf = tensorflow
        self._places = [wire.layout.places(server) for server in wire.layout.servers]
        self._counts = [self._counts_of(k, wanted) for k, wanted in enumerate(sets.wanted)]
        self._told = [self._on_server(k, wanted) for k, wanted in enumerate(sets.wanted)]
        self._rows = [self._split(k) for k in range(len(self._told))]

    def _counts_of(self, server: int, wanted: Any) -> Any:
        shards = len(self._places[server])
        return self._tf.reshape(wanted[: SETS * shards], [SETS, shards])

    def _on_server(self, server: int, wanted: Any) -> Any:
        with self._tf.device(self._layout.servers[server]):
            return self._tf.identity(wanted)

    def _split(self, server: int) -> list[list[Any]]:
        """By set and shard the rows, as the server knows them."""
        tensorflow, shards = self._tf, len(self._places[server])
        with tensorflow.device(self._layout.servers[server]):
            told = self._told[server]
            parts = tensorflow.split(told[SETS * shards :], told[: SETS * shards], num=SETS * shards)
        return [parts[k * shards : (k + 1) * shards] for k in range(SETS)]

    def pull(self, *chosen: int) -> Pulled:
        """Have each server send the rows of the chosen sets, in one tensor."""
        return self._pull(chosen, self._wire.handles())

    def pull_beside(self, *chosen: int, handles: Sequence[Sequence[Any]], behind: Pulled) -> Pulled:
        """The same, as soon as it has sent `behind`, whatever is updated meanwhile: that must be other rows.

        `handles` are those of `Wire.free_handles`.
        """
        return self._pull(chosen, handles, behind.sent)

    def _pull(
        self, chosen: Sequence[int], handles: Sequence[Sequence[Any]], behind: Sequence[Any] = ()
    ) -> Pulled:
        tensorflow = self._tf
        slots = range(1, 1 + max(self._layout.slots)) if NEW in chosen else ()
        asked = [*((k, 0) for k in chosen), *((NEW, slot) for slot in slots)]
        columns = {slot: [k for k, n in enumerate(self._layout.slots) if n >= slot] for _, slot in asked}
        rows: dict[tuple[int, int], list[list[Any]]] = {
            one: [[] for _ in self._layout.widths] for one in asked
        }
        sent: list[Any] = []
        for server, places in enumerate(self._places):
            with (
                tensorflow.device(self._layout.servers[server]),
                tensorflow.control_dependencies([behind[server]] if behind else []),
            ):
                parts = [
                    self._gathered(handles[place][slot], part)
                    for k, slot in asked
                    for place, part in zip(places, self._rows[server][k], strict=True)
                    if self._layout.columns[place] in columns[slot]
                ]
                flat = tensorflow.concat(parts, 0)
            sent.append(flat)
            lengths = [self._numbers(server, k, column) for k, slot in asked for column in columns[slot]]
            pieces = iter(tensorflow.split(flat, lengths, num=len(lengths)))
            for k, slot in asked:
                for column in columns[slot]:
                    found = tensorflow.reshape(next(pieces), [-1, self._layout.widths[column]])
                    rows[k, slot][column].append(found)
        return Pulled(rows, sent)

    def _gathered(self, handle: Any, rows: Any) -> Any:
        tensorflow = self._tf
        found = tensorflow.raw_ops.ResourceGather(resource=handle, indices=rows, dtype=tensorflow.float32)
        return tensorflow.reshape(found, [-1])

    def _numbers(self, server: int, chosen: int, column: int) -> Any:
        """How many numbers the rows of a column have."""
        return self._layout.widths[column] * self._count(server, chosen, column)

    def _count(self, server: int, chosen: int, column: int) -> Any:
        places = self._places[server]
        own = [k for k, place in enumerate(places) if self._layout.columns[place] == column]
        counts = self._tf.gather(self._counts[server][chosen], self._tf.constant(own, self._tf.int32))
        return self._tf.reduce_sum(counts)

    def keep(self, pulled: Pulled, kept: Sequence[KeptRows]) -> None:
        """Take the new ones of the rows that are kept until the call ends."""
        for column, own in enumerate(kept):
            values = [pulled.rows[NEW, slot][column] for slot in range(1 + self._layout.slots[column])]
            own.put(self._sets.fresh[column], [self._tf.concat(value, 0) for value in values])

    def update(self, sums: Sums, kept: Sequence[KeptRows]) -> None:
        """Update the rows that are kept, which come behind all others, as the servers will."""
        for column, own in enumerate(kept):
            places, gradients = self._sets.kept[column], sums.gradients[column]
            last = gradients[self._tf.shape(gradients)[0] - self._tf.size(places) :]
            own.apply(places, last, sums.optimizers[column])

    def look_up(self, pulled: Pulled, kept: Sequence[KeptRows]) -> tuple[dict[str, Any], list[Any]]:
        """By table the rows of its ids, shaped [*ids.shape, width]; and by column the rows, each once."""
        tensorflow = self._tf
        rows: list[Any] = []
        for column in range(len(self._layout.widths)):
            found = [*pulled.rows[EARLY, 0][column], *pulled.rows[LATE, 0][column]]
            here = [own.rows(self._sets.kept[column]) for own in kept[column : column + 1]]
            rows.append(tensorflow.concat([*found, *here], 0))
        return {table: self._embedded(parts, rows) for table, parts in self._layout.parts.items()}, rows

    def _embedded(self, parts: Sequence[str], rows: Sequence[Any]) -> Any:
        """The rows of a table's ids: the columns of its parts side by side."""
        tensorflow, layout = self._tf, self._layout
        found = [
            tensorflow.gather(rows[layout.column_of(part)], self._sets.positions[part]) for part in parts
        ]
        return found[0] if len(found) == 1 else tensorflow.concat(found, -1)

    def summed(
        self, gradients: Mapping[str, Any], rows: Sequence[Any], optimizers: Sequence[RowOptimizer]
    ) -> Sums:
        """By column the gradient of each row, summed over the ids that ask for it, for its optimizer."""
        tensorflow, positions = self._tf, self._sets.positions
        of_parts = self._of_parts(gradients)
        sums: list[Any] = []
        for column, width in enumerate(self._layout.widths):
            parts = [part for part in of_parts if self._layout.column_of(part) == column]
            flat = tensorflow.concat([tensorflow.reshape(of_parts[part], [-1, width]) for part in parts], 0)
            places = tensorflow.concat([tensorflow.reshape(positions[part], [-1]) for part in parts], 0)
            count = tensorflow.shape(rows[column])[0]
            sums.append(tensorflow.math.unsorted_segment_sum(flat, places, count))
        return Sums(sums, optimizers)

    def _of_parts(self, gradients: Mapping[str, Any]) -> dict[str, Any]:
        """Those of tables, by the parts that have their columns."""
        found: dict[str, Any] = {}
        for table, parts in self._layout.parts.items():
            widths = [self._layout.width_of(part) for part in parts]
            whole = [gradients[table]]
            split = whole if len(parts) == 1 else self._tf.split(gradients[table], widths, -1)
            found |= dict(zip(parts, split, strict=True))
        return found

    def push(
        self, sums: Sums, *chosen: int, once: Push | None = None, behind: Sequence[Any] = ()
    ) -> list[Any]:
        """Send each server the gradients of the chosen sets, in one tensor, and update these rows there.

        Args:
            sums: for all rows of the batch.
            chosen: of `FIRST` and `REST`, in this order.
            once: which push of its call it is: rows that it updated in an earlier attempt stay as they are.
            behind: for each server an op on it; what it gets leaves when that is done.

        Returns:
            What each has got.
        """
        tensorflow = self._tf
        parts = [self._picked(column, own, chosen) for column, own in enumerate(sums.gradients)]
        come: list[Any] = []
        for server in range(len(self._places)):
            own = [of_column[k][server] for k in range(len(chosen)) for of_column in parts]
            flat = tensorflow.concat([tensorflow.reshape(part, [-1]) for part in own], 0)
            with tensorflow.control_dependencies([behind[server]] if behind else []):
                flat = tensorflow.identity(flat)
            with tensorflow.device(self._layout.servers[server]):
                come.append(tensorflow.identity(flat))
                self._update(server, chosen, come[server], sums.optimizers, once)
        return come

    def _picked(self, column: int, gradients: Any, chosen: Sequence[int]) -> list[list[Any]]:
        """By chosen set and server the gradients of a column."""
        tensorflow = self._tf
        counts = [[self._count(s, k, column) for s in range(len(self._places))] for k in (FIRST, REST)]
        lengths = tensorflow.stack(counts[0] + counts[1])
        picks = tensorflow.split(self._sets.picks[column], lengths, num=2 * len(self._places))
        servers = len(self._places)
        return [
            [tensorflow.gather(gradients, picks[(k - FIRST) * servers + server]) for server in range(servers)]
            for k in chosen
        ]

    def _update(
        self,
        server: int,
        chosen: Sequence[int],
        flat: Any,
        optimizers: Sequence[RowOptimizer],
        once: Push | None,
    ) -> None:
        tensorflow, places = self._tf, self._places[server]
        with tensorflow.control_dependencies([flat]):
            counts = self._to_update(server, chosen, once)
        widths = [self._layout.shards[place].width for _ in chosen for place in places]
        before = SETS * len(places) + tensorflow.reduce_sum(self._told[server][: chosen[0] * len(places)])
        _, *parts = self._parts(self._told[server], [[before], counts], 1 + len(widths))
        gradients = self._parts(flat, [counts * widths], len(widths))
        updates: list[Any] = []
        for k, (some, width, flat_gradient) in enumerate(zip(parts, widths, gradients, strict=True)):
            place = places[k % len(places)]
            table, shard = self._wire.table_and_shard(place)
            optimizer = optimizers[int(self._layout.columns[place])]
            gradient = tensorflow.reshape(flat_gradient, [-1, width])
            updates.append(optimizer.apply(table.shards[shard], table.slots[shard], some, gradient))
        if once:
            with tensorflow.control_dependencies([op for op in updates if op]):
                once.note(server)

    def _parts(self, vector: Any, lengths: Sequence[Any], parts: int) -> Sequence[Any]:
        """Of a vector so many parts of these lengths, whatever is behind them."""
        return self._tf.split(vector, self._tf.concat([*lengths, [-1]], 0), num=parts + 1)[:-1]

    def _to_update(self, server: int, chosen: Sequence[int], once: Push | None) -> Any:
        """How many rows of each set and shard; none of a push that was applied in an earlier attempt."""
        shards = len(self._places[server])
        counts = self._told[server][chosen[0] * shards : (chosen[-1] + 1) * shards]
        return self._tf.where(once.is_new(server), counts, 0) if once else counts
