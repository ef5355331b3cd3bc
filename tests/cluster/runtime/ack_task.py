"""The worker of the ack window's test, where its job runs in sessions or as a live tf.function.

Asked {"kind": "session" or "function", "cluster": {job: [address]}, "out": directory}, it serves as worker 0
and writes its graph: ``graph.pb`` and, in ``graph.json``, its feeds, fetches and the devices of its inputs.
Then it runs steps as often as asked, and answers {"outputs": [digest of each]}:
a session {"graph": path, "bundle": path, "steps": n}, which are captured;
a function {"plan": path or null, "passes": text, "steps": n}, rewritten if there is a plan. The partitions that
TensorFlow makes of it are ``partition0.pb`` and so on.
"""

import hashlib
import json
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

from tfwave.capture.session import capture_session
from tfwave.demo.child import Channel
from tfwave.passes.text import parse_pipeline
from tfwave.plan.io import load_plan
from tfwave.runtime.live.install import install

v1 = tf.compat.v1
SERVER = "/job:ps/replica:0/task:0/device:CPU:0"
WORKER = "/job:worker/replica:0/task:0/device:CPU:0"

WHOLE = 40
SPLIT = 4
"""So many variables travel whole, and so many in two halves."""


def sizes() -> list[int]:
    """Floats of each variable, small and large in turn: 512 bytes to 500 kB, 3 MB in all."""
    return [2 * int(64 * 40 ** (i * 7 % 44 / 23)) for i in range(WHOLE + SPLIT)]


def make_variables() -> list[Any]:
    with tf.device(SERVER):
        starts = [tf.random.stateless_normal([size], [i, 1]) for i, size in enumerate(sizes())]
        return [v1.Variable(start, name=f"v{i}", use_resource=True) for i, start in enumerate(starts)]


def model(variables: list[Any]) -> Any:
    """What arrives, in sums of their own: their bits depend on nothing else."""
    tensors = []
    with tf.device(SERVER):
        for i, variable in enumerate(variables):
            value = variable.value()
            tensors += [value] if i < WHOLE else tf.split(value, 2, name=f"halves{i}")
    with tf.device(WORKER):
        folded = tf.multiply(tf.constant([2.0]), tf.constant([3.0]), name="folded_by_grappler")
        return tf.concat([tf.stack([tf.reduce_sum(tf.sin(t)) for t in tensors]), folded], 0, name="sums")


class SessionJob:
    """The model in a graph, and sessions on a server of this process."""

    def __init__(self, cluster: dict[str, list[str]], out: Path) -> None:
        self._server = tf.distribute.Server(cluster, job_name="worker", task_index=0)
        with tf.Graph().as_default() as graph:
            sums = model(make_variables())
            initializer = v1.global_variables_initializer()
            with v1.Session(self._server.target) as session:
                session.run(initializer)
        self._fetch = sums.name
        write_graph(out, graph, [], [sums], {})

    def run(self, graph: str, bundle: str, steps: int) -> list[str]:
        definition = v1.GraphDef.FromString(Path(graph).read_bytes())
        with tf.Graph().as_default():
            tf.graph_util.import_graph_def(definition, name="")
            session = v1.Session(self._server.target)
            with session, capture_session(session, out=Path(bundle), steps=steps, warmup=0):
                return [digest(session.run(self._fetch)) for _ in range(steps)]


class FunctionJob:
    """The model in a tf.function, whose variables are on a remote device."""

    def __init__(self, cluster: dict[str, list[str]], out: Path) -> None:
        self._out = out
        tf.config.experimental_connect_to_cluster(
            tf.train.ClusterSpec(cluster), job_name="worker", task_index=0
        )
        variables = make_variables()
        self._function = tf.function(lambda: model(variables))
        graph = self._function.get_concrete_function().graph
        handles = {inner.name: outer.device for outer, inner in graph.captures}
        write_graph(out, graph, graph.inputs, graph.outputs, handles)

    def run(self, plan: str | None, passes: str, steps: int) -> list[str]:
        with (
            install(self._function, parse_pipeline(passes, load_plan(Path(plan)))) if plan else nullcontext()
        ):
            context.enable_run_metadata()
            outputs = [digest(self._function().numpy())]
            write_partitions(self._out, context.export_run_metadata())
            context.disable_run_metadata()
            return outputs + [digest(self._function().numpy()) for _ in range(steps - 1)]


def write_graph(out: Path, graph: Any, feeds: list[Any], fetches: list[Any], handles: dict[str, str]) -> None:
    (out / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
    what = {"feeds": [t.name for t in feeds], "fetches": [t.name for t in fetches], "handles": handles}
    (out / "graph.json").write_text(json.dumps(what))


def write_partitions(out: Path, metadata: Any) -> None:
    """Of a function TensorFlow tells them at its first call only: else those that are there stay."""
    if metadata.partition_graphs:
        for old in out.glob("partition*.pb"):
            old.unlink()
    for i, graph in enumerate(metadata.partition_graphs):
        (out / f"partition{i}.pb").write_bytes(graph.SerializeToString())


def digest(array: Any) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()


def main() -> None:
    channel = Channel()
    requests = channel.requests()
    start = next(requests)
    job = {"session": SessionJob, "function": FunctionJob}[start["kind"]](
        start["cluster"], Path(start["out"])
    )
    channel.say()
    for request in requests:
        channel.say(outputs=job.run(**request))
    os._exit(0)  # a TensorFlow server ends with its process only


if __name__ == "__main__":
    main()
