"""A memory pool that jobs of this process share: which node group of which job may start (Waterwave, section 4)."""

import ctypes
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import Any, Self

from tfwave.errors import EnforcerError
from tfwave.runtime import native
from tfwave.sizes import in_words

WAIT_SECONDS = 60.0
LONGEST_WAIT_SECONDS = 1e9

_MOST_BYTES = 1 << 60
_MESSAGE_BYTES = 4096
_MESSAGES = 100


@dataclass(frozen=True)
class LedgerJob:
    """What a job's step holds, in bytes, by node group; `GroupedJob` says the same of a plan.

    Attributes:
        name: as the job's barriers say it.
        resident: held between its steps.
        held: above `resident`, before each group and after the last.
        transients: the most above that, inside each group.
        priority: of jobs that wait, those of the highest are asked first.
    """

    name: str
    resident: int
    held: tuple[int, ...]
    transients: tuple[int, ...]
    priority: int = 0


@dataclass(frozen=True)
class JobFigures:
    """Of a job now: the group that runs, and the bytes that it counts for, what is resident included."""

    group: int | None
    held: int


@dataclass(frozen=True)
class LedgerFigures:
    """What the ledger has counted since it was opened, and what its jobs do now.

    Attributes:
        admitted: groups that started because there was room.
        waited: requests that could not be granted at once.
        waited_seconds: of those that have been answered.
        longest_wait_seconds: of the one of them that waited longest.
        released: requests let through after `wait_seconds`, room or not.
        messages: of the last 100 of those, who waited for what and who held it.
        jobs: by name.
        waited_by_job: `waited_seconds` by name, of jobs that were removed, too.
    """

    admitted: int
    waited: int
    waited_seconds: float
    longest_wait_seconds: float
    released: int
    messages: tuple[str, ...]
    jobs: Mapping[str, JobFigures]
    waited_by_job: Mapping[str, float]

    def then(self, later: "LedgerFigures") -> "LedgerFigures":
        """Of this ledger and one that was opened after it; the jobs are the latter's."""
        waited = Counter(self.waited_by_job)
        waited.update(later.waited_by_job)
        return LedgerFigures(
            admitted=self.admitted + later.admitted,
            waited=self.waited + later.waited,
            waited_seconds=self.waited_seconds + later.waited_seconds,
            longest_wait_seconds=max(self.longest_wait_seconds, later.longest_wait_seconds),
            released=self.released + later.released,
            messages=(*self.messages, *later.messages)[-_MESSAGES:],
            jobs=later.jobs,
            waited_by_job=dict(waited),
        )


class _Counters(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_int64) for name in ("admitted", "waited", "waited_nanos", "longest_nanos", "released")
    ]


class _Entry(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("known", "group", "held", "waited_nanos")]


def load_barrier_op() -> None:
    """Make `BARRIER_OP` known to this process's TensorFlow; builds the native library if need be.

    Raises:
        EnvironmentUnsupported: no supported TensorFlow, or no compiler.
        EnforcerError: the native library cannot be built or loaded.
    """
    native.load()


class Ledger:
    """Lets the node groups of jobs start where the pool has room; one at a time in a process.

    A barrier (`BARRIER_OP`) asks before each group of a job. The group may start if all jobs then hold no more
    than the room, and if all begun steps can still be finished one after the other. Barriers of jobs that the
    ledger does not have let pass.

    Args:
        alone_bytes: the room while one group runs.
        shared_bytes: the room while several do; no more than `alone_bytes`.
        wait_seconds: a request that has waited longer is let through, and counted as released.

    Raises:
        EnvironmentUnsupported: no supported TensorFlow, or no compiler.
        EnforcerError: a value out of range, the process has a ledger already, or the native library cannot be
            built or loaded.
    """

    def __init__(self, alone_bytes: int, shared_bytes: int, wait_seconds: float = WAIT_SECONDS) -> None:
        if not 0 < shared_bytes <= alone_bytes <= _MOST_BYTES:
            raise EnforcerError(
                f"a ledger of {in_words(alone_bytes)} for one job and {in_words(shared_bytes)} for several: give "
                "two above 0, the second no more than the first"
            )
        if not 0 < wait_seconds <= LONGEST_WAIT_SECONDS:
            raise EnforcerError(f"a wait of {wait_seconds} s: give more than 0 and at most 1e9 seconds")
        self._library: Any = native.load()
        self._alone_bytes = alone_bytes
        self._names: set[str] = set()
        rooms = ctypes.c_int64(alone_bytes), ctypes.c_int64(shared_bytes)
        self._call("open", *rooms, ctypes.c_double(wait_seconds))
        self._final: LedgerFigures | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        """Can jobs be added?"""
        return self._final is None

    def close(self) -> None:
        """Forget all jobs; what waits goes, and another ledger can be opened. Twice does nothing."""
        if self._final is None:
            self._final = self.figures()
            self._call("close")

    def add(self, job: LedgerJob) -> None:
        """Count a job from now on; best before it allocates what is resident.

        Waits, at most `wait_seconds`, while the steps that have begun could not be finished beside it.

        Raises:
            EnforcerError: the name is taken, its numbers are no step's, or it could not run even while all
                other jobs are between their steps, or they beside it.
        """
        self._check_open()
        _check(job, self._alone_bytes)
        held, transients = (_int64s(numbers) for numbers in (job.held, job.transients))
        numbers = [ctypes.c_int64(number) for number in (job.priority, job.resident)]
        self._call("add", job.name.encode(), *numbers, held, transients, ctypes.c_int64(len(transients)))
        self._names.add(job.name)

    def take_turns(self, one: str, other: str) -> None:
        """No group of one job starts beside one of the other, unless it has the higher priority."""
        self._check_open()
        self._call("take_turns", one.encode(), other.encode())

    def remove(self, name: str) -> None:
        """Forget a job, if it is there: what it holds is free, what waits of it goes, and its barriers let pass."""
        if self._final is None:
            self._call("remove", name.encode())

    @contextmanager
    def step(self, name: str) -> Generator[None]:
        """Around each run of a job's graph; after it, however it ends, the job is between its steps.

        Raises:
            EnforcerError: the ledger has no such job, or it is in a step.
        """
        self._check_open()
        step = ctypes.c_int64()
        self._call("begin_step", name.encode(), ctypes.byref(step))
        try:
            yield
        finally:
            self._call("end_step", name.encode(), step)

    def figures(self) -> LedgerFigures:
        """Now, or at the end of a ledger that is closed."""
        if self._final is not None:
            return self._final
        names = sorted(self._names)
        counters: Any = _Counters()
        entries: Any = (_Entry * len(names))()
        texts = (ctypes.c_char_p * len(names))(*[name.encode() for name in names])
        self._call("figures", ctypes.byref(counters), texts, ctypes.c_int64(len(names)), entries)
        found = dict(zip(names, entries, strict=True))
        jobs = {
            name: JobFigures(entry.group if entry.group >= 0 else None, entry.held)
            for name, entry in found.items()
            if entry.known
        }
        return LedgerFigures(
            admitted=counters.admitted,
            waited=counters.waited,
            waited_seconds=counters.waited_nanos / 1e9,
            longest_wait_seconds=counters.longest_nanos / 1e9,
            released=counters.released,
            messages=tuple(self._messages()),
            jobs=jobs,
            waited_by_job={name: entry.waited_nanos / 1e9 for name, entry in found.items()},
        )

    def _messages(self) -> Iterator[str]:
        text = ctypes.create_string_buffer(_MESSAGE_BYTES)
        for number in count():
            self._call("release", ctypes.c_int64(number), text, ctypes.c_int64(_MESSAGE_BYTES))
            if not text.value:
                return
            yield text.value.decode(errors="replace")

    def _check_open(self) -> None:
        if self._final is not None:
            raise EnforcerError("the ledger is closed: use it inside its `with` block")

    def _call(self, name: str, *arguments: Any) -> None:
        native.call(self._library, f"tfwave_ledger_{name}", *arguments)


def _check(job: LedgerJob, alone_bytes: int) -> None:
    if not job.transients or len(job.held) != len(job.transients) + 1:
        raise EnforcerError(
            f"the job '{job.name}' has {len(job.transients)} transients and {len(job.held)} held: give one "
            "transient for each group, at least one, and one more held"
        )
    numbers = job.resident, *job.held, *job.transients
    if min(job.resident, *job.transients) < 0 or max(map(abs, numbers)) > _MOST_BYTES:
        raise EnforcerError(
            f"the job '{job.name}' holds a negative number of bytes, or over 2^60: give its own"
        )
    inside = [held + transient for held, transient in zip(job.held, job.transients, strict=False)]
    peak = job.resident + max(*inside, *job.held)
    if peak > alone_bytes:
        raise EnforcerError(
            f"the job '{job.name}' does not fit even alone: it takes {in_words(peak)} of "
            f"{in_words(alone_bytes)}: make the pool larger or the job smaller"
        )


def _int64s(numbers: tuple[int, ...]) -> Any:
    return (ctypes.c_int64 * len(numbers))(*numbers)
