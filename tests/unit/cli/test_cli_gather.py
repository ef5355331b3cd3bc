"""`tfwave rewrite --passes gather_on_server`: what it writes, says and refuses."""

import json
from pathlib import Path

import pytest

from tests.steps import FLOAT, WORKER, Builder
from tests.unit.conftest import Command
from tfwave.graph.load import load_graph
from tfwave.proto.tensorflow_pb2 import DT_INT32, AttrValue

INT = AttrValue(type=DT_INT32)


def number(build: Builder, name: str, value: int) -> str:
    made = AttrValue()
    made.tensor.dtype = DT_INT32
    made.tensor.int_val.append(value)
    return build.node(name, "Const", device=WORKER, dtype=INT, value=made)


def written(folder: Path, update: str) -> Path:
    """A step that gathers rows of what it has read, and then changes the table."""
    build = Builder()
    build.graph.versions.producer = 2000
    table = build.handle("table")
    ids, axis = number(build, "ids", 3), number(build, "axis", 0)
    kinds = {"Tparams": FLOAT, "Tindices": INT, "Taxis": INT}
    rows = build.node(
        "rows",
        "GatherV2",
        build.read("read", table),
        ids,
        axis,
        device=WORKER,
        **kinds,
        batch_dims=AttrValue(i=0),
    )
    if update == "rows":
        build.node("update", "ResourceScatterSub", table, ids, rows, "^read", dtype=FLOAT, Tindices=INT)
    else:
        build.update("update", table, rows, "^read")
    file = folder / "step.pb"
    file.write_bytes(build.graph.SerializeToString(deterministic=True))
    return file


def test_rows_are_gathered_on_the_server_and_back(tfwave: Command, tmp_path: Path) -> None:
    step, out, back = written(tmp_path, "rows"), tmp_path / "out.pb", tmp_path / "back.pb"
    ran = tfwave("rewrite", step, "--passes", "gather_on_server", "-o", out, "--json")
    assert ran.code == 0
    assert json.loads(ran.out)["graphs"][0]["changed"]
    nodes = {node.name: node for node in load_graph(out).graph.node}
    gathers = [node for node in nodes.values() if node.op == "ResourceGather"]
    assert [node.input[0] for node in gathers] == ["table"]
    assert gathers[0].device == nodes["table"].device
    assert nodes["rows"].input[0] == gathers[0].name
    assert nodes["rows"].device == WORKER
    assert tfwave("undo", out, "-o", back).code == 0
    assert back.read_bytes() == step.read_bytes()


def test_a_table_that_is_changed_whole_is_refused_with_the_way_out(tfwave: Command, tmp_path: Path) -> None:
    out = tmp_path / "out.pb"
    ran = tfwave("rewrite", written(tmp_path, "all"), "--passes", "gather_on_server", "-o", out)
    assert ran.code != 0
    said = " ".join(ran.err.split())
    assert "node 'update' (AssignSubVariableOp) may change all rows of the table that 'read' reads" in said
    assert "train the table by SGD or Adagrad" in said
    assert not out.exists()


@pytest.mark.parametrize("command", [("passes",), ("passes", "--json")])
def test_it_is_listed(tfwave: Command, command: tuple[str, ...]) -> None:
    assert "gather_on_server" in tfwave(*command).out
