"""What waves average where an optimizer is no op of its own, and what they refuse where no gradient is found."""

import pytest

from grappler_passes.tick_tock import TickTock
from tests.rewrites import check_rewrite
from tests.steps import FLOAT, Builder, layers
from tests.unit.waves.test_tick_tock import applied, averaged, initialised, inputs
from tfwave.errors import PassError
from tfwave.passes.base import PassResult
from tfwave.proto.tensorflow_pb2 import DT_FLOAT, AttrValue
from tfwave.rewrite.resources import Resource
from tfwave.rewrite.waves.parts import StepParts

MEAN = "tick_tock/average/gradient0_0/1/mean"


def open_step() -> Builder:
    """A step with one weight, and its gradient of which nothing follows yet."""
    build = layers(1)
    del build.graph.node[-2:]
    build.const("c")
    return build


def finished(build: Builder, *updates: str) -> PassResult:
    build.node("train", "NoOp", *(f"^{name}" for name in updates))
    return check_rewrite(TickTock(), initialised(build).item("loss:0", "train"))


def binary(build: Builder, name: str, op: str, *taken: str) -> str:
    return build.node(name, op, *taken, T=FLOAT)


def assign(build: Builder, name: str, handle: str, value: str, *waits: str) -> str:
    return build.node(name, "AssignVariableOp", handle, value, *waits, dtype=FLOAT)


def of_squares(build: Builder, *gradients: str) -> PassResult:
    """Constants times a square are summed up, and divide constants times the gradient; of two, the first's."""
    square = binary(build, "square", "Square", gradients[0])
    build.handle("slot")
    build.update("slot/update", "slot", binary(build, "part", "Mul", square, "c"))
    build.read("slot/after", "slot", "^slot/update")
    scaled = binary(build, "scaled", "Mul", build.add("whole", *gradients), "c")
    build.update("update", "w0", binary(build, "step", "RealDiv", scaled, "slot/after"))
    return finished(build, "update")


def test_squares_are_squares_of_the_average_whatever_their_factors() -> None:
    result = of_squares(open_step(), "gradient0")
    assert averaged(result) == {"gradient0_0"}
    assert inputs(result, "tick_tock/1/square") == inputs(result, "tick_tock/1/whole") == [MEAN]
    assert inputs(result, "tick_tock/1/step") == ["tick_tock/1/scaled", "tick_tock/1/slot/after"]


def test_squares_of_a_gradient_that_passes_a_node_with_others_are_none() -> None:
    """Sums of the rows and columns of a square divide it; all gradients come out of one node."""
    build = layers(2)
    del build.graph.node[-1]
    types = AttrValue()
    types.list.type.extend([DT_FLOAT, DT_FLOAT])
    build.node("all", "IdentityN", "gradient0", "gradient1", T=types)
    updates = {node.name: node for node in build.graph.node}
    build.const("c")
    square = build.add("above", binary(build, "square", "Square", "all:0"), "c")
    for slot in ("rows", "columns"):
        build.handle(slot)
        build.update(f"{slot}/update", slot, binary(build, f"{slot}/part", "Mul", square, "c"))
        build.read(f"{slot}/after", slot, f"^{slot}/update")
    scale = binary(build, "scale", "Mul", "rows/after", "columns/after")
    updates["update0"].input[1] = binary(build, "step", "RealDiv", "all:0", scale)
    updates["update1"].input[1] = "all:1"
    assert averaged(finished(build, "update0", "update1")) == {"all_0", "all_1"}


def test_what_follows_from_several_gradients_is_refused() -> None:
    build = open_step()
    build.add("other", "loss", "x")
    with pytest.raises(
        PassError, match="nodes 'part' and 'scaled' both come to updates of 'w0' and follow from"
    ):
        of_squares(build, "gradient0", "other")


def test_the_value_of_a_weight_that_is_read_again_is_not_averaged() -> None:
    build = open_step()
    build.read("again", "w0", "^gradient0")
    assign(build, "update", "w0", binary(build, "value", "Sub", "again", "gradient0"))
    result = finished(build, "update")
    assert averaged(result) == {"gradient0_0"}
    assert inputs(result, "tick_tock/1/value") == ["tick_tock/1/again", MEAN]


def test_the_value_of_a_weight_of_the_forward_pass_is_refused_beside_a_gradient() -> None:
    build = open_step()
    assign(build, "update", "w0", binary(build, "value", "Sub", "read0", "gradient0"))
    with pytest.raises(
        PassError, match=r"'update' \(AssignVariableOp\) takes 'value'.*read the weight again"
    ):
        finished(build, "update")


@pytest.mark.parametrize("read", ["read0", "again"])
def test_the_decay_of_a_weight_beside_its_gradient_is_not_averaged(read: str) -> None:
    build = open_step()
    build.read("again", "w0", "^gradient0")
    build.update("update", "w0", "gradient0")
    build.update("decay", "w0", binary(build, "part", "Mul", read, "c"), "^update")
    result = finished(build, "decay")
    assert averaged(result) == {"gradient0_0"}
    assert inputs(result, "tick_tock/1/decay")[:2] == ["tick_tock/1/w0", "tick_tock/1/part"]


def test_a_gradient_that_follows_from_its_weight_alone_is_averaged() -> None:
    build = layers(2)
    of_penalty = next(node for node in build.graph.node if node.name == "gradient1")
    of_penalty.input[:] = ["read1"]
    of_penalty.attr["N"].i = 1
    result = check_rewrite(TickTock(), initialised(build).item("loss:0", "train"))
    assert averaged(result) == {"gradient0_0", "gradient1_0"}


def test_what_scales_a_loss_is_no_optimizers() -> None:
    """The gradient is what comes of the scale, which belongs to no weight alone."""
    build = Builder()
    for name in ("w", "scale"):
        build.handle(name)
        build.read(f"{name}/read", name)
    build.read("scale/again", "scale")
    binary(build, "loss", "Mul", "w/read", "scale/read")
    binary(build, "large", "Mul", "loss", "w/read")
    build.update("update", "w", binary(build, "gradient0", "RealDiv", "large", "scale/again"))
    build.update("scale/update", "scale", build.const("c"), "^update")
    assert averaged(finished(build, "scale/update")) == {"gradient0_0"}


def test_what_else_an_optimizers_op_takes_of_a_gradient_is_refused() -> None:
    build = applied(1)
    update = next(node for node in build.graph.node if node.name == "update0")
    update.input[1] = binary(build, "trust", "Mul", "gradient0", "rate")
    with pytest.raises(
        PassError, match=r"'update0' \(ResourceApplyGradientDescent\) takes .* beside it 'trust'"
    ):
        TickTock()(build.item("loss:0", "train"))


def residual(count: int) -> Builder:
    """Layers beside which a sum goes on; so it does backwards, where each weight's gradient is taken of it."""
    build = layers(count)
    del build.graph.node[-2 * count - 1 :]
    flow = build.add("flow", "loss")
    for i in reversed(range(count)):
        flow = build.add(f"flow{i}", flow, build.add(f"part{i}", flow, f"layer{i}"))
        build.update(f"update{i}", f"w{i}", binary(build, f"gradient{i}", "Mul", flow, flow))
    return build


def test_gradients_of_a_deep_model_are_found_without_a_look_at_all_of_it_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = list[int]()
    stock = StepParts.begins

    def begins(parts: StepParts, node: int, own: Resource | None = None) -> bool:
        asked.append(node)
        return stock(parts, node, own)

    monkeypatch.setattr(StepParts, "begins", begins)
    counts = list[int]()
    for count in (8, 32):
        build = residual(count)
        build.node("train", "NoOp", *(f"^update{i}" for i in range(count)))
        asked.clear()
        result = TickTock()(initialised(build).item("loss:0", "train"))
        assert averaged(result) == {f"gradient{i}_0" for i in range(count)}
        counts.append(len(asked))
    assert counts[1] <= 5 * counts[0]
