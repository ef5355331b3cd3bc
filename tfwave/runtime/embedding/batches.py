"""Batches of a dataset: read on the chief, where ids become rows, and prepared for a call."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

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


def prepared(batches: Sequence[Drawn], layout: Layout, hot_bytes: int = 0) -> tuple[tuple[Any, Any], ...]:
    """What a function of so many steps takes: for each batch its row sets, packed, and all else."""
    sets = layout.row_sets([own.numbers for own in batches], hot_bytes)
    return tuple((packed(rows), own.batch) for rows, own in zip(sets, batches, strict=True))
