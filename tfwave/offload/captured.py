"""The training step of a capture bundle, as one decides on its memory."""

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from tfwave.bundle.bundle import Bundle
from tfwave.bundle.costs import traced_costs
from tfwave.bundle.memory.captured import CapturedMemory, captured_steps, highest
from tfwave.bundle.memory.scratch import asked_scratch
from tfwave.errors import BundleError, PassError
from tfwave.graph.access import ASSIGN_OPS, FED_OPS, REPEATABLE_OPS, Resource
from tfwave.graph.item import GraphItem
from tfwave.graph.names import CONTROL_PORT, parse_input
from tfwave.graph.ops import OpTable
from tfwave.graph.reach import in_control_flow
from tfwave.graph.verify import verify
from tfwave.graph.view import GraphView
from tfwave.memory.pool.pools import whole_pieces
from tfwave.memory.step import Tensor
from tfwave.offload.backward import StepFlow
from tfwave.offload.step import Buffer, Op, Phase, TrainingStep
from tfwave.proto.tensorflow_pb2 import DT_COMPLEX64, DT_COMPLEX128, DT_STRING
from tfwave.rewrite.fitted.views import SLICE_OPS, VIEW_OPS

_COMMUTE = frozenset({"Add", "AddV2", "Mul", "SquaredDifference"})
"""On numbers that are not complex. Of a maximum the first of two zeros is taken, whatever its sign."""
_NO_NUMBERS = (DT_STRING, DT_COMPLEX64, DT_COMPLEX128)
_FOLDED = re.compile(r"__cf__\d+$")
_HEAVY = ("Conv", "_FusedConv", "MatMul", "_FusedMatMul", "BatchMatMul", "Einsum")


@dataclass(frozen=True)
class CapturedStep:
    """A captured step, its memory as it was traced, and the graph that ran."""

    found: CapturedMemory
    view: GraphView
    step: TrainingStep


def captured_step(bundle: Bundle, device: str | None = None) -> CapturedStep:
    """The traced step with the highest peak; an op takes the least seconds and scratch of all traced steps.

    What others hold in the pool counts as resident.

    Raises:
        BundleError: the step ran in several parts, in a loop, or its backward pass is not found; or as
            `captured_memory`.
        GraphError: the graph is malformed.
    """
    graph, *more = bundle.graphs
    if more:
        raise BundleError(
            f"the step ran in {len(more) + 1} parts, and what is made to fit runs on one device: capture it there"
        )
    steps = captured_steps(bundle, device)
    found = highest(steps)
    _refuse_loops(found)
    item = GraphItem(graph, fetches=tuple(bundle.manifest.fetches))
    try:
        flow = StepFlow.of(item, verify(item))
    except PassError as error:
        raise BundleError(
            f"its backward pass is not found ({error}): capture a training step that fetches loss and train op, or "
            "a function that returns its loss"
        ) from error
    scratch = asked_scratch(bundle, steps)
    return CapturedStep(found, bundle.view, _Made(bundle, found, scratch, OpTable.of(graph), flow).step())


def _refuse_loops(found: CapturedMemory) -> None:
    runs = Counter(op.node for op in found.memory.profile.ops)
    looped = min((name for name, count in runs.items() if count > 1), default=None)
    if looped is not None:
        raise BundleError(
            f"'{looped}' ran {runs[looped]} times in the step, and what is made to fit runs each op once: "
            "unroll its loop"
        )


def in_turn(step: TrainingStep) -> TrainingStep:
    """With each op behind all that it needs in the graph, else as they were traced.

    TensorFlow computes constants when it first sees a graph, behind all rewriting: then what reads one does not
    wait for the ops that would have made it, some of which run all the same, and later.
    """
    order: dict[int, None] = {}
    for number in range(len(step.ops)):
        waiting = [number]
        while waiting:
            lacking = [op for op in step.ops[waiting[-1]].after if op not in order]
            waiting += reversed(lacking)
            if not lacking:
                order[waiting.pop()] = None
    return step if [*order] == [*range(len(order))] else _of(step, order)


def without_folded(step: TrainingStep) -> TrainingStep:
    """Without the constants that TensorFlow computed behind all rewriting: no graph that is rewritten has them.

    They take nothing of a step, and a plan that names one has no graph to be for.
    """
    written = {op for buffer in step.buffers for op in buffer.writers}
    left = [n for n, op in enumerate(step.ops) if n in written or not _FOLDED.search(op.node)]
    return step if len(left) == len(step.ops) else _of(step, left)


def _of(step: TrainingStep, numbers: Iterable[int]) -> TrainingStep:
    """Some ops of a step, in this order."""
    turn = {number: place for place, number in enumerate(numbers)}
    ops = [replace(op, after=_at(turn, op.after)) for op in map(step.ops.__getitem__, turn)]
    buffers = [
        replace(b, writers=_at(turn, b.writers), uses=_at(turn, b.uses), slices=_at(turn, b.slices))
        for b in step.buffers
    ]
    return replace(step, ops=tuple(ops), buffers=tuple(buffers))


def _at(turn: Mapping[int, int], numbers: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(turn[number] for number in numbers if number in turn))


class _Made:
    def __init__(
        self,
        bundle: Bundle,
        found: CapturedMemory,
        scratch: Mapping[str, int],
        table: OpTable,
        flow: StepFlow,
    ) -> None:
        self._view, self._found, self._table, self._flow = bundle.view, found, table, flow
        self._memory, self._scratch = found.memory, scratch
        self._seconds = traced_costs(bundle).ops
        index = {name: node for node, name in enumerate(self._view.names)}
        self._nodes = [index.get(op.node) for op in self._memory.profile.ops]
        self._runs = {node: run for run, node in enumerate(self._nodes) if node is not None}
        self._branching = in_control_flow(self._view)
        self._buffers = {name: n for n, tensor in enumerate(self._memory.tensors) for name in tensor.names}

    def step(self) -> TrainingStep:
        profile = self._memory.profile
        ops = tuple(self._op(run, node) for run, node in enumerate(self._nodes))
        buffers = tuple(map(self._buffer, self._memory.tensors))
        resident = profile.resident + max(0, self._found.others or 0)
        return in_turn(without_folded(TrainingStep(profile.device, ops, buffers, resident)))

    def _op(self, run: int, node: int | None) -> Op:
        memory = self._memory.profile.ops[run]
        lasts = self._memory.ends[run] - self._memory.begins[run]
        scratch = self._scratch.get(memory.node, 0)
        if node is None:
            after = tuple(range(run))  # nobody knows what it needs
            return Op(memory.node, lasts, scratch, after, Phase.FORWARD, repeats=False)
        return Op(
            memory.node,
            self._seconds.get(node, lasts),
            scratch,
            tuple(sorted(self._before(run, node))),
            self._phase(node),
            self._repeats(node),
            frozenset(self._read(node)),
            self._flow.changes.get(node, frozenset()),
            self._view.ops[node].startswith(_HEAVY),
            tuple(self._inputs(node)),
            self._commutes(node),
            node in self._branching,
        )

    def _commutes(self, node: int) -> bool:
        return self._view.ops[node] in _COMMUTE and self._view.nodes[node].attr["T"].type not in _NO_NUMBERS

    def _inputs(self, node: int) -> Iterator[int | None]:
        for source in map(parse_input, self._view.nodes[node].input):
            if source.port != CONTROL_PORT:
                yield self._buffers.get(f"{source.node}:{source.port}")

    def _phase(self, node: int) -> Phase:
        if node in self._flow.backward:
            return Phase.BACKWARD
        return Phase.EITHER if node in self._flow.either else Phase.FORWARD

    def _before(self, run: int, node: int) -> set[int]:
        """The ops that give what it needs, through nodes that did not run."""
        found = set[int]()
        stack, seen = [*self._view.forward_fanins(node)], set[int]()
        while stack:
            source = stack.pop()
            if source not in seen:
                seen.add(source)
                before = self._runs.get(source, run)
                found.update({before} - {run})
                stack += () if before < run else self._view.forward_fanins(source)
        return found

    def _repeats(self, node: int) -> bool:
        """Whether it may run twice: not what is stateful, unknown or in a branch."""
        op = self._view.ops[node]
        known = self._table.known(op)
        pure = known is not None and (not known.is_stateful or op in REPEATABLE_OPS)
        return pure and op not in FED_OPS and node not in self._branching

    def _read(self, node: int) -> Iterator[Resource]:
        for source in (node, *self._view.fanins[node]):
            yield from self._flow.reads.get(source, ())

    def _is_one_of(self, run: int, ops: Container[str]) -> bool:
        node = self._nodes[run]
        return node is not None and self._view.ops[node] in ops

    def _buffer(self, tensor: Tensor) -> Buffer:
        """Views and slices write nothing. What an op keeps to itself, such as a list, is used until it is free."""
        named = {parse_input(name).node for name in tensor.names}
        uses = {tensor.born, *tensor.uses}
        giving = {use for use in uses if self._memory.profile.ops[use].node in named} - {tensor.born}
        slices = {use for use in giving if self._is_one_of(use, SLICE_OPS)}
        writers = {use for use in giving - slices if not self._is_one_of(use, VIEW_OPS)}
        if not all(":" in name for name in tensor.names) and tensor.dies is not None:
            uses.update(range(tensor.born, tensor.dies + 1))
        return Buffer(
            tensor.names,
            whole_pieces(tensor.asked) or tensor.bytes,
            tuple(sorted({tensor.born, *writers})),
            tuple(sorted(uses)),
            tensor.dies is None,
            tuple(sorted(slices)),
            self._is_value(tensor.born, uses),
        )

    def _is_value(self, born: int, uses: Iterable[int]) -> bool:
        """What is assigned is not copied, but held; an update makes a buffer where others read the old value."""
        node = self._nodes[born]
        is_made_so = node is not None and node in self._flow.changes
        return is_made_so or any(self._is_one_of(use, ASSIGN_OPS) for use in uses)
