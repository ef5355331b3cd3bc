"""Nodes that meet at queues, locks and keys: no barrier lets them wait for each other for ever."""

import pytest

from grappler_passes.counter_barrier import CounterBarrier
from tests.rewrites import check_rewrite
from tests.steps import FLOAT, layers
from tests.unit.graph.test_access import INT, NOTHING, QUEUED, function, kinds, number, text
from tests.unit.graph.test_functions import func
from tfwave.errors import PassError
from tfwave.graph.item import GraphItem
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import (
    DT_FLOAT,
    DT_INT32,
    DT_INT64,
    DT_RESOURCE,
    AttrValue,
    NodeDef,
    TensorShapeProto,
)
from tfwave.rewrite.meetings import find_meetings


def meeting(first: NodeDef, second: NodeDef, *makers: NodeDef) -> GraphItem:
    """Two nodes that do not wait for each other, and what both take."""
    build = layers(1)
    build.graph.node.extend([*makers, first, second])
    return GraphItem(build.graph)


def node(name: str, op: str, *inputs: str, **attrs: AttrValue) -> NodeDef:
    return NodeDef(name=name, op=op, input=inputs, attr=attrs)


def collective(name: str, key: int | str) -> NodeDef:
    shared = {"T": FLOAT, "merge_op": text("Add"), "final_op": text("Id")}
    numbers = {"group_size": number(2), "group_key": number(1), "subdiv_offsets": NOTHING}
    if isinstance(key, int):
        return node(name, "CollectiveReduce", "x", instance_key=number(key), **shared, **numbers)
    return node(name, "CollectiveReduceV2", "x", "i", "i", key, Nordering_token=number(0), **shared)


def constant(name: str, value: int) -> NodeDef:
    made = node(name, "Const", dtype=INT)
    made.attr["value"].tensor.dtype = DT_INT32
    made.attr["value"].tensor.int_val.append(value)
    return made


def queues(kind: str = "V2") -> list[NodeDef]:
    return [
        node("take", f"QueueDequeue{kind}", "queue", **QUEUED),
        node("give", f"QueueEnqueue{kind}", "queue", "x", Tcomponents=kinds(DT_FLOAT)),
        node("queue", f"FIFOQueue{kind}", **QUEUED),
    ]


STAGED = {"dtypes": kinds(DT_FLOAT)}
TAKEN = {"dtype": FLOAT}
SUMS = node("sums", "ResourceConditionalAccumulator", dtype=FLOAT, shape=AttrValue(shape=TensorShapeProto()))
STEP = node("i64", "Placeholder", dtype=AttrValue(type=DT_INT64))
INDEX = node("i", "Placeholder", dtype=INT)
MEETINGS = {
    "the Queue 'queue'": meeting(*queues()),
    "the Queue 'queue' by reference": meeting(*queues("")),
    "what is staged": meeting(node("take", "Unstage", **STAGED), node("give", "Stage", "x", **STAGED)),
    "the ResourceConditionalAccumulator 'sums'": meeting(
        node("take", "ResourceAccumulatorTakeGradient", "sums", "i", **TAKEN),
        node("give", "ResourceAccumulatorApplyGradient", "sums", "i64", "x", **TAKEN),
        SUMS,
        INDEX,
        STEP,
    ),
    "the MutexV2 'mutex'": meeting(
        node("take", "MutexLock", "mutex"),
        node("give", "ConsumeMutexLock", "first"),
        node("first", "MutexLock", "mutex"),
        node("mutex", "MutexV2"),
    ),
    "the Collective '7'": meeting(collective("take", 7), collective("give", 7)),
    "the Collective '7' by constants": meeting(
        collective("take", "key"), collective("give", "too"), INDEX, constant("key", 7), constant("too", 7)
    ),
    "the Collective ''": meeting(collective("take", "i"), collective("give", 7), INDEX),
}


@pytest.mark.parametrize("place", MEETINGS)
def test_barriers_by_which_nodes_would_wait_for_ever_are_refused(place: str) -> None:
    words = place.partition(" by ")[0]
    message = f"'give' would wait for 'take', which may itself wait for it, as both touch {words}: put"
    with pytest.raises(PassError, match=message):
        CounterBarrier((("take",), ("give",)))(MEETINGS[place])


def test_a_wait_over_other_nodes_is_seen() -> None:
    take, give, queue = queues()
    before, after = node("before", "NoOp", "^take"), node("after", "NoOp")
    give.input.append("^after")
    item = meeting(take, give, queue, before, after)
    with pytest.raises(PassError, match="'give' would wait for 'take'"):
        CounterBarrier((("before",), ("x",), ("after",)))(item)
    check_rewrite(
        CounterBarrier((("after",), ("x",), ("before",))),
        meeting(take, node("give", "NoOp"), queue, before, after),
    )


def test_nodes_that_do_not_wait_for_each_other_are_parted() -> None:
    take, give, queue = queues()
    other = node("other", "FIFOQueueV2", **QUEUED)
    more = node("more", "QueueDequeueV2", "queue", **QUEUED)
    groups = CounterBarrier((("take",), ("give",)))
    check_rewrite(CounterBarrier((("take",), ("more",))), meeting(take, more, queue))
    check_rewrite(groups, meeting(collective("take", 7), collective("give", 8)))
    check_rewrite(CounterBarrier((("take", "give"), ("train",))), meeting(take, give, queue))
    give.input[0] = "other"
    check_rewrite(groups, meeting(take, give, queue, other))
    give.input[:] = ["queue", "x", "^take"]
    check_rewrite(groups, meeting(take, give, queue))


def test_a_call_may_wait_by_what_it_calls() -> None:
    build = layers(1)
    take, give, queue = queues()
    take.input[0] = "given"
    function(build, "f", take)
    called = node(
        "take", "StatefulPartitionedCall", "queue", f=func("f"), Tin=kinds(DT_RESOURCE), Tout=NOTHING
    )
    build.graph.node.extend([called, give, queue])
    assert [m.ops for m in find_meetings(GraphItem(build.graph), GraphView.of(build.graph))] == [
        {"QueueDequeueV2"},
        {"QueueEnqueueV2"},
    ]
    with pytest.raises(PassError, match="'give' would wait for 'take'"):
        CounterBarrier((("take",), ("give",)))(GraphItem(build.graph))
