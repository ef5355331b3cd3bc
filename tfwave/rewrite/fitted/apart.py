"""Ops that keep to the buffers that a plan has for them.

An op may go on in the buffer of an input: the first that nobody else reads any more
(`forward_input_or_allocate_output`). The attribute ``_scoped_allocator`` forbids that for the outputs that it
lists, each with the allocator's scope; scope 0 is the device's own allocator.
"""

from collections.abc import Sequence

from tfwave.errors import PassError
from tfwave.graph.marks import PREFIX
from tfwave.graph.ops import OpTable
from tfwave.graph.rewriter import GraphRewriter
from tfwave.proto.tensorflow_pb2 import AttrValue

_ATTR = "_scoped_allocator"
_OWN_SCOPE = 0
_SWAPPED, _TWO = "swapped", 2
_GO_ON = frozenset(
    {
        *("Abs", "Acos", "Acosh", "Add", "AddN", "AddV2", "Asin", "Asinh", "Atan", "Atan2", "Atanh"),
        *("BiasAdd", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Ceil", "Cos", "Cosh", "Digamma", "Div"),
        *("DivNoNan", "Elu", "EluGrad", "Erf", "Erfc", "Erfinv", "Exp", "Expm1", "Floor", "FloorDiv"),
        *("FloorMod", "FusedBatchNorm", "FusedBatchNormGrad", "FusedBatchNormGradV2"),
        *("FusedBatchNormGradV3", "FusedBatchNormV2", "FusedBatchNormV3", "Inv", "InvGrad", "Invert"),
        *("LeakyRelu", "LeakyReluGrad", "Lgamma", "Log", "Log1p", "LogSoftmax", "LogicalAnd"),
        *("LogicalNot", "LogicalOr", "Maximum", "Minimum", "Mod", "Mul", "MulNoNan", "Ndtri", "Neg"),
        *("Pow", "RealDiv", "Reciprocal", "ReciprocalGrad", "Relu", "Relu6", "Relu6Grad", "ReluGrad"),
        *("Rint", "Round", "Rsqrt", "RsqrtGrad", "Select", "SelectV2", "Selu", "SeluGrad", "Sigmoid"),
        *("SigmoidGrad", "Sign", "Sin", "Sinh", "Softmax", "Softplus", "SoftplusGrad", "Softsign"),
        *("SoftsignGrad", "Sqrt", "SqrtGrad", "Square", "SquaredDifference", "Sub", "Tan", "Tanh"),
        *("TanhGrad", "TruncateDiv", "TruncateMod", "Xdivy", "Xlog1py", "Xlogy", "Zeta"),
    }
)
"""Ops whose kernels do. To others, which give what they made elsewhere, the attribute would cost a copy."""


def swap_inputs(graph: GraphRewriter, names: Sequence[str]) -> None:
    """Let the two inputs of nodes of these names change places, once, as far as they are there.

    Raises:
        PassError: a node has no two; names it.
    """
    nodes = [graph.node(name) for name in names if graph.has_node(name)]
    for node in [node for node in nodes if f"{PREFIX}_{_SWAPPED}" not in node.attr]:
        inputs = list(node.input)
        if sum(not text.startswith("^") for text in inputs) != _TWO:
            raise PassError(f"node '{node.name}' has no two inputs to swap: make a plan of this graph")
        graph.replace_inputs(node.name, [inputs[1], inputs[0], *inputs[2:]])
        graph.note(node.name, _SWAPPED, AttrValue(b=True))


def keep_apart(graph: GraphRewriter, names: Sequence[str]) -> None:
    """Let nodes of these names, as far as they are there, go on in no buffer that they read."""
    if not names:
        return
    table = OpTable.of(graph.item.graph)
    for node in [graph.node(name) for name in names if graph.has_node(name)]:
        if node.op in _GO_ON:
            outputs = AttrValue()
            for port in range(len(table.output_types(node))):
                outputs.list.i.extend((port, _OWN_SCOPE))
            graph.give(node.name, _ATTR, outputs)
