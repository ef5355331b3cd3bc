"""A pool of the CPU in which the buffers of a step lie where a plan says.

The library's allocator takes the place of TensorFlow's. It knows for which op it is asked, as TensorFlow tells the
thread that asks (`ScopedMemoryDebugAnnotation`); what the plan does not know lies elsewhere in the same pool.
"""

import ctypes
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any

from tfwave.errors import EnforcerError, PlanError
from tfwave.plan.memory import Memory
from tfwave.plan.plan import Plan
from tfwave.runtime import native
from tfwave.runtime.allocator import LEAST_LIMIT, ONEDNN, POOL, say, set_variables
from tfwave.sizes import in_words

TURN_SECONDS = 600.0
"""A thread waits so long for its turn: the first step of another takes some minutes, if it is large."""
_opened: list["PlannedPool"] = []


@dataclass(frozen=True)
class PlannedPoolFigures:
    """What a planned pool has counted since its plan was installed.

    Attributes:
        served: buffers that lie where the plan says; each count is followed by that of bytes.
        unknown: those for which the plan has no place, or none so large.
        conflicts: those in whose place something else lay: they lie elsewhere.
        live: those of the served ones that are held now.
        reach: the end of the last byte of the region that was ever used.
        region: bytes of it.
        elsewhere_before: bytes that were held outside it when the plan was installed, such as variables.
        elsewhere_most: bytes that were held outside it at most.
        together_most: bytes that were held at most, in it and outside.
    """

    served: int
    served_bytes: int
    unknown: int
    unknown_bytes: int
    conflicts: int
    conflict_bytes: int
    live: int
    live_bytes: int
    reach: int
    region: int
    elsewhere_before: int
    elsewhere_most: int
    together_most: int

    @property
    def served_share(self) -> float:
        """Of all bytes that were asked for; 1 if none were."""
        asked = self.served_bytes + self.unknown_bytes + self.conflict_bytes
        return self.served_bytes / asked if asked else 1.0

    @property
    def live_peak(self) -> int:
        """Bytes: the most that steps held at once, above what was there before."""
        return self.together_most - self.elsewhere_before

    @property
    def pool_bytes(self) -> int:
        """That steps took of the pool: the region, and what lay elsewhere at most."""
        return self.region + self.elsewhere_most - self.elsewhere_before


class _Place(ctypes.Structure):
    _fields_ = [
        ("op", ctypes.c_char_p),
        ("offset", ctypes.c_int64),
        ("bytes", ctypes.c_int64),
        ("is_scratch", ctypes.c_int64),
    ]


class _Counters(ctypes.Structure):
    _fields_ = [(field.name, ctypes.c_int64) for field in fields(PlannedPoolFigures)]


class PlannedPool:
    """The pool of this process; make it by `open_pool`.

    Without a plan it is TensorFlow's own allocator, in one piece, that gives just what is asked for.

    Attributes:
        limit_bytes: of the pool.
        installed: the plan that it serves from; None without one.
    """

    def __init__(self, library: Any, limit_bytes: int) -> None:
        """Of the loaded library; of so many bytes."""
        self._library = library
        self.limit_bytes = limit_bytes
        self.installed: Memory | None = None
        self._turn = threading.RLock()

    def install(self, plan: Plan | Memory) -> None:
        """From now on, let buffers lie where the plan's section `memory` says, in place of the plan before.

        A step of another graph finds no place under its ops' names, and lies elsewhere.

        Raises:
            PlanError: the plan has no places.
            EnforcerError: the pool has no room for them in one piece, and now has no plan; or steps still hold
                places of the plan before, which stays.
        """
        memory = plan.memory if isinstance(plan, Plan) else plan
        if memory is None or not memory.places:
            raise PlanError(
                "the plan does not say where buffers lie: make it by tfwave memory BUNDLE --placement -o"
            )
        places = (_Place * len(memory.places))(
            *(_Place(each.op.encode(), each.offset, each.bytes, each.is_scratch) for each in memory.places)
        )
        count, region = ctypes.c_int64(len(places)), ctypes.c_int64(memory.region_bytes)
        try:
            self._call("tfwave_pool_install", places, count, region)
        except EnforcerError:
            if not self.figures().region:
                self.installed = None
            raise
        self.installed = memory

    def remove(self) -> None:
        """From now on, all lies elsewhere; the region is free once nothing lies in it."""
        self.installed = None
        self._call("tfwave_pool_remove")

    @contextmanager
    def turn(self) -> Generator[None]:
        """Let no other thread take a turn meanwhile: a plan is for one step at a time.

        Raises:
            EnforcerError: another thread's turn does not end.
        """
        if not self._turn.acquire(timeout=TURN_SECONDS):
            raise EnforcerError(
                f"another thread's step in the planned pool has not ended for {TURN_SECONDS:g} s: make such "
                "steps one after the other, none inside another"
            )
        try:
            yield
        finally:
            self._turn.release()

    def figures(self) -> PlannedPoolFigures:
        """What was counted."""
        counters = _Counters()
        self._call("tfwave_pool_figures", ctypes.byref(counters))
        return PlannedPoolFigures(
            **{field.name: getattr(counters, field.name) for field in fields(PlannedPoolFigures)}
        )

    def _call(self, name: str, *arguments: Any) -> None:
        native.call(self._library, name, *arguments)


def open_pool(limit_bytes: int, configure: Callable[[], object] | None = None) -> PlannedPool:
    """Make a pool of so many bytes the CPU's, before anything is allocated; imports TensorFlow, and starts it.

    `configure` is called before it starts.

    oneDNN is turned off, as it crashes where a pool runs out.

    Raises:
        EnforcerError: TensorFlow is already imported, the limit is under 4 MiB, or it does not use the pool.
        EnvironmentUnsupported: a variable has another value, or the native library cannot be had.
    """
    if limit_bytes < LEAST_LIMIT:
        raise EnforcerError(
            f"a limit of {in_words(limit_bytes)} is out of range: give {in_words(LEAST_LIMIT)} or more"
        )
    if "tensorflow" in sys.modules:
        raise EnforcerError("TensorFlow is already imported: open the planned pool before")
    wanted = {POOL: "0", ONEDNN: "0"}
    set_variables(wanted)
    library = native.load()
    native.call(library, "tfwave_pool_open", ctypes.c_int64(limit_bytes))
    if configure is not None:
        configure()
    _ask_once()
    used = ctypes.c_int32()
    native.call(library, "tfwave_pool_is_used", ctypes.byref(used))
    if not used.value:
        raise EnforcerError(
            "TensorFlow does not use the planned pool: this build brings an allocator of its own; use limit_memory"
        )
    said = " ".join(f"{name}={value}" for name, value in wanted.items())
    say([f"planned CPU pool of {in_words(limit_bytes)}: {said}"])
    _opened.append(PlannedPool(library, limit_bytes))
    return _opened[-1]


def opened_pool() -> PlannedPool | None:
    """The planned pool of this process; None if there is none."""
    return _opened[-1] if _opened else None


def _ask_once() -> None:
    tf: Any = import_module("tensorflow")
    with tf.init_scope(), tf.device("/device:CPU:0"):
        tf.raw_ops.Empty(shape=[1024], dtype=tf.float32)
