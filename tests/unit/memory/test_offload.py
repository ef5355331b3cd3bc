"""What is backward, what runs again, and what copies cost: small steps, reckoned by hand."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from tests.memory_steps import Step, bundle_of, declare, graph
from tests.unit.cli.test_fit_cli import MIB, training
from tfwave.bundle.bundle import Bundle
from tfwave.bundle.memory import captured_memory
from tfwave.offload.batch import at_rows, largest_batch
from tfwave.offload.captured import captured_step, in_turn, without_folded
from tfwave.offload.choice import Choice
from tfwave.offload.fit import Fits
from tfwave.offload.forecast import forecast
from tfwave.offload.layout import Layout, Method
from tfwave.offload.orders import lean_order
from tfwave.offload.step import Buffer, Op, Phase, TrainingStep
from tfwave.offload.threads import BESIDE, Task, Work, lanes_of
from tfwave.proto.tensorflow_pb2 import DT_BOOL, DT_FLOAT, DT_INT32

SIZE = 4_000_000
COPIED = lanes_of("/cpu").copy_seconds(SIZE)
PHASES = {"f": Phase.FORWARD, "b": Phase.BACKWARD}


def chain_step(seconds: float, *, updates_early: bool = False) -> TrainingStep:
    """f0 writes a; f1 and f2 do something else; b0 to b2 do likewise, and b2 wants a."""
    weight = frozenset([("VarHandleOp", "", "w")])
    names = ("f0", "f1", "f2", "b0", "b1", "b2")
    ops = tuple(
        Op(name, seconds, SIZE if name == "b0" else 0, (n - 1,) if n else (), PHASES[name[0]])
        for n, name in enumerate(names)
    )
    reading = replace(ops[0], reads=weight)
    changing = replace(ops[4], changes=weight if updates_early else frozenset())
    small = Buffer(("f1:0",), 8, (1,), (1, 2, 3, 4))
    return TrainingStep(
        "/cpu", (reading, *ops[1:4], changing, ops[5]), (Buffer(("a:0",), SIZE, (0,), (0, 5)), small), 0
    )


def offloaded(step: TrainingStep, lead: int) -> Choice:
    return Choice.all_of(Layout.of(step, tuple(range(6)), lead), Method.OFFLOAD)


def test_backward_is_what_descends_from_the_gradient_of_the_loss() -> None:
    """The mask, which is made of activations alone, may run before it."""
    step = captured_step(training(8)).step
    assert {op.node for op in step.ops if op.phase is Phase.EITHER} == {"mask"}
    assert {op.node for op in step.ops if op.phase is Phase.BACKWARD} == {"dloss", "db", "da", "g", "update"}


def test_a_step_needs_what_was_asked_for_not_what_a_pool_gave() -> None:
    """Which is up to twice as much, as it happens to have it free."""
    bundle = training(8)
    (device,) = bundle.steps[0].dev_stats
    for event in device.node_stats:
        for output in event.output:
            output.tensor_description.allocation_description.requested_bytes //= 2
    asked = {buffer.names[0]: buffer.bytes for buffer in captured_step(bundle).step.buffers}
    assert (asked["a:0"], asked["loss:0"]) == (4 * MIB, 256)
    assert captured_memory(bundle).peak == captured_memory(training(8)).peak


def updating_step(activation: int, squared: int | None, gradient: int = 400) -> TrainingStep:
    """f makes an activation, b a gradient, s what an optimizer makes of that, u updates; b has scratch."""
    weight = frozenset([("VarHandleOp", "", "w")])
    ops = (
        Op("f", 1.0, 0, (), Phase.FORWARD),
        Op("b", 2.0, 70, (0,), Phase.BACKWARD),
        Op("s", 3.0, 0, (1,), Phase.BACKWARD),
        Op("u", 4.0, 0, (2,), Phase.BACKWARD, changes=weight),
    )
    made = {"f": (activation, (0,), (0, 1)), "b": (gradient, (1,), (1, 2, 3)), "s": (squared, (2,), (2, 3))}
    buffers = [Buffer((f"{n}:0",), b, w, u) for n, (b, w, u) in made.items() if b is not None]
    return TrainingStep("/cpu", ops, tuple(buffers), 5)


def test_what_grows_with_the_rows_is_told_by_two_captures() -> None:
    """Not what an optimizer makes of gradients, however many rows there are; what shrinks stays."""
    step = at_rows({4: updating_step(140, 400, 480), 8: updating_step(240, 400)}, 64)
    assert [buffer.bytes for buffer in step.buffers] == [240 + 14 * 100, 400, 400]
    assert [(op.seconds, op.scratch) for op in step.ops] == [(8.0, 0), (16.0, 70), (3.0, 0), (4.0, 0)]


def test_what_two_captures_do_not_share_grows_with_the_rows_unless_updates_read_it() -> None:
    assert [
        b.bytes for b in at_rows({4: updating_step(140, None), 8: updating_step(240, 400)}, 16).buffers
    ] == [*(240 + 200, 400, 400)]
    alone = at_rows({8: updating_step(240, 400)}, 16)
    assert [buffer.bytes for buffer in alone.buffers] == [480, 400, 400]
    assert at_rows({8: alone}, 8) == alone


def test_an_op_that_was_traced_before_what_it_needs_is_told_behind_that() -> None:
    """As where TensorFlow has computed the constant that f reads, and still runs c, which makes it."""
    ops = tuple(
        Op(name, 1.0, 0, after, Phase.FORWARD)
        for name, after in (("f", (2,)), ("g", (0,)), ("c", ()), ("h", (1,)))
    )
    kept, late = Buffer(("c",), 8, (2,), (2,)), Buffer(("f:0",), 16, (0, 1), (0, 1, 3))
    step = in_turn(TrainingStep("/cpu", ops, (kept, late), 0))
    assert [(op.node, op.after) for op in step.ops] == [("c", ()), ("f", (0,)), ("g", (1,)), ("h", (2,))]
    assert [(b.writers, b.uses) for b in step.buffers] == [((0,), (0,)), ((1, 2), (1, 2, 3))]
    assert in_turn(step) is step


def test_constants_that_no_rewritten_graph_has_are_left_out() -> None:
    """But for one that writes what others read."""
    ops = tuple(
        Op(name, 1.0, 0, after, Phase.FORWARD)
        for name, after in (("a/_0__cf__0", ()), ("f", (0,)), ("b/_1__cf__1", ()), ("g__cf__x", (0, 1, 2)))
    )
    buffers = Buffer(("f:0",), 8, (1,), (1, 3)), Buffer(("b:0",), 8, (2,), (2, 3))
    step = without_folded(TrainingStep("/cpu", ops, buffers, 0))
    found = [(op.node, op.after) for op in step.ops]
    assert found == [("f", ()), ("b/_1__cf__1", ()), ("g__cf__x", (0, 1))]
    assert [(b.writers, b.uses) for b in step.buffers] == [((0,), (0, 2)), ((1,), (1, 2))]
    assert without_folded(step) is step


def test_seeds_that_are_drawn_anew_are_not_drawn_again() -> None:
    bundle = training(8)
    for node in bundle.graphs[0].node:
        node.op = {"Sign": "NonDeterministicInts", "Exp": "CheckNumerics"}.get(node.op, node.op)
    assert [op.node for op in captured_step(bundle).step.ops if not op.repeats] == ["read", "mask", "update"]


def prepared_step(made: int, *, wants_x: bool) -> TrainingStep:
    """f0 writes x; `prepare` makes so much of that for b1, which may want x, too; b0 needs room for itself."""
    ops = (
        Op("f0", 1.0, 0, (), Phase.FORWARD),
        Op("prepare", 1.0, 0, (0,), Phase.EITHER),
        Op("f1", 1.0, 0, (0,), Phase.FORWARD),
        Op("b0", 1.0, SIZE, (2,), Phase.BACKWARD),
        Op("b1", 1.0, 0, (1, 3), Phase.BACKWARD),
    )
    x = Buffer(("x:0",), SIZE, (0,), (0, 1, 2, 4) if wants_x else (0, 1, 2))
    return TrainingStep("/cpu", ops, (x, Buffer(("made:0",), made, (1,), (1, 4))), 0)


def test_what_is_prepared_for_the_backward_pass_is_made_when_that_wants_it() -> None:
    """So what it is made of may be away until then, and it takes no room meanwhile."""
    step = prepared_step(SIZE // 4, wants_x=True)
    layout = Layout.of(step, lean_order(step), 0)
    assert layout.order == (0, 2, 3, 1, 4)
    (x,) = layout.candidates
    assert (x.left, x.wanted, layout.late_uses(x)) == (1, 3, [1, 4])
    assert Choice.all_of(layout, Method.OFFLOAD).peak == SIZE + SIZE // 4


def test_what_takes_less_than_it_is_made_of_is_prepared_early() -> None:
    """A mask lets go of the tensor, if nothing else of the backward pass wants that."""
    assert lean_order(prepared_step(SIZE // 4, wants_x=False)) == (0, 2, 1, 3, 4)
    assert lean_order(prepared_step(SIZE, wants_x=False)) == (0, 2, 3, 1, 4)


def test_what_is_prepared_early_may_be_away_until_the_backward_pass() -> None:
    step = prepared_step(SIZE, wants_x=True)
    for uses, left in (((0, 1, 2, 4), 2), ((0, 1, 4), 1)):
        buffers = replace(step.buffers[0], uses=uses), step.buffers[1]
        layout = Layout.of(replace(step, buffers=buffers), (0, 1, 2, 3, 4), 0)
        found = [(c.left, c.wanted, layout.late_uses(c)) for c in layout.candidates]
        assert found == [(left, 4, [4]), (1, 4, [4])]


def test_what_runs_late_is_no_part_of_what_makes_a_tensor_again() -> None:
    """Here the second of two ops that prepare, one after the other, in one buffer."""
    step = prepared_step(SIZE, wants_x=True)
    ops = (*step.ops[:4], replace(step.ops[1], node="more", after=(1, 3)), replace(step.ops[4], after=(3, 4)))
    made = Buffer(("made:0", "more:0"), SIZE, (1, 4), (1, 4, 5))
    layout = Layout.of(TrainingStep("/cpu", ops, (step.buffers[0], made), 0), tuple(range(6)), 0)
    chain = layout.candidates[-1].chain
    assert chain is not None
    assert chain.ops == (1,)


def test_copies_that_hide_behind_compute_cost_nothing_on_a_gpu() -> None:
    step = replace(chain_step(10 * COPIED), device="/gpu")
    found = forecast(offloaded(step, 0), SIZE + 8)
    assert (found.extra_seconds, found.peak) == (0, SIZE + 8)
    (move,) = found.moves
    assert (move.left, move.gone, move.back) == (0, 2, 4)


def test_on_cores_copies_take_their_share() -> None:
    """What runs beside them, and they themselves, come to 1.25 seconds in one."""
    found = forecast(offloaded(chain_step(10 * COPIED), 0), SIZE + 8)
    assert found.extra_seconds == pytest.approx(2 * COPIED * (2 / BESIDE - 1))


def test_two_ops_at_once_gain_a_quarter() -> None:
    step = chain_step(1.0)
    assert step.seconds == pytest.approx(6)
    free = replace(step, ops=tuple(replace(op, after=()) for op in step.ops))
    assert free.seconds == pytest.approx(6 / BESIDE)
    assert replace(free, device="/gpu").seconds == pytest.approx(6)


def test_of_ops_that_are_ready_any_may_begin_and_copies_begin_in_turn() -> None:
    chance, lanes = Random(0), lanes_of("/gpu")
    for copies, orders in ((False, 6), (True, 1)):
        work = Work([Task(1.0, (), copies)] * 3, lanes)
        assert len({tuple(work.raced(chance, 1.0).begins) for _ in range(60)}) == orders
        assert work.run().begins == [0, 2, 4]


def test_a_small_copy_on_cores_takes_as_long_as_it_is_handed_to_its_thread() -> None:
    cores, gpu = lanes_of("/cpu"), lanes_of("/gpu")
    assert cores.copy_seconds(0) == cores.handed > gpu.copy_seconds(0) == 0
    assert cores.copy_seconds(cores.copied) == 1 + cores.handed


def test_a_copy_that_nothing_hides_is_waited_for() -> None:
    assert forecast(offloaded(chain_step(0.0), 0), SIZE + 8).extra_seconds == pytest.approx(2 * COPIED)


def test_where_there_is_room_a_copy_back_begins_earlier() -> None:
    (move,) = forecast(offloaded(chain_step(COPIED), 0), 2 * SIZE + 8).moves
    assert move.back == 2


def test_nothing_runs_again_once_its_variables_are_updated() -> None:
    chains = [
        Layout.of(chain_step(1.0, updates_early=early), tuple(range(6)), 0).candidates[0].chain
        for early in (False, True)
    ]
    assert chains[0] is not None
    assert (chains[0].ops, chains[0].seconds) == ((0,), 1.0)
    assert chains[1] is None


def test_what_is_made_again_is_free_in_between() -> None:
    layout = Layout.of(chain_step(1.0), tuple(range(6)), 3)
    held = Choice.of(layout, np.array([Method.RECOMPUTE])).held
    assert held.tolist() == [SIZE, 8, 8, SIZE + 8, 8, SIZE]


def test_the_least_limit_is_the_largest_piece_that_nothing_helps() -> None:
    assert Fits(chain_step(1.0)).least_limit == SIZE + 8


def test_scratch_does_not_grow_with_the_batch_unless_two_captures_say_so() -> None:
    step = chain_step(1.0)
    alone = largest_batch(step, 4 * SIZE + 16)
    assert alone.plain == pytest.approx(3, rel=1e-4)
    assert alone.fitted == pytest.approx(4, rel=1e-4)
    twice = replace(
        step,
        ops=tuple(replace(op, scratch=2 * op.scratch) for op in step.ops),
        buffers=tuple(replace(b, bytes=2 * b.bytes) for b in step.buffers),
    )
    assert largest_batch(step, 4 * SIZE + 16, twice).plain == pytest.approx(2, rel=1e-4)


def test_a_captured_step_holds_what_its_profile_says() -> None:
    step = captured_step(training(8)).step
    assert Layout.of(step, tuple(range(len(step.ops))), 3).peak == pytest.approx(40 * MIB, abs=64)


def test_an_op_waits_until_a_copy_has_made_room() -> None:
    copied = lanes_of("/gpu").copy_seconds(SIZE)
    step = replace(chain_step(10 * copied), device="/gpu")
    step = replace(step, ops=(*(replace(op, seconds=0.0) for op in step.ops[:3]), *step.ops[3:]))
    found = forecast(offloaded(step, 0), SIZE + 8)
    assert found.extra_seconds == pytest.approx(copied)
    assert found.moves[0].gone == 3


def test_what_has_been_overwritten_is_made_again_too() -> None:
    """f1 reads a as f0 wrote it, before f2 goes on in it."""
    ops = tuple(
        Op(name, 1.0, 0, (n - 1,) if n else (), PHASES[name[0]])
        for n, name in enumerate(("f0", "f1", "f2", "f3", "b0", "b1"))
    )
    a = Buffer(("f0:0", "f2:0"), SIZE, (0, 2), (0, 1, 2, 3, 5))
    c = Buffer(("f1:0",), SIZE, (1,), (1, 2, 5))
    layout = Layout.of(TrainingStep("/cpu", ops, (a, c), 0), tuple(range(6)), 0)
    chain = layout.candidates[layout.number_of[1]].chain
    assert chain is not None
    assert (chain.ops, chain.needs, chain.temporary) == ((0, 1), (), SIZE)


def sliced_step(*, reads_slices: bool) -> Bundle:
    """a, of which q and k are slices, -> s -> loss, then dloss -> ds -> update; ds wants s, and maybe q and k."""
    made = graph(
        ("w", "VarHandleOp", []),
        ("read", "ReadVariableOp", ["w"]),
        ("x", "Const", []),
        ("at", "Const", []),
        ("a", "Mul", ["x", "read"]),
        ("q", "StridedSlice", ["a", "at", "at", "at"]),
        ("k", "StridedSlice", ["a", "at", "at", "at"]),
        ("s", "Mul", ["q", "k"]),
        ("loss", "Sqrt", ["s"]),
        ("dloss", "OnesLike", ["loss"]),
        ("ds", "AddN", ["dloss", "s", *(("q", "k") if reads_slices else ())]),
        ("rate", "Const", []),
        ("update", "ResourceApplyGradientDescent", ["w", "rate", "ds"]),
    )
    declare(made, "w", 1)
    for node in made.node:
        kind = DT_INT32 if node.name == "at" else DT_FLOAT
        node.attr["dtype" if node.op in {"Const", "ReadVariableOp", "VarHandleOp"} else "T"].type = kind
        node.attr["Index"].type, node.attr["N"].i = DT_INT32, len(node.input)
    step = Step()
    step.run("read", 0, (4, 9))
    step.run("a", 10, (2 * MIB, 100), allocated=[2 * MIB], freed=[(65 if reads_slices else 35, 2 * MIB)])
    step.run("q", 20, (2 * MIB, 100))
    step.run("k", 25, (2 * MIB, 100))
    for place, name in enumerate(("s", "loss", "dloss", "ds")):
        step.run(name, 10 * place + 30, (MIB, 101 + place), allocated=[MIB], freed=[(75, MIB)])
    step.run("update", 70)
    return bundle_of([made], step.stats, fetches=["loss:0", "update"])


def test_a_tensor_that_slices_lie_in_is_not_moved() -> None:
    """Its last slice alone would leave; it is used until all slices are read, and nothing writes it meanwhile."""
    step = captured_step(sliced_step(reads_slices=True)).step
    names = [op.node for op in step.ops]
    (a, *_) = step.buffers
    assert a.names == ("a:0", "q:0", "k:0")
    for ops, wanted in ((a.writers, "a"), (a.slices, "qk"), (a.uses, ("a", "q", "k", "s", "ds"))):
        assert [names[op] for op in ops] == [*wanted]
    layout = Layout.of(step, tuple(range(len(step.ops))), 0)
    (s,) = layout.candidates
    assert step.buffers[s.buffer].names == ("s:0",)
    assert s.chain is not None
    assert s.chain.ops == (names.index("s"),), "what it is made of is there"


def test_slices_of_what_is_made_again_are_taken_anew() -> None:
    """Those of before would hold what is gone."""
    step = captured_step(sliced_step(reads_slices=False)).step
    layout = Layout.of(step, tuple(range(len(step.ops))), 0)
    chain = layout.candidates[0].chain
    assert chain is not None
    assert ([step.ops[op].node for op in chain.ops], chain.temporary) == (["a", "q", "k", "s"], 2 * MIB)


def test_all_keep_their_turn_but_what_holds_two_percent_in_all() -> None:
    """`late` gives back nothing, but would keep what it reads."""
    ops = [Op(name, 1.0, 0, (), Phase.FORWARD) for name in ("big", "late", "small", "tiny", "last")]
    buffers = (
        Buffer(("big:0",), 1000, (0,), (0, 1, 4)),
        Buffer(("small:0",), 15, (2,), (2,)),
        Buffer(("tiny:0",), 5, (3,), (3,)),
    )
    step = TrainingStep("/cpu", tuple(ops), buffers, 0)
    choice = Choice.all_of(Layout.of(step, (0, 1, 2, 3, 4), 0), Method.KEEP)
    assert forecast(choice, 2000).turns.places == (0, 1, 4)
    heavier = replace(step, buffers=(buffers[0], replace(buffers[1], bytes=16), buffers[2]))
    choice = Choice.all_of(Layout.of(heavier, (0, 1, 2, 3, 4), 0), Method.KEEP)
    assert forecast(choice, 2000).turns.places == (0, 1, 2, 4)


def test_what_is_left_out_with_its_branch_keeps_no_turn_and_goes_nowhere() -> None:
    """The ops behind it would wait for it, and so be left out, too."""
    ops = tuple(
        Op(name, 1.0, 0, (n - 1,) if n else (), PHASES[name[0]], in_branch=name == "f1")
        for n, name in enumerate(("f0", "f1", "f2", "f3", "b0", "b1"))
    )
    branch = Buffer(("f0:0",), SIZE, (0,), (0, 1, 5))
    other = Buffer(("f2:0",), SIZE, (2,), (2, 5))
    layout = Layout.of(TrainingStep("/cpu", ops, (branch, other), 0), tuple(range(6)), 0)
    assert [candidate.buffer for candidate in layout.candidates] == [1]
    assert forecast(Choice.all_of(layout, Method.KEEP), 4 * SIZE).turns.places == (0, 2, 5)


def test_the_branches_of_a_captured_step_are_found() -> None:
    made = graph(
        ("w", "VarHandleOp", []),
        ("read", "ReadVariableOp", ["w"]),
        ("loss", "Sqrt", ["read"]),
        ("dloss", "OnesLike", ["loss"]),
        ("ds", "Mul", ["dloss", "read"]),
        ("rate", "Const", []),
        ("update", "ResourceApplyGradientDescent", ["w", "rate", "ds"]),
        ("flag", "Const", []),
        ("switch", "Switch", ["ds", "flag"]),
        ("taken", "Neg", ["switch:1"]),
        ("merge", "Merge", ["switch", "taken"]),
    )
    declare(made, "w", 1)
    for node in made.node:
        kind = DT_BOOL if node.name == "flag" else DT_FLOAT
        node.attr["dtype" if node.op in {"Const", "ReadVariableOp", "VarHandleOp"} else "T"].type = kind
        node.attr["N"].i = len(node.input)
    step = Step()
    for place, name in enumerate(("read", "loss", "dloss", "ds", "update", "switch", "taken", "merge")):
        step.run(name, 10 * place, (MIB, 101 + place), allocated=[MIB], freed=[(75, MIB)])
    captured = captured_step(bundle_of([made], step.stats, fetches=["loss:0", "update", "merge:0"]))
    assert [op.node for op in captured.step.ops if op.in_branch] == ["switch", "taken"]


class Looked(tuple[Buffer, ...]):
    """Buffers that count how often somebody looks at all of them."""

    times = 0

    def __iter__(self) -> Iterator[Buffer]:
        type(self).times += 1
        return super().__iter__()


def test_what_ops_make_again_is_found_without_a_look_at_all_buffers_for_each() -> None:
    step = chain_step(1.0)
    step = replace(step, buffers=Looked(step.buffers))
    made = [list(step.made_again([op], ("f1:0",))) for op in range(len(step.ops))]
    assert made == [[("f0", SIZE)], [], [], [], [], []]
    assert list(step.made_again([1, 0], ())) == [("f0", SIZE), ("f1", 8)]
    assert Looked.times == 1
