"""Placements as files, and as choices while variables are made."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tfwave.balance.chooser import ServerChooser
from tfwave.distribute.placement import place
from tfwave.errors import EnforcerError, EnvironmentUnsupported, PlanError
from tfwave.graph.variable_bytes import resident_bytes
from tfwave.plan.io import load_plan, plan_json, save_plan
from tfwave.plan.placement import Placement
from tfwave.plan.plan import Plan
from tfwave.proto.tensorflow_pb2 import DT_DOUBLE, DT_FLOAT, DT_HALF, DT_STRING, NodeDef
from tfwave.runtime import variables
from tfwave.runtime.variables import variables_placed


def variable(name: str, *shape: int, dtype: int = DT_FLOAT) -> NodeDef:
    node = NodeDef(name=name, op="VarHandleOp")
    node.attr["dtype"].type = dtype
    for dim in shape:
        node.attr["shape"].shape.dim.add(size=dim)
    node.attr["shape"].shape.unknown_rank = False
    return node


def refused(file: Path, placement: Any, *says: str) -> None:
    file.write_text(json.dumps({"version": 3, "placement": placement}))
    with pytest.raises(PlanError) as caught:
        load_plan(file)
    for text in (str(file), *says):
        assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_placement_is_written_and_read(tmp_path: Path) -> None:
    plan = Plan(placement=Placement(3, {"b": 2, "a/w": 0}, (5, 0, 7), 6))
    for name in ("p.json", "p.pb"):
        save_plan(plan, tmp_path / name)
        assert load_plan(tmp_path / name) == plan
    assert plan_json(plan) == plan_json(Plan(placement=Placement(3, {"a/w": 0, "b": 2}, (5, 0, 7), 6)))
    assert json.loads((tmp_path / "p.json").read_text()) == {
        "version": 3,
        "placement": {"servers": 3, "variables": {"a/w": 0, "b": 2}, "bytes": [5, 0, 7], "bound_bytes": 6},
    }


def test_placements_that_are_none(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    good = {"servers": 2, "variables": {"a": 1}}
    refused(file, "x", "is not a plan")
    refused(file, good | {"more": 1}, "more")
    refused(file, good | {"variables": {"a": "x"}}, "is not a plan")
    refused(file, good | {"servers": 1}, "'a' is placed on server 1, but there are only 1")
    refused(file, good | {"servers": 0, "variables": {}}, "on 0 servers")
    refused(file, good | {"variables": {"a": -1}}, "'a' is placed on server -1")
    refused(file, good | {"bytes": [1]}, "promises bytes of 1 servers, and is for 2")


def on_servers(count: int) -> Any:
    """A strategy, as far as it is looked at before anything is placed."""
    spec = SimpleNamespace(as_dict=lambda: {"ps": [f"host:{n}" for n in range(count)]})
    resolver = SimpleNamespace(cluster_spec=lambda: spec)
    return SimpleNamespace(_is_parameter_server_strategy_v2=True, _cluster_resolver=resolver)


def test_a_plan_without_a_placement_places_nothing() -> None:
    with pytest.raises(
        PlanError, match="the plan places no variables: make one that does with `tfwave balance"
    ):
        place(on_servers(2), Plan(policy="tic"))


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


def test_a_strategy_is_placed_once_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The block before would choose, and the second take down the wrong servers."""

    class Extended:
        _variable_count = 0

        def _create_variable_round_robin(self) -> None: ...
        def _create_variable(self) -> None: ...

    monkeypatch.setattr(variables, "_Names", lambda: None)
    strategy, placer = SimpleNamespace(extended=Extended()), cast("variables.Placer", None)
    with (
        variables_placed(strategy, placer),
        pytest.raises(EnforcerError, match="placed already"),
        variables_placed(strategy, placer),
    ):
        pass
    assert not vars(strategy.extended)
    with variables_placed(strategy, placer):
        assert vars(strategy.extended)


def test_other_strategies_and_other_tensorflows_are_refused() -> None:
    with pytest.raises(EnforcerError, match="a SimpleNamespace places no variables on servers"):
        place(SimpleNamespace())
    other = SimpleNamespace(extended=SimpleNamespace())
    with (
        pytest.raises(EnvironmentUnsupported, match=r"cannot be placed \(.*_variable_count"),
        variables_placed(other, None),  # type: ignore[arg-type]
    ):
        pass
