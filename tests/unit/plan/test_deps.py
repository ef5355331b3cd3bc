"""Dependencies of ops on transfers: each case by hand."""

from collections.abc import Sequence

import pytest

from tests.graphs import SERVERS, WORKER, Builder, pulls_of
from tfwave.cost.network import Network
from tfwave.cost.uniform import uniform_costs
from tfwave.errors import GraphError
from tfwave.graph.levels import natural_ranks
from tfwave.graph.names import home_of
from tfwave.graph.transfer import find_transfers
from tfwave.graph.view import GraphView
from tfwave.order.deps import Dependencies, bits, find_dependencies
from tfwave.planner import plan as planning
from tfwave.planner.plan import PlanRequest, choose_orders, make_plan

SERVER, OTHER = SERVERS[:2]


def found(build: Builder) -> tuple[Dependencies, dict[frozenset[str], set[str]]]:
    """The dependencies of the worker, and its classes by names."""
    view = GraphView.of(*build.partitions.values())
    deps = find_dependencies(view, find_transfers(view).into(WORKER).data)
    names = [t.key.node for t in deps.transfers]
    classes = {
        frozenset(names[i] for i in bits(needs)): {view.names[op] for op in ops}
        for needs, ops in deps.classes.items()
    }
    return deps, classes


def pull(build: Builder, name: str, **how: object) -> str:
    return build.pair(name, SERVER, WORKER, send=False, **how)  # type: ignore[arg-type]


def test_ops_with_the_same_needs_are_one_class() -> None:
    build = Builder()
    a, b = pull(build, "a"), pull(build, "b")
    build.op(WORKER, "x", [a])
    build.op(WORKER, "y", ["x"])
    build.op(WORKER, "z", ["y", b])
    build.const(WORKER, "free")
    _, classes = found(build)
    assert classes == {frozenset("a"): {"x", "y"}, frozenset("ab"): {"z"}}


def test_control_edges_and_any_output_count() -> None:
    build = Builder()
    a, b = pull(build, "a"), pull(build, "b")
    build.op(WORKER, "x", [a, a], outputs=2)
    build.op(WORKER, "y", ["x:1", b])
    build.op(WORKER, "z", ["^x"])
    _, classes = found(build)
    assert classes == {frozenset("a"): {"x", "z"}, frozenset("ab"): {"y"}}


def test_a_path_through_another_device_counts_and_its_ops_do_not() -> None:
    build = Builder()
    build.const(SERVER, "a")
    build.op(WORKER, "x", [build.pair("a", SERVER, WORKER)])
    build.op(OTHER, "y", [build.pair("x", WORKER, OTHER)])
    build.op(WORKER, "z", [build.pair("y", OTHER, WORKER)])
    deps, classes = found(build)
    assert classes == {frozenset("a"): {"x", "send2"}, frozenset("ay"): {"z"}}
    assert [t.key.node for t in deps.transfers] == ["a", "y"]
    assert deps.blockers == (0, 0b01)


def test_an_op_without_a_device_counts() -> None:
    build = Builder()
    build.op(WORKER, "x", [pull(build, "a")])
    build.partitions[WORKER].node[-1].device = ""
    assert found(build)[1] == {frozenset("a"): {"x"}}


def test_receives_outside_the_order_are_neither_ops_nor_transfers() -> None:
    build = Builder()
    build.const(SERVER, "a")
    build.op(WORKER, "x", [build.pair("a", SERVER, WORKER)])
    build.op(SERVER, "y", [build.pair("x", WORKER, SERVER)])
    control = build.control_pair("y", SERVER, WORKER)
    build.op(WORKER, "z", [f"^{control}"])
    deps, classes = found(build)
    assert len(deps.transfers) == 1
    assert classes == {frozenset("a"): {"x", "send2", control, "z"}}


def test_back_edges_of_loops_are_not_followed() -> None:
    build = Builder()
    a, b = pull(build, "a"), pull(build, "b")
    graph = build.partitions[WORKER]
    graph.node.add(name="merge", op="Merge", input=[a, "next"], device=WORKER)
    graph.node.add(name="body", op="Add", input=["merge", b], device=WORKER)
    graph.node.add(name="next", op="NextIteration", input=["body"], device=WORKER)
    assert found(build)[1] == {frozenset("a"): {"merge"}, frozenset("ab"): {"body", "next"}}


def test_ties_go_by_level_then_by_natural_name() -> None:
    build = Builder()
    late = pull(build, "a")
    for name in ("w10", "w2", "w02"):
        build.op(WORKER, f"use_{name}", [pull(build, name)])
    build.op(WORKER, "use_a", ["use_w2", late])
    deps, _ = found(build)
    assert [t.key.node for t in deps.transfers] == ["w02", "w2", "w10", "a"]


def test_an_unused_transfer_has_no_class() -> None:
    build = Builder()
    pull(build, "a")
    deps, classes = found(build)
    assert (len(deps.transfers), classes) == (1, {})


def test_no_transfers_no_classes() -> None:
    build = Builder()
    build.const(WORKER, "x")
    deps, classes = found(build)
    assert (deps.transfers, deps.blockers, classes) == ((), (), {})


def test_one_order_is_for_one_task() -> None:
    build = Builder()
    pull(build, "a")
    build.pair("b", WORKER, SERVER, send=False)
    view = GraphView.of(*build.partitions.values())
    with pytest.raises(GraphError, match="one task"):
        find_dependencies(view, find_transfers(view).data)


def test_natural_ranks_go_by_level_then_number() -> None:
    build = Builder()
    for name in ("x10", "x9"):
        build.const(WORKER, name)
    build.op(WORKER, "a1", ["x9"])
    view = GraphView.of(build.partitions[WORKER])
    assert natural_ranks(view, [2, 1, 0], [0, 0, 1]) == {1: 0, 0: 1, 2: 2}


def test_bits() -> None:
    assert list(bits(0)) == []
    assert list(bits(0b1011 << 70)) == [70, 71, 73]


def test_the_orders_of_many_tasks_are_found_without_a_look_at_all_nodes_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked = list[int]()
    stock = GraphView.forward_fanins

    def forward_fanins(view: GraphView, node: int) -> Sequence[int]:
        looked.append(node)
        return stock(view, node)

    monkeypatch.setattr(GraphView, "forward_fanins", forward_fanins)
    counts = list[int]()
    for count in (4, 16):
        build = pulls_of(count)
        view = GraphView.of(*build.partitions.values())
        transfers = find_transfers(view).data
        looked.clear()
        chosen = choose_orders(view, transfers, uniform_costs(view), PlanRequest("tic"))
        assert len(chosen.per_task) == count
        counts.append(len(looked))
    assert counts[1] == 4 * counts[0]


def test_devices_are_told_apart_once_and_not_for_each_node(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()

    def counted(device: str) -> str:
        asked.append(device)
        return home_of(device)

    monkeypatch.setattr(planning, "home_of", counted)
    counts = list[int]()
    for count in (2, 8):
        build = Builder()
        last = pull(build, "v")
        for number in range(count):
            last = build.op(WORKER, f"op{number}", [last])
        view = GraphView.of(*build.partitions.values())
        asked.clear()
        network = Network(uniform_costs(view))
        assert make_plan(view, find_transfers(view).data, network, PlanRequest("tic")).orders
        counts.append(len(asked))
    assert counts[0] == counts[1]
