"""Cutting large variables into blocks, which travel one by one."""

from dataclasses import dataclass
from typing import Any

BLOCK_BYTES = 1 << 20
"""A step's last gradient travels whole before the next step's first read: at 1 Gbit/s such a block takes 9 ms."""

MOST_BLOCKS = 64
"""One variable has no more, however large it is: each costs a few ops in each step."""


@dataclass(frozen=True)
class BlockPartitioner:
    """A `variable_partitioner` of `tf.distribute.ParameterServerStrategy`; see `blocks`."""

    most_bytes: int
    most_blocks: int

    def __call__(self, shape: Any, dtype: Any) -> list[int]:
        """Into how many blocks to cut a variable along each axis: along the first only.

        Args:
            shape: its `tf.TensorShape`.
            dtype: its `tf.DType`.
        """
        dimensions = [int(d) for d in shape]
        whole = [1] * len(dimensions)
        size = shape.num_elements() * dtype.size
        if not whole or size <= self.most_bytes:
            return whole
        rows = dimensions[0]
        rows_per_block = max(1, self.most_bytes * rows // size)
        return [min(-(-rows // rows_per_block), self.most_blocks), *whole[1:]]


def blocks() -> BlockPartitioner:
    """Cut variables above 1 MiB along their first axis, into as few blocks as keep to that size, at most 64.

    Give it to the strategy, ``ParameterServerStrategy(resolver, variable_partitioner=blocks())``. TensorFlow makes
    a `ShardedVariable` of each such variable, whose blocks go round the parameter servers as variables do. Each
    block is pulled by itself, and so is its gradient pushed and its update made, if the gradient is taken with
    respect to the blocks, as `tf.Module.trainable_variables` lists them. Nothing else changes: elementwise updates
    give the same bits. What to know:

    1. What multiplies a first axis of few rows is cut coarsely: a convolution's kernel of 3 x 3 x 512 x 512 into 3
       blocks. Keep it as a matrix of 4608 rows, and reshape it where it is used.
    2. Initial values that are tensors, and functions without a given shape, are cut: equal to the whole variable's.
       A function with a given shape is called for each block: one that draws random numbers draws anew for each.
    3. tf_keras trains such models. Its initializers are told the block's shape: those that scale by it (Glorot,
       He) draw larger values for blocks than for the whole.
    4. Keras 3 cannot train them (it asks a variable for one handle).
    """
    return BlockPartitioner(BLOCK_BYTES, MOST_BLOCKS)
