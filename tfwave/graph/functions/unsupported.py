"""What other passes of TensorFlow rewrite before placement, and tfwave does not: such graphs are refused."""

from tfwave.errors import GraphError
from tfwave.graph.flow_ops import CALL_OPS
from tfwave.graph.functions.devices import is_tpu
from tfwave.proto.tensorflow_pb2 import DT_RESOURCE, GraphDef

_SUM = "AccumulateNV2"
_CONCAT = "ParallelConcat"


def refuse_before_lowering(graph: GraphDef) -> None:
    """TensorFlow turns AccumulateNV2 into other nodes just before it lowers.

    Raises:
        GraphError: the graph has one; names it.
    """
    for node in graph.node:
        if node.op == _SUM:
            raise GraphError(
                f"node '{node.name}': TensorFlow rewrites {_SUM} before placement, which is not supported: use AddN"
            )


def refuse_after_lowering(graph: GraphDef) -> None:
    """What TensorFlow would rewrite next.

    1. ParallelConcat becomes other nodes.
    2. A call that was not inlined and that returns a resource gets an Identity at each input and output.

    Raises:
        GraphError: the graph has such a node; names it.
    """
    for node in graph.node:
        if node.op == _CONCAT:
            raise GraphError(
                f"node '{node.name}': TensorFlow rewrites {_CONCAT} before placement, which is not supported: "
                "use Pack"
            )
        if node.op in CALL_OPS and "Tout" in node.attr and DT_RESOURCE in node.attr["Tout"].list.type:
            raise GraphError(
                f"node '{node.name}': TensorFlow isolates calls that return resources, which is not supported: "
                "pass the resource to the function instead"
            )


def refuse_tpus(graph: GraphDef) -> None:
    """TensorFlow hands the device of a TPU on to the nodes that lowering adds.

    Raises:
        GraphError: a node of the lowered graph is on a TPU; names it.
    """
    for node in graph.node:
        if is_tpu(node.device):
            raise GraphError(f"node '{node.name}': lowering next to a TPU ('{node.device}') is not supported")
