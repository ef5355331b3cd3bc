"""The nodes that average gradients across waves: over a call, or with the wave before (Wavelet section 3.2.3)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tfwave.graph.functions.nodes import type_attr
from tfwave.graph.rewriter import GraphRewriter
from tfwave.proto.tensorflow_pb2 import DT_BOOL, AttrValue
from tfwave.rewrite.waves.kept import Kept, constant
from tfwave.rewrite.waves.names import SCOPE, wave_name
from tfwave.rewrite.waves.training import Gradient

BEGIN = f"{SCOPE}/begin"
"""The node after which the next wave is the first of a new sequence."""


def average_call(graph: GraphRewriter, gradient: Gradient, waves: int) -> list[str]:
    """Average a gradient over the waves of a call; gives what each wave takes in its place: one tensor for all."""
    nodes = _Nodes(graph, gradient)
    total = nodes.add("sum", "AddN", nodes.given(waves), N=AttrValue(i=waves))
    return [nodes.divide("mean", total, waves)] * waves


def average_sequence(graph: GraphRewriter, gradient: Gradient, waves: int) -> list[str]:
    """Average a gradient of each wave with that of the wave before (Eq. 1); gives what each wave takes.

    Before the first wave of a call comes the last of the call before, whose gradient is kept in a variable; before
    the very first comes none, and that one takes its own twice.
    """
    nodes = _Nodes(graph, gradient)
    given = nodes.given(waves)
    read = nodes.kept.read()
    before = nodes.add("before", "SelectV2", [f"{_flag(graph).name}/read", read, given[0]])
    waits = [nodes.kept.write("keep", given[-1], f"^{read}"), f"^{_flag(graph).name}/keep"]
    averages: list[str] = []
    for wave, pair in enumerate(zip(given, [before, *given], strict=False)):
        last = waits if wave == waves - 1 else []
        total = nodes.add(f"{wave}/sum", "AddV2", [*pair, *last])
        averages.append(nodes.divide(f"{wave}/mean", total, 2))
    return averages


def add_kept(graph: GraphRewriter, gradients: Iterable[Gradient], *, fed: bool) -> tuple[str, ...]:
    """Add what `average_sequence` keeps from call to call, and the node `BEGIN`; gives the names of the handles.

    With `fed` the handles are to be fed, as those of variables are in the graph of a traced function, and what is
    behind them is to begin as False and 0: there is no `BEGIN` then.
    """
    flag = _flag(graph)
    kept = [flag, *(_Nodes(graph, gradient).kept for gradient in gradients)]
    for one in kept:
        one.make(fed=fed)
    flag.write("keep", flag.constant("keep/yes", 1), f"^{flag.read()}")
    if not fed:
        graph.add_node(BEGIN, "NoOp", [one.write("begin", one.constant("begin/nothing", 0)) for one in kept])
    return tuple([one.name for one in kept])


def _flag(graph: GraphRewriter) -> Kept:
    """Says whether any wave came before."""
    return Kept(graph, f"{SCOPE}/going_on", DT_BOOL, "")


@dataclass(frozen=True)
class _Nodes:
    """The nodes that average one gradient, on the device that computes it."""

    graph: GraphRewriter
    gradient: Gradient

    @property
    def _scope(self) -> str:
        tensor = self.gradient.tensor
        return f"{SCOPE}/average/{tensor.node}_{tensor.port}"

    @property
    def _device(self) -> str:
        return self.graph.item.graph.node[self.gradient.node].device

    @property
    def kept(self) -> Kept:
        """Holds the gradient of the last wave of a call."""
        return Kept(self.graph, f"{self._scope}/kept", self.gradient.kind, self._device)

    def given(self, waves: int) -> list[str]:
        """The gradient of each wave."""
        tensor = self.gradient.tensor
        text = f"{tensor.node}:{tensor.port}" if tensor.port else tensor.node
        return [wave_name(text, wave) for wave in range(waves)]

    def add(self, name: str, op: str, inputs: Sequence[str], **attrs: AttrValue) -> str:
        """Add a node that works on tensors of the gradient's type."""
        typed = {"T": type_attr(self.gradient.kind), **attrs}
        return self.graph.add_node(f"{self._scope}/{name}", op, inputs, device=self._device, attrs=typed)

    def divide(self, name: str, total: str, count: int) -> str:
        """Divide a sum."""
        kind = self.gradient.kind
        divisor = constant(self.graph, f"{self._scope}/{name}/count", kind, count, self._device)
        return self.add(name, "RealDiv", [total, divisor])
