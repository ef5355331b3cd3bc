"""The first worker of a demo, and the client of its job.

Asked {"do": "start", "cluster": {job: [address]}, "replicas": {"model": str, "image": int, "batch": int, ...}}, it
serves, builds the job and initialises it. Then, as often as asked:
{"do": "run", "steps": n} answers {"steps": [[seconds of each worker]], "digest": sha256 of all outputs};
{"do": "capture", "steps": n, "warmup": n, "out": path} writes a bundle.
A request that fails answers {"error": message}.
"""

import hashlib
import importlib
import os
import time
from pathlib import Path
from typing import Any

from tfwave.capture.session import capture_run
from tfwave.demo.child import Channel
from tfwave.demo.model import Job, Replicas, build_job, server_config
from tfwave.errors import TfwaveError

MODULE = "tfwave.demo.chief_task"

_STEP_SECONDS = 120


class Chief:
    """A session on the cluster, and the job in it."""

    def __init__(self, request: dict[str, Any]) -> None:
        """Serve as worker 0, build the job, initialise its variables."""
        os.environ["TF_USE_LEGACY_KERAS"] = "1"
        tensorflow: Any = importlib.import_module("tensorflow")
        v1: Any = tensorflow.compat.v1
        cluster = request["cluster"]
        replicas = Replicas(**request["replicas"])
        config = server_config(replicas.device)
        self._server: Any = tensorflow.distribute.Server(cluster, "worker", 0, config=config)
        self._job: Job = build_job(cluster, replicas)
        config = v1.ConfigProto(operation_timeout_in_ms=_STEP_SECONDS * 1000)
        self._session: Any = v1.Session(self._server.target, graph=self._job.graph, config=config)
        self._session.run(self._job.initializer)

    def run(self, steps: int) -> dict[str, object]:
        """Run steps; seconds of each worker in each step, and a digest of what came out."""
        digest = hashlib.sha256()
        seconds: list[list[float]] = []
        for _ in range(steps):
            start = time.time()
            outputs, finish = self._session.run((self._job.outputs, self._job.finish_times))
            seconds.append([float(t) - start for t in finish])
            digest.update(b"".join(o.tobytes() for o in outputs))
        return {"steps": seconds, "digest": digest.hexdigest()}

    def capture(self, out: str, steps: int, warmup: int) -> dict[str, object]:
        """Write a capture bundle."""
        fetches = (self._job.outputs, self._job.finish_times)
        capture_run(self._session, fetches, out=Path(out), steps=steps, warmup=warmup)
        return {}


def main() -> None:
    """Obey until standard input is closed."""
    channel = Channel()
    chief: Chief | None = None
    for request in channel.requests():
        do = request.pop("do")
        try:
            if chief is None:
                chief = Chief(request)
                channel.say()
            else:
                channel.say(**(chief.capture(**request) if do == "capture" else chief.run(**request)))
        except TfwaveError as error:
            channel.say(error=str(error))
    os._exit(0)  # a TensorFlow server ends with its process only


if __name__ == "__main__":
    main()
