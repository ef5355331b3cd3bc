"""Jobs laid out anew: other servers, other workers."""

import random
from collections import defaultdict

import pytest

from tests.bundles import SERVER, small_bundle, small_graphs
from tests.graphs import SERVERS, WORKER, Builder, random_job
from tests.unit.balanced import traced
from tfwave.errors import GraphError
from tfwave.graph.names import task_of
from tfwave.graph.transfer import find_transfers
from tfwave.graph.view import GraphView
from tfwave.planner import PlanRequest
from tfwave.proto.tensorflow_pb2 import DT_FLOAT, GraphDef
from tfwave.whatif.change import Change
from tfwave.whatif.layout import Layout
from tfwave.whatif.predict import predict
from tfwave.whatif.servers import deal, servers_of
from tfwave.whatif.subject import Subject, bundle_subject, graph_subject
from tfwave.whatif.workers import replicate, workers_of

SECOND = WORKER.replace("task:0", "task:1")
ELEMENTS = {"k1": 1000, "k2": 1000, "b1": 10, "b10": 10, "b2": 10}


def variable(build: Builder, server: str, name: str, elements: int) -> None:
    node = build._node(server, name, "VarHandleOp", [])
    node.attr["dtype"].type = DT_FLOAT
    node.attr["shape"].shape.dim.add(size=elements)


def training(workers: tuple[str, ...] = (WORKER,)) -> tuple[GraphDef, ...]:
    """Kernels on server 0, biases on server 1; each with a slot; each worker pulls all and pushes all gradients."""
    build = Builder()
    for name, elements in ELEMENTS.items():
        server = SERVERS[name[0] == "b"]
        variable(build, server, name, elements)
        variable(build, server, f"{name}/slot", elements)
        for number, worker in enumerate(workers):
            build._node(server, f"{name}/read{number}", "ReadVariableOp", [name])
            pulled = build.pair(f"{name}/read{number}", server, worker)
            build.op(worker, f"{name}/use{number}", [pulled])
            build.op(worker, f"{name}/grad{number}", [f"{name}/use{number}"])
            pushed = build.pair(f"{name}/grad{number}", worker, server)
            build._node(
                server, f"{name}/apply{number}", "ResourceApplyMomentum", [name, f"{name}/slot", pushed]
            )
    return tuple(build.partitions.values())


def layout_of(graphs: tuple[GraphDef, ...]) -> Layout:
    view = GraphView.of(*graphs)
    return Layout.captured(view, find_transfers(view))


def subject_of(workers: tuple[str, ...] = (WORKER,)) -> Subject:
    sizes = {
        f"{name}/{end}{number}": 4 * elements
        for name, elements in ELEMENTS.items()
        for end in ("read", "grad")
        for number in range(len(workers))
    }
    return bundle_subject(traced(training(workers), sizes), "ps")


def placed(layout: Layout) -> dict[str, int]:
    """The server's number of each of its ops."""
    return {
        name: int(task_of(node.device).rpartition(":")[2])
        for name, node in zip(layout.view.names, layout.view.nodes, strict=True)
        if "/job:ps/" in node.device
    }


def test_who_is_who() -> None:
    layout = layout_of(training((WORKER, SECOND)))
    assert servers_of(layout, "ps") == [task_of(SERVERS[0]), task_of(SERVERS[1])]
    assert workers_of(layout, "ps") == [task_of(WORKER), task_of(SECOND)]
    with pytest.raises(GraphError, match=r"a task of the job 'nobody'.*--job"):
        workers_of(layout, "nobody")


def test_variables_are_dealt_by_name_with_their_slots_and_ops() -> None:
    on = placed(deal(layout_of(training()), "ps", 3))
    assert {name: on[name] for name in ELEMENTS} == {"b1": 0, "b2": 1, "b10": 2, "k1": 0, "k2": 1}
    for name in ELEMENTS:
        assert {on[f"{name}/{op}"] for op in ("slot", "read0", "apply0")} == {on[name]}


def test_transfers_go_where_their_variables_are() -> None:
    captured = layout_of(training())
    dealt = deal(captured, "ps", 3)
    on = placed(dealt)
    assert len(dealt.transfers.data) == len(captured.transfers.data)
    for transfer in dealt.transfers.data:
        server = SERVERS[on[transfer.key.node.partition("/")[0]]]
        ends = (server, WORKER) if "read" in transfer.key.node else (WORKER, server)
        assert (transfer.channel.source, transfer.channel.destination) == ends


def test_balanced_servers_have_equal_parts() -> None:
    subject = subject_of()
    name = f"card of {task_of(SERVERS[0])}, sending"
    uneven, even = (
        predict(subject, Change(balanced=balanced), PlanRequest("tic")).loads.cards[name]
        for balanced in (False, True)
    )
    assert uneven == pytest.approx(even * 8000 / 4080, rel=0.05)


def test_no_variable_no_dealing() -> None:
    with pytest.raises(GraphError, match="no variable is on a server"):
        deal(layout_of(small_graphs()), "ps", 2)


def test_what_comes_together_on_one_server_is_told_apart() -> None:
    build = Builder()
    for number in range(2):
        variable(build, SERVERS[number], f"v{number}", 1)
        build.op(
            SERVERS[number],
            "same",
            [build._node(SERVERS[number], "r", "ReadVariableOp", [f"v{number}"]).name],
        )
        build.op(WORKER, f"use{number}", [build.pair("same", SERVERS[number], WORKER)])
    variable(build, SERVERS[0], "w", 1)
    build._node(SERVERS[0], "w/read", "ReadVariableOp", ["w"])
    build.op(SERVERS[1], "local", [build.pair("w/read", SERVERS[0], SERVERS[1]), "r"])
    merged = deal(layout_of(tuple(build.partitions.values())), "ps", 1)
    assert [t.channel.source for t in merged.transfers.data] == [SERVERS[0]] * 2
    assert len({t.key for t in merged.transfers.data}) == 2
    assert len({t.edge for t in merged.transfers.data}) == 2


def test_workers_are_copies_with_their_own_transfers() -> None:
    captured = layout_of(training())
    three = replicate(captured, "ps", 3)
    assert len(three.view) == 3 * len(captured.view)
    assert workers_of(three, "ps") == [
        WORKER.replace("task:0/", f"task:{i}/").partition("/device")[0] for i in range(3)
    ]
    by_channel: dict[object, set[str]] = defaultdict(set)
    for transfer in three.transfers.data:
        by_channel[transfer.channel].add(transfer.key.node.partition("@")[0])
    assert len(by_channel) == 12
    assert len({frozenset(names) for names in by_channel.values()}) == 4
    copies = {
        three.view.nodes[n].device for n, o in enumerate(three.origins) if captured.view.names[o] == "k1/use0"
    }
    assert len(copies) == 3


def test_there_are_not_more_workers_than_can_be_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = layout_of(training())
    monkeypatch.setattr("tfwave.whatif.workers._MOST_NODES", 3 * len(layout.view))
    assert len(replicate(layout, "ps", 3).transfers.data) == 3 * len(layout.transfers.data)
    with pytest.raises(GraphError, match="give at most 3"):
        replicate(layout, "ps", 4)


def test_copies_are_joined_with_themselves_only() -> None:
    two = replicate(layout_of(training()), "ps", 2).view
    for node, fanins in enumerate(two.fanins):
        for fanin in fanins:
            assert ("@1" in two.names[fanin]) == ("@1" in two.names[node])


def test_one_worker_of_two_is_the_first_ones_step() -> None:
    both, alone = layout_of(training((WORKER, SECOND))), layout_of(training())
    one = replicate(both, "ps", 1)
    assert sorted(
        n for n in one.view.names if "edge" not in n and "recv" not in n and "send" not in n
    ) == sorted(n for n in alone.view.names if "recv" not in n and "send" not in n)
    assert {t.key for t in one.transfers.data} == {t.key for t in alone.transfers.data}


def test_what_others_push_is_left_out_of_a_sum() -> None:
    build = Builder()
    variable(build, SERVERS[0], "v", 1)
    build._node(SERVERS[0], "read", "ReadVariableOp", ["v"])
    pushed = []
    for number, worker in enumerate((WORKER, SECOND)):
        grad = build.op(worker, f"grad{number}", [build.pair("read", SERVERS[0], worker)])
        pushed.append(build.pair(grad, worker, SERVERS[0]))
    build.op(SERVERS[0], "sum", [*pushed, "read"])
    one = replicate(layout_of(tuple(build.partitions.values())), "ps", 1)
    total = one.view.names.index("sum")
    assert sorted(one.view.names[f] for f in one.view.fanins[total]) == ["read", pushed[0]]
    assert one.view.data_fanins[total] == 2
    assert len(one.transfers.data) == 2


def test_what_a_server_receives_stays_with_what_it_is_for() -> None:
    build = Builder()
    for server, name in zip(SERVERS, ("a", "z"), strict=False):
        variable(build, server, name, 1)
        build._node(server, f"{name}/read", "ReadVariableOp", [name])
        build.op(WORKER, f"{name}/use", [build.pair(f"{name}/read", server, WORKER)])
    made = build.pair("a/read", SERVERS[0], SERVERS[1])
    for i in range(3):
        made = build.op(SERVERS[1], f"step{i}", [made])
    build.op(SERVERS[1], "apply", [made, "z"])
    dealt = deal(layout_of(tuple(build.partitions.values())), "ps", 3)
    on = placed(dealt)
    assert {on[f"step{i}"] for i in range(3)} == {on["z"]} == {1}
    assert len(dealt.transfers.data) == 3


def test_four_workers_of_two_are_four_of_the_first() -> None:
    both, alone = subject_of((WORKER, SECOND)), subject_of()
    request = PlanRequest("tic")
    four = predict(both, Change(workers=4), request)
    assert four.loads.devices == pytest.approx(predict(alone, Change(workers=4), request).loads.devices)


@pytest.mark.parametrize("change", [Change(servers=2), Change(workers=1), Change(servers=2, workers=1)])
def test_what_is_there_already_changes_nothing(change: Change) -> None:
    subject, request = subject_of(), PlanRequest("tac")
    captured, same = predict(subject, Change(), request), predict(subject, change, request)
    assert (same.ordered, same.free, same.unordered) == (captured.ordered, captured.free, captured.unordered)


def test_two_workers_share_the_servers_card() -> None:
    subject, request = bundle_subject(small_bundle(), "ps"), PlanRequest("tac")
    one, two = predict(subject, Change(), request), predict(subject, Change(workers=2), request)
    name = f"card of {task_of(SERVER)}, sending"
    assert two.loads.cards[name] == pytest.approx(2 * one.loads.cards[name])
    last = [
        max(i.end_seconds for i in found.ordered.intervals if i.resource == f"{SERVER} -> {WORKER}")
        for found in (one, two)
    ]
    assert last[1] == pytest.approx(2 * last[0])


@pytest.mark.parametrize("seed", range(12))
def test_how_nodes_are_numbered_makes_no_difference(seed: int) -> None:
    rng = random.Random(seed)
    job = random_job(rng)
    found = []
    for one in (job, job.renumbered(rng)):
        view = GraphView.of(*one.partitions)
        subject = graph_subject(view, find_transfers(view), one.costs, "ps")
        prediction = predict(subject, Change(workers=2, latency_seconds=0.01), PlanRequest("tac"))
        found.append((prediction.ordered, prediction.unordered, prediction.bound))
    assert found[0] == found[1]
    assert found[0][0].makespan_seconds >= found[0][2].seconds * (1 - 1e-9)
