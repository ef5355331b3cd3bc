"""The devices of a strategy's job, as the chief sees them."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tfwave.runtime.variables import cluster_of


@dataclass(frozen=True)
class JobDevices:
    """All devices of a job by full name, and the tasks of its workers, in turn; workers have devices alike.

    `soft` says whether TensorFlow's soft placement is on.
    """

    devices: Sequence[str]
    workers: Sequence[str]
    soft: bool = True

    @property
    def runner(self) -> str:
        """The device that TensorFlow gives a function which the first worker runs, and that names none itself.

        That is its CPU:0, and where it has a GPU that; so TensorFlow's source says: it never ran on a GPU.
        """
        gpu = f"{self.workers[0]}/device:GPU:0"
        return gpu if gpu in self.devices else f"{self.workers[0]}/device:CPU:0"


def job_devices(strategy: Any) -> JobDevices:
    """Those of a `ParameterServerStrategy`, which has connected to all of its servers.

    Raises:
        EnforcerError: it is no ParameterServerStrategy.
    """
    workers = len(cluster_of(strategy)["worker"])
    config: Any = import_module("tensorflow").config
    return JobDevices(
        tuple(sorted(str(device.name) for device in config.list_logical_devices())),
        tuple(f"/job:worker/replica:0/task:{i}" for i in range(workers)),
        bool(config.get_soft_device_placement()),
    )
