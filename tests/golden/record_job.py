"""A task of the job that is captured for goldens: a model's variables on two servers, run by one worker.

python -m tests.golden.record_job 0|1 ADDRESS ADDRESS ADDRESS
python -m tests.golden.record_job worker ADDRESS ADDRESS ADDRESS MODEL training|inference OUT
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from tfwave import capture_run

BATCHES = 1
STEPS, WARMUP = 3, 2


def main(task: str, servers: tuple[str, str], worker: str, *job: str) -> None:
    """Serve, or run steps and write a bundle."""
    tf: Any = import_module("tensorflow")
    cluster = {"ps": list(servers), "worker": [worker]}
    if task != "worker":
        tf.distribute.Server(cluster, job_name="ps", task_index=int(task)).join()
    server = tf.distribute.Server(cluster, job_name="worker", task_index=0)
    model, kind, out = job
    _capture(tf.compat.v1, server.target, model, kind, Path(out))


def _capture(v1: Any, target: str, model: str, kind: str, out: Path) -> None:
    placement = v1.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:0")
    graph = v1.Graph()
    with graph.as_default():
        with v1.device(placement):
            built = import_module("tests.numerics.memory.memory_models").build(model, BATCHES)
        init = v1.global_variables_initializer()
    with v1.Session(target, graph=graph) as session:
        session.run(init)
        loss, train = built.fetches
        fetches = [loss, train] if kind == "training" else [loss]
        capture_run(session, fetches, built.feeds, out=out, steps=STEPS, warmup=WARMUP)


if __name__ == "__main__":
    main(sys.argv[1], (sys.argv[2], sys.argv[3]), *sys.argv[4:])
