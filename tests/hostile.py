"""Fields that nest, functions that call functions, and `tfwave` with little memory and little time."""

import resource
import subprocess
import sys
from collections.abc import Sequence

from tfwave.proto.tensorflow_pb2 import AttrValue, GraphDef, NodeDef

MEMORY = 2 * 2**30
SECONDS = 4
"""Of a core; `tfwave` takes most of one to start."""


def nested(depth: int, number: int = 15, data: bytes = b"c") -> bytes:
    """A field that holds a message with such a field, and so on; `data` is in the innermost."""
    heads: list[bytes] = []
    size = len(data)
    for _ in range(depth):
        heads.append(_varint(number << 3 | 2) + _varint(size))
        size += len(heads[-1])
    return b"".join(reversed(heads)) + data


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def nested_text(depth: int) -> str:
    """A graph in text form with an attribute that names a function with an attribute, and so on."""
    inner = "func { name: 'f' attr { key: 'a' value { " * depth + "b: true" + " } } }" * depth
    return f"node {{ name: 'a' op: 'NoOp' attr {{ key: 'f' value {{ {inner} }} }} }}"


def calls_in_calls(levels: int, each: int) -> GraphDef:
    """Functions that call the next one `each` times; the last one holds a NoOp."""
    graph = GraphDef()
    for level in range(levels):
        function = graph.library.function.add()
        function.signature.name = f"f{level}"
        for call in range(each):
            function.node_def.append(_call(f"n{call}", f"f{level + 1}"))
    function = graph.library.function.add()
    function.signature.name = f"f{levels}"
    function.node_def.add(name="leaf", op="NoOp")
    graph.node.append(_call("top", "f0"))
    return graph


def _call(name: str, function: str) -> NodeDef:
    attrs = {"Tin": AttrValue(list=AttrValue.ListValue()), "Tout": AttrValue(list=AttrValue.ListValue())}
    node = NodeDef(name=name, op="PartitionedCall", attr=attrs)
    node.attr["f"].func.name = function
    return node


def run_limited(arguments: Sequence[str], stdin: int | None = subprocess.DEVNULL) -> tuple[int, str]:
    """The exit code of `tfwave` and what it said, all whitespace as single spaces."""
    done = subprocess.run(
        [sys.executable, "-m", "tfwave", *arguments],
        stdin=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=_limit,
        check=False,
    )
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
