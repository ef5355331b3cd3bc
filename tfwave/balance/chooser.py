"""The server of each variable while a graph is built, for TensorFlow's own device setter."""

from typing import Any

from tfwave.graph.variable_bytes import resident_bytes
from tfwave.plan.placement import Placement


class ServerChooser:
    """Says the task number of the server for a variable, one by one as they are made.

    What the placement does not name goes to the server that was given the fewest bytes so far, of equal ones to
    the first. For a graph of TensorFlow 1 it is the `ps_strategy` of the stock setter, which places all else::

        setter = tf.compat.v1.train.replica_device_setter(cluster=spec, ps_strategy=ServerChooser(placement))
        with tf.compat.v1.device(setter): ...

    Slots that an optimizer makes follow their variable, as always: TensorFlow does not ask where to put them.
    """

    def __init__(self, placement: Placement) -> None:
        """For one graph, or one program: it remembers what it gave out."""
        self._placement = placement
        self._given = [0] * placement.servers

    def __call__(self, op: Any) -> int:
        """The server of a `tf.Operation` (or NodeDef) that is a variable."""
        node = getattr(op, "node_def", op)
        server = self.choose(str(node.name))
        self.add(server, resident_bytes(node))
        return server

    def choose(self, name: str) -> int:
        """The server of a variable by its name; nothing is counted yet."""
        server = self._placement.variables.get(name)
        return self._given.index(min(self._given)) if server is None else server

    def add(self, server: int, count: int) -> None:
        """Count bytes that a server holds from now on."""
        self._given[server] += count
