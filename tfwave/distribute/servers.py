"""The hooked servers of a job, spoken to together."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from tfwave.capture.worker_trace import WorkerTrace
from tfwave.errors import EnforcerError
from tfwave.graph.names import Channel, task_of
from tfwave.plan.plan import Plan
from tfwave.proto import control_pb2
from tfwave.report.conformance import HandOff
from tfwave.runtime.control.client import ControlClient
from tfwave.runtime.control.credentials import Credentials

LEASE_SECONDS = 300.0
"""After a chief's last call its plans are forgotten: the next chief's functions may have the same names.

Longer than a chief may be busy with a trace."""
_PARALLEL = 16
_T = TypeVar("_T")


@dataclass
class _Peer:
    task: str
    """As TensorFlow names it, ``/job:ps/replica:0/task:0``."""
    client: ControlClient
    cursor: int = 0


class Servers:
    """The control services of all parameter servers and workers of a job.

    Each call raises `EnforcerError` if one of them does not answer or refuses; the others have been told.
    """

    def __init__(self, addresses: Mapping[str, str], credentials: Credentials | None = None) -> None:
        """Control addresses by task, as `control_addresses` gives them; nothing is sent yet."""
        peers = [_Peer(task, ControlClient(a, credentials=credentials)) for task, a in addresses.items()]
        self._ps = [peer for peer in peers if peer.task.startswith("/job:ps/")]
        self._workers = [peer for peer in peers if peer.task.startswith("/job:worker/")]
        self._pool = ThreadPoolExecutor(_PARALLEL, thread_name_prefix="tfwave-servers")

    def enforcers(self) -> dict[str, str]:
        """What orders the transfers of each parameter server: "hook" or "proxy", by task."""
        return {
            peer.task: status.enforcer for peer, status in self._each(self._ps, lambda p: p.client.health())
        }

    def announce(self, workers: Iterable[int] | None = None) -> None:
        """Tell workers which servers understand a step's marker, before they run anything; default: all."""
        hooked = [task for task, enforcer in self.enforcers().items() if enforcer == "hook"]
        chosen = self._workers if workers is None else [self._workers[i] for i in workers]
        self._all(chosen, lambda peer: peer.client.configure(hooked_tasks=hooked))

    def install(self, plans: Mapping[str, Plan]) -> None:
        """Put plans in force, one for each function by name, instead of all before; none: forget them."""
        if not plans:
            self._each(self._ps, lambda peer: peer.client.remove())
            return
        self._each(
            self._ps,
            lambda peer: peer.client.install(_sent_by(peer.task, plans), lease_seconds=LEASE_SECONDS),
        )

    def forgetful(self) -> list[str]:
        """Parameter servers on which no plan is in force: they were restarted."""
        return [
            peer.task
            for peer, status in self._each(self._ps, lambda p: p.client.health())
            if not status.installed
        ]

    def start_trace(self) -> None:
        """Let each worker note the times of its ops and arrivals."""
        self._each(self._workers, lambda peer: peer.client.start_trace())

    def stop_trace(self) -> list[WorkerTrace]:
        """What each worker noted."""
        return [
            WorkerTrace.of(trace)
            for _, trace in self._each(self._workers, lambda peer: peer.client.stop_trace())
        ]

    def hand_offs(self) -> list[HandOff]:
        """What the parameter servers handed off under their plans since the last call."""
        answers = self._each(self._ps, lambda peer: peer.client.hand_offs(peer.cursor))
        found: list[HandOff] = []
        for peer, answer in answers:
            peer.cursor = answer.next_cursor
            found += _hand_offs(answer)
        return found

    def _each(self, peers: list[_Peer], ask: Callable[[_Peer], _T]) -> list[tuple[_Peer, _T]]:
        return list(zip(peers, self._all(peers, ask), strict=True))

    def _all(self, peers: list[_Peer], ask: Callable[[_Peer], _T]) -> list[_T]:
        """Ask at once; fail only when all have answered, naming the first that failed."""
        asked = [(peer, self._pool.submit(ask, peer)) for peer in peers]
        failures = [(peer, error) for peer, future in asked if (error := future.exception()) is not None]
        if failures:
            peer, error = failures[0]
            raise EnforcerError(f"{peer.task}: {error}") from error
        return [future.result() for _, future in asked]


def _sent_by(task: str, plans: Mapping[str, Plan]) -> dict[str, Plan]:
    """Of each plan what a task sends."""
    return {
        name: replace(plan, orders=tuple(o for o in plan.orders if task_of(o.channel.source) == task))
        for name, plan in plans.items()
    }


def channel_of(function: str, channel: Channel) -> str:
    """What a hand-off calls the channel of a function's plan."""
    return f"{function} {channel}"


def function_of(channel: str) -> str:
    """The function whose plan ordered a hand-off, by the hand-off's channel."""
    return channel.partition(" ")[0]


def _hand_offs(answer: control_pb2.HandOffs) -> list[HandOff]:
    channels = [
        channel_of(c.function, Channel(c.source_device, c.destination_device)) for c in answer.channels
    ]
    reasons = control_pb2.Reason.Name
    return [HandOff(h.step, channels[h.channel], h.rank, reasons(h.reason)) for h in answer.hand_offs]
