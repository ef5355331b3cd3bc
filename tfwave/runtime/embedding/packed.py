"""The row sets of a batch in one tensor: a call's arguments travel to its worker one after the other."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from tfwave.runtime.embedding.rows import Layout, RowSets


def packed(sets: RowSets) -> Any:
    """A vector of int32: how long each piece is, and the pieces; of positions the shape and the numbers are two."""
    positions = [piece for own in sets.positions.values() for piece in (own.shape, own.ravel())]
    pieces = [np.asarray(own, np.int32) for own in (*positions, *sum(sets[1:], ()))]
    return import_module("tensorflow").constant(
        np.concatenate([[len(own) for own in pieces], *pieces]), "int32"
    )


def unpacked(layout: Layout, ids: Mapping[str, Any], vector: Any) -> RowSets:
    """The row sets that `packed` made one of; `ids` are the specs of the dataset's, by table."""
    tensorflow: Any = import_module("tensorflow")
    tables = {part: table for table, parts in layout.parts.items() for part in parts}
    servers, columns = len(layout.servers), len(layout.widths)
    count = 2 * len(tables) + servers + 3 * columns
    pieces = iter(tensorflow.split(vector[count:], vector[:count], num=count))
    positions: dict[str, Any] = {}
    for part, table in tables.items():
        shape, numbers = next(pieces), next(pieces)
        positions[part] = tensorflow.reshape(numbers, shape)
        positions[part].set_shape(ids[table].shape)

    def some(length: int) -> tuple[Any, ...]:
        return tuple(next(pieces) for _ in range(length))

    return RowSets(positions, some(servers), some(columns), some(columns), some(columns))
