"""Where tensors lie while a step does not need them: memory of the host, outside TensorFlow's pools."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tfwave.plan.memory import OFFLOAD
from tfwave.plan.plan import Plan
from tfwave.runtime import native

_MOST_BYTES = 1 << 60


@dataclass(frozen=True)
class CopyFigures:
    """Of the copies in one direction, since the process began.

    Attributes:
        copies: that were made.
        bytes: of these.
        seconds: that the copying took.
        waited_seconds: from when a copy was asked for until it began.
        cancelled: that were never made, as their step had ended.
    """

    copies: int
    bytes: int
    seconds: float
    waited_seconds: float
    cancelled: int


@dataclass(frozen=True)
class StashFigures:
    """What the stash has moved since the process began, and what it holds now; in whole pages, but for the copies.

    Attributes:
        out: copies to the stash.
        back: copies from it.
        tensors: that are in it now.
        held_bytes: by them, and by what comes back.
        high_water_bytes: the most that was held at once.
        mapped_bytes: held, or kept for what comes next.
        pinned_bytes: of these, that GPUs read and write by themselves.
        limit_bytes: the most that may be mapped; if nobody has set it, half of the machine's memory, or of what its
            container may have.
    """

    out: CopyFigures
    back: CopyFigures
    tensors: int
    held_bytes: int
    high_water_bytes: int
    mapped_bytes: int
    pinned_bytes: int
    limit_bytes: int


class _Copies(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int64) for name in ("copies", "bytes", "copying_nanos", "waited_nanos", "cancelled")
    ]


class _Counters(ctypes.Structure):
    _fields_ = [
        ("out", _Copies),
        ("back", _Copies),
        *[(name, ctypes.c_int64) for name in ("tickets", "held", "high_water", "mapped", "pinned", "limit")],
    ]


def load_stash_ops() -> None:
    """Make `TfwaveStash` and `TfwaveFetch` known to this process's TensorFlow; builds the library if need be.

    Raises:
        EnvironmentUnsupported: no supported TensorFlow, or no compiler.
        EnforcerError: the native library cannot be built or loaded.
    """
    native.load()


def limit_stash(limit_bytes: int) -> None:
    """Let the stash take at most that; a step that needs more fails.

    Raises:
        EnvironmentUnsupported, EnforcerError: as `load_stash_ops`, or it holds more, or the limit is out of range.
    """
    _call("set_limit", ctypes.c_int64(_clipped(limit_bytes)))


def reserve_stash(sizes: Sequence[int]) -> None:
    """Keep memory ready for tensors of these sizes, in bytes: the first step copies as fast as the others.

    What is there already counts. It is freed with the last graph that uses the stash, or by `trim_stash`.

    Raises:
        EnvironmentUnsupported, EnforcerError: as `load_stash_ops`, or it is over the limit.
    """
    numbers = (ctypes.c_int64 * len(sizes))(*map(_clipped, sizes))
    _call("reserve", numbers, ctypes.c_int64(len(sizes)))


def reserve_for(plan: Plan) -> None:
    """As `reserve_stash`, for what a plan has on the host: copies to pages that nobody has touched are slow.

    Raises:
        EnvironmentUnsupported, EnforcerError: as `reserve_stash`.
    """
    if plan.memory is not None:
        reserve_stash([tensor.bytes for tensor in plan.memory.away(OFFLOAD)])


def trim_stash() -> None:
    """Free what is kept and not held.

    Raises:
        EnvironmentUnsupported, EnforcerError: as `load_stash_ops`.
    """
    _call("trim")


def stash_figures() -> StashFigures:
    """What the stash of this process has moved, and holds.

    Raises:
        EnvironmentUnsupported, EnforcerError: as `load_stash_ops`.
    """
    counters: Any = _Counters()
    _call("figures", ctypes.byref(counters))
    return StashFigures(
        out=_figures(counters.out),
        back=_figures(counters.back),
        tensors=counters.tickets,
        held_bytes=counters.held,
        high_water_bytes=counters.high_water,
        mapped_bytes=counters.mapped,
        pinned_bytes=counters.pinned,
        limit_bytes=counters.limit,
    )


def _figures(copies: Any) -> CopyFigures:
    return CopyFigures(
        copies=copies.copies,
        bytes=copies.bytes,
        seconds=copies.copying_nanos / 1e9,
        waited_seconds=copies.waited_nanos / 1e9,
        cancelled=copies.cancelled,
    )


def _clipped(number: int) -> int:
    """Into what a 64-bit integer holds, still out of range if it was."""
    return max(-1, min(number, _MOST_BYTES + 1))


def _call(name: str, *arguments: Any) -> None:
    native.call(native.load(), f"tfwave_stash_{name}", *arguments)
