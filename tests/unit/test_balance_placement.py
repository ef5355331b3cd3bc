"""Placements as files, and as choices while variables are made."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tfwave.balance.chooser import ServerChooser
from tfwave.balance.placement import Placement, load_placement, placement_json, save_placement
from tfwave.balance.sizes import resident_bytes
from tfwave.distribute.placement import place
from tfwave.errors import EnforcerError, EnvironmentUnsupported, PlanError
from tfwave.proto.tensorflow_pb2 import DT_DOUBLE, DT_FLOAT, DT_HALF, DT_STRING, NodeDef
from tfwave.runtime.variables import variables_placed


def variable(name: str, *shape: int, dtype: int = DT_FLOAT) -> NodeDef:
    node = NodeDef(name=name, op="VarHandleOp")
    node.attr["dtype"].type = dtype
    for dim in shape:
        node.attr["shape"].shape.dim.add(size=dim)
    node.attr["shape"].shape.unknown_rank = False
    return node


def refused(file: Path, document: Any, *says: str) -> None:
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    with pytest.raises(PlanError) as caught:
        load_placement(file)
    for text in (str(file), *says):
        assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_placement_is_written_and_read(tmp_path: Path) -> None:
    placement = Placement(3, {"b": 2, "a/w": 0})
    save_placement(placement, tmp_path / "p.json")
    assert load_placement(f"{tmp_path}/p.json") == placement
    assert placement_json(placement) == placement_json(Placement(3, {"a/w": 0, "b": 2}))
    document = {"version": 1, "servers": 3, "variables": {"a/w": 0, "b": 2}}
    assert json.loads((tmp_path / "p.json").read_text()) == document


def test_files_that_are_no_placements(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    good = {"version": 1, "servers": 2, "variables": {"a": 1}}
    with pytest.raises(PlanError, match=r"cannot read placement '.*gone': No such file"):
        load_placement(tmp_path / "gone")
    refused(file, "[", "is not a placement")
    refused(file, good | {"more": 1}, "'more'")
    refused(file, good | {"variables": {"a": "x"}}, "'variables' -> 'a'")
    refused(file, good | {"variables": {"a": True}}, "'variables' -> 'a'")
    refused(file, good | {"version": 2}, "is of version 2; this tfwave reads 1")
    refused(file, good | {"servers": 1}, "'a' is placed on server 1, but there are only 1")
    refused(file, good | {"servers": 0, "variables": {}}, "on 0 servers")
    refused(file, good | {"variables": {"a": -1}}, "'a' is placed on server -1")


def test_another_number_of_servers_is_refused() -> None:
    Placement(2, {}).check_servers(2)
    with pytest.raises(PlanError, match=r"for 2 servers, but the job has 3: make one with .*--servers 3"):
        Placement(2, {}).check_servers(3)


def test_the_chooser_takes_what_is_told_and_else_the_least_loaded() -> None:
    choose = ServerChooser(Placement(3, {"a": 1, "z": 2}))
    made = [variable("a", 100), variable("b", 10), variable("c", 4), variable("d", 4), variable("z", 1)]
    assert [choose(node) for node in made] == [1, 0, 2, 2, 2]
    assert choose(SimpleNamespace(name="e", node_def=variable("e", 1))) == 2  # 4 x 9 bytes against 4 x 10
    assert choose(variable("f", 1)) == 0


@pytest.mark.parametrize(
    ("node", "size"),
    [
        (variable("v", 3, 5), 60),
        (variable("v"), 4),
        (variable("v", 3, dtype=DT_DOUBLE), 24),
        (variable("v", 3, dtype=DT_HALF), 6),
        (variable("v", 3, dtype=DT_STRING), 3),
        (variable("v", 3, dtype=DT_FLOAT + 100), 12),
        (variable("v", 3, dtype=999), 3),
        (variable("v", -1, 5), 0),
        (NodeDef(name="v"), 0),
    ],
)
def test_the_bytes_of_a_variable(node: NodeDef, size: int) -> None:
    assert resident_bytes(node) == size


def test_an_unknown_rank_has_no_bytes() -> None:
    node = variable("v")
    node.attr["shape"].shape.unknown_rank = True
    assert resident_bytes(node) == 0


def test_other_strategies_and_other_tensorflows_are_refused() -> None:
    with pytest.raises(EnforcerError, match="a SimpleNamespace places no variables on servers"):
        place(SimpleNamespace())
    other = SimpleNamespace(extended=SimpleNamespace())
    with (
        pytest.raises(EnvironmentUnsupported, match=r"cannot be placed \(.*_variable_count"),
        variables_placed(other, None),  # type: ignore[arg-type]
    ):
        pass
