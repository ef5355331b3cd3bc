"""How large variables are cut."""

import math
from types import SimpleNamespace

import pytest

from tfwave.distribute.blocks import BLOCK_BYTES, MOST_BLOCKS, BlockPartitioner, blocks

FLOAT = SimpleNamespace(size=4)


class Shape(tuple[int, ...]):
    """As much of a `tf.TensorShape` as is asked for."""

    def num_elements(self) -> int:
        return math.prod(self)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((), []),
        ((10,), [1]),
        ((512, 512), [1, 1]),
        ((513, 512), [2, 1]),
        ((4096, 1024), [16, 1]),
        ((4097, 1024), [17, 1]),
        ((3, 3, 512, 512), [3, 1, 1, 1]),
        ((1, 1 << 20), [1, 1]),
        ((1 << 20, 1024), [MOST_BLOCKS, 1]),
        ((0, 5), [1, 1]),
        ((5, 0), [1, 1]),
    ],
)
def test_large_variables_are_cut_along_their_first_axis(shape: tuple[int, ...], expected: list[int]) -> None:
    assert blocks()(shape=Shape(shape), dtype=FLOAT) == expected


@pytest.mark.parametrize("rows", range(1, 40))
def test_blocks_are_as_few_as_keep_to_the_size(rows: int) -> None:
    (count, _) = BlockPartitioner(70, 100)(Shape((rows, 5)), FLOAT)  # 3 rows fit
    assert count == math.ceil(rows / 3)


def test_the_size_is_stated() -> None:
    assert blocks() == BlockPartitioner(BLOCK_BYTES, MOST_BLOCKS)
