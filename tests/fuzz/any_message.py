"""Protobuf messages with anything in them that their fields can hold."""

import random
from collections.abc import Sequence
from typing import Any, TypeVar

from google.protobuf.message import Message

TEXTS = (
    *(
        "",
        "a",
        "a\0b",
        "f",
        "__inference_step_1",
        "edge_1_v",
        "counter",
        "priority",
        "no such",
        "ü" * 70,
        "x" * 300,
    ),
    *(
        "/job:ps/replica:0/task:0",
        "/job:ps/replica:0/task:0/device:CPU:0",
        "/job:worker/replica:0/task:0/device:CPU:0",
    ),
    *(
        "127.0.0.1:1",
        "127.0.0.1:99999",
        "a\0b:1",
        f"{'ü' * 70}:1",
        f"{'x' * 70}.y:1",
        ":1",
        "[::1",
        "9" * 5000 + ":1",
    ),
)
FLOATS = (0.0, -0.0, -1.0, 5e-324, 1e-9, 0.5, 1.0, 30.0, 60.0, 1e6, 1e9, 1e18, 1.7e308)
NOT_FINITE = (float("inf"), float("-inf"), float("nan"))
WIDTHS = {"int32": (-(2**31), 2**31), "uint32": (0, 2**32), "int64": (-(2**63), 2**63), "uint64": (0, 2**64)}
SMALL = (0, 1, 2, 3, 7, 255, 1000)
MOST_REPEATED = 3

_M = TypeVar("_M", bound=Message)


def any_message(rng: random.Random, kind: type[_M], depth: int = 4) -> _M:
    """Of this kind, each of its fields there or not; messages in messages up to `depth`."""
    message: Any = kind()
    for field in kind.DESCRIPTOR.fields:
        if rng.random() < 0.6:
            _fill(rng, message, field, depth)
    return message


def _fill(rng: random.Random, message: Any, field: Any, depth: int) -> None:
    nested = field.message_type
    if nested is not None and nested.GetOptions().map_entry:
        for _ in range(rng.randint(0, MOST_REPEATED)):
            key, value = (any_value(rng, nested.fields_by_name[name]) for name in ("key", "value"))
            getattr(message, field.name)[key] = value
    elif nested is not None:
        for _ in range(_count(rng, field) if depth else 0):
            made = any_message(rng, nested._concrete_class, depth - 1)
            place = getattr(message, field.name)
            (place.add() if _repeats(field) else place).MergeFrom(made)
    elif _repeats(field):
        getattr(message, field.name).extend(
            any_value(rng, field) for _ in range(rng.randint(0, MOST_REPEATED))
        )
    else:
        setattr(message, field.name, any_value(rng, field))


def any_value(rng: random.Random, field: Any) -> Any:
    """What a field of no message can hold."""
    if field.cpp_type in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT):
        return rng.choice((*FLOATS, *FLOATS, *NOT_FINITE))
    if field.cpp_type == field.CPPTYPE_BOOL:
        return rng.random() < 0.5
    if field.cpp_type == field.CPPTYPE_STRING:
        text = rng.choice(TEXTS)
        return text.encode() if field.type == field.TYPE_BYTES else text
    return any_integer(rng, *_range(field))


def any_integer(rng: random.Random, low: int, end: int, small: Sequence[int] = SMALL) -> int:
    """Mostly a small one, else one at an end of the range."""
    return rng.choice((*small, *small, low, low + 1, end // 2, end - 2, end - 1, rng.randrange(low, end)))


def _range(field: Any) -> tuple[int, int]:
    return {
        field.CPPTYPE_INT32: WIDTHS["int32"],
        field.CPPTYPE_ENUM: WIDTHS["int32"],
        field.CPPTYPE_UINT32: WIDTHS["uint32"],
        field.CPPTYPE_INT64: WIDTHS["int64"],
        field.CPPTYPE_UINT64: WIDTHS["uint64"],
    }[field.cpp_type]


def _count(rng: random.Random, field: Any) -> int:
    return rng.randint(0, MOST_REPEATED) if _repeats(field) else 1


def _repeats(field: Any) -> bool:
    return isinstance(field.default_value, list)  # `label` and `is_repeated` are not in every protobuf
