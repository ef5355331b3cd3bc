"""The send hook of this process: its plan, its settings, what it counted and what it handed off."""

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from tfwave.errors import EnforcerError
from tfwave.graph.names import Channel
from tfwave.plan.plan import ChannelOrder, Plan, plans_by_function
from tfwave.proto import control_pb2
from tfwave.runtime import native
from tfwave.runtime.server_handle import server_handle
from tfwave.runtime.settings import check_settings

ABI_VERSION = 5
MAX_HAND_OFFS = 65536
"""The capacity of the log: what lies further back is overwritten."""
MAX_ARRIVALS = 65536
"""The capacity of the log of arrivals, as `MAX_HAND_OFFS`."""


class _Row(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_char_p) for name in ("source", "destination", "edge", "function")),
        *((name, ctypes.c_int64) for name in ("window", "channel")),
    ]


class _Status(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("live_steps", "held", "ordered", "released")),
        *((name, ctypes.c_int64) for name in ("late", "unplanned", "deadlines", "log_dropped")),
        *((name, ctypes.c_int32) for name in ("installed", "enabled")),
        *((name, ctypes.c_double) for name in ("deadline_seconds", "bytes_per_second")),
    ]


class _HandOff(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("time_nanos", "ready_nanos", "step", "bytes")),
        *((name, ctypes.c_int32) for name in ("channel", "rank", "reason")),
    ]


class _Arrival(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("requested_nanos", "arrived_nanos", "step", "bytes")),
        ("transfer", ctypes.c_int32),
    ]


class _Transfer(ctypes.Structure):
    _fields_ = [(name, ctypes.c_char_p) for name in ("source", "destination", "edge")]


@dataclass(frozen=True)
class Arrival:
    """One tensor that came from another task; times in nanoseconds of `time.monotonic_ns`."""

    step: int
    channel: Channel
    edge: str
    bytes: int
    requested_nanos: int
    arrived_nanos: int


@dataclass(frozen=True)
class Arrivals:
    """Arrivals in the order in which they came; `dropped` were overwritten since the cursor."""

    next_cursor: int
    dropped: int
    arrivals: tuple[Arrival, ...]


class Hook:
    """Orders what this process sends. There is one hook a process, however many servers and `Hook` objects.

    Raises:
        EnvironmentUnsupported: no supported TensorFlow, or no compiler.
        EnforcerError: the native library cannot be built or loaded.
    """

    _channels: tuple[tuple[ChannelOrder, str], ...] = ()
    """By number: those of the plans last installed, with their functions; the process's, as all state is."""

    _installing = Lock()
    """While the library's channels are not those above, or it is asked for what it says of them."""

    def __init__(self) -> None:
        self._library: Any = native.load()
        self._library.tfwave_server_type.restype = ctypes.c_void_p
        found = self._library.tfwave_abi_version()
        if found != ABI_VERSION:
            raise EnforcerError(f"the native library has ABI {found}, not {ABI_VERSION}: empty the cache")

    def install(self, plans: Plan | Mapping[str, Plan]) -> None:
        """Enforce plans from the next step on; what earlier ones hold is let go.

        Args:
            plans: one plan for all graphs, or one for each function, by TensorFlow's name of it
                (``__inference_step_64``). The plan of "" is for Sessions and for all functions that
                have none of their own; without it those pass unordered.

        Raises:
            PlanError: neither.
        """
        named = plans_by_function(plans)
        orders = [(order, name) for name, plan in named.items() for order in plan.orders if order.transfers]
        rows = [
            row for number, (order, function) in enumerate(orders) for row in _rows(number, order, function)
        ]
        functions = _texts(named)
        counts = [ctypes.c_int64(len(array)) for array in (functions, rows)]
        with Hook._installing:
            self._call("tfwave_install", functions, counts[0], (_Row * len(rows))(*rows), counts[1])
            Hook._channels = tuple(orders)

    def remove(self) -> None:
        """Forget the plans; what is held is let go."""
        self._call("tfwave_remove")

    def configure(
        self,
        enabled: bool | None = None,
        deadline_seconds: float | None = None,
        bytes_per_second: float | None = None,
        hooked_tasks: Sequence[str] | None = None,
    ) -> None:
        """Change settings; None leaves one as it is.

        Args:
            enabled: False lets tensors pass as they come, still logged.
            deadline_seconds: longest time without a hand-off before what is held, of a step or of a priority
                channel, goes out unordered; above 0, and more than the largest tensor takes on the link.
            bytes_per_second: rate at which tensors leave this process; 0: not limited.
            hooked_tasks: the tasks, as ``/job:ps/replica:0/task:0``, that run a hook; none at first, not even
                this process's own. What they send in functions that this process instantiates from now on can be
                ordered. A task that is listed and runs no hook refuses those functions.

        Raises:
            EnforcerError: a value out of range; nothing is changed.
        """
        check_settings(deadline_seconds, bytes_per_second, hooked_tasks)
        if hooked_tasks is not None:
            self._call("tfwave_set_hooked_tasks", _texts(hooked_tasks), ctypes.c_int64(len(hooked_tasks)))
        if deadline_seconds is not None:
            self._call("tfwave_set_deadline", ctypes.c_double(deadline_seconds))
        if bytes_per_second is not None:
            self._call("tfwave_set_rate", ctypes.c_double(bytes_per_second))
        if enabled is not None:
            self._call("tfwave_set_enabled", ctypes.c_int32(enabled))

    def status(self) -> control_pb2.Status:
        """Settings and counters, now."""
        raw: Any = _Status()
        self._call("tfwave_get_status", ctypes.byref(raw))
        counters = {field.name: getattr(raw, field.name) for field in control_pb2.Counters.DESCRIPTOR.fields}
        return control_pb2.Status(
            enforcer="hook",
            tensorflow_version=native.tensorflow_version(),
            installed=bool(raw.installed),
            enabled=bool(raw.enabled),
            deadline_seconds=raw.deadline_seconds,
            bytes_per_second=raw.bytes_per_second,
            counters=control_pb2.Counters(**counters),
        )

    def hand_offs(self, cursor: int = 0) -> control_pb2.HandOffs:
        """Hand-offs under the plans last installed, from `cursor` on (0, or the last `next_cursor`)."""
        with Hook._installing:
            channels = Hook._channels
            entries, position, lost = self._read("tfwave_read_log", _HandOff, MAX_HAND_OFFS, cursor)
        answer = control_pb2.HandOffs(next_cursor=position, dropped=lost)
        for order, function in channels:
            answer.channels.add(
                source_device=order.channel.source,
                destination_device=order.channel.destination,
                function=function,
                discipline=order.discipline,
            )
        names = [field.name for field in control_pb2.HandOff.DESCRIPTOR.fields]
        for entry in entries:
            answer.hand_offs.add(**{name: getattr(entry, name) for name in names})
        return answer

    def log_arrivals(self, on: bool) -> None:
        """Log what arrives from other tasks, in steps that begin from now on; off at first."""
        self._call("tfwave_log_arrivals", ctypes.c_int32(on))

    def arrivals(self, cursor: int = 0) -> Arrivals:
        """What was logged, from `cursor` on (0, or the last `next_cursor`)."""
        entries, position, lost = self._read("tfwave_read_arrivals", _Arrival, MAX_ARRIVALS, cursor)
        names = {entry.transfer: self._transfer(entry.transfer) for entry in entries}
        arrivals = tuple(
            Arrival(a.step, *names[a.transfer], a.bytes, a.requested_nanos, a.arrived_nanos) for a in entries
        )
        return Arrivals(position, lost, arrivals)

    def _read(self, name: str, entry: Any, capacity: int, cursor: int) -> tuple[list[Any], int, int]:
        """What a log has from `cursor` on, the next cursor, and how many were lost."""
        buffer = (entry * capacity)()
        position, count, lost = ctypes.c_int64(max(0, cursor)), ctypes.c_int64(), ctypes.c_int64()
        numbers = ctypes.byref(count), ctypes.byref(lost)
        self._call(name, ctypes.byref(position), buffer, ctypes.c_int64(capacity), *numbers)
        return buffer[: count.value], position.value, lost.value

    def _transfer(self, number: int) -> tuple[Channel, str]:
        name: Any = _Transfer()
        self._call("tfwave_transfer_name", ctypes.c_int32(number), ctypes.byref(name))
        return Channel(name.source.decode(), name.destination.decode()), name.edge.decode()

    def wrap(self, server: Any) -> None:
        """Hook a `tf.distribute.Server` that already runs; its present graphs follow all of the plan of "".

        Raises:
            EnforcerError: it is no TensorFlow server, or one that this version of tfwave cannot take apart.
        """
        self._call("tfwave_wrap", server_handle(server, self._library.tfwave_server_type()))

    def _call(self, name: str, *arguments: Any) -> None:
        native.call(self._library, name, *arguments)


def _rows(number: int, order: ChannelOrder, function: str) -> list[_Row]:
    ends = order.channel.source.encode(), order.channel.destination.encode()
    numbers = order.window_bytes, number
    return [_Row(*ends, t.edge.encode(), function.encode(), *numbers) for t in order.transfers]


def _texts(texts: Iterable[str]) -> Any:
    encoded = [text.encode() for text in texts]
    return (ctypes.c_char_p * len(encoded))(*encoded)
