"""Which ops keep to a buffer of their own, and which find the planned one first."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.cli.test_fit_cli import training
from tfwave.offload.captured import captured_step
from tfwave.offload.fit import Fit, Fits
from tfwave.offload.placing import PLACE_SECONDS, in_places, with_places
from tfwave.offload.pooled import Bytes
from tfwave.offload.section import memory_section
from tfwave.offload.step import Buffer, Op, Phase, TrainingStep
from tfwave.plan.fingerprint import NO_GRAPH
from tfwave.plan.memory import Memory, Place
from tfwave.proto.tensorflow_pb2 import DT_COMPLEX64, DT_FLOAT, DT_STRING, DataType

KIB = 1024


def op(node: str, *after: int, inputs: tuple[int, ...] = (), commutes: bool = False) -> Op:
    return Op(node, 1e-3, 0, after, Phase.FORWARD, inputs=inputs, commutes=commutes)


def fitted(
    *,
    inputs: tuple[int, int] = (0, 1),
    commutes: bool = False,
    last: int = 3,
    size: int = 1,
    outlives: bool = False,
    values: Collection[str] = (),
) -> Fit:
    """Op `on` reads the buffers 0 and 1 in this order, and goes on in 1; the first is used until op `last`."""
    ops = (
        op("a"),
        op("b", 0, inputs=(0,)),
        op("user", 0, inputs=(0,)),
        op("on", 0, 1, 2, inputs=inputs, commutes=commutes),
        op("end", 3, inputs=(0, 1)),
    )
    buffers = (
        Buffer(("a:0",), KIB, (0,), tuple(sorted({0, 1, 2, 3, last}))),
        Buffer(("b:0", "on:0"), size * KIB, (1, 3), (1, 3, 4)),
        Buffer(("user:0",), KIB, (2,), (2, 4), outlives),
    )
    buffers = tuple(replace(each, is_value=each.names[-1] in values) for each in buffers)
    step = TrainingStep("/device:CPU:0", ops, buffers, 0)
    fit = Fits(step).within(1 << 30)
    assert fit is not None
    return fit


def placed(*, in_turn: bool = True, **case: Any) -> Memory:
    fit = fitted(**case)
    plan = memory_section(fit, NO_GRAPH, 1 << 30, 1)
    return with_places(fit.layout.step, replace(plan, beside=(), chained=plan.chained if in_turn else ()))


def test_the_time_that_places_take_is_promised() -> None:
    fit = fitted()
    as_it_lies = memory_section(fit, NO_GRAPH, 1 << 30, 1)
    places = with_places(fit.layout.step, as_it_lies)
    assert len(places.places) == 4
    assert places.extra_seconds - as_it_lies.extra_seconds == pytest.approx(4 * PLACE_SECONDS)
    assert places.plain_seconds == as_it_lies.plain_seconds


def test_what_has_a_buffer_of_its_own_keeps_apart() -> None:
    plan = placed(inputs=(1, 0))
    assert set(plan.apart) == {"a", "b", "user"}
    assert plan.swapped == ()
    assert {place.op for place in plan.places} == {"a", "b", "user"}


def test_an_op_that_commutes_is_led_to_the_buffer_that_it_went_on_in() -> None:
    plan = placed(commutes=True)
    assert plan.swapped == ("on",)
    assert "on" not in plan.apart


def test_another_gets_a_place_of_its_own() -> None:
    plan = placed()
    assert plan.swapped == ()
    assert "on" in plan.apart
    (on,) = [place for place in plan.places if place.op == "on"]
    assert on.bytes == KIB
    assert not any(overlap(on, place) for place in plan.places if place.op in {"a", "b", "user"})


@pytest.mark.parametrize("case", [{"last": 4}, {"size": 2}])
def test_a_buffer_that_others_use_later_or_of_another_size_leads_no_op_astray(case: dict[str, int]) -> None:
    plan = placed(**case)
    assert plan.swapped == ()
    assert "on" not in plan.apart


def test_what_runs_whenever_it_can_has_no_place() -> None:
    """All of it counts: nobody knows how much of it is there at once."""
    plan = placed(in_turn=False)
    assert (plan.places, plan.region_bytes, plan.apart) == ((), 0, ())
    assert plan.peak_bytes == 3 * KIB
    assert placed(commutes=True).region_bytes == 3 * KIB


def test_what_outlives_the_step_lies_elsewhere_and_counts() -> None:
    case: dict[str, Any] = {"commutes": True, "outlives": True}
    plan = placed(**case)
    assert {place.op for place in plan.places} == {"a", "b"}
    assert plan.region_bytes == 2 * KIB
    assert [*in_places(fitted(**case))] == [Bytes(3 * KIB)]


def test_what_becomes_the_value_of_a_variable_lies_elsewhere_and_counts() -> None:
    """It goes on in no buffer that has a place either, and takes that along."""
    plan = placed(commutes=True, values=["user:0"])
    assert {place.op for place in plan.places} == {"a", "b"}
    assert set(plan.apart) == {"a", "b", "user"}
    assert plan.peak_bytes == 3 * KIB
    plan = placed(values=["on:0"])
    assert {place.op for place in plan.places} == {"a", "user"}
    assert "on" in plan.apart


def test_what_an_update_takes_lies_elsewhere() -> None:
    """It makes a buffer for the variable's new value where others still read the old one."""
    variable = frozenset([("VarHandleOp", "", "v")])
    update = replace(op("update", 0, inputs=(0,)), scratch=KIB, changes=variable)
    buffers = (Buffer(("a:0",), KIB, (0,), (0, 1)),)
    step = TrainingStep("/device:CPU:0", (op("a"), update), buffers, 0)
    fit = Fits(step).within(1 << 30)
    assert fit is not None
    plan = with_places(step, memory_section(fit, NO_GRAPH, 1 << 30, 1))
    assert [place.op for place in plan.places] == ["a"]
    assert plan.peak_bytes == 2 * KIB


@pytest.mark.parametrize("assigns", [False, True])
def test_a_captured_buffer_knows_whether_it_becomes_a_value(assigns: bool) -> None:
    """As what is assigned does: it is not copied."""
    bundle = training(8)
    if assigns:
        (update,) = (node for node in bundle.graphs[0].node if node.name == "update")
        update.op = "AssignVariableOp"
        update.input[:] = ["w", "g"]
        update.attr["dtype"].type = DT_FLOAT
    step = captured_step(bundle).step
    values = [buffer.names for buffer in step.buffers if buffer.is_value]
    assert values == ([("g:0",)] if assigns else [])


def test_a_captured_op_knows_its_inputs_in_turn() -> None:
    step = captured_step(training(8)).step
    ops = {each.node: each for each in step.ops}
    read = {
        node: [None if number is None else step.buffers[number].names[0] for number in ops[node].inputs]
        for node in ("a", "da", "loss")
    }
    assert read == {"a": [None, None], "da": ["db:0", "a:0"], "loss": ["b:0"]}


@pytest.mark.parametrize(("kind", "commutes"), [(DT_FLOAT, True), (DT_COMPLEX64, False), (DT_STRING, False)])
def test_only_products_and_sums_of_real_numbers_commute(kind: "DataType", commutes: bool) -> None:
    bundle = training(8)
    (da,) = (node for node in bundle.graphs[0].node if node.name == "da")
    da.attr["T"].type = kind
    ops = {each.node: each for each in captured_step(bundle).step.ops}
    assert ops["da"].commutes == commutes
    assert not ops["b"].commutes


def overlap(one: Place, other: Place) -> bool:
    return one.offset < other.offset + other.bytes and other.offset < one.offset + one.bytes
