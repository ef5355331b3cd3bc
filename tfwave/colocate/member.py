"""A job of a pool, in a thread of its own."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from tfwave.bundle.bundle import Bundle
from tfwave.colocate.backgrounds import Held
from tfwave.colocate.latency import p95
from tfwave.colocate.life import Life, in_words_only
from tfwave.colocate.refit import refitted
from tfwave.colocate.results import JobResult
from tfwave.colocate.shape import Shape
from tfwave.colocate.sharing import Sharing
from tfwave.errors import PlanError, TfwaveError
from tfwave.plan.groups import PlannedJob
from tfwave.runtime.live.batches import kind_of

_TICK_SECONDS = 0.2
_Key = tuple[int, tuple[str, ...]]
_log = logging.getLogger("tfwave")


class Cohort:
    """Jobs that are planned together, once each has made the first steps of a shape, or has ended."""

    def __init__(self, members: int, plan: Callable[[Sequence[Shape]], None]) -> None:
        """None has."""
        self._missing = members
        self._plan = plan
        self._shapes: list[Shape] = []
        self._lock = threading.Lock()
        self._planned = threading.Event()

    def arrive(self, *shapes: Shape) -> None:
        """One member has, by its shape; the last of them plans."""
        with self._lock:
            self._missing -= 1
            self._shapes += shapes
            is_last = not self._missing
        if not is_last:
            return
        try:
            self._plan(self._shapes)
        finally:
            self._planned.set()

    def wait(self, seconds: float) -> bool:
        """Whether they are planned."""
        return self._planned.wait(seconds)


class Member:
    """Makes the steps of a job until it ends; to users, its `Handle`."""

    def __init__(self, life: Life, sharing: Sharing, cohort: Cohort, planned: PlannedJob | None) -> None:
        """Nothing runs before `start`."""
        self._life = life
        self._ended = threading.Event()
        """The thread tells it itself: a `join` that is interrupted makes it look so before."""
        self._bundle: Bundle | None = None
        self._sharing = sharing
        self._cohort: Cohort | None = cohort
        self._arrived = False
        self._planned = planned
        self._shapes: dict[_Key, Shape] = {}
        self._waited_before: dict[str, float] = {}
        self._latencies: list[float] = []
        self._held = Held()
        self._thread = threading.Thread(target=self._live, name=f"tfwave-{life.job.name}", daemon=True)

    def start(self) -> None:
        """Go on by itself."""
        self._thread.start()

    def wait(self, seconds: float | None) -> bool:
        """Whether it has ended."""
        return self._ended.wait(seconds)

    @property
    def life(self) -> Life:
        """What it makes."""
        return self._life

    @property
    def name(self) -> str:
        """As `Handle` says."""
        return self._life.job.name

    @property
    def steps(self) -> int:
        """Likewise."""
        return self._life.steps

    @property
    def ended(self) -> bool:
        """Likewise."""
        return self._ended.is_set()

    @property
    def bundle(self) -> Bundle | None:
        """Likewise."""
        return self._bundle

    def result(self, timeout: float | None = None) -> JobResult:
        """Likewise."""
        if not self.wait(timeout):
            raise TimeoutError(
                f"the job '{self.name}' has not ended after {timeout} s, in {self.steps} steps"
            )
        room = self._sharing.room
        waited = sum(room.waited_seconds(name) - before for name, before in self._waited_before.items())
        return self._life.result(waited, p95(self._latencies), self._held)

    def cancel(self) -> None:
        """Likewise."""
        self._life.cancel()

    def change(self, step: Any) -> None:
        """Likewise."""
        self._life.change(step)

    def _live(self) -> None:
        try:
            self._begin()
            while self._goes_on() and self._life.advance(self._step):
                pass
        finally:
            self._leave()

    def _begin(self) -> None:
        try:
            self._sharing.backgrounds.begin(self._life.job)
            self._sharing.begin(self._life)
        except TfwaveError as error:
            self._life.fail(error)

    def _leave(self) -> None:
        self._say_latency()
        self._held = self._sharing.backgrounds.leave(self._life.job)
        try:
            if not self._arrived and self._cohort:
                self._cohort.arrive()
            self._close_shapes()
            self._cohort = None
            self._save()
            in_words_only(self._life.error)
            self._life.close()
            self._sharing.leave(self._life)
        finally:
            self._ended.set()

    def _save(self) -> None:
        """Later saves know nothing of it any more."""
        try:
            self._sharing.save([self._life])
        except TfwaveError as error:
            self._life.fail(error)

    def _say_latency(self) -> None:
        most, reached = self._life.job.latency_at_most, p95(self._latencies)
        if most is not None and reached is not None and reached > most:
            _log.warning(
                "tfwave: 95 of 100 steps of the job '%s' took up to %.3g s, over its latency_at_most of %.3g s",
                self.name,
                reached,
                most,
            )

    def _goes_on(self) -> bool:
        """Once it is planned, and if it has room."""
        while self._arrived and self._cohort and self._life.goes_on():
            if self._cohort.wait(_TICK_SECONDS):
                self._cohort = None
        for shape in self._shapes.values():
            if shape.refusal is not None and self._life.goes_on():
                self._go_on_or_fail(shape, shape.refusal)
        while self._life.goes_on() and not self._sharing.backgrounds.may_step(self._life.job, _TICK_SECONDS):
            pass
        return self._life.goes_on()

    def _go_on_or_fail(self, shape: Shape, refusal: Exception) -> None:
        """The job goes on as a newcomer if another step is wanted, or the step can be made to fit; or it ends."""
        if isinstance(refusal, PlanError) and not self._life.will_change:
            refusal = self._refit(shape, refusal)
        if not self._life.will_change:
            self._life.fail(refusal)

    def _refit(self, shape: Shape, refusal: PlanError) -> PlanError:
        """A step that has no room may be made to fit, once; why it is not, if it is not."""
        job, bundle = self._life.job, shape.bundle
        if self._life.is_refitted or job.fit_slowed_at_most is None or bundle is None:
            return refusal
        try:
            self._life.refit(refitted(job, bundle, self._sharing.left_beside(shape)))
        except TfwaveError as error:
            return PlanError(f"{refusal}; {error}")
        return refusal

    def _step(self, *batch: Any) -> Any:
        shape = self._shape_of(batch)
        known, barred, begin = shape.is_known, shape.is_barred, time.perf_counter()
        with self._sharing.backgrounds.step(self._life.job):
            value = self._sharing.step(shape, *batch)
        if barred:
            self._latencies.append(time.perf_counter() - begin)
            self._sharing.backgrounds.note(self._life.job, self._latencies[-1])
        if not known and shape.settle():
            self._take_in(shape)
        return value

    def _shape_of(self, batch: tuple[Any, ...]) -> Shape:
        key = self._life.changes, kind_of(batch)
        if any(changes != self._life.changes for changes, _ in self._shapes):
            self._forget()
        if key not in self._shapes:
            name = f"{self.name} ({', '.join(key[1])})" if self._shapes else self.name
            self._waited_before.setdefault(name, self._sharing.room.waited_seconds(name))
            self._shapes[key] = Shape(name, self._life, self._planned)
            self._planned = None
        return self._shapes[key]

    def _forget(self) -> None:
        """The step was changed."""
        self._close_shapes()
        self._sharing.leave(self._life)

    def _close_shapes(self) -> None:
        while self._shapes:
            self._shapes.popitem()[1].close()

    def _take_in(self, shape: Shape) -> None:
        self._bundle = self._bundle or shape.bundle
        if self._arrived or self._cohort is None:
            self._sharing.take_in([shape])
        elif shape.is_known:
            self._arrived = True
            self._cohort.arrive(shape)
