"""How a tensor is cut into blocks."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod

UNIT = 64
"""Every block but the last holds a multiple of so many elements.

A kernel computes what is left over at a tensor's end, after its last full vector, with other instructions, which
for some functions (rsqrt, exp, log, pow) round otherwise. With blocks of whole vectors each element is computed as
before.
"""


@dataclass(frozen=True)
class Layout:
    """Blocks of whole rows of a tensor, whose first dimensions are folded into one where a row is too large.

    `shape` is the tensor's, `row` that of one row, `rows` how many of them are in each block.
    """

    shape: tuple[int, ...]
    row: tuple[int, ...]
    rows: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def is_folded(self) -> bool:
        """Must the tensor be reshaped to be cut?"""
        return len(self.row) < len(self.shape) - 1

    @property
    def folded(self) -> tuple[int, ...]:
        """The shape in which the blocks lie one behind the other."""
        return (sum(self.rows), *self.row)

    def block_shape(self, block: int) -> tuple[int, ...]:
        """The shape of one block."""
        return (self.rows[block], *self.row)


def layout_of(shape: Sequence[int], item_bytes: int, max_bytes: int) -> Layout | None:
    """Cut into the fewest blocks of at most `max_bytes`, as equal as whole units allow; None for one block.

    `item_bytes` is the size of an element; `max_bytes` must hold a unit of them. Of the dimensions as few as
    possible are folded.
    """
    if prod(shape) * item_bytes <= max_bytes:
        return None
    for kept in range(1, len(shape) + 1):
        row = tuple(shape[kept:])
        step = UNIT // gcd(UNIT, prod(row))
        most = max_bytes // (step * prod(row) * item_bytes)
        if most:
            break
    else:
        raise ValueError(f"{max_bytes} bytes hold no {UNIT} elements of {item_bytes} bytes")
    return Layout(tuple(shape), row, _dealt(prod(shape[:kept]), step, most))


def _dealt(rows: int, step: int, most: int) -> tuple[int, ...]:
    """Rows for each block: multiples of `step`, at most `most` times, but for the last."""
    steps = -(-rows // step)
    blocks = -(-steps // most)
    few, more = divmod(steps, blocks)
    sizes = [(few + (block < more)) * step for block in range(blocks)]
    sizes[-1] -= steps * step - rows
    return tuple(sizes)
