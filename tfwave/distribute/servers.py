"""The hooked servers of a job, spoken to together."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from tfwave.capture.worker_trace import TaskTrace
from tfwave.errors import EnforcerError
from tfwave.graph.names import Channel, task_of
from tfwave.plan.plan import Plan
from tfwave.report.conformance import HandOff, read_hand_offs
from tfwave.runtime.control.client import ControlClient
from tfwave.runtime.control.credentials import Credentials

LEASE_SECONDS = 300.0
"""After a chief's last call its plans are forgotten: the next chief's functions may have the same names.

It is longer than a chief may be busy with a trace."""
_PARALLEL = 16
_T = TypeVar("_T")


@dataclass
class _Peer:
    task: str
    """As TensorFlow names it, ``/job:ps/replica:0/task:0``."""
    client: ControlClient
    cursor: int = 0
    planned: bool = False
    """Whether a plan should be in force there."""


class Servers:
    """The control services of all parameter servers and workers of a job.

    Each call raises `EnforcerError` if a parameter server does not answer or refuses; the others have been told. A
    worker may be away for a while: it raises only where all workers are needed, to announce and to trace.
    """

    def __init__(self, addresses: Mapping[str, str], credentials: Credentials | None = None) -> None:
        """Control addresses by task, as `control_addresses` gives them; nothing is sent yet."""
        peers = [_Peer(task, ControlClient(a, credentials=credentials)) for task, a in addresses.items()]
        self._ps = [peer for peer in peers if peer.task.startswith("/job:ps/")]
        self._workers = [peer for peer in peers if peer.task.startswith("/job:worker/")]
        self._traced: list[_Peer] = []  # of the parameter servers
        self._pool = ThreadPoolExecutor(_PARALLEL, thread_name_prefix="tfwave-servers")

    def enforcers(self) -> dict[str, str]:
        """What orders the transfers of each parameter server: "hook" or "proxy", by task."""
        return {
            peer.task: status.enforcer for peer, status in self._each(self._ps, lambda p: p.client.health())
        }

    def announce(self, workers: Iterable[int] | None = None) -> None:
        """Tell workers which tasks understand a step's marker, before they run anything; default: all.

        These are the servers with a hook, and the worker itself, if it has one.
        """
        hooked = [task for task, enforcer in self.enforcers().items() if enforcer == "hook"]
        chosen = self._workers if workers is None else [self._workers[i] for i in workers]

        def tell(peer: _Peer) -> None:
            own = [peer.task] * (peer.client.health().enforcer == "hook")
            peer.client.configure(hooked_tasks=[*hooked, *own])

        self._all(chosen, tell)

    def install(self, plans: Mapping[str, Plan]) -> None:
        """Put plans in force, one for each function by name, instead of all before; none: forget them.

        Each task gets what it sends; a worker nothing, where no plan orders what workers send.
        """
        self._reached(self._workers, lambda peer: _put(peer, _sending(peer.task, plans)))
        self._all(self._ps, lambda peer: _put(peer, _sent_by(peer.task, plans)))

    def forgetful(self) -> list[str]:
        """Tasks on which no plan is in force although one should be: they were restarted."""
        answers = self._each(self._ps, lambda peer: peer.client.health())
        answers += self._reached(self._planned_workers(), lambda peer: peer.client.health())
        return [peer.task for peer, status in answers if not status.installed]

    def start_trace(self) -> None:
        """Let each worker note the times of its ops and arrivals; parameter servers too, where they can."""
        self._traced = [peer for peer, _ in self._reached(self._ps, lambda peer: peer.client.start_trace())]
        self._all(self._workers, lambda peer: peer.client.start_trace())

    def stop_trace(self) -> list[TaskTrace]:
        """What each task noted."""
        answers = self._reached(self._traced, lambda peer: peer.client.stop_trace())
        answers += self._each(self._workers, lambda peer: peer.client.stop_trace())
        return [TaskTrace.of(peer.task, trace) for peer, trace in answers]

    def hand_offs(self) -> list[HandOff]:
        """What was handed off under the plans since the last call."""
        answers = self._each(self._ps, lambda peer: peer.client.hand_offs(peer.cursor))
        answers += self._reached(self._planned_workers(), lambda peer: peer.client.hand_offs(peer.cursor))
        found: list[HandOff] = []
        for peer, answer in answers:
            peer.cursor = answer.next_cursor
            found += read_hand_offs(answer, channel_of)
        return found

    def _planned_workers(self) -> list[_Peer]:
        return [peer for peer in self._workers if peer.planned]

    def _reached(self, peers: list[_Peer], ask: Callable[[_Peer], _T]) -> list[tuple[_Peer, _T]]:
        """Ask at once; the answers of those that give one."""
        asked = [(peer, self._pool.submit(ask, peer)) for peer in peers]
        failures = [future.exception() for _, future in asked]
        for failure in failures:
            if failure is not None and not isinstance(failure, EnforcerError):
                raise failure
        return [
            (peer, future.result())
            for (peer, future), failed in zip(asked, failures, strict=True)
            if not failed
        ]

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


def _put(peer: _Peer, plans: Mapping[str, Plan]) -> None:
    peer.planned = bool(plans)
    if plans:
        peer.client.install(plans, lease_seconds=LEASE_SECONDS)
    else:
        peer.client.remove()


def _sending(task: str, plans: Mapping[str, Plan]) -> dict[str, Plan]:
    """The plans by which a task sends something, with what it sends."""
    return {name: plan for name, plan in _sent_by(task, plans).items() if plan.orders}


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
