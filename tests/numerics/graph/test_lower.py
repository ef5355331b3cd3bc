"""Lowering against TensorFlow's own: node by node, name by name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.numerics.graph.lowering import CASES
from tfwave.graph.functions.lower import lower
from tfwave.graph.load import load_graph
from tfwave.graph.ops import OpTable
from tfwave.proto.tensorflow_pb2 import AttrValue, GraphDef, NodeDef


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What TensorFlow made of each case; it reads where to dump from the environment, once per process."""
    directory = tmp_path_factory.mktemp("lowered")
    program = [sys.executable, "-m", "tests.numerics.graph.lowering", str(directory)]
    root = Path(__file__).parents[3]
    subprocess.run(program, cwd=root, env=dict(os.environ), check=True, timeout=300, capture_output=True)
    return directory


@pytest.mark.parametrize("case", CASES)
def test_lowers_as_tensorflow_does(case: str, dumps: Path) -> None:
    befores = sorted(dumps.glob(f"{case}.*.before.pbtxt"))
    assert befores
    inline_calls = case.endswith("inlined") if case.startswith("session") else None
    changed = False
    for before in befores:
        item = load_graph(before)
        ours = lower(item, inline_calls=inline_calls)
        theirs = load_graph(before.with_name(before.name.replace("before", "after"))).graph
        assert comparable(ours.graph) == comparable(theirs)
        assert [n.name for n in ours.graph.node] == [n.name for n in theirs.node]
        changed = changed or ours is not item
    assert changed is not case.endswith("left_alone")


def comparable(graph: GraphDef) -> dict[str, tuple[object, ...]]:
    """The nodes by name; inputs as they are: both sort control inputs by name."""
    table = OpTable.of(graph)
    return {n.name: (n.op, n.device, [*n.input], _attrs(n, table)) for n in graph.node}


def _attrs(node: NodeDef, table: OpTable) -> dict[str, AttrValue]:
    """The attributes that differ from their default: TensorFlow writes out the others too."""
    declared = table.signature(node).attr
    defaults = {attr.name: attr.default_value for attr in declared if attr.HasField("default_value")}
    return {name: value for name, value in node.attr.items() if value != defaults.get(name)}
