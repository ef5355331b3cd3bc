"""Where a sample's parts live: logical CPUs of one process, or the tasks of a real cluster."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import tensorflow as tf

from tests.ports import free_ports

v1 = tf.compat.v1
CPUS = 3
SERVER_TASKS = 2


@dataclass(frozen=True)
class Places:
    """A worker, its servers, and the session target that knows them."""

    worker: str
    servers: tuple[str, ...]
    server_job: str
    target: str = ""

    def setter(self) -> Any:
        """TensorFlow's device function: variables on the servers, all else on the worker."""
        return v1.train.replica_device_setter(
            ps_tasks=len(self.servers), ps_device=self.server_job, worker_device=self.worker
        )


LOCAL = Places("/device:CPU:0", ("/device:CPU:1", "/device:CPU:2"), "/device:CPU:1")


@cache
def set_up() -> None:
    """Give this process its logical CPUs, and ops that sum in one order; before TensorFlow runs anything.

    Raises:
        RuntimeError: TensorFlow is already running.
    """
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * CPUS)
    tf.config.experimental.enable_op_determinism()


@cache
def cluster() -> Places:
    """Two servers and a worker as tasks of this process, which talk gRPC; they live as long as it does."""
    ports = iter(free_ports(SERVER_TASKS + 1))
    spec = {
        "ps": [f"127.0.0.1:{next(ports)}" for _ in range(SERVER_TASKS)],
        "worker": [f"127.0.0.1:{next(ports)}"],
    }
    tasks = [(job, task) for job, addresses in spec.items() for task in range(len(addresses))]
    servers = [tf.distribute.Server(spec, job_name=job, task_index=task) for job, task in tasks]
    names = tuple(f"/job:{job}/task:{task}" for job, task in tasks)
    return Places(names[-1], names[:-1], "/job:ps", servers[-1].target)
