"""A parameter-server job of real `python -m tfwave.server` processes, and chiefs that run to their end."""

import contextlib
import json
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.cluster.cluster import free_addresses
from tests.cluster.speaker import Process, end, read_line, spawn

CHIEF_SECONDS = 350


def start_chief(module: str, *arguments: str, variables: Mapping[str, str] | None = None) -> Process:
    return spawn(module, *arguments, variables=variables, stderr=True)


def result_of(chief: Process, seconds: float = CHIEF_SECONDS) -> tuple[Any, str]:
    """Wait for a chief; what it printed last, and its standard error."""
    try:
        out, errors = chief.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        chief.kill()
        raise AssertionError(f"the chief hangs; it said: {chief.communicate()[1][-3000:]}") from None
    assert chief.returncode == 0, errors[-3000:]
    return json.loads(out.splitlines()[-1]), errors


def run_chief(module: str, *arguments: str, variables: Mapping[str, str] | None = None) -> Any:
    """Run a chief to its end; what it printed last."""
    return result_of(start_chief(module, *arguments, variables=variables))[0]


@dataclass
class Job:
    """The servers of a job with a chief; any can be killed and started again at its address."""

    cluster: dict[str, list[str]]
    control: dict[str, list[str]]
    stock: bool
    environment: dict[str, str]
    cpus: int = 1
    processes: dict[tuple[str, int], Process] = field(default_factory=dict)

    def tf_config(self, job: str, index: int) -> str:
        task = {"type": job, "index": index}
        return json.dumps({"cluster": self.cluster, "task": task, "tfwave": {"control": self.control}})

    def start(self, job: str, index: int) -> None:
        request = {"cluster": self.cluster, "job": job, "tasks": [index], "enforcer": None}
        if not self.stock:
            request |= {"enforcer": "hook", "control": self.control[job][index], "cpus": self.cpus}
        by_hand = self.stock or self.cpus > 1
        command = ("tests.cluster.task", json.dumps(request)) if by_hand else ("tfwave.server",)
        variables = {"TF_CONFIG": self.tf_config(job, index)} | self.environment
        self.processes[job, index] = spawn(*command, variables=variables)

    def wait_for(self, job: str, index: int) -> None:
        """Until a server says that it serves."""
        read_line(self.processes[job, index])

    def kill(self, job: str, index: int) -> None:
        end(self.processes.pop((job, index)))

    def chief(self, scenario: str, **arguments: Any) -> dict[str, Any]:
        """Run a scenario of `chiefs.py` in a process; what it found."""
        return self.result(self.start_chief(scenario, **arguments))

    def result(self, chief: Process) -> dict[str, Any]:
        """Wait for a chief; what it found."""
        found, errors = result_of(chief)
        return found | {"errors": errors}

    def start_chief(self, scenario: str, **arguments: Any) -> Process:
        variables = {"TF_CONFIG": self.tf_config("chief", 0)}
        return start_chief(
            "tests.cluster.distribute.chiefs", scenario, json.dumps(arguments), variables=variables
        )


@contextlib.contextmanager
def job(
    ps: int = 2,
    workers: int = 2,
    *,
    stock: bool = False,
    cpus: int = 1,
    environment: dict[str, str] | None = None,
) -> Iterator[Job]:
    """Servers with so many CPU devices each."""
    chief, *rest = free_addresses(1 + 2 * (ps + workers))
    tasks, control = rest[: ps + workers], rest[ps + workers :]
    cluster = {"chief": [chief], "ps": tasks[:ps], "worker": tasks[ps:]}
    made = Job(cluster, {"ps": control[:ps], "worker": control[ps:]}, stock, environment or {}, cpus)
    try:
        for name in ("ps", "worker"):
            for index in range(len(cluster[name])):
                made.start(name, index)
        for name, index in list(made.processes):
            made.wait_for(name, index)
        yield made
    finally:
        for process in made.processes.values():
            end(process)
