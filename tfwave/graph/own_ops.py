"""The signatures of the native library's ops whose inputs and outputs passes follow."""

from tfwave.graph.marks import FETCH_OP, STASH_OP
from tfwave.proto.tensorflow_pb2 import DT_INT64, OpDef


def own_ops() -> tuple[OpDef, ...]:
    """As the library registers them: a stash takes any tensor and gives a ticket, a fetch takes that."""
    return (
        OpDef(
            name=STASH_OP,
            input_arg=[OpDef.ArgDef(name="value", type_attr="T")],
            output_arg=[OpDef.ArgDef(name="ticket", type=DT_INT64)],
            attr=[OpDef.AttrDef(name="T", type="type"), OpDef.AttrDef(name="slot", type="string")],
            is_stateful=True,
        ),
        OpDef(
            name=FETCH_OP,
            input_arg=[OpDef.ArgDef(name="ticket", type=DT_INT64)],
            output_arg=[OpDef.ArgDef(name="value", type_attr="T")],
            attr=[OpDef.AttrDef(name="T", type="type")],
            is_stateful=True,
        ),
    )
