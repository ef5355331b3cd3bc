"""Colocation: which nodes must share a device, and what their group as a whole asks of it."""

from tfwave.errors import GraphError
from tfwave.graph.attrs import colocated_with
from tfwave.graph.flow_ops import ARG_OPS, RETVAL_OPS
from tfwave.graph.names import CONTROL_PORT
from tfwave.graph.partition.devices import ANY, DeviceName, parse_device
from tfwave.graph.partition.signatures import Signatures, is_handle
from tfwave.graph.partition.wiring import Wiring

PINNED_OPS = ARG_OPS | RETVAL_OPS

_NO_WISHES = (ANY, ANY, ANY)


class Groups:
    """Disjoint sets of nodes; each root knows what its set asks for.

    A set has three wishes, as in TensorFlow: `assigned` (pinned by the runtime), `resource` (where a handle
    was made) and `requested` (any explicit device), the last always with all of the first two.
    """

    def __init__(self, wiring: Wiring, *, soft: bool) -> None:
        """Group the nodes of a wiring, whose devices are those requested.

        Case 1: nodes joined by a resource, a reference or a dataset; who takes it follows who made it.
        Case 2: nodes that name each other in `_class`; with `soft` placement only as far as devices agree.

        Raises:
            GraphError: nodes that must share a device ask for different ones; names both.
        """
        self._wiring = wiring
        self._soft = soft
        self._signatures = Signatures(wiring.table)
        self._parents = list(range(len(wiring)))
        self._wishes = [self._initial_wishes(node) for node in range(len(wiring))]
        self._follow_handles()
        self._follow_classes()

    def root(self, node: int) -> int:
        """The node that stands for a node's group."""
        parents = self._parents
        while parents[node] != node:
            parents[node] = parents[parents[node]]
            node = parents[node]
        return node

    def requested(self, root: int) -> DeviceName:
        """The (partial) device that a group asks for."""
        return self._wishes[root][2]

    def is_pinned(self, root: int) -> bool:
        """Did the runtime say which kind of device a group is on?"""
        return bool(self._wishes[root][0].kind)

    def softened(self, root: int) -> tuple[DeviceName, DeviceName]:
        """The request without type and index: first keeping the resources' devices, then not."""
        assigned, resource, requested = self._wishes[root]
        kept = requested.address
        return kept.specified_by(resource).specified_by(assigned), kept.specified_by(assigned)

    def _initial_wishes(self, node: int) -> tuple[DeviceName, DeviceName, DeviceName]:
        text = self._wiring.devices[node]
        if not text:
            return _NO_WISHES
        try:
            device = parse_device(text)
        except GraphError as error:
            raise GraphError(f"node '{self._wiring.names[node]}': {error}") from error
        if self._wiring.ops[node] in PINNED_OPS:
            return (device, ANY, device)
        if self._makes_handle(node):
            return (ANY, device, device)
        return (ANY, ANY, device)

    def _makes_handle(self, node: int) -> bool:
        fanins = self._wiring.fanins[node]
        if fanins and fanins[0][1] != CONTROL_PORT:
            return False
        kind = self._signatures.only_output(self._wiring.nodes[node])
        return kind is not None and is_handle(kind)

    def _follow_handles(self) -> None:
        wiring = self._wiring
        for reader, fanins in enumerate(wiring.fanins):
            node = wiring.nodes[reader]
            for position in self._signatures.handle_inputs(node):
                self._follow(wiring.source(reader, position), reader)
            if self._signatures.is_dataset(node):
                for source, port in fanins:
                    if port != CONTROL_PORT and self._signatures.is_dataset(wiring.nodes[source]):
                        self._follow(source, reader)

    def _follow(self, source: int, reader: int) -> None:
        """Join a reader to the source of its handle; a contradicting request of the reader is overridden."""
        mine, theirs = self.root(reader), self.root(source)
        if mine == theirs:
            return
        assigned, resource, requested = self._wishes[mine]
        for kind, wish, wanted in zip(
            ("pinned", "resource"), self._wishes[theirs], (assigned, resource), strict=False
        ):
            if not wish.agrees_with(wanted):
                raise self._conflict(source, reader, wish, wanted, f"a {kind} device")
        wanted = self._wishes[theirs][2]
        if not wanted.agrees_with(requested):
            overridden = wanted.specified_by(assigned).specified_by(resource)
            self._wishes[mine] = (assigned, resource, overridden)
        if not self._join(source, reader):
            raise self._conflict(source, reader, wanted, requested, "a resource or reference")

    def _follow_classes(self) -> None:
        classes = [colocated_with(node) for node in self._wiring.nodes]
        named = {name for names in classes for name in names}
        first: dict[str, int] = {}
        for node, names in enumerate(classes):
            own = self._wiring.names[node]
            for name in (*names, own) if own in named else names:
                root = first.setdefault(name, node)
                if not self._join(root, node) and not self._soft:
                    first_wish, wish = self.requested(self.root(root)), self.requested(self.root(node))
                    raise self._conflict(root, node, first_wish, wish, f"the colocation group '{name}'")

    def _join(self, one: int, other: int) -> bool:
        """Merge two groups; False, with nothing done, where their wishes contradict each other."""
        mine, theirs = self.root(one), self.root(other)
        if mine == theirs:
            return True
        if self._wishes[mine] != self._wishes[theirs]:
            merged = self._merged(mine, theirs)
            if merged is None:
                return False
            self._wishes[mine] = merged
        self._parents[theirs] = mine
        return True

    def _merged(self, mine: int, theirs: int) -> tuple[DeviceName, DeviceName, DeviceName] | None:
        pairs = list(zip(self._wishes[mine], self._wishes[theirs], strict=True))
        assigned, resource = (one.merged(other, soft=False) for one, other in pairs[:2])
        requested = pairs[2][0].merged(pairs[2][1], soft=self._soft)
        if assigned is None or resource is None or requested is None:
            return None
        return (assigned, resource, requested.specified_by(assigned).specified_by(resource))

    def _conflict(
        self, one: int, other: int, first: DeviceName, second: DeviceName, reason: str
    ) -> GraphError:
        names = self._wiring.names
        return GraphError(
            f"nodes '{names[one]}' and '{names[other]}' must share a device because of {reason}, but one asks "
            f"for '{first}' and the other for '{second}': give both the same device, or none"
        )
