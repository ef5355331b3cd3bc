"""How transfers that are under way at one time share bandwidth."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isinf

_KNOWN_SETS = 1 << 14


class Network:
    """Lanes and the ports they pass: max-min fair, so that no lane could have more but from one that has less.

    `ports` holds the lanes that share a port of finite bandwidth with another; all others have theirs alone.
    """

    def __init__(self, ports: Mapping[int, Sequence[int]], bandwidths: Sequence[float]) -> None:
        finite = {lane: [p for p in own if not isinf(bandwidths[p])] for lane, own in ports.items()}
        users: dict[int, int] = {}
        for own in finite.values():
            for port in own:
                users[port] = users.get(port, 0) + 1
        self.ports = {lane: own for lane, own in finite.items() if any(users[p] > 1 for p in own)}
        self._bandwidths = bandwidths
        self._alone = {lane: min(bandwidths[p] for p in own) for lane, own in self.ports.items()}
        self.speeds = lru_cache(_KNOWN_SETS)(self._find_speeds)

    def _find_speeds(self, active: frozenset[int]) -> Mapping[int, float]:
        """Per active lane: its speed, where 1 is what it has when alone."""
        rates = fair_rates({lane: self.ports[lane] for lane in sorted(active)}, self._bandwidths)
        return {lane: rate / self._alone[lane] for lane, rate in rates.items()}


def fair_rates(ports: Mapping[int, Collection[int]], bandwidths: Sequence[float]) -> dict[int, float]:
    """The max-min fair rate of each lane that passes these ports: fill the fullest port first, then the rest."""
    left = list(bandwidths)
    crowd: dict[int, dict[int, None]] = {}
    for lane, own in ports.items():
        for port in own:
            crowd.setdefault(port, {})[lane] = None
    rates: dict[int, float] = {}
    while crowd:
        rate, fullest = min([(left[port] / len(lanes), port) for port, lanes in crowd.items()])
        for lane in list(crowd[fullest]):
            rates[lane] = rate
            for port in ports[lane]:
                left[port] -= rate
                del crowd[port][lane]
                if not crowd[port]:
                    del crowd[port]
    return rates


@dataclass(slots=True)
class _Flow:
    """One task under way: `left` are the ticks that it would still have taken alone at tick `since`."""

    task: int
    left: float
    since: int = 0
    speed: float = 0.0
    due: int = -1


class Flows:
    """What is under way on lanes that share ports, and when it will have left."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._flows: dict[int, _Flow] = {}

    def start(self, lane: int, task: int, ticks: int) -> None:
        """Let a task go that takes so many ticks alone."""
        self._flows[lane] = _Flow(task, ticks)

    def stop(self, lane: int, task: int, now: int) -> bool:
        """Take a task away, if it is due now; False for an event that a change of speed has overtaken."""
        flow = self._flows.get(lane)
        if flow is None or (flow.task, flow.due) != (task, now):
            return False
        del self._flows[lane]
        return True

    def retimed(self, now: int) -> Iterator[tuple[int, int]]:
        """(time, task) of all whose speed changes now that others have come or gone."""
        if not self._flows:
            return
        speeds = self._network.speeds(frozenset(self._flows))
        for lane, flow in self._flows.items():
            speed = speeds[lane]
            if speed != flow.speed:
                flow.left = max(0.0, flow.left - (now - flow.since) * flow.speed)
                flow.since, flow.speed = now, speed
                flow.due = now + round(flow.left / speed)
                yield flow.due, flow.task
