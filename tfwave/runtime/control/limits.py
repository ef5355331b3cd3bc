"""What callers of a control service may ask of it, as the owner of the server allows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfwave.errors import EnforcerError, PlanError
from tfwave.plan.message import from_proto
from tfwave.plan.plan import Plan
from tfwave.proto import control_pb2
from tfwave.runtime.settings import check_settings

MOST_FUNCTIONS = 2048
"""One request plans no more functions: each takes some 10 kB of the server's memory."""

MOST_TASKS = 16384
"""No more tasks may be said to run a hook."""

LONGEST_LEASE = 1e6


@dataclass(frozen=True)
class ControlLimits:
    """What the owner of a server lets callers of its control service set; its own process may set anything.

    Attributes:
        longest_deadline_seconds: no caller keeps what is held for longer.
        least_bytes_per_second: no caller on another machine paces what the server sends to less; 0, no pace, is
            always allowed. On loopback and unix sockets any pace is.

    Raises:
        EnforcerError: one of them is not a positive number.
    """

    longest_deadline_seconds: float = 60.0
    least_bytes_per_second: float = 1e6

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 < value < math.inf:
                raise EnforcerError(f"{name} is {value}: give a positive number")

    def check(self, settings: Mapping[str, Any], is_local: bool) -> None:
        """Check what a caller wants to set.

        Raises:
            EnforcerError: it is out of range, or the owner does not allow it.
        """
        check_settings(**{name: value for name, value in settings.items() if name != "enabled"})
        deadline, pace = settings.get("deadline_seconds", 0), settings.get("bytes_per_second", 0)
        if deadline > self.longest_deadline_seconds:
            raise EnforcerError(
                f"a deadline of {deadline} s is not allowed here: ask for at most "
                f"{self.longest_deadline_seconds:g} s, or start the server with --longest-deadline"
            )
        if 0 < pace < self.least_bytes_per_second and not is_local:
            raise EnforcerError(
                f"a rate of {pace} bytes/s is not allowed here: ask for 0 (no limit) or at least "
                f"{self.least_bytes_per_second:g}, or start the server with --least-rate"
            )
        if len(settings.get("hooked_tasks", ())) > MOST_TASKS:
            raise EnforcerError(f"the request names more than {MOST_TASKS} hooked tasks")


DEFAULT_LIMITS = ControlLimits()


def settings_of(message: control_pb2.Settings) -> dict[str, Any]:
    """The settings that a request gives, as a hook's `configure` takes them."""
    names = ("enabled", "deadline_seconds", "bytes_per_second")
    given: dict[str, bool | float | Sequence[str]] = {
        name: getattr(message, name) for name in names if message.HasField(name)
    }
    if message.HasField("hooked_tasks"):
        given["hooked_tasks"] = tuple(message.hooked_tasks.tasks)
    return given


def lease_of(seconds: float) -> float:
    """How long a request's plans hold without a call.

    Raises:
        EnforcerError: it is out of range.
    """
    if not 0 <= seconds <= LONGEST_LEASE:
        raise EnforcerError(f"a lease of {seconds} s is out of range: give 0 (for ever) to {LONGEST_LEASE:g}")
    return seconds


def plans_of(request: control_pb2.InstallRequest) -> Plan | dict[str, Plan]:
    """What a request wants to be installed.

    Raises:
        PlanError: it breaks a plan's rules, two plans are for one function, or they are too many.
    """
    if not request.plans:
        return from_proto(request.plan)
    if request.HasField("plan"):
        raise PlanError("the request has a plan for all graphs and plans by function: send one or the others")
    if len(request.plans) > MOST_FUNCTIONS:
        raise PlanError(
            f"the request has plans for {len(request.plans)} functions, {MOST_FUNCTIONS} are taken"
        )
    plans = {named.function: from_proto(named.plan) for named in request.plans}
    if len(plans) < len(request.plans):
        raise PlanError("the request has two plans for one function: send one for each")
    return plans
