"""A worker that trains in a Session, as a task of `overlap.py`: one step a call, or several that overlap.

Asked {"do": "start", "cluster": {job: [address]}, "task": int, "workers": [int], "model": str, "image": int,
"batch": int, "first_matrix": bool, "control": address or null}, it serves and builds its step.
Then, as often as asked:
{"do": "plan", "out": directory} traces it, writes the plan to `out` and answers what that predicts; of one step a
call also what tfwave advises;
{"do": "rewrite", "steps": int or null, "block_bytes": int or null} lets steps overlap, and answers what was chosen
where null was given;
{"do": "reset"} gives the variables their first values;
{"do": "run", "calls": n} answers {"seconds": [of each step], "losses": [of each step and worker, as hex]};
{"do": "weights"} answers their digest.
"""

import hashlib
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tfwave.bundle.costs import bundle_network
from tfwave.capture.session import capture_run
from tfwave.demo.child import Channel
from tfwave.errors import TfwaveError
from tfwave.graph.item import GraphItem
from tfwave.passes.text import parse_pipeline
from tfwave.plan.io import save_plan
from tfwave.planner.captured import busiest_load, overlap_on, plan_bundle
from tfwave.planner.overlap import Overlap, StepLoad
from tfwave.proto.tensorflow_pb2 import GraphDef
from tfwave.rewrite.steps.copies import step_name

MODULE = "tools.bench.transfers.overlap_chief"
MODEL = ("model", "image", "batch", "first_matrix")
"""The keys of what is trained."""
_CALL_SECONDS = 300
_SINGLE_STEPS, _CALLS = 6, 3
"""Traced: advice goes by the median of single steps, which vary more than calls of many."""


class Worker:
    """A session on the cluster, with the step's graph in it."""

    def __init__(self, request: dict[str, Any]) -> None:
        import tensorflow as tf

        from tools.bench.transfers.training import build_training

        self._v1: Any = tf.compat.v1
        cluster, task = request["cluster"], request["task"]
        self._server = _server(cluster, task, request["control"])
        self._training = build_training(cluster, request["workers"], **{key: request[key] for key in MODEL})
        self.steps = 1
        self._number = 0
        self._advised: Overlap | None = None
        self._load: StepLoad | None = None
        self._workers = len(cluster["worker"]) // len(request["workers"])
        self._feeds = [self._training.number.name]
        self._fetches = [[loss.name for loss in self._training.losses]]
        self._targets = [self._training.train.name]
        self._running = self._session(self._training.graph)

    def reset(self) -> dict[str, object]:
        self._running.run(self._training.reset.name)
        self._number = 0
        return {}

    def run(self, calls: int) -> dict[str, object]:
        seconds: list[float] = []
        losses: list[str] = []
        for _ in range(calls):
            feeds = {name: self._number + k for k, name in enumerate(self._feeds)}
            begin = time.perf_counter()
            found, _ = self._running.run((self._fetches, self._targets), feeds)
            seconds += [(time.perf_counter() - begin) / self.steps] * self.steps
            losses += [float(loss).hex() for step in found for loss in step]
            self._number += self.steps
        return {"seconds": seconds, "losses": losses}

    def weights(self) -> dict[str, object]:
        digest = hashlib.sha256()
        for read in self._training.reads:
            digest.update(self._running.run(read).tobytes())
        return {"digest": digest.hexdigest()}

    def plan(self, out: str) -> dict[str, object]:
        feeds = {name: k for k, name in enumerate(self._feeds)}
        fetches = (self._fetches, self._targets)
        steps = _SINGLE_STEPS if self.steps == 1 else _CALLS
        bundle = capture_run(self._running, fetches, feeds, out=Path(out, "bundle"), steps=steps, warmup=2)
        plan = plan_bundle(bundle, workers=self._workers)
        save_plan(plan, Path(out, "plan.pb"))
        if self.steps == 1:
            network = bundle_network(bundle).estimated(bundle.transfers.data)
            self._advised = overlap_on(network, bundle, self._workers)
            self._load = busiest_load(network, bundle, self._workers)
        return {
            "advised": asdict(self._advised) if self._advised else None,
            "predicted": asdict(plan.predicted),
            "ordered_seconds": plan.predicted.ordered_seconds,
            "orders": [f"{o.channel} {o.discipline} {len(o.transfers)}" for o in plan.orders],
            "bytes": self._training.bytes,
            "server_bytes": self._training.server_bytes,
            "largest": max(t.bytes for t in plan.transfers),
        }

    def rewrite(self, steps: int | None, block_bytes: int | None) -> dict[str, object]:
        advised, load = self._advised, self._load
        assert advised, "its plan for one step comes first"
        assert load
        steps = steps or advised.steps
        block_bytes = advised.block_bytes if block_bytes is None else block_bytes
        chosen = Overlap(steps, block_bytes, load.seconds(steps, block_bytes), advised.single_seconds)
        begin = time.perf_counter()
        remarks = self._rewrite(chosen)
        self.reset()
        return {"chosen": asdict(chosen), "remarks": remarks, "rewrite_seconds": time.perf_counter() - begin}

    def _rewrite(self, chosen: Overlap) -> tuple[str, ...]:
        training = self._training
        graph = GraphDef.FromString(training.graph.as_graph_def().SerializeToString())
        kept = [training.reset.name, *(read.split(":")[0] for read in training.reads)]
        losses = [loss.name for loss in training.losses]
        item = GraphItem(
            graph,
            feeds=(training.number.name,),
            fetches=(*losses, training.train.name),
            preserve=frozenset(kept),
        )
        result = parse_pipeline(chosen.passes)(item)
        self.steps = chosen.steps
        self._feeds = [step_name(training.number.name, k) for k in range(self.steps)]
        self._fetches = [[step_name(name, k) for name in losses] for k in range(self.steps)]
        self._targets = [step_name(training.train.name, k) for k in range(self.steps)]
        self._running = self._session(_imported(result.item.graph))
        return result.remarks

    def _session(self, graph: Any) -> Any:
        config = self._v1.ConfigProto(operation_timeout_in_ms=_CALL_SECONDS * 1000)
        return self._v1.Session(self._server.target, graph=graph, config=config)


def _server(cluster: dict[str, list[str]], task: int, control: str | None) -> Any:
    if control:
        from tfwave.runtime.server import Server

        return Server(cluster, "worker", task, enforcer="hook", control=control)
    import tensorflow as tf

    return tf.distribute.Server(cluster, job_name="worker", task_index=task)


def _imported(graph: GraphDef) -> Any:
    import tensorflow as tf

    own = tf.Graph()
    with own.as_default():
        tf.graph_util.import_graph_def(tf.compat.v1.GraphDef.FromString(graph.SerializeToString()), name="")
    return own


def main() -> None:
    """Obey until standard input is closed."""
    channel = Channel()
    requests = channel.requests()
    first = next(requests)
    del first["do"]
    worker = Worker(first)
    channel.say(ready=True)
    for request in requests:
        do = request.pop("do")
        try:
            channel.say(**getattr(worker, do)(**request))
        except TfwaveError as error:
            channel.say(error=str(error))
    os._exit(0)


if __name__ == "__main__":
    main()
