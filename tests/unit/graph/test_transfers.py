"""Transfers: which receives count, as what, and under which key."""

import pytest

from tests.graphs import SERVERS, WORKER, Builder
from tfwave.errors import GraphError, PlanError
from tfwave.graph.names import Channel, TransferKey
from tfwave.graph.transfer import Transfers, find_transfers
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import NodeDef

SERVER, OTHER = SERVERS[:2]


def found(build: Builder) -> Transfers:
    return find_transfers(GraphView.of(*build.partitions.values()))


def worker_only(build: Builder) -> Transfers:
    return find_transfers(GraphView.of(build.partitions[WORKER]))


def last(build: Builder) -> NodeDef:
    return build.partitions[WORKER].node[-1]


def keys(transfers: Transfers) -> list[tuple[str, int]]:
    return [(t.key.node, t.key.port) for t in transfers.data]


def test_a_receive_whose_value_is_read_carries_data() -> None:
    build = Builder()
    recv = build.pair("layer/v", SERVER, WORKER, send=False)
    build.op(WORKER, "use", [recv])
    (transfer,) = found(build).data
    assert transfer.key == TransferKey("layer/v", 0, Channel(SERVER, WORKER))
    assert (transfer.node, transfer.edge, transfer.recv, transfer.bytes) == (
        "recv1",
        "edge_1_layer/v",
        0,
        0,
    )
    assert transfer.channel == Channel(SERVER, WORKER)


def test_a_receive_that_nothing_reads_carries_data() -> None:
    build = Builder()
    build.pair("v", SERVER, WORKER, send=False)
    assert keys(found(build)) == [("v", 0)]


def test_control_only_case_1_an_identity_that_only_control_edges_leave() -> None:
    build = Builder()
    build.const(SERVER, "v")
    build.op(WORKER, "then", [f"^{build.control_pair('v', SERVER, WORKER)}"])
    assert (found(build).data, len(found(build).control)) == ((), 1)


def test_control_only_case_2_only_control_fanouts() -> None:
    build = Builder()
    build.op(WORKER, "then", [f"^{build.pair('v', SERVER, WORKER, send=False)}"])
    assert (found(build).data, len(found(build).control)) == ((), 1)


@pytest.mark.parametrize(
    ("readers", "is_data"),
    [
        ([("read", "Identity", ["recv1"]), ("use", "AddN", ["read"])], True),
        ([("read", "Identity", ["recv1"]), ("use", "AddN", ["read"]), ("then", "NoOp", ["^read"])], True),
        ([("read", "Identity", ["recv1"])], True),
        ([("read", "Relu", ["recv1"]), ("then", "NoOp", ["^read"])], True),
        ([("use", "AddN", ["recv1"]), ("then", "NoOp", ["^recv1"])], True),
        ([("read", "Identity", ["recv1"]), ("then", "NoOp", ["^read", "^recv1"])], False),
    ],
)
def test_a_value_that_may_be_read_is_data(readers: list[tuple[str, str, list[str]]], is_data: bool) -> None:
    build = Builder()
    build.pair("v", SERVER, WORKER, send=False)
    for name, op, inputs in readers:
        build.partitions[WORKER].node.add(name=name, op=op, input=inputs, device=WORKER)
    assert bool(found(build).data) == is_data
    assert bool(found(build).control) != is_data


def test_host_receives_count_too() -> None:
    build = Builder()
    build.const(SERVER, "v")
    build.pair("v", SERVER, WORKER)
    for graph in build.partitions.values():
        graph.node[-1].op = graph.node[-1].op.replace("_", "_Host")
    assert [n.op for g in build.partitions.values() for n in g.node][1:] == ["_HostSend", "_HostRecv"]
    assert keys(found(build)) == [("v", 0)]


def test_what_the_client_feeds_is_left_out() -> None:
    build = Builder()
    build.pair("v", SERVER, WORKER, send=False)
    last(build).attr["client_terminated"].b = True
    assert found(build) == Transfers((), ())


def test_copies_within_a_task_are_left_out() -> None:
    build = Builder()
    build.pair("v", WORKER.replace("CPU", "GPU"), WORKER, send=False)
    build.pair("w", WORKER, WORKER, send=False)
    assert found(build) == Transfers((), ())


def test_other_tasks_of_the_same_job_count() -> None:
    build = Builder()
    build.pair("v", WORKER.replace("task:0", "task:1"), WORKER, send=False)
    build.pair("w", WORKER.replace("task:0", "task:10"), WORKER, send=False)
    assert keys(found(build)) == [("v", 0), ("w", 0)]


def two_ports() -> Builder:
    """Port 1 of v is cut before port 0, so that edge numbers and ports disagree."""
    build = Builder()
    build.op(SERVER, "v", [build.const(SERVER, "c")], outputs=2)
    build.edges = 8
    build.pair("v:1", SERVER, WORKER)
    build.pair("v", SERVER, WORKER)
    return build


def test_ports_are_the_senders_where_its_partition_is_there() -> None:
    assert [(t.key.port, t.edge) for t in found(two_ports()).data] == [(0, "edge_10_v"), (1, "edge_9_v")]


def test_ports_go_by_edge_number_where_it_is_not() -> None:
    assert [(t.key.port, t.edge) for t in worker_only(two_ports()).data] == [
        (0, "edge_9_v"),
        (1, "edge_10_v"),
    ]


def test_a_tensor_to_two_devices_is_two_transfers() -> None:
    build = Builder()
    build.const(SERVER, "v")
    build.pair("v", SERVER, WORKER)
    build.pair("v", SERVER, OTHER)
    transfers = found(build)
    assert transfers.destinations == (OTHER, WORKER)
    assert [t.channel.destination for t in transfers.into(WORKER).data] == [WORKER]


def test_one_tensor_received_twice_is_refused() -> None:
    build = Builder()
    build.const(SERVER, "v")
    build.pair("v", SERVER, WORKER)
    build.pair("v", SERVER, WORKER)
    with pytest.raises(GraphError, match="'recv1' and 'recv2' both receive v:0"):
        found(build)


@pytest.mark.parametrize("attribute", ["send_device", "recv_device", "tensor_name"])
def test_a_receive_without_an_attribute_is_named(attribute: str) -> None:
    build = Builder()
    build.pair("v", SERVER, WORKER, send=False)
    del last(build).attr[attribute]
    before = last(build).SerializeToString(deterministic=True)
    with pytest.raises(GraphError, match=f"node 'recv1': _Recv needs .*{attribute}"):
        found(build)
    assert last(build).SerializeToString(deterministic=True) == before


def test_transfers_are_sorted_with_numbers_as_numbers() -> None:
    build = Builder()
    for name in ("w10", "w9", "w09", "v"):
        build.pair(name, SERVER, WORKER, send=False)
    assert [node for node, _ in keys(found(build))] == ["v", "w09", "w9", "w10"]


@pytest.mark.parametrize("node", ["v", "scope/v_1", "a:b", "edge_1_v", "ä"])
@pytest.mark.parametrize("port", [0, 12])
def test_the_text_of_a_key_reads_back(node: str, port: int) -> None:
    key = TransferKey(node, port, Channel(SERVER, WORKER))
    assert TransferKey.parse(str(key)) == key


@pytest.mark.parametrize(
    "text", ["", "v", "v:0", "v:0;a", "v;a;b", "v:x;a;b", ":0;a;b", "v:-1;a;b", "v:0;a;b;c"]
)
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match="is malformed"):
        TransferKey.parse(text)
