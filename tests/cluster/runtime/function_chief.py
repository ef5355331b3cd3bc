"""The chief of a parameter-server job whose functions have equal node names; obeys as function_task.py does.

Usage: python -m tests.cluster.runtime.function_chief '{"cluster": {...}}'
"""

import json
import random
import sys
from typing import Any

from tests.cluster.speaker import obey, say

VARIABLES = 18
SIZE = 64
PIECES = 4
CPU = "/device:CPU:0"


class Job:
    """Variables on all parameter servers, and functions that read them."""

    def __init__(self, cluster: dict[str, list[str]]) -> None:
        self.tf = tf = __import__("tensorflow")
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec(cluster), task_type="chief", task_id=0, rpc_layer="grpc"
        )
        self.strategy = tf.distribute.ParameterServerStrategy(resolver)
        self.coordinator = tf.distribute.coordinator.ClusterCoordinator(self.strategy)
        with self.strategy.scope():
            self.variables = [tf.Variable(tf.ones([SIZE + i]) * (i + 1.0)) for i in range(VARIABLES)]
        train, evaluate = tf.function(self._train), tf.function(self._evaluate)
        self.pieces = tf.function(self._pieces)
        self.calls: dict[str, tuple[Any, Any]] = {
            "train4": (train, tf.ones([4])),
            "train8": (train, tf.ones([8])),
            "pushed": (train, tf.ones([16])),
            "evaluate": (evaluate, tf.ones([4])),
            "unplanned": (evaluate, tf.ones([8])),
            "unmarked": (evaluate, tf.ones([12])),
            "looped": (tf.function(self._looped), tf.ones([4])),
            "failing": (tf.function(self._failing), tf.ones([4])),
        }

    def reads(self, name: str) -> tuple[str, dict[str, str]]:
        """The function's name, and the device of each node that reads a variable."""
        function, x = self.calls[name]
        with self.strategy.scope():  # as the coordinator traces it
            concrete = function.get_concrete_function(x)
        inner = {id(c): t for c, t in concrete.graph.captures}
        devices = {id(inner[id(v.handle)]): v.device for v in self.variables if id(v.handle) in inner}
        ops = [op for op in concrete.graph.get_operations() if op.type == "ReadVariableOp"]
        return concrete.name.decode(), {op.name: devices[id(op.inputs[0])] for op in ops}

    def updates(self, name: str) -> dict[str, str]:
        """The node that makes each variable's update, and the variable's device."""
        function, x = self.calls[name]
        with self.strategy.scope():
            graph = function.get_concrete_function(x).graph
        inner = {id(c): t for c, t in graph.captures}
        devices = {id(inner[id(v.handle)]): v.device for v in self.variables}
        assigns = [op for op in graph.get_operations() if op.type == "AssignSubVariableOp"]
        return {op.inputs[1].op.name: devices[id(op.inputs[0])] for op in assigns}

    def run(self, names: list[str], steps: int, seed: int) -> list[float]:
        """Steps of several functions in random order."""
        order = [self.calls[name] for name in names for _ in range(steps)]
        random.Random(seed).shuffle(order)
        results = [self.coordinator.schedule(function, args=(x,)) for function, x in order]
        self.coordinator.join()
        return [float(result.fetch()) for result in results]

    def fail(self, name: str) -> str:
        function, x = self.calls[name]
        self.coordinator.schedule(function, args=(x,))
        try:
            self.coordinator.join()
        except self.tf.errors.InvalidArgumentError as error:
            return str(error)
        return ""

    def cut(self, source: str, destination: str) -> dict[str, Any]:
        """Call a function that this process cuts: a node's outputs go from `source` to `destination`, this task.

        Returns the function's name, its value, and, at the first call, the nodes of all its parts.
        """
        from google.protobuf.json_format import MessageToDict

        from tfwave.runtime.hook import Hook
        from tfwave.runtime.live.partitions import partition_graphs

        Hook().configure(hooked_tasks=[source])
        x = self.tf.range(1.0, PIECES + 1)
        value, parts = partition_graphs(lambda: self.pieces(x, source, destination))
        name = self.pieces.get_concrete_function(x, source, destination).name.decode()
        nodes = [MessageToDict(node) for part in parts for node in part.node]
        return {"name": name, "value": value.numpy().tolist(), "nodes": nodes}

    def _pieces(self, x: Any, source: str, destination: str) -> Any:
        tf = self.tf
        with tf.device(source + CPU):
            pieces = tf.split(x * 2.0, PIECES, name="pieces")
        with tf.device(destination + CPU):
            return tf.stack([tf.reduce_sum(piece) * 10.0**i for i, piece in enumerate(pieces)])

    def _outputs(self, x: Any) -> Any:
        tf, values = self.tf, [v.read_value() for v in self.variables]
        return values, tf.add_n([tf.reduce_sum(x) * tf.reduce_mean(value) for value in values])

    def _train(self, x: Any) -> Any:
        values, total = self._outputs(x)
        for variable, value in zip(self.variables, values, strict=True):
            variable.assign_sub(value * 0.01)
        return total

    def _evaluate(self, x: Any) -> Any:
        return self._outputs(x)[1]

    def _looped(self, x: Any) -> Any:
        tf = self.tf

        def body(i: Any, total: Any) -> Any:
            return i + 1, total + tf.reduce_sum(self.variables[0].read_value())

        return tf.while_loop(lambda i, _: i < 3, body, [0, self._outputs(x)[1]])[1]

    def _failing(self, x: Any) -> Any:
        """What ps 0 sends as "blocked" waits for a check that fails after some 0.3 s."""
        tf = self.tf
        start = tf.fill([256, 256], tf.reduce_sum(x))
        slow = tf.while_loop(lambda i, _: i < 200, lambda i, m: (i + 1, tf.matmul(m, m) / 1e9), [0, start])[1]
        with tf.control_dependencies([tf.debugging.Assert(tf.reduce_sum(slow) < 0, ["broken on purpose"])]):
            checked = tf.identity(x)
        with tf.device(self.variables[0].device):
            blocked = tf.multiply(checked, 2.0, name="blocked")
        return self._outputs(blocked)[1]


def main() -> None:
    job = Job(json.loads(sys.argv[1])["cluster"])
    say("up")
    obey({"reads": job.reads, "updates": job.updates, "run": job.run, "fail": job.fail, "cut": job.cut})


if __name__ == "__main__":
    main()
