"""Nodes that TensorFlow may compute in one kernel, which rounds otherwise than one kernel each.

Grappler's remapper joins a convolution or product, its bias, normalisation and activation; its arithmetic
optimizer makes one sum of a chain of sums, and takes common factors out. They do so only where nothing else reads
what lies between the nodes, and where none of them has a control edge.
"""

from collections.abc import Container, Iterator, Sequence

from tfwave.graph.names import parse_input
from tfwave.graph.view import GraphView

_NORMS = ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
_SUMS = ("Add", "AddV2", "AddN", "Sub", "BiasAdd", "BiasAddV1")
_FACTORS = ("Mul", "Div", "RealDiv")
_ACTIVATIONS = ("Relu", "Relu6", "LeakyRelu", "Elu", "Selu", "Tanh", "Sigmoid", "Softplus", "Erf")
_PRODUCTS = ("Conv2D", "Conv3D", "DepthwiseConv2dNative", "MatMul", "BatchMatMul", "BatchMatMulV2")
_JOINED = frozenset((*_NORMS, *_SUMS, *_FACTORS, *_ACTIVATIONS))
_BEGINS = _JOINED.union(_PRODUCTS)
_PADDED = ("Pad", "Conv2D")
_REPLACED = ("Pow",)
"""What it computes otherwise by itself: a square or a cube by products."""


def in_kernels(view: GraphView, ends: Sequence[int]) -> set[int]:
    """The nodes that TensorFlow may compute otherwise where no control edge is on them, alone or with others."""
    joined = {node for node, end in enumerate(ends) if node != end}
    replaced = (node for node, op in enumerate(view.ops) if op in _REPLACED)
    return joined.union((ends[node] for node in joined), replaced)


def kernel_ends(view: GraphView, needed: Container[int]) -> list[int]:
    """Per node: the last of those that TensorFlow may compute in one kernel with it; mostly itself.

    A node goes on to the one that alone reads its first output, if the ops of both are such. Of its readers count
    those that the step runs, the `needed` ones: TensorFlow leaves out the others. A chain too long is taken rather
    than one too short.
    """
    ends = list(range(len(view)))
    for node in reversed(view.topological_order):
        for reader in _joined(view, node, needed):
            ends[node] = ends[reader]
    return ends


def _joined(view: GraphView, node: int, needed: Container[int]) -> Iterator[int]:
    """The node that alone reads the first output of another, if both may be one kernel."""
    op = view.ops[node]
    if op not in _BEGINS and op != _PADDED[0]:
        return
    readers = {r for r in view.fanouts[node] if r in needed and _reads(view, r, node)}
    if len(readers) == 1:
        (reader,) = readers
        if (op in _BEGINS and view.ops[reader] in _JOINED) or (op, view.ops[reader]) == _PADDED:
            yield reader


def _reads(view: GraphView, reader: int, node: int) -> bool:
    inputs = zip(view.fanins[reader][: view.data_fanins[reader]], view.nodes[reader].input, strict=False)
    return any(source == node and not parse_input(text).port for source, text in inputs)
