"""A process's part in the reduces: it hands gradients over, and gets the sums that all get, in one order."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from tfwave.errors import EnforcerError
from tfwave.proto.reduce_pb2 import Give, Go, Order, Report, Verdict, Welcome
from tfwave.reduce.coordinator import LOOKS
from tfwave.reduce.deputy import Deputy, Visit
from tfwave.reduce.donor import Donor
from tfwave.reduce.giving import Giving
from tfwave.reduce.held import Held, Vector
from tfwave.reduce.line import Line
from tfwave.reduce.options import Options
from tfwave.reduce.record import ReduceRecord
from tfwave.reduce.seat import Seat
from tfwave.reduce.state import receive_state
from tfwave.reduce.sums import Sums
from tfwave.reduce.update import ReduceFigures, Update

_STARTS = 2.0
"""Workers are waited for as long as there is patience, and so are the weights."""


class Member:
    """One member, from `join` to the end of `drain`; the methods are for one thread.

    A thread of its own takes part in the reduces while the caller computes.
    """

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        options: Options,
        size: int,
        dtype: Any = np.float32,
        layout: str = "",
        record: ReduceRecord | None = None,
        visit: Visit | None = None,
        buckets: Sequence[slice] = (slice(None),),
    ) -> None:
        """Connect.

        Args:
            options: who it is, and the rules.
            size: elements of a gradient.
            dtype: of a gradient.
            layout: a print of what else must be the same on all members.
            record: notes each reduce that counts, with what all members gave; None: they are not asked for.
            visit: tells other groups what this one did, and gives what they did; None: there are none.
            buckets: slices of a gradient that `put` takes, in that order; the same on all members.

        Raises:
            EnforcerError: no port is free, or the coordinator's address or a credential is not as it should be.
        """
        self._options, self._record = options, record
        self._sums = Sums(size * np.dtype(dtype).itemsize)
        self._changed = threading.Condition()
        self._held = Held(options.local, options.staleness)
        self._giving = Giving(self._held, size, dtype, buckets, options.deadline / 2)
        self._donor = Donor(options.deadline)
        self._state: bytes | None = None
        self._drained = self._has_state = self._ended = self._told_full = self._hurried = False
        self._failure = ""
        self._ahead = 0 if options.probes == "all" else 1
        self._resumed: float | None = None
        self._attempt, self._done, self._bringer = 0, False, 0  # of the last reduce, as in `Report` and `Go`
        self._deputy = None if visit is None else Deputy(visit, self._come_back, self._lost)
        self.figures = ReduceFigures()
        try:
            self._seat = Seat(options.host, options.deadline)
        except OSError as err:
            why = f"'{options.host}' is no address of this machine ({err}): give another"
            raise EnforcerError(why) from err
        self._line = Line(options, self._seat, self._notice, self._lost)
        self._layout = f"{size} {np.dtype(dtype)} {options.local} {options.staleness} {len(buckets)} {layout}"

    def join(self, state: bytes) -> bytes | None:
        """Become a member. Blocks until all workers are there and the weights have come.

        Args:
            state: all that sums are applied to; on all members of the same length.

        Returns:
            Another member's state, to go on from; None if the own one stands, as it does for the first.

        Raises:
            EnforcerError: the coordinator is not there, refuses or ends; or nobody brings the state.
        """
        self._donor.offer = state
        hello = self._options.hello(self._seat.address, self._layout, ticks=self._record is not None)
        self._line.open(self._work, Report(hello=hello))
        threading.Thread(target=self._keep_in_touch, name="tfwave-reduce-touch", daemon=True).start()
        with self._changed:
            limit = _STARTS * self._options.patience
            if not self._changed.wait_for(lambda: self._has_state or self._ended, limit):
                raise EnforcerError(f"no weights came for {limit:g} s: are all workers up?")
            self._check()
            came, self._state = self._state, None
        return came

    def exchange(self, gradient: Vector) -> list[Update]:
        """Hand a gradient over, and `collect`. The array must not change afterwards."""
        with self._changed:
            self._held.waiting.append((gradient, self._sums.handed))
            self._report(step_seconds=self._step_seconds())
        return self.collect()

    def put(self, piece: Vector) -> None:
        """Hand over the next bucket of a gradient, by a copy; after the last one, `collect`.

        With "all" a reduce goes when all members have begun to, and sums what is there.
        """
        with self._changed:
            is_due = self._giving.hand(self._sums.handed, early=self._options.probes == "all")
            is_last = self._giving.is_last_next
            if is_due or is_last:  # before the sum, whose verdict tells others of the step
                self._report(step_seconds=self._step_seconds() if is_last else 0.0)
            self._giving.put(piece)

    def abandon(self) -> None:
        """Take a gradient back of which buckets were put, and the last will not be."""
        with self._changed:
            if self._giving.abandon():
                self._report()

    def collect(self) -> list[Update]:
        """The sums that have come, oldest first; each is to be applied once.

        Waits while this member holds as many gradients as it may, with "all" until its own one is in a sum; not
        after `hurry`.

        Raises:
            EnforcerError: this member is out, or the coordinator is gone.
        """
        with self._changed:
            updates = self._take()  # no reduce goes that a full member waits for
            self._changed.wait_for(lambda: self._ended or self._hurried or self._may_go_on())
            self._check()
            updates += self._take()
            self._resumed = time.monotonic()
        return updates

    def hurry(self, *, hurried: bool) -> None:
        """Have exchanges end without waiting, those under way too, or wait again; from any thread."""
        with self._changed:
            self._hurried = hurried
            self._changed.notify_all()

    def serve(self, snapshot: Callable[[], bytes]) -> None:
        """Give the state to members that came late. Call it when all sums that were taken are applied."""
        with self._changed:
            wanted = self._donor.due(self._sums.handed)
        if wanted:
            self._donor.bring(wanted, self._sums.handed, snapshot())

    @property
    def handed(self) -> int:
        """The number of the last sum that was taken."""
        with self._changed:
            return self._sums.handed

    @property
    def left(self) -> int:
        """How many members the ring has, this one included."""
        return self._seat.members

    @property
    def is_to_meet(self) -> bool:
        """Whether it is this member that should tell other groups now what its own did, with all sums it took."""
        with self._changed:
            is_first = self._seat.index == 0
            return is_first and self._deputy is not None and self._deputy.is_due(self._sums.handed)

    def meet(self, own: Vector) -> None:
        """Tell other groups what this one did, when `is_to_meet`; what they did comes as an update."""
        with self._changed:
            if self._deputy is not None:
                self._deputy.go(self._sums.handed, own)

    def drain(self, snapshot: Callable[[], bytes]) -> Iterator[Update]:
        """Say that no gradient follows, and give the sums that still come until no member has any.

        The state is served meanwhile: each sum must be applied when the next is asked for.

        Raises:
            EnforcerError: this member is out, or the coordinator is gone.
        """
        with self._changed:
            self._drained = True
            self._report()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ended or bool(self._sums) or self._donor.is_asked)
                updates, over = self._take(), self._ended
            yield from updates
            self.serve(snapshot)
            if over:
                self._check()
                return

    @property
    def failure(self) -> str:
        """Why this member is out, or has no coordinator; empty if all is well."""
        return self._failure

    def close(self) -> None:
        """Leave; what others still hold goes on without this member."""
        self._lost("this member was closed")
        self._line.close()
        self._seat.close()

    def __enter__(self) -> "Member":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _step_seconds(self) -> float:
        return 0.0 if self._resumed is None else time.monotonic() - self._resumed

    def _may_go_on(self) -> bool:
        if self._ahead == 0:
            return not (self._held.waiting or self._held.lent)
        return len(self._held.waiting) < self._ahead

    def _take(self) -> list[Update]:
        updates = self._sums.take()
        if updates:
            self._donor.offer = None  # it is about to change
            self._tell_room()
        return updates

    def _is_full(self) -> bool:
        """Whether it may keep no more; who waits for the weights may as long as their giver has room."""
        is_late = self._deputy is not None and self._deputy.is_late(self._sums.version)
        return self._has_state and (is_late or self._sums.are_most)

    def _tell_room(self) -> None:
        if self._told_full and not self._is_full():
            self._report()

    def _check(self) -> None:
        if self._failure:
            raise EnforcerError(self._failure)

    def _report(self, *, step_seconds: float = 0.0, halted: bool = False) -> None:
        """Say how this member is; the lock is held, so that reports are in the order of what they say."""
        self._told_full = self._is_full()
        self._line.say(
            Report(
                held=len(self._held.waiting),
                drained=self._drained,
                has_state=self._has_state,
                step_seconds=step_seconds,
                attempt=self._attempt,
                done=self._done,
                gave=len(self._held.lent),
                halted=halted,
                trouble=self._seat.trouble,
                full=self._told_full,
                visit=self._deputy.visit if self._deputy and self._deputy.brought is not None else 0,
            )
        )

    # From here on: the threads of this module.

    def _notice(self, order: Order) -> None:
        self._seat.hear(order.WhichOneof("kind"))
        self._giving.wake()

    def _lost(self, reason: str) -> None:
        with self._changed:
            if not self._ended:
                self._ended, self._failure = True, reason
            self._changed.notify_all()
        self._seat.leave()
        self._giving.wake()

    def _come_back(self) -> None:
        with self._changed:
            self._report()

    def _keep_in_touch(self) -> None:
        """Say something before the coordinator takes this process for stopped, however long a step is."""
        seconds = self._options.deadline / (2 * LOOKS)
        with self._changed:
            while not self._changed.wait_for(lambda: self._ended, seconds):
                self._report()

    def _work(self, order: Order) -> None:
        """Carry one order out."""
        kind = order.WhichOneof("kind")
        self._seat.begin(kind)
        if kind == "welcome":
            self._begin(order.welcome)
        elif kind == "form":
            self._seat.form(order.form)
        elif kind == "go":
            self._reduce(order.go)
        elif kind == "verdict":
            self._settle(order.verdict)
        elif kind == "give":
            self._promise(order.give)
        elif kind == "end":
            self._lost(order.end.reason)
        elif kind == "halt":
            with self._changed:
                self._report(halted=True)

    def _begin(self, welcome: Welcome) -> None:
        if welcome.state_key:
            arguments = welcome.state_key, len(self._donor.offer or b"")
            threading.Thread(
                target=self._await_state, args=arguments, name="tfwave-reduce-state", daemon=True
            ).start()
            return
        with self._changed:
            self._has_state = True
            self._report()
            self._changed.notify_all()

    def _await_state(self, key: bytes, size: int) -> None:
        limit = _STARTS * self._options.patience
        try:
            with self._seat.take(key, limit) as giver:
                giver.settimeout(self._options.deadline)
                version, state = receive_state(giver, size)
        except (OSError, EnforcerError) as err:
            self._lost(f"the weights did not come ({err}): start this worker again")
            return
        with self._changed:
            self._state, self._has_state = state, True
            # Others may wait for it, as the first reduce does.
            self._donor.offer = state if version == 0 else None
            self._sums.go_on_from(version)
            self._report()
            self._changed.notify_all()

    def _reduce(self, go: Go) -> None:
        with self._changed:
            self._bringer = go.bringer
            if go.bringer:
                values, buckets = self._giving.whole(self._brought())
            else:
                values, buckets = self._giving.take(go.version, self._seat.is_broken)
            self.figures.dropped = self._held.dropped
            self._changed.notify_all()
        total = self._seat.sum(values, buckets)
        with self._changed:
            if total is None:
                self._giving.come_to_nothing()
            self._sums.note(go.version, total)
            self._attempt, self._done = go.attempt, total is not None
            self._report()

    def _brought(self) -> Vector | None:
        """What this member has of other groups, if it is the one that brings it."""
        return self._deputy.brought if self._deputy is not None and self._is_bringer else None

    @property
    def _is_bringer(self) -> bool:
        return self._seat.index == self._bringer - 1

    def _settle(self, verdict: Verdict) -> None:
        with self._changed:
            of_others = self._bringer > 0
            if not verdict.commit:
                self._held.give_back()
                self.figures.broken += 1
            if self._sums.settle(self._seat.members, commit=verdict.commit, of_others=of_others):
                if of_others:
                    self._note_meeting()
                else:
                    self._note_reduce(verdict)
            self._ahead = verdict.ahead
            self._tell_room()
            self._changed.notify_all()

    def _note_reduce(self, verdict: Verdict) -> None:
        self.figures.count(len(self._held.lent), verdict.joined)
        if self._record is not None:
            self._record.note(self._sums.version, verdict.ticks)
        self._held.settle()

    def _note_meeting(self) -> None:
        self.figures.met += 1
        if self._deputy is not None and self._is_bringer:
            self._deputy.settle()

    def _promise(self, give: Give) -> None:
        with self._changed:
            self._donor.ask(give)
            self._changed.notify_all()
