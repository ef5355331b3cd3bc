"""How tensors are cut into blocks, and what is known of their shapes."""

import random
from math import prod

import numpy as np

from tests.unit.passes.test_split_variables import FLOAT, Job, shape_attr
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import DT_INT32, AttrValue
from tfwave.rewrite.blocks.layout import UNIT, layout_of
from tfwave.rewrite.blocks.shapes import static_shapes


def test_blocks_are_few_and_equal_and_of_whole_units() -> None:
    draw = random.Random(1)
    for _ in range(300):
        shape = [draw.randint(1, 40) for _ in range(draw.randint(1, 4))]
        size, most = draw.choice((2, 4, 8)), draw.randint(512, 5000)
        layout = layout_of(shape, size, most)
        if layout is None:
            assert prod(shape) * size <= most
            continue
        counts = [prod(layout.block_shape(block)) for block in range(len(layout))]
        assert sum(counts) == prod(shape)
        assert max(counts) * size <= most
        assert all(count % UNIT == 0 for count in counts[:-1])
        step_size = np.lcm(UNIT, prod(layout.row))
        assert max(counts[:-1]) - min(counts[:-1]) <= step_size
        assert len(layout) == -(-prod(shape) // (most // size // step_size * step_size))
        assert layout.row == tuple(shape[len(shape) - len(layout.row) :])
        wider = shape[len(shape) - len(layout.row) - 1 :]
        assert not layout.is_folded or np.lcm(UNIT, prod(wider)) * size > most


def test_the_largest_kernels_of_vgg_make_blocks_of_a_megabyte() -> None:
    layout = layout_of((3, 3, 512, 512), 4, 2**20)
    assert layout is not None
    assert (layout.folded, layout.rows) == ((9, 512, 512), (1,) * 9)


def test_shapes_are_known_as_far_as_the_graph_says() -> None:
    job = Job()
    job.placeholder("x", (-1, 16))
    job.read("w", job.variable("handle", (16, 32)))
    job.node("sizes", "ShapeN", "x", "w", T=FLOAT, N=AttrValue(i=2))
    target = AttrValue()
    target.tensor.dtype = DT_INT32
    target.tensor.tensor_content = np.array([-1, 4], "<i4").tobytes()
    target.tensor.tensor_shape.dim.add(size=2)
    job.node("target", "Const", dtype=AttrValue(type=DT_INT32), value=target)
    yes = AttrValue(b=True)
    job.node("product", "MatMul", "x", "w", T=FLOAT)
    job.node("gradient", "MatMul", "x", "product", T=FLOAT, transpose_a=yes)
    job.node("filter", "Conv2DBackpropFilter", "x", "sizes:1", "product", T=FLOAT)
    job.node("flat", "Reshape", "x", "target", T=FLOAT)
    job.node("row", "Placeholder", dtype=FLOAT, shape=shape_attr((32,)))
    job.math("sum", "AddV2", "product", "row")
    job.math("grown", "Mul", "sum", "scalar")
    job.placeholder("scalar", ())
    shapes = static_shapes(GraphView.of(job.graph), 24)
    assert [shapes[name] for name in ("product", "gradient", "filter", "flat", "sum", "grown")] == [
        *((None, 32), (16, 32), (16, 32), (None, 4), (None, 32), (None, 32))
    ]
    assert static_shapes(GraphView.of(job.graph), 23)["scalar"] is None
