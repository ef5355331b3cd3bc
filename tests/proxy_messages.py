"""The messages of TensorFlow that the proxy reads, encoded by protobuf itself from their field numbers."""

from functools import cache
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from tfwave.graph.names import Channel
from tfwave.proto.tensorflow_pb2 import AttrValue, FunctionDef, GraphDef, NodeDef

_FIELD = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    bool: _FIELD.TYPE_BOOL,
    int: _FIELD.TYPE_INT64,
    str: _FIELD.TYPE_STRING,
    bytes: _FIELD.TYPE_BYTES,
}


class Fixed64(NamedTuple):
    value: int


def encode(*fields: tuple[int, Any]) -> bytes:
    """A message of (number, value); a message in it is its bytes; a list is a repeated field."""
    schema = tuple((number, _type_of(value), isinstance(value, list)) for number, value in fields)
    message = _message_class(schema)()
    for number, value in fields:
        if isinstance(value, list):
            getattr(message, f"f{number}").extend(value)
        else:
            setattr(message, f"f{number}", value.value if isinstance(value, Fixed64) else value)
    return message.SerializeToString()


def _type_of(value: Any) -> int:
    if isinstance(value, list):
        return _TYPES[type(value[0])]
    return _FIELD.TYPE_FIXED64 if isinstance(value, Fixed64) else _TYPES[type(value)]


@cache
def _message_class(schema: tuple[tuple[int, int, bool], ...]) -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="m.proto", syntax="proto3")
    message = file.message_type.add(name="M")
    for number, kind, repeated in schema:
        label = _FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL
        message.field.add(name=f"f{number}", number=number, type=kind, label=label)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("M"))


def recv_tensor(step: int, channel: Channel, edge: str, frame: str = "0:0") -> bytes:
    key = f"{channel.source};00000000deadbeef;{channel.destination};{edge};{frame}"
    return encode((1, step), (2, key), (3, True), (7, -1))


def decoded_recv_tensor(request: bytes) -> tuple[int, str] | None:
    """The step and the key of a RecvTensorRequest as protobuf reads it; None: it does not."""
    try:
        read = _message_class(((1, _TYPES[int], False), (2, _TYPES[str], False)))().FromString(request)
    except DecodeError:
        return None
    return read.f1, read.f2


def tensor(content: bytes, *, dead: bool = False) -> bytes:
    """A RecvTensorResponse as TensorFlow writes it: the tensor last, its bytes in tensor_content."""
    inner = encode((1, 1), (2, b"\x12\x02\x08\x05"), (4, content))
    return encode((2, dead), (3, 1_700_000_000_000_000), (1, inner))


def register_graph(session: str, graph: GraphDef, *, called: bool = True) -> bytes:
    return encode((1, session), (2, graph.SerializeToString()), (6, called))


def run_graph(session: str, handle: str, step: int, *, called: bool = True) -> bytes:
    return encode((8, session), (10, called), (1, handle), (2, step))


def enqueue(context: int, *items: tuple[int, bytes]) -> bytes:
    """Items by their number in QueueItem."""
    return encode((1, Fixed64(context)), (3, [encode((number, item)) for number, item in items]))


def send(name: str, value: str, channel: Channel, **attrs: AttrValue) -> NodeDef:
    """A `_Send` of a node's first output, as the edge ``edge_1_<value>``."""
    node = NodeDef(name=name, op="_Send", input=[value])
    node.attr["send_device"].s = channel.source.encode()
    node.attr["recv_device"].s = channel.destination.encode()
    node.attr["tensor_name"].s = f"edge_1_{value.partition(':')[0].removeprefix('^')}".encode()
    for key, attr in attrs.items():
        node.attr[key].CopyFrom(attr)
    return node


def component(name: str, *nodes: NodeDef) -> bytes:
    """A RegisterFunctionOp of one task's part of a function."""
    definition = FunctionDef(node_def=nodes)
    definition.signature.name = name
    return encode((1, definition.SerializeToString()), (2, True))
