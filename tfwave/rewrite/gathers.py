"""Tables that a step reads whole although it only gathers rows from them, as Keras 3's Embedding does."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

from tfwave.errors import PassError
from tfwave.graph.access import HANDLE_OPS, Resource
from tfwave.graph.item import GraphItem
from tfwave.graph.names import parse_input
from tfwave.graph.reach import in_control_flow, reached, upstream_of
from tfwave.graph.step import ends_of, needed_of
from tfwave.graph.view import GraphView
from tfwave.rewrite.blocks.shapes import Shape, static_shapes
from tfwave.rewrite.resources import ResourceSurvey, Touch

_ROW_WRITERS = ("ResourceScatter", "ResourceSparseApply")
"""How the names of ops begin that change no other rows of a table than those that they are given."""
_GATHER, _READ, _JOIN = "GatherV2", "ReadVariableOp", "ConcatV2"


@dataclass(frozen=True)
class TableRead:
    """One read of a table, or those of all parts of one that are concatenated, by node indices.

    `reads` is of each part in turn, and `heights` says how many rows each part has, where there are several.
    `passed` is the reads, the concatenation and the Identities behind them; `gathers` are all that take data from
    these, perhaps none; `held` waits for them by a control edge, and `later` are the writers of each part that wait
    for its read.
    """

    reads: tuple[int, ...]
    heights: tuple[int, ...]
    passed: frozenset[int]
    gathers: tuple[int, ...]
    held: tuple[int, ...]
    later: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class WholeTable:
    """A table that is gathered from, and must still be read whole; `why` names the node."""

    read: str
    why: str


class TableReads:
    """Finds the reads of one graph that need no more than rows."""

    def __init__(self, item: GraphItem, view: GraphView) -> None:
        """Of what the fetches need; of all nodes, where no fetch is known."""
        self._view = view
        self._fetched = {parse_input(name).node for name in item.fetches}
        self._ends = ends_of(item)
        self._needed = needed_of(item, view)
        self._survey = ResourceSurvey(item, view)
        self._producer = item.graph.versions.producer

    def find(self) -> tuple[list[TableRead], list[WholeTable]]:
        """The reads to replace, in topological order, with those that nothing takes data from; and what stays.

        Raises:
            PassError: a table that is gathered from is changed whole, or without waiting for the read, or ids are
                made by what waits for it; names the node.
            GraphError: a handle that cannot be traced to its variable.
        """
        found: list[TableRead] = []
        whole: list[WholeTable] = []
        for source, reads in self._sources().items():
            passed, takers = self._takers(source)
            gathers = [taker for taker in takers if self._is_row_gather(taker, passed)]
            if not gathers:
                continue
            reason = self._why_whole(passed, set(takers) - set(gathers)) or self._why_no_parts(reads)
            if reason:
                whole.append(WholeTable(self._names[reads[0]], reason))
            else:
                found.append(self._table_read(reads, passed, gathers))
        tables = {self._read_from[read] for table in found for read in table.reads}
        reads = (node for node in self._needed if self._ops[node] == _READ)
        unused = [n for n in reads if self._read_from.get(n) in tables and self._is_unused(n)]
        found += [self._table_read((read,), frozenset([read]), []) for read in unused]
        rank = {node: place for place, node in enumerate(self._view.topological_order)}
        return sorted(found, key=lambda table: rank[table.reads[0]]), whole

    @property
    def _names(self) -> Sequence[str]:
        return self._view.names

    @property
    def _ops(self) -> Sequence[str]:
        return self._view.ops

    @cached_property
    def _touches(self) -> list[Touch]:
        return self._survey.touches(sorted(self._needed))

    @cached_property
    def _read_from(self) -> dict[int, Resource]:
        return {touch.node: touch.resource for touch in self._touches if self._ops[touch.node] == _READ}

    @cached_property
    def _guarded(self) -> Set[int]:
        return in_control_flow(self._view)

    @cached_property
    def _shapes(self) -> Mapping[str, Shape]:
        return static_shapes(self._view, self._producer)

    def _sources(self) -> dict[int, tuple[int, ...]]:
        """Where tables come from, in topological order, with the reads that make them: reads and concatenations."""
        order = [node for node in self._view.topological_order if node in self._needed]
        joined = {node: parts for node in order if (parts := self._parts(node))}
        taken = {read for parts in joined.values() for read in parts}
        single = {node: (node,) for node in order if self._ops[node] == _READ and node not in taken}
        return {node: (single | joined)[node] for node in order if node in single or node in joined}

    def _parts(self, node: int) -> tuple[int, ...]:
        """The reads that a node concatenates along the first axis, if nothing else takes data from them."""
        if self._ops[node] != _JOIN:
            return ()
        *values, axis = self._view.fanins[node][: self._view.data_fanins[node]]
        reads = [self._behind_identities(value) for value in values]
        if not self._is_zero(axis) or any(self._ops[read] != _READ for read in reads):
            return ()
        takers = [taker for read in set(reads) for taker in self._takers(read)[1]]
        return tuple(reads) if set(takers) == {node} else ()

    def _behind_identities(self, node: int) -> int:
        while self._ops[node] == "Identity":
            node = self._view.fanins[node][0]
        return node

    def _heights(self, reads: Sequence[int]) -> tuple[int | None, ...]:
        """How many rows each of these reads has, as far as the graph says it."""
        shapes = (
            self._shapes.get(self._names[read]) or self._shapes.get(self._names[self._view.fanins[read][0]])
            for read in reads
        )
        return tuple(shape[0] if shape else None for shape in shapes)

    def _data_readers(self, node: int) -> Iterator[int]:
        for reader in dict.fromkeys(self._view.fanouts[node]):
            if node in self._view.fanins[reader][: self._view.data_fanins[reader]]:
                yield reader

    def _takers(self, source: int) -> tuple[frozenset[int], list[int]]:
        """What a source is made of, with the Identities behind, and all else that needs data of it."""

        def identities(node: int) -> Iterator[int]:
            return (reader for reader in self._data_readers(node) if self._ops[reader] == "Identity")

        parts = self._parts(source) if self._ops[source] == _JOIN else ()
        passed = reached(identities, [source, *parts])
        takers = {taker for node in passed for taker in self._data_readers(node)}
        return passed, sorted((takers & self._needed) - passed)

    def _is_row_gather(self, node: int, passed: Set[int]) -> bool:
        """Whether it gathers along the first axis, from the table and by ids that are not the table."""
        if self._ops[node] != _GATHER:
            return False
        table, ids, axis = self._view.fanins[node][:3]
        batched = self._view.nodes[node].attr.get("batch_dims")
        is_plain = batched is None or batched.i == 0
        return table in passed and ids not in passed and is_plain and self._is_zero(axis)

    def _is_zero(self, node: int) -> bool:
        definition = self._view.nodes[node]
        if definition.op != "Const":
            return False
        value = definition.attr["value"].tensor
        return not any((*value.int_val, *value.int64_val, *value.tensor_content))

    def _why_whole(self, passed: Set[int], others: Iterable[int]) -> str:
        for other in sorted(others):
            return f"'{self._names[other]}' ({self._ops[other]}) takes all of it"
        for node in sorted(passed):
            if self._names[node] in self._fetched:
                return f"'{self._names[node]}' is fetched"
            if node in self._guarded or self._ops[self._view.fanins[node][0]] not in (
                *HANDLE_OPS,
                *(_READ, _JOIN, "Identity"),
            ):
                return (
                    f"'{self._names[node]}' is in a branch or a loop, or its handle comes from another node"
                )
        return ""

    def _why_no_parts(self, reads: Sequence[int]) -> str:
        unknown = [
            read for read, rows in zip(reads, self._heights(reads), strict=True) if rows is None and reads[1:]
        ]
        return f"the graph does not say how many rows '{self._names[unknown[0]]}' has" if unknown else ""

    def _is_unused(self, read: int) -> bool:
        return not any(self._data_readers(read)) and self._names[read] not in self._ends

    def _table_read(
        self, reads: tuple[int, ...], passed: frozenset[int], gathers: Sequence[int]
    ) -> TableRead:
        readers = {reader for node in passed for reader in self._view.fanouts[node]}
        held = sorted((readers & self._needed) - passed - set(gathers))
        later = tuple(tuple(self._later(read)) if gathers else () for read in reads)
        self._check_ids(gathers, [*(writer for own in later for writer in own), *held])
        heights = tuple(rows or 0 for rows in self._heights(reads)) if reads[1:] else ()
        return TableRead(reads, heights, passed, tuple(gathers), tuple(held), later)

    def _later(self, read: int) -> list[int]:
        """The writers of the table that wait for the read; each may change single rows only."""
        table = self._read_from[read]
        writers = [touch.node for touch in self._touches if touch.writes and touch.resource == table]
        after = reached(self._view.fanouts.__getitem__, [read])
        before = upstream_of(self._view, [read])
        for writer in writers:
            self._check_writer(writer, read, ordered=writer in after | before, later=writer in after)
        return [writer for writer in writers if writer in after]

    def _check_writer(self, writer: int, read: int, *, ordered: bool, later: bool) -> None:
        name, op = self._names[writer], self._ops[writer]
        if not ordered:
            raise PassError(
                f"node '{name}' ({op}) changes the table that '{self._names[read]}' reads, and neither waits for "
                "the other: say what a step fetches (--fetch), or add a control dependency"
            )
        if later and not op.startswith(_ROW_WRITERS):
            raise PassError(
                f"node '{name}' ({op}) may change all rows of the table that '{self._names[read]}' reads, as "
                "Adam and momentum do: train the table by SGD or Adagrad; a lazy Adam is another algorithm"
            )

    def _check_ids(self, gathers: Sequence[int], waiting: Sequence[int]) -> None:
        """What will wait for the rows must not make the ids."""
        for gather in gathers:
            ids = upstream_of(self._view, [self._view.fanins[gather][1]])
            for node in waiting:
                if node in ids:
                    raise PassError(
                        f"node '{self._names[node]}' waits for the read of a table, and makes the ids of "
                        f"'{self._names[gather]}', which would have to be read before: gather in front of it"
                    )
