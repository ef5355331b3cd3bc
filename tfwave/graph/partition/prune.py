"""What a Session makes of a placed graph for one call: feeds and fetches attached, the rest cut away."""

from collections.abc import Iterable, Sequence

from tfwave.errors import GraphError
from tfwave.graph.item import GraphItem
from tfwave.graph.names import CONTROL_PORT, parse_input
from tfwave.graph.partition.devices import LOCAL_JOB, DeviceName
from tfwave.graph.partition.signatures import plain
from tfwave.graph.partition.wiring import Draft, Fanin, Wiring
from tfwave.graph.reach import reached
from tfwave.proto.tensorflow_pb2 import DataType, NodeDef

INCARNATION = 1
"""It stands for the number that a device has from its start to its end."""

_PLACEHOLDERS = frozenset({"Placeholder", "PlaceholderV2"})


def pruned(wiring: Wiring, item: GraphItem, client: DeviceName) -> Wiring:
    """Attach the feeds and fetches of an item, and keep what the fetches and preserved nodes need.

    A fetch ``node:port`` is a tensor that goes to the client; ``node`` is only run, and so is a preserved
    node. With neither fetches nor preserved nodes nothing is changed.

    Raises:
        GraphError: a feed or fetch that the graph does not have, or a tensor that is both.
    """
    if not item.fetches and not item.preserve:
        return wiring
    both = sorted(set(item.feeds) & set(item.fetches))
    if both:
        raise GraphError(f"'{both[0]}' is both fed and fetched")
    ends = _Ends(wiring, client)
    tensors = sorted({text for text in item.fetches if ":" in text})
    runs = {text for text in item.fetches if ":" not in text} | item.preserve
    ends.feed(sorted(set(item.feeds)))
    wanted = [*ends.fetch(tensors), *(ends.node(name) for name in sorted(runs))]
    attached = ends.draft.wiring()
    needed = reached(lambda node: (source for source, _ in attached.fanins[node]), wanted)
    return attached.kept(sorted(needed))


class _Ends:
    """Adds the nodes that stand for the client.

    Case 1: in one process, arguments and returns of a function (`_Arg`, `_Retval`).
    Case 2: in a cluster, a `_Recv` and a `_Send` whose other end is the client.
    """

    def __init__(self, wiring: Wiring, client: DeviceName) -> None:
        self.draft = Draft(wiring)
        self._wiring = wiring
        self._client = str(client)
        self._in_process = client.job == LOCAL_JOB
        self._index = {name: i for i, name in enumerate(wiring.names)}

    def node(self, text: str) -> int:
        """The node that a text names.

        Raises:
            GraphError: there is none.
        """
        found = self._index.get(parse_input(text).node)
        if found is None:
            raise GraphError(f"'{text}' is to be fed, fetched or kept, but the graph does not have it")
        return found

    def feed(self, texts: Sequence[str]) -> None:
        """Redirect the readers of fed tensors."""
        instead: dict[Fanin, int] = {}
        for i, text in enumerate(texts):
            node, port = self.node(text), parse_input(text).port
            made = instead[node, port] = self._add("Arg" if self._in_process else "Recv", node, port, i, [])
            if self._wiring.ops[node] in _PLACEHOLDERS:
                instead[node, CONTROL_PORT] = made
        for reader in sorted({r for fed, _ in instead for r, _ in self._wiring.fanouts[fed]}):
            self.draft.fanins[reader] = tuple(_redirected(self.draft.fanins[reader], instead))

    def fetch(self, texts: Sequence[str]) -> list[int]:
        """Add readers of fetched tensors."""
        made: list[int] = []
        for i, text in enumerate(texts):
            node, port = self.node(text), parse_input(text).port
            made.append(self._add("Retval" if self._in_process else "Send", node, port, i, [(node, port)]))
        return made

    def _add(self, op: str, node: int, port: int, index: int, fanins: Iterable[Fanin]) -> int:
        name = f"_{op.lower()}_{self._wiring.names[node]}_{port}"
        made = NodeDef(name=f"{name}_{index}" if self._in_process else name, op=f"_{op}")
        kind = self._type(node, port)
        made.attr["tensor_type" if op == "Recv" else "T"].type = kind
        if self._in_process:
            made.attr["index"].i = index
        else:
            self._terminate(made, f"{self._wiring.names[node]}:{port}")
        return self.draft.add(made, fanins, self._client)

    def _terminate(self, made: NodeDef, tensor: str) -> None:
        made.attr["tensor_name"].s = tensor.encode()
        made.attr["send_device"].s = made.attr["recv_device"].s = self._client.encode()
        made.attr["send_device_incarnation"].i = INCARNATION
        made.attr["client_terminated"].b = True

    def _type(self, node: int, port: int) -> DataType:
        return plain(self._wiring.output_type(node, port))


def _redirected(fanins: Iterable[Fanin], instead: dict[Fanin, int]) -> Iterable[Fanin]:
    for source, port in fanins:
        made = instead.get((source, port))
        if made is None:
            yield source, port
        else:
            yield made, CONTROL_PORT if port == CONTROL_PORT else 0
