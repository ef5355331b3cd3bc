"""Messages to bytes, within protobuf's limit."""

from google.protobuf.message import EncodeError, Message

from tfwave.errors import GraphError

PROTOBUF_LIMIT = 2**31 - 1
"""TensorFlow parses no message of more bytes; Python's protobuf would write one without a word."""

_WAY_OUT = (
    f"protobuf's limit is {PROTOBUF_LIMIT:,} (2 GB): keep the weights in the variables of a SavedModel, "
    "not in constants of the graph"
)


def serialize(message: Message, name: str) -> bytes:
    """The bytes of a message: equal messages, equal bytes; `name` is used in messages.

    Raises:
        GraphError: it is longer than protobuf allows.
    """
    try:
        data = message.SerializeToString(deterministic=True)
    except EncodeError as error:
        raise _inner_too_long(name) from error
    check_size(len(data), name)
    return data


def check_serializable(message: Message, name: str) -> None:
    """Refuse a message that is longer than protobuf allows.

    Raises:
        GraphError: it is; says by how much.
    """
    try:
        size = message.ByteSize()
    except EncodeError as error:
        raise _inner_too_long(name) from error
    check_size(size, name)


def check_size(size: int, name: str) -> None:
    """Refuse a graph of more bytes than protobuf allows.

    Raises:
        GraphError: `size` is over the limit.
    """
    if size > PROTOBUF_LIMIT:
        raise GraphError(f"graph '{name}' is {size:,} bytes long; {_WAY_OUT}")


def _inner_too_long(name: str) -> GraphError:
    """Protobuf writes no part that is over the limit, and does not say how long it is."""
    return GraphError(f"graph '{name}' holds a part of more than {PROTOBUF_LIMIT:,} bytes; {_WAY_OUT}")
