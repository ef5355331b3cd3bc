"""Gradients of single rows, such as those of an embedding: rows, and the numbers of those (`tf.IndexedSlices`).

A large batch gives the rows of all its samples one after another, and a row that several samples took as often.
What an optimizer makes of that, such as unique rows, it makes behind the gradient.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from tfwave.errors import PassError
from tfwave.graph.levels import by_name
from tfwave.graph.names import TensorName, natural_key
from tfwave.graph.view import GraphView
from tfwave.rewrite.waves.optimizer import UNIQUE_OPS, OptimizerPart
from tfwave.rewrite.waves.updates import StepTensors, Taken


@dataclass(frozen=True)
class SingleRows:
    """Which of a step's gradients are single rows, and where their numbers come in."""

    optimizer: OptimizerPart
    gradients: Collection[TensorName]

    @cached_property
    def numbers(self) -> Mapping[TensorName, TensorName]:
        """By the gradients that are rows: the numbers of those.

        1. A gradient is rows if what the optimizer's part or an update takes along with numbers of rows follows
           from it, and those numbers from integers of the batch or of a variable.
        2. One whose rows have the same numbers in every wave is averaged as a whole.

        Raises:
            PassError: rows follow from several gradients, their numbers from several tensors or from such as are
                unique in each wave alone; names the node.
        """
        found: dict[TensorName, TensorName] = {}
        for node, position in self._places:
            numbers = self._changing(self._numbers(node, position))
            others = [i for i in range(self._view.data_fanins[node]) if i != position]
            rows = self._given(node, others, self._tensors.is_float).intersection(self.gradients)
            if numbers and rows:
                self._check_single(node, rows)
                self._check_single(node, numbers.union(found[one] for one in rows if one in found))
                found[min(rows)] = min(numbers)
                self._check_unique(node, position, min(numbers))
        return found

    @cached_property
    def same(self) -> frozenset[TensorName]:
        """Numbers of rows of which all waves have the same."""
        given = [self._numbers(node, position) for node, position in self._places]
        return frozenset(tensor for numbers in given for tensor in numbers - self._changing(numbers))

    def uses(self, numbers: Collection[TensorName]) -> Iterator[Taken]:
        """Where the optimizer's part and updates take numbers of rows."""
        for node in sorted(self._inside):
            yield from (taken for taken in self._tensors.inputs(node) if taken.tensor in numbers)

    @property
    def _tensors(self) -> StepTensors:
        return self.optimizer.parts.tensors

    @property
    def _view(self) -> GraphView:
        return self.optimizer.parts.flow.step.view

    @cached_property
    def _inside(self) -> frozenset[int]:
        return self.optimizer.nodes.union(update.node for update in self.optimizer.parts.updates)

    @cached_property
    def _places(self) -> list[tuple[int, int]]:
        """What takes numbers of rows, by name, and at which position."""
        nodes = by_name(self._view, self._inside)
        found = [(node, self._tensors.numbers_at(node)) for node in nodes]
        return [(node, position) for node, position in found if position is not None]

    def _given(
        self, node: int, positions: Iterable[int], is_wanted: Callable[[TensorName], bool]
    ) -> frozenset[TensorName]:
        """What comes from outside of the optimizer's part to some inputs of a node, by way of wanted tensors."""
        stack = [taken for taken in self._tensors.inputs(node, positions) if is_wanted(taken.tensor)]
        found, seen = set[TensorName](), set[int]()
        while stack:
            taken = stack.pop()
            if taken.source not in self._inside:
                found.add(taken.tensor)
            elif taken.source not in seen:
                seen.add(taken.source)
                stack += [t for t in self._tensors.inputs(taken.source) if is_wanted(t.tensor)]
        return frozenset(found)

    def _numbers(self, node: int, position: int) -> frozenset[TensorName]:
        return self._given(node, [position], self._tensors.is_integer)

    def _changing(self, tensors: Iterable[TensorName]) -> frozenset[TensorName]:
        return frozenset(tensor for tensor in tensors if self._tensors.node_of(tensor) in self._own)

    @cached_property
    def _own(self) -> frozenset[int]:
        """What follows from a wave's batch or variables, and what is fed of the former."""
        parts = self.optimizer.parts
        reads = frozenset(node for nodes in parts.variables.reads.values() for node in nodes)
        return parts.flow.downstream(parts.of_batch | reads).union(map(self._tensors.node_of, parts.data))

    def _check_single(self, node: int, tensors: Collection[TensorName]) -> None:
        if len(tensors) > 1:
            first, second, *_ = sorted((t.node for t in tensors), key=natural_key)
            raise PassError(
                f"node '{self._view.names[node]}' ({self._view.ops[node]}) takes rows that follow from both "
                f"'{first}' and '{second}', and waves average rows of one gradient: make the gradient dense, with "
                "tf.convert_to_tensor"
            )

    def _check_unique(self, node: int, position: int, numbers: TensorName) -> None:
        """Refuse numbers that are unique in each wave, and that the optimizer's part does not make so again."""
        of_wave = self._unique(self._tensors.node_of(numbers))
        (taken,) = self._tensors.inputs(node, [position])
        if of_wave and self._unique(taken.source).isdisjoint(self._inside):
            raise PassError(
                f"node '{self._view.names[node]}' ({self._view.ops[node]}) takes rows that "
                f"'{self._view.names[min(of_wave)]}' makes unique, in each wave alone: take an optimizer that "
                "adds up equal rows itself, or make the gradient dense, with tf.convert_to_tensor"
            )

    def _unique(self, node: int) -> frozenset[int]:
        """What makes unique numbers of those that a node gives."""
        flow = self.optimizer.parts.flow
        found = flow.upstream([node]) if node in flow.fanins else frozenset[int]()
        return frozenset(one for one in found if self._view.ops[one].startswith(UNIQUE_OPS))
