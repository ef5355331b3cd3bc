"""Batches of a dataset: read on the chief, where ids become rows, and prepared for a call."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tfwave.runtime.embedding.inputs import left_here
from tfwave.runtime.embedding.packed import packed
from tfwave.runtime.embedding.rows import Layout
from tfwave.runtime.embedding.specs import check_element
from tfwave.runtime.embedding.table import Table


class Drawn(NamedTuple):
    """A batch as it was read: by table the rows of its ids; their numbers through all tables; and all else."""

    rows: dict[str, Any]
    numbers: dict[str, Any]
    batch: Any


def drawn(dataset: Any, tables: Mapping[str, Table], layout: Layout) -> Iterator[Drawn]:
    """Each batch of a dataset once; new ids of dynamic tables get rows.

    Raises:
        TfwaveError: elements of another kind, or an id that is no row of its table.
        Exception: what the dataset raises.
    """
    check_element(dataset, layout.tables)
    for ids, batch in dataset:
        rows = {name: table.numbers(ids[name].numpy(), batch) for name, table in tables.items()}
        yield Drawn(rows, layout.numbers(rows), batch)


@dataclass(frozen=True)
class Prepared:
    """What a function of some steps takes.

    Attributes:
        batches: of each the row sets, packed, and all else.
        kept_rows: by column, how many rows are kept in all.
    """

    batches: tuple[tuple[Any, Any], ...]
    kept_rows: tuple[int, ...]

    def arguments(self, spec: Any, call: int) -> tuple[Any, Any, Any]:
        """Of `StepFunctions.of`; `spec` is that of the dataset, and `call` the number of the call, from 1 on."""
        handles = tuple(left_here(sets, batch, spec) for sets, batch in self.batches)
        return handles, np.int64(call), np.array(self.kept_rows, np.int32)


def prepared(batches: Sequence[Drawn], layout: Layout, hot_bytes: int = 0) -> Prepared:
    """Find which rows some batches read and change, if a call has a step of each."""
    sets = layout.row_sets([own.numbers for own in batches], hot_bytes)
    pairs = tuple((packed(rows), own.batch) for rows, own in zip(sets, batches, strict=True))
    columns = range(len(layout.widths))
    return Prepared(pairs, tuple(sum(len(own.fresh[k]) for own in sets) for k in columns))
