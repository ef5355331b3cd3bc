"""Overlap training steps."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tfwave.errors import GraphError, PassError
from tfwave.graph.access import PROCESS
from tfwave.graph.marks import added_by
from tfwave.graph.names import parse_input, task_of
from tfwave.graph.ops import OpTable
from tfwave.graph.reach import in_control_flow
from tfwave.graph.rewriter import GraphRewriter
from tfwave.graph.view import GraphView, transfer_ends
from tfwave.passes.base import GraphPass
from tfwave.proto.tensorflow_pb2 import NodeDef
from tfwave.rewrite.resources import ResourceSurvey, Touch
from tfwave.rewrite.steps.bottleneck import find_bottleneck
from tfwave.rewrite.steps.conflicts import waits_between
from tfwave.rewrite.steps.copies import copy_of, find_copied, step_name
from tfwave.rewrite.steps.done import done_name, done_of
from tfwave.rewrite.steps.draws import Draws, find_draws
from tfwave.rewrite.steps.repeatable import check_repeatable
from tfwave.rewrite.steps.step import Step

__all__ = ["CrossStep", "step_name"]


@dataclass(frozen=True)
class CrossStep(GraphPass):
    """Run `steps` training steps in one call: each reads a variable as soon as its own update is done.

    Between two calls TensorFlow waits for all of a step before the next one begins. Here the nodes that the fetches
    need are copied for each further step, and a step waits for the one before it variable by variable: pulls of
    the next step overlap with pushes of this one. Variables, tables, queues and iterators are shared; each is read
    and changed in the sequence of single steps, so losses and weights are those of single steps, bit for bit.

    1. Step 0 keeps its names. Step k has copies named ``cross_step/<k>/<name>``: feed each step's own placeholders,
       fetch each step's own losses and train op, all in one call.
    2. In step k + 1 all that touches a variable waits for what changes it in step k; what changes it there waits
       for what reads it in step k. Stateful ops without a variable of their own (PyFunc, Print) wait for all such
       ops of the step before.
    3. A random op with fixed seeds draws for all steps ahead, so that its sequence goes on as with single steps;
       a call that runs some of the steps draws for all.
    4. A call runs all its steps or fails: after an error, such as the end of a dataset, steps may be done in part.

    Replicas in one graph are one step: an update waits for the gradients that it sums, and a read for that update
    alone. Workers with a graph each run this pass on their own graph. Where all updates wait for all gradients
    (clipping by the global norm), steps hardly overlap; a remark says so.

    Refused are reference variables, random ops that read what a step computes, collectives, ops that change what
    they take in place, handles of which nobody knows whose they are, and what touches a changing variable within
    a branch or a loop of TensorFlow 1's control flow. An op of your own is taken to change all that it takes; its
    kernel must keep nothing to itself. ``docs/access.md`` has a table of all ways to get at state.

    Raises:
        PassError: fewer than one step.
    """

    steps: int = 8

    def __post_init__(self) -> None:
        """Refuse to run no step."""
        if self.steps < 1:
            raise PassError(f"cross_step: steps is {self.steps}, it must be 1 or more")

    def requires(self, view: GraphView) -> None:
        """The graph is not cut yet."""
        ends = transfer_ends(view)
        if ends and not self._authors(view):
            raise GraphError(f"node '{min(ends)}': the graph is cut already; run cross_step before 'cut'")

    def run(self, graph: GraphRewriter) -> None:
        """Copy the step, and let each copy wait for the one before it."""
        if self.steps == 1 or self._is_done(graph.view, graph.author):
            return
        if not graph.item.fetches:
            raise GraphError(
                "cross_step must know what a step runs: give the loss and the train op as fetches"
            )
        step = Step.of(graph.item, graph.view)
        copied = find_copied(graph.item, graph.view)
        draws = find_draws(graph.item, step)
        check_repeatable(graph.item, graph.view, step.order, draws)
        touches = ResourceSurvey(graph.item, graph.view).touches(step.order)
        waits = _waits(graph, step, touches)
        self._add_ends(graph, step, copied, waits)
        for name, node in zip(graph.view.names, graph.view.nodes, strict=True):
            if name in copied:
                copies = [copy_of(node, k, copied, waits) for k in range(1, self.steps)]
                self._add(graph, node, copies, draws=name in draws)
        graph.rename_ends(
            feeds=self._of_all_steps(graph.item.feeds, copied),
            fetches=self._of_all_steps(graph.item.fetches, copied),
        )
        self._remark(graph, find_bottleneck(step, touches))

    def _add_ends(
        self, graph: GraphRewriter, step: Step, copied: frozenset[str], waits: Mapping[str, Iterable[str]]
    ) -> None:
        """Add what tells a step that a call of the step before is done, where it waits for one."""
        awaited = {name for names in waits.values() for name in names}
        table = OpTable.of(graph.item.graph)
        for call in sorted(step.calls):
            if done_name(graph.view.names[call]) in awaited:
                done = done_of(call, step, graph.item, table)
                for k in range(self.steps - 1):
                    graph.insert(copy_of(done, k, copied, {}))

    def _add(self, graph: GraphRewriter, node: NodeDef, copies: Sequence[NodeDef], *, draws: bool) -> None:
        """Add the copies of a node, or what draws for it and its copies."""
        if not draws:
            for copy in copies:
                graph.insert(copy)
            return
        ahead = Draws.of(node, OpTable.of(graph.item.graph), self.steps)
        for made in ahead.loop():
            graph.insert(made)
        for k, copy in enumerate((node, *copies)):
            place, taken = ahead.taken(k, copy)
            graph.insert(place)
            graph.insert(taken) if k else graph.replace_node(taken)

    def _is_done(self, view: GraphView, author: str) -> bool:
        others = self._authors(view) - {author}
        if others:
            raise GraphError(f"the graph went through {min(others)} already: strip it first")
        return bool(self._authors(view))

    def _authors(self, view: GraphView) -> set[str]:
        """The passes of this name that the graph went through, with their options."""
        return {author for author in map(added_by, view.nodes) if author.partition("{")[0] == self.name}

    def _of_all_steps(self, tensors: Iterable[str], copied: frozenset[str]) -> list[str]:
        """Each tensor, followed by the same tensor of the further steps."""
        counts = [(name, self.steps if parse_input(name).node in copied else 1) for name in tensors]
        return [step_name(name, k) for name, count in counts for k in range(count)]

    def _remark(self, graph: GraphRewriter, bottleneck: int | None) -> None:
        graph.remark(
            f"{self.steps} steps a call: feed and fetch those of step k under its names, "
            f"such as '{step_name(graph.item.fetches[0], 1)}' for step 1"
        )
        if bottleneck is not None:
            graph.remark(
                f"all updates wait for '{graph.view.names[bottleneck]}', which waits for all gradients, as clipping"
                " by the global norm does: no pull of the next step can start before, so steps overlap little"
            )


def _waits(graph: GraphRewriter, step: Step, touches: Sequence[Touch]) -> dict[str, list[str]]:
    """For each node, the nodes of the step before that it waits for."""
    inside = in_control_flow(graph.view)
    names, nodes = graph.view.names, graph.view.nodes
    waits: dict[str, list[str]] = defaultdict(list)
    free = {touch.node for touch in touches if touch.resource == PROCESS}
    for source, target in waits_between(step, touches):
        for node in (source, target):
            if node in inside:
                raise GraphError(
                    f"node '{names[node]}' touches what a step changes, within a branch or a loop of TensorFlow 1: "
                    "build the graph after tf.compat.v1.enable_control_flow_v2()"
                )
        tasks = {task_of(nodes[node].device) for node in (source, target)}
        if len(tasks) > 1 and free.issuperset((source, target)):
            graph.remark(
                f"'{names[target]}' waits for '{names[source]}' of the step before, which is on another task"
            )
        waits[names[target]].append(done_name(names[source]) if source in step.calls else names[source])
    return waits
