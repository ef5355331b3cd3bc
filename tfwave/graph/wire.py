"""Protobuf's wire format, as far as it is needed to look for strings in fields that no schema here names.

Each byte is looked at a few times, however the fields nest, and nothing is copied but the strings, one at a time.
"""

from collections.abc import Container, Iterator
from contextlib import suppress
from typing import NamedTuple

from google.protobuf.message import DecodeError, Message

DEEPEST = 100
"""Messages lie in messages no deeper than protobuf reads by default, and so TensorFlow."""

_VARINT, _FIXED64, _BYTES, _GROUP, _END_OF_GROUP, _FIXED32 = range(6)
_SIZES = {_VARINT: 0, _FIXED64: 8, _GROUP: 0, _END_OF_GROUP: 0, _FIXED32: 4}
"""Bytes that follow the tag, or for a varint the number itself. What is in a group counts as beside it."""
_LONGEST_VARINT = 10


class _Field(NamedTuple):
    """A string, bytes or a message, and where it lies."""

    number: int
    begin: int
    end: int


def unknown_strings(message: Message) -> Iterator[str]:
    """All strings in the fields that a message's own type leaves out, at any depth.

    What is a message and what a string only the schema knows, so everything is tried as both.

    Raises:
        DecodeError: messages nest deeper than `DEEPEST`; names the field of `message` that they are in.
    """
    data = message.SerializeToString()
    known = {field.number for field in message.DESCRIPTOR.fields}
    for field in _fields(data, 0, len(data), without=known):
        yield from _strings(data, field)


def _strings(data: bytes, outermost: _Field) -> Iterator[str]:
    opened = [iter([outermost])]
    while opened:
        field = next(opened[-1], None)
        if field is None:
            opened.pop()
            continue
        with suppress(UnicodeDecodeError):
            yield data[field.begin : field.end].decode()
        if _is_message(data, field):
            if len(opened) == DEEPEST:
                raise DecodeError(f"field {outermost.number} nests messages deeper than {DEEPEST}")
            opened.append(_fields(data, field.begin, field.end))


def _is_message(data: bytes, field: _Field) -> bool:
    """Is it one with fields?"""
    try:
        return sum(1 for _ in _fields(data, field.begin, field.end)) > 0
    except DecodeError:
        return False


def _fields(data: bytes, at: int, end: int, without: Container[int] = ()) -> Iterator[_Field]:
    """The fields of a message that hold bytes."""
    while at < end:
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        size = 0
        if kind in (_VARINT, _BYTES):
            size, at = _varint(data, at)
        following = size if kind == _BYTES else _SIZES.get(kind)
        if not number or following is None or at + following > end:
            raise DecodeError("not a message")
        if kind == _BYTES and number not in without:
            yield _Field(number, at, at + following)
        at += following


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number that begins at a place, and where the next begins."""
    number = 0
    for shift, byte in enumerate(data[at : at + _LONGEST_VARINT]):
        number |= (byte & 127) << 7 * shift
        if byte < 128:
            return number, at + shift + 1
    raise DecodeError("not a message")
