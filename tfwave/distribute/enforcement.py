"""The plans that are in force on the servers of a job, and how they are kept."""

import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from tfwave.distribute.judge import Judge, Kept
from tfwave.distribute.servers import LEASE_SECONDS, Servers
from tfwave.errors import EnforcerError
from tfwave.plan.plan import Plan
from tfwave.report.page.left import leave_page
from tfwave.report.told import Picture, tell_plan
from tfwave.runtime.events import Events

_WATCH_SECONDS = 1.0
_WATCH_SHARE = 0.01
"""Reading hand-offs takes at most this share of the chief's time."""
_MOST_MISSES = 5
"""A server that does not answer more than so many times in a row, while a training runs, is given up."""

_log = logging.getLogger("tfwave")


class Enforcement:
    """A plan for each function, by its name, and a judge of what is handed off under them.

    The schedule's thread alone changes it; `kept` may be called by any.
    """

    def __init__(
        self, servers: Servers, report_dir: Path | None = None, events: Events | None = None
    ) -> None:
        """Nothing is in force. What comes into force is written to `report_dir` and `events`, too."""
        self.plans: dict[str, Plan] = {}
        self.events = events
        self._told: list[tuple[str, Plan]] = []
        self.judge = Judge()
        self._servers = servers
        self._report_dir = report_dir
        self._lock = threading.Lock()
        self._next_watch = 0.0
        self._misses = 0

    def put(self, function: str, plan: Plan, pictures: Mapping[str, Picture] | None = None) -> None:
        """Put the plan of a function in force; the pictures are for TensorBoard, which is told each plan once.

        Raises:
            EnforcerError: a server does not answer, or refuses; so do the next two.
        """
        self._install({**self.plans, function: plan})
        if self._report_dir is not None:
            leave_page(self._report_dir, function, plan)
        if self.events is not None and (function, plan) not in self._told:
            tell_plan(self.events, function, plan, pictures or {}, len(self._told))
            self._told.append((function, plan))

    def take_back(self, function: str) -> None:
        """Let a function go unordered."""
        self._install({other: plan for other, plan in self.plans.items() if other != function})

    def lift(self) -> None:
        """Let all go unordered; what is in force here is nothing, whatever the servers say."""
        with self._lock:
            self.plans = {}
        self._servers.install({})

    def kept(self) -> Kept:
        """How the plans were kept since the last call."""
        with self._lock:
            try:
                self._read_hand_offs()
            except EnforcerError as err:
                _log.warning("tfwave: the figures lack the last hand-offs: %s", err)
            return self.judge.take()

    def watch(self) -> None:
        """From time to time: read what was handed off, and install again what a server lost.

        Raises:
            EnforcerError: a server has not answered several times in a row.
        """
        begin = time.monotonic()
        if not self.plans or begin < self._next_watch:
            return
        try:
            self._look()
            self._misses = 0
        except EnforcerError:
            self._misses += 1
            if self._misses > _MOST_MISSES:
                raise
        end = time.monotonic()
        self._next_watch = end + min(max(_WATCH_SECONDS, (end - begin) / _WATCH_SHARE), LEASE_SECONDS / 10)

    def _look(self) -> None:
        forgetful = self._servers.forgetful()
        if forgetful:
            _log.info("tfwave: %s lost its plan, which is installed again", ", ".join(forgetful))
            self._install(self.plans)
        with self._lock:
            self._read_hand_offs()

    def _install(self, plans: dict[str, Plan]) -> None:
        """A server begins its log anew with new plans, so what it holds is read before."""
        with self._lock:
            self._read_hand_offs()
            self._servers.install(plans)
            self.judge.expect(plans)
            self.plans = plans

    def _read_hand_offs(self) -> None:
        if self.plans:
            self.judge.add(self._servers.hand_offs(), time.monotonic())
