"""The send hook of this process: its plan, its settings, what it counted and what it handed off."""

import ctypes
import math
from collections.abc import Callable
from typing import Any

from tfwave.errors import EnforcerError
from tfwave.graph.names import Channel
from tfwave.plan.plan import ChannelOrder, Plan
from tfwave.proto import control_pb2
from tfwave.runtime import native
from tfwave.runtime.server_handle import server_handle

ABI_VERSION = 1
MAX_HAND_OFFS = 65536
"""The capacity of the log: what lies further back is overwritten."""

_MESSAGE_BYTES = 1024


class _Row(ctypes.Structure):
    _fields_ = [(name, ctypes.c_char_p) for name in ("source", "destination", "edge")]


class _Status(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("live_steps", "held", "ordered", "released")),
        *((name, ctypes.c_int64) for name in ("late", "unplanned", "deadlines", "log_dropped")),
        *((name, ctypes.c_int32) for name in ("installed", "enabled")),
        *((name, ctypes.c_double) for name in ("deadline_seconds", "bytes_per_second")),
    ]


class _HandOff(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("time_nanos", "step", "bytes")),
        *((name, ctypes.c_int32) for name in ("channel", "rank", "reason")),
    ]


class Hook:
    """Orders what this process sends. There is one hook a process, however many servers and `Hook` objects.

    Raises:
        EnvironmentUnsupported: no supported TensorFlow, or no compiler.
        EnforcerError: the native library cannot be built or loaded.
    """

    _channels: tuple[Channel, ...] = ()  # of the plan last installed; the process's, as all state is

    def __init__(self) -> None:
        self._library: Any = native.load()
        _declare(self._library)
        found = self._library.tfwave_abi_version()
        if found != ABI_VERSION:
            raise EnforcerError(f"the native library has ABI {found}, not {ABI_VERSION}: empty the cache")

    def install(self, plan: Plan) -> None:
        """Enforce a plan from the next step on; what an earlier one holds is let go."""
        orders = [order for order in plan.orders if order.transfers]
        rows = [row for order in orders for row in _rows(order)]
        self._call("tfwave_install", (_Row * len(rows))(*rows), ctypes.c_int64(len(rows)))
        Hook._channels = tuple(order.channel for order in orders)

    def remove(self) -> None:
        """Forget the plan; what is held is let go."""
        self._library.tfwave_remove()

    def configure(
        self,
        enabled: bool | None = None,
        deadline_seconds: float | None = None,
        bytes_per_second: float | None = None,
    ) -> None:
        """Change settings; None leaves one as it is.

        Args:
            enabled: False lets tensors pass as they come, still logged.
            deadline_seconds: longest time without a hand-off before a step goes out unordered; above 0.
            bytes_per_second: rate at which tensors leave this process; 0: not limited.

        Raises:
            EnforcerError: a value out of range; nothing is changed.
        """
        _check_settings(deadline_seconds, bytes_per_second)
        if deadline_seconds is not None:
            self._call("tfwave_set_deadline", ctypes.c_double(deadline_seconds))
        if bytes_per_second is not None:
            self._call("tfwave_set_rate", ctypes.c_double(bytes_per_second))
        if enabled is not None:
            self._library.tfwave_set_enabled(ctypes.c_int32(enabled))

    def status(self) -> control_pb2.Status:
        """Settings and counters, now."""
        raw: Any = _Status()
        self._library.tfwave_get_status(ctypes.byref(raw))
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
        """Hand-offs under the plan last installed, from `cursor` on (0, or the last `next_cursor`)."""
        buffer: Any = (_HandOff * MAX_HAND_OFFS)()
        position, lost = ctypes.c_int64(max(0, cursor)), ctypes.c_int64(0)
        channels = Hook._channels
        count = self._library.tfwave_read_log(
            ctypes.byref(position), buffer, ctypes.c_int64(MAX_HAND_OFFS), ctypes.byref(lost)
        )
        answer = control_pb2.HandOffs(next_cursor=position.value, dropped=lost.value)
        for channel in channels:
            answer.channels.add(source_device=channel.source, destination_device=channel.destination)
        names = [field.name for field in control_pb2.HandOff.DESCRIPTOR.fields]
        for entry in buffer[:count]:
            answer.hand_offs.add(**{name: getattr(entry, name) for name in names})
        return answer

    def wrap(self, server: Any) -> None:
        """Hook a `tf.distribute.Server` that already runs; its present graphs follow the whole plan.

        Raises:
            EnforcerError: it is no TensorFlow server, or one that this version of tfwave cannot take apart.
        """
        self._call("tfwave_wrap", server_handle(server))

    def _call(self, name: str, *arguments: Any) -> None:
        function: Callable[..., int] = getattr(self._library, name)
        message = ctypes.create_string_buffer(_MESSAGE_BYTES)
        if function(*arguments, message, ctypes.c_int64(_MESSAGE_BYTES)) != 0:
            raise EnforcerError(message.value.decode(errors="replace"))


def _declare(library: Any) -> None:
    for name in ("tfwave_remove", "tfwave_set_enabled", "tfwave_get_status"):
        getattr(library, name).restype = None
    for name in ("abi_version", "install", "set_deadline", "set_rate", "wrap"):
        getattr(library, f"tfwave_{name}").restype = ctypes.c_int32
    library.tfwave_read_log.restype = ctypes.c_int64


def _rows(order: ChannelOrder) -> list[_Row]:
    channel = order.channel.source.encode(), order.channel.destination.encode()
    return [_Row(*channel, t.edge.encode()) for t in order.transfers]


def _check_settings(deadline_seconds: float | None, bytes_per_second: float | None) -> None:
    if deadline_seconds is not None and not 0 < deadline_seconds <= 1e9:
        raise EnforcerError(f"a deadline of {deadline_seconds} s is out of range: give 0 < seconds <= 1e9")
    if bytes_per_second is None or bytes_per_second == 0:
        return
    if not (math.isfinite(bytes_per_second) and bytes_per_second >= 1):
        raise EnforcerError(
            f"a rate of {bytes_per_second} bytes/s is out of range: give 0 (no limit) or >= 1"
        )
