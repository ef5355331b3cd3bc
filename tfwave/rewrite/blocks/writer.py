"""Putting blocks in the place of whole variables, in all that reads and updates them."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from tfwave.graph import marks
from tfwave.graph.access import resource_of
from tfwave.graph.attrs import NOTED_SHAPES
from tfwave.graph.names import TensorName, natural_key, parse_input
from tfwave.graph.ops import OpTable
from tfwave.graph.partition.place import expected_places
from tfwave.graph.rewriter import GraphRewriter
from tfwave.proto.tensorflow_pb2 import DT_RESOURCE, DataType, NodeDef
from tfwave.rewrite.blocks.cuttable import QUESTION, READ, SplitPlan
from tfwave.rewrite.blocks.elementwise import DELTAS, UPDATES
from tfwave.rewrite.blocks.expressions import Expressions, Operands
from tfwave.rewrite.blocks.layout import Layout
from tfwave.rewrite.blocks.pieces import Blocks, add_question, add_split, add_whole
from tfwave.rewrite.blocks.shapes import static_shapes


class BlockWriter:
    """Rewrites the users of the variables that a plan cuts.

    A node's part for a block is named after it, ``<node>/block_<i>``; the node itself keeps its name, and gives the
    whole value or, for an update, waits for all parts.
    """

    def __init__(self, graph: GraphRewriter, plan: SplitPlan) -> None:
        """Rewrite `graph` by `plan`, which was made of its view."""
        self._graph = graph
        self._view = graph.view
        self._layouts = plan.layouts
        self._index = {name: i for i, name in enumerate(self._view.names)}
        self._placed = expected_places(graph.item, graph.view)
        self._devices = {node.name: self._placed.get(node.name, node.device) for node in graph.view.nodes}
        self._ops = OpTable.of(graph.item.graph)
        self._users = self._find_users()
        reads = {name: layout for name, layout in self._users.items() if self._node(name).op == READ}
        shapes = static_shapes(graph.view, graph.item.graph.versions.producer)
        fed = {parse_input(name).node for name in graph.item.feeds}
        self._expressions = Expressions(graph.view, shapes, self._devices, reads, fed)
        self._reads = reads
        self._cuts: dict[tuple[TensorName, Layout], Blocks] = {}
        self._joined: set[TensorName] = set()

    def write(self) -> None:
        """Cut handles, then what uses them, then join the blocks where whole tensors are read elsewhere."""
        for name, layout in self._layouts.items():
            self._cut_handle(name, layout)
        for name, layout in self._reads.items():
            self._cut_read(name, layout)
        for name, layout in self._users.items():
            if self._node(name).op in UPDATES:
                self._cut_update(name, layout)
            elif self._node(name).op == QUESTION:
                self._cut_question(name, layout)
        for name, layout in self._reads.items():
            self._cut_downstream(name, layout)
        for (tensor, _), blocks in self._cuts.items():
            self._join(tensor, blocks)

    def _find_users(self) -> dict[str, Layout]:
        found: dict[str, Layout] = {}
        for name, layout in self._layouts.items():
            found |= {self._view.names[user]: layout for user in self._view.fanouts[self._index[name]]}
        return {name: found[name] for name in sorted(found, key=natural_key)}

    def _node(self, name: str) -> NodeDef:
        return self._view.nodes[self._index[name]]

    def _data(self, name: str) -> Sequence[str]:
        return self._node(name).input[: self._view.data_fanins[self._index[name]]]

    def _cut_handle(self, name: str, layout: Layout) -> None:
        _, _, shared = resource_of(self._node(name))
        for block in range(len(layout)):
            part = self._part(name, block)
            part.attr["shared_name"].s = f"{shared}/block_{block}".encode()
            part.attr["shape"].ClearField("shape")
            for size in layout.block_shape(block):
                part.attr["shape"].shape.dim.add(size=size)
            self._graph.insert(part)

    def _cut_read(self, name: str, layout: Layout) -> None:
        parts = self._add_parts(name, layout, {0: self._handle_parts(self._data(name)[0], layout)})
        blocks = Blocks(parts, layout, self._kind(name))
        self._cuts[TensorName(name, 0), layout] = blocks
        add_whole(self._graph, name, blocks, self._devices[name])

    def _cut_update(self, name: str, layout: Layout) -> None:
        node = self._node(name)
        kinds = self._ops.input_types(node)
        columns: dict[int, Sequence[str]] = {}
        for position, arg in enumerate(self._ops.signature(node).input_arg):
            if kinds[position] == DT_RESOURCE:
                columns[position] = self._handle_parts(node.input[position], layout)
            elif arg.name in DELTAS:
                delta = parse_input(node.input[position])
                columns[position] = self._blocks(delta, layout, self._devices[name], kinds[position])
        parts = self._add_parts(name, layout, columns)
        waits = [f"^{part}" for part in parts]
        self._graph.replace_node(NodeDef(name=name, op="NoOp", device=self._devices[name], input=waits))

    def _cut_question(self, name: str, layout: Layout) -> None:
        parts = self._add_parts(name, layout, {0: self._handle_parts(self._data(name)[0], layout)})
        add_question(self._graph, name, parts, self._devices[name])

    def _handle_parts(self, text: str, layout: Layout) -> Sequence[str]:
        return [f"{parse_input(text).node}/block_{block}" for block in range(len(layout))]

    def _blocks(self, tensor: TensorName, layout: Layout, device: str, kind: int) -> Sequence[str]:
        """The blocks of a tensor that is used on `device`, computed there one by one where that wins something."""
        for name, operands in self._expressions.by_block(tensor, layout, device).items():
            self._cut_expression(name, operands, layout)
        return self._cut(tensor, layout, kind)

    def _cut_expression(self, name: str, operands: Operands, layout: Layout) -> None:
        if (TensorName(name, 0), layout) in self._cuts or self._graph.has_node(f"{name}/block_0"):
            return
        kinds = self._ops.input_types(self._node(name))
        columns = {
            position: self._cut(parse_input(self._data(name)[position]), layout, kinds[position])
            for position in operands
        }
        blocks = Blocks(self._add_parts(name, layout, columns), layout, self._kind(name))
        self._cuts[TensorName(name, 0), layout] = blocks

    def _cut(self, tensor: TensorName, layout: Layout, kind: int) -> Sequence[str]:
        """The blocks of a tensor: those that there are, or else it is split where it is made."""
        found = self._cuts.get((tensor, layout))
        if found is None:
            device = self._devices[tensor.node]
            found = add_split(self._graph, tensor, layout, cast("DataType", kind), device)
            self._cuts[tensor, layout] = found
        return found.names

    def _kind(self, name: str) -> DataType:
        return cast("DataType", self._ops.output_types(self._node(name))[0])

    def _add_parts(self, name: str, layout: Layout, columns: Mapping[int, Sequence[str]]) -> tuple[str, ...]:
        """A copy of a node for each block; `columns` has the inputs that differ from block to block."""
        parts: list[str] = []
        for block in range(len(layout)):
            part = self._part(name, block)
            for position, text in enumerate(self._data(name)):
                part.input.append(columns[position][block] if position in columns else text)
            part.input.extend(self._waits(name, block, layout))
            self._graph.insert(part)
            parts.append(part.name)
        return tuple(parts)

    def _part(self, name: str, block: int) -> NodeDef:
        node = self._node(name)
        part = NodeDef(name=f"{name}/block_{block}", op=node.op, device=node.device)
        for key in sorted(node.attr):
            if key != NOTED_SHAPES and not key.startswith(marks.PREFIX):
                part.attr[key].CopyFrom(node.attr[key])
        return part

    def _waits(self, name: str, block: int, layout: Layout) -> Iterator[str]:
        """The control inputs of a part: of what is cut alike, the same block alone."""
        for text in self._node(name).input[len(self._data(name)) :]:
            source = parse_input(text).node
            is_alike = self._users.get(source) == layout and self._node(source).op != QUESTION
            yield f"^{source}/block_{block}" if is_alike else text

    def _cut_downstream(self, read: str, layout: Layout) -> None:
        """Cut the elementwise expressions of a variable beside it that are read on other devices."""
        chain = [read]
        seen = {read}
        for name in chain:
            tensor = TensorName(name, 0)
            if self._readers_elsewhere(tensor):
                self._blocks(tensor, layout, self._devices[read], self._kind(name))
            for reader, _ in self._readers(tensor):
                is_new = reader not in seen and self._devices[reader] == self._devices[read]
                if is_new and self._expressions.operands(reader, layout) is not None:
                    seen.add(reader)
                    chain.append(reader)

    def _join(self, tensor: TensorName, blocks: Blocks) -> None:
        """Let the readers on each other device read the tensor as it is joined there."""
        if tensor in self._joined:
            return
        self._joined.add(tensor)
        readers = self._readers_elsewhere(tensor)
        for number, device in enumerate(sorted(readers)):
            name = f"{tensor.node}/join_{tensor.port}_{number}"
            add_whole(self._graph, name, blocks, device)
            for reader, position in readers[device]:
                self._graph.redirect(reader, position, name)

    def _readers_elsewhere(self, tensor: TensorName) -> dict[str, list[tuple[str, int]]]:
        """By device: the data inputs on other devices than its own that read a tensor, after all that was cut."""
        found: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for reader, position in self._readers(tensor):
            device = self._placed.get(reader)
            if device is not None and device != self._devices[tensor.node]:
                found[device].append((reader, position))
        return found

    def _readers(self, tensor: TensorName) -> Iterator[tuple[str, int]]:
        for fanout in dict.fromkeys(self._view.fanouts[self._index[tensor.node]]):
            name = self._view.names[fanout]
            if name in self._users:
                continue
            for position, text in enumerate(self._data(name)):
                if parse_input(text) == tensor:
                    yield name, position
