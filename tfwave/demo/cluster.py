"""The demo's cluster: servers with the hook, workers without, a chief that runs steps."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tfwave.demo import chief_task, server_task
from tfwave.demo.model import Replicas, worker_environment
from tfwave.demo.network import Network, open_network
from tfwave.demo.processes import Task, Tasks
from tfwave.errors import EnforcerError
from tfwave.plan.plan import Plan
from tfwave.report.conformance import HandOff, read_hand_offs
from tfwave.runtime.control.client import ControlClient

START_SECONDS = 180.0
STEP_SECONDS = 60.0

_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2"}


@dataclass(frozen=True)
class DemoJob:
    """What a demo runs: its cluster, its link (bits per second, into and out of each host) and its replicas."""

    servers: int
    workers: int
    bits_per_second: float
    replicas: Replicas
    enforcer: str | None = "hook"
    """What keeps the order on the servers, "hook" or "proxy"; None: they are stock, and nothing is installed."""


class DemoCluster:
    """A running job; `network` says how its link is limited."""

    def __init__(self, network: Network, chief: Task, controls: list[ControlClient]) -> None:
        """Take over started tasks."""
        self.network = network
        self._chief = chief
        self._controls = controls
        self._cursors = [0] * len(controls)

    def run(self, steps: int) -> tuple[list[list[float]], str]:
        """Run steps; the seconds of each worker in each, and a digest of all outputs."""
        answer = self.ask(steps * STEP_SECONDS, do="run", steps=steps)
        return answer["steps"], answer["digest"]

    def capture(self, out: Path, *, steps: int, warmup: int) -> None:
        """Write a capture bundle to `out`."""
        seconds = (steps + warmup) * STEP_SECONDS
        self.ask(seconds, do="capture", out=str(out.absolute()), steps=steps, warmup=warmup)

    def install(self, plan: Plan) -> None:
        """Install a plan on every server, switched off: tensors pass as they are ready, and are logged."""
        for control in self._controls:
            control.install(plan, enabled=False)
        self._cursors = [0] * len(self._controls)

    def order(self, enabled: bool) -> None:
        """Switch the order on or off."""
        for control in self._controls:
            control.configure(enabled=enabled)

    def hand_offs(self) -> list[HandOff]:
        """What the hooks logged since the last call.

        Raises:
            EnforcerError: a log overflowed before it was read.
        """
        read: list[HandOff] = []
        for i, control in enumerate(self._controls):
            log = control.hand_offs(self._cursors[i])
            if log.dropped:
                raise EnforcerError(
                    f"the log of server {i} lost {log.dropped} hand-offs: run fewer steps a block"
                )
            self._cursors[i] = log.next_cursor
            read += read_hand_offs(log, lambda _, channel: str(channel))
        return read

    def live_steps(self) -> int:
        """Steps that still have a counter on some server."""
        return sum(control.health().counters.live_steps for control in self._controls)

    def start(self, cluster: dict[str, list[str]], job: DemoJob) -> None:
        """Build the job on a cluster whose servers are up, and limit its link if the network does not."""
        for control in self._controls:
            control.configure(bytes_per_second=self.network.pacing_bytes_per_second)
        self.ask(START_SECONDS, do="start", cluster=cluster, replicas=asdict(job.replicas))

    def ask(self, seconds: float, **request: object) -> dict[str, Any]:
        """What the chief answers.

        Raises:
            EnforcerError: it cannot do that, or does not answer in so many seconds.
        """
        answer = self._chief.request(request, seconds)
        if "error" in answer:
            raise EnforcerError(f"the chief cannot {request['do']}: {answer['error']}")
        return answer


@contextmanager
def demo_cluster(
    job: DemoJob, directory: Path, chief_module: str = chief_task.MODULE
) -> Generator[DemoCluster]:
    """Start a job; logs and control sockets go to `directory`. Everything ends with the block.

    Args:
        job: what to run.
        directory: which is there.
        chief_module: of the first worker's process, which answers as `chief_task` does.

    Raises:
        EnforcerError: a task does not start; names it and its log.
    """
    servers = [f"server{i}" for i in range(job.servers)]
    workers = [f"worker{i}" for i in range(job.workers)]
    with ExitStack() as stack:
        network = stack.enter_context(open_network([*servers, *workers], job.bits_per_second))
        tasks = stack.enter_context(Tasks(network, directory))
        cluster = {"ps": network.free_addresses(servers), "worker": network.free_addresses(workers)}
        started = [
            _start_server(tasks, host, cluster, ("ps", i), directory, job.enforcer)
            for i, host in enumerate(servers)
        ]
        for i, host in enumerate(workers[1:], 1):
            device = job.replicas.device
            started.append(_start_server(tasks, host, cluster, ("worker", i), directory, None, device))
        environment = _QUIET | worker_environment(job.replicas.device)
        chief = tasks.start("worker0", workers[0], chief_module, environment)
        addresses = [task.receive(START_SECONDS)["control"] for task in started]
        controls = [stack.enter_context(ControlClient(a)) for a in addresses if a]
        demo = DemoCluster(network, chief, controls)
        demo.start(cluster, job)
        yield demo


def _start_server(  # noqa: PLR0913, PLR0917
    tasks: Tasks,
    host: str,
    cluster: dict[str, list[str]],
    place: tuple[str, int],
    directory: Path,
    enforcer: str | None,
    device: str = "CPU:0",
) -> Task:
    """At a job and its number."""
    job, index = place
    task = tasks.start(f"{job}{index}", host, server_task.MODULE, _QUIET | worker_environment(device))
    task.send(server_task.request_of(cluster, place, directory, enforcer) | {"device": device})
    return task
