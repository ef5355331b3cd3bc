"""The cluster as TF_CONFIG tells it, and where in it the control services are.

Each `tfwave.Server` of a cluster has a control service of its own, and whoever installs a plan must find them all.
Where they are follows from TF_CONFIG alone, which every task has:

1. A key of tfwave's own, beside "cluster" and "task", which TensorFlow passes over:
   ``{"tfwave": {"control": {"ps": ["host:port", ...], "worker": [...]}}}``, an address for each task of a job.
2. A job that it does not list: the host of the task, and its port of TensorFlow plus 1000 (minus 1000 where that
   is above 65535). So ``ps-0.job:2222`` is controlled at ``ps-0.job:3222`` with nothing to set up.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, NonNegativeInt, ValidationError

from tfwave.errors import EnforcerError
from tfwave.files import first_fault
from tfwave.runtime.control.address import check_address, split_address

VARIABLE = "TF_CONFIG"
SERVED_JOBS = ("ps", "worker")
"""The jobs whose tasks are TensorFlow servers; a chief or evaluator runs a program of its own."""
PORT_DISTANCE = 1000


def _by_index(tasks: Any) -> Any:
    return dict(enumerate(cast(list[Any], tasks))) if isinstance(tasks, list) else tasks


Jobs = dict[str, Annotated[dict[NonNegativeInt, str], BeforeValidator(_by_index)]]
"""host:port of each task, by job name and task number; in JSON a list or an object."""


class TaskConfig(BaseModel):
    """Which task a process is."""

    model_config = ConfigDict(frozen=True)

    type: str
    index: NonNegativeInt = 0

    def __str__(self) -> str:
        return f"{self.type}:{self.index}"


class TfwaveConfig(BaseModel):
    """What TF_CONFIG tells tfwave alone."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    control: Jobs = Field(default_factory=dict)
    reduce: str | None = None
    """host:port of the coordinator of reduces between workers; None: worker 0 has it, at its own address."""


class TfConfig(BaseModel):
    """TF_CONFIG; keys that are not used here, such as "rpc_layer" and "environment", are passed over."""

    model_config = ConfigDict(frozen=True)

    cluster: Jobs
    task: TaskConfig | None = None
    tfwave: TfwaveConfig = TfwaveConfig()


def read_tf_config(environment: Mapping[str, str] = os.environ) -> TfConfig:
    """The cluster that the environment variable TF_CONFIG describes.

    Raises:
        EnforcerError: it is not set, or malformed.
    """
    return parse_tf_config(tf_config_text(environment), VARIABLE)


def tf_config_text(environment: Mapping[str, str] = os.environ) -> str:
    """The environment variable TF_CONFIG, as it is.

    Raises:
        EnforcerError: it is not set.
    """
    text = environment.get(VARIABLE)
    if not text:
        raise EnforcerError(
            f'{VARIABLE} is not set: set it to {{"cluster": {{"ps": ["host:port"], ...}}, '
            '"task": {"type": "ps", "index": 0}}'
        )
    return text


def parse_tf_config(text: str | bytes, where: str | Path) -> TfConfig:
    """The cluster that a JSON text describes.

    Args:
        text: as TF_CONFIG holds it.
        where: what to call it in errors.

    Raises:
        EnforcerError: it is not such JSON; names the entry.
    """
    try:
        return TfConfig.model_validate_json(text)
    except ValidationError as err:
        raise EnforcerError(f"{where} is malformed: {first_fault(err)}") from err


def this_task(config: TfConfig) -> TaskConfig:
    """The task of this process, one that a server serves.

    Raises:
        EnforcerError: there is none, it is not in the cluster, or runs a program of its own.
    """
    task = config.task
    if task is None:
        raise EnforcerError(f'{VARIABLE} names no task: add "task": {{"type": "ps", "index": 0}}')
    if task.type not in SERVED_JOBS:
        raise EnforcerError(
            f"the task {task} runs a program of its own, not a server: start it with that; "
            f"served are {' and '.join(SERVED_JOBS)}"
        )
    if task.index not in config.cluster.get(task.type, {}):
        listed = ", ".join(
            f"{job}:{i}" for job in sorted(config.cluster) for i in sorted(config.cluster[job])
        )
        raise EnforcerError(
            f"the task {task} is not in the cluster of {VARIABLE}, which has {listed or 'none'}"
        )
    return task


def control_addresses(config: TfConfig) -> dict[str, str]:
    """Where the control service of each server of the cluster is reached.

    Returns:
        ``host:port`` or ``unix:/path`` by task, named as in devices (``/job:ps/replica:0/task:0``, as
        `tfwave.graph.names.task_of` gives it); by job name, then task number.

    Raises:
        EnforcerError: ``tfwave.control`` lacks a task of a job that it lists, or lists one that is not in the
            cluster; or an address is malformed.
    """
    for job in sorted(config.tfwave.control):
        _check_published(job, config)
    return {
        f"/job:{job}/replica:0/task:{index}": control_address(config, TaskConfig(type=job, index=index))
        for job in SERVED_JOBS
        for index in sorted(config.cluster.get(job, {}))
    }


def control_address(config: TfConfig, task: TaskConfig) -> str:
    """Where the control service of one task is reached; the cases are those of this module.

    Raises:
        EnforcerError: as `control_addresses`, for this task.
    """
    published = config.tfwave.control.get(task.type)
    if published is None:  # case 2
        return _beside(config.cluster[task.type][task.index], task)
    if task.index not in published:
        raise EnforcerError(
            f"{VARIABLE}: tfwave.control has no address for {task}: list every task of the job"
        )
    check_address(published[task.index], guarded=True)
    return published[task.index]  # case 1


def _check_published(job: str, config: TfConfig) -> None:
    extra = sorted(config.tfwave.control[job].keys() - config.cluster.get(job, {}).keys())
    if job not in SERVED_JOBS or extra:
        which = f"{job}:{extra[0]}" if extra else job
        raise EnforcerError(f"{VARIABLE}: tfwave.control lists {which}, which no server of the cluster is")


def _beside(address: str, task: TaskConfig) -> str:
    try:
        port = split_address(address)[1]
    except ValueError as err:
        raise EnforcerError(f"{VARIABLE}: the address '{address}' of {task} is not host:port") from err
    apart = PORT_DISTANCE if port + PORT_DISTANCE < 65536 else -PORT_DISTANCE
    return f"{address.rpartition(':')[0]}:{port + apart}"
