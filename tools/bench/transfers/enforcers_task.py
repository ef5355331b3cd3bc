"""A chief of the demo that can also run its job rewritten.

Besides what `tfwave.demo.chief_task` answers: {"do": "choose", "passes": text, "plan": path} runs the job rewritten
by these passes from then on, or as it is if the text is empty. The variables stay as they are. What it answers to
"run" has the seconds of each "calls", too.
"""

import os
import time
from pathlib import Path
from typing import Any, cast

import tensorflow as tf

from tfwave.demo.chief_task import Chief
from tfwave.demo.child import Channel
from tfwave.demo.model import Job
from tfwave.errors import TfwaveError
from tfwave.graph.item import GraphItem
from tfwave.passes.text import parse_pipeline
from tfwave.plan.io import load_plan
from tfwave.proto.tensorflow_pb2 import GraphDef

MODULE = "tools.bench.transfers.enforcers_task"


class RewritingChief(Chief):
    """Keeps a session for each rewriting."""

    def __init__(self, request: dict[str, Any]) -> None:
        super().__init__(request)
        self._runs = {"": (self._job, self._session)}

    def run(self, steps: int) -> dict[str, object]:
        """As the demo's chief, and the seconds of each whole call: with pushes and updates, in training."""
        answers: list[dict[str, object]] = []
        calls: list[float] = []
        for _ in range(steps):
            begin = time.perf_counter()
            answers.append(super().run(1))
            calls.append(time.perf_counter() - begin)
        return {
            "steps": [step for answer in answers for step in cast(list[object], answer["steps"])],
            "digest": ",".join(str(answer["digest"]) for answer in answers),
            "calls": calls,
        }

    def choose(self, passes: str, plan: str) -> dict[str, object]:
        if passes not in self._runs:
            self._runs[passes] = self._rewritten(passes, Path(plan))
        self._job, self._session = self._runs[passes]
        return {}

    def _rewritten(self, passes: str, plan: Path) -> tuple[Job, Any]:
        job, _ = self._runs[""]
        definition = GraphDef.FromString(job.graph.as_graph_def().SerializeToString())
        fetches = tuple(tensor.name for tensor in (*job.outputs, *job.finish_times))
        item = parse_pipeline(passes, load_plan(plan))(GraphItem(definition, fetches=fetches)).item
        with tf.Graph().as_default() as graph:
            rewritten = tf.compat.v1.GraphDef.FromString(item.graph.SerializeToString())
            tf.graph_util.import_graph_def(rewritten, name="")
            outputs, times = (
                [graph.get_tensor_by_name(tensor.name) for tensor in tensors]
                for tensors in (job.outputs, job.finish_times)
            )
            return Job(graph, None, outputs, times), tf.compat.v1.Session(self._server.target)


def main() -> None:
    channel = Channel()
    requests = channel.requests()
    start = next(requests)
    start.pop("do")
    chief = RewritingChief(start)
    channel.say()
    for request in requests:
        try:
            channel.say(**getattr(chief, request.pop("do"))(**request))
        except TfwaveError as error:
            channel.say(error=str(error))
    os._exit(0)  # a TensorFlow server ends with its process only


if __name__ == "__main__":
    main()
