"""The process of a trial in which `tfwave.colocate.run` trains the jobs: mode "ledger" of `colocation.py`.

It obeys as `limited_task` does, but takes each call of a program for a job: "load" lets `tfwave.colocate.run`
measure and plan them in the pool, which takes their first steps, and gives the variables their first values again;
"run" lets each make steps in its own thread. TensorFlow's graph optimizer is on, as it has to be, and does nothing
of its own.

What ends a job is the answer {"error": "exhausted"}, or what it was.
"""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import tfwave.colocate
from tfwave.capture.memory.traced import TRACED_STEPS
from tools.bench.memory.limited_task import Trial, main

FIRST_STEPS = TRACED_STEPS + 2


class Turns:
    """How many steps each job may make, and what they gave; all of it under one lock."""

    def __init__(self, jobs: int) -> None:
        self._changed = threading.Condition()
        self._due = 0
        self._losses: list[list[Any]] = [[] for _ in range(jobs)]
        self._ended: object = None

    def batches(self, job: int) -> Iterator[tuple[()]]:
        """An empty one for each step that is due; waits for the next."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: len(self._losses[job]) < self._due)
            yield ()

    def made(self, job: int, losses: Sequence[Any]) -> None:
        """A job has made a step."""
        with self._changed:
            self._losses[job].append(losses)
            self._changed.notify_all()

    def end(self, why: object) -> None:
        """A job makes no more steps."""
        with self._changed:
            self._ended = self._ended or why
            self._changed.notify_all()

    def make(self, steps: int) -> list[list[Any]] | None:
        """Let all make so many; the losses of all jobs, step by step. None if a job has ended."""
        with self._changed:
            start = self._due
            self._due += steps
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._ended or all(len(own) == self._due for own in self._losses))
            if self._ended:
                return None
            own = [losses[start:] for losses in self._losses]
            return [[loss for losses in step for loss in losses] for step in zip(*own, strict=True)]

    @property
    def ended(self) -> object:
        """Why a job has."""
        return self._ended


class Recorded:
    """A session that tells the losses of a job."""

    def __init__(self, session: Any, turns: Turns, job: int) -> None:
        self.graph = session.graph
        self._session = session
        self._turns = turns
        self._job = job

    def run(self, fetches: Any, feeds: Any) -> Any:
        values = self._session.run(fetches, feeds)
        (losses, _), _ = values
        self._turns.made(self._job, losses)
        return values


class Heard(logging.Handler):
    """Hears of jobs that fail: the last that is said of one is its error."""

    def __init__(self, turns: Turns) -> None:
        super().__init__(logging.WARNING)
        self._turns = turns

    def emit(self, record: logging.LogRecord) -> None:
        self._turns.end(record.args[-1] if isinstance(record.args, tuple) else record.getMessage())


class Colocated(Trial):
    """Jobs under `tfwave.colocate.run`, on the limited pool."""

    _turns: Turns

    def load(self, graph: str, resets: list[str], calls: list[Any]) -> dict[str, object]:
        super().load(graph, resets, calls)
        self._turns = turns = Turns(len(calls))
        logging.getLogger("tfwave").addHandler(Heard(turns))
        jobs = [
            tfwave.colocate.Job(
                str(job),
                tfwave.colocate.SessionStep(Recorded(self._session, turns, job), call),
                turns.batches(job),
            )
            for job, call in enumerate(calls)
        ]
        threading.Thread(target=self._train, args=(jobs,), daemon=True).start()
        if turns.make(FIRST_STEPS) is None:
            return self._failed()
        self._session.run(resets)
        self._tf.config.experimental.reset_memory_stats(self.device)
        return {}

    def run(self, steps: int) -> dict[str, object]:
        begin = time.perf_counter()
        losses = self._turns.make(steps)
        seconds = (time.perf_counter() - begin) / steps
        if losses is None:
            return self._failed()
        hexed = [[float(loss).hex() for loss in step] for step in losses]
        return {"seconds": [seconds] * steps, "losses": hexed, "peak": self._peak()}

    def _train(self, jobs: list[tfwave.colocate.Job]) -> None:
        try:
            tfwave.colocate.run(jobs)
            self._turns.end("all jobs ended")
        except Exception as error:  # the answer tells
            self._turns.end(error)

    def _failed(self) -> dict[str, object]:
        exhausted = isinstance(self._turns.ended, self._tf.errors.ResourceExhaustedError)
        return {"error": "exhausted" if exhausted else str(self._turns.ended)}

    def _open(self, graph: Any) -> Any:
        config = self._config()
        options = config.graph_options.rewrite_options
        for field in options.DESCRIPTOR.fields:
            if field.enum_type is not None and field.enum_type.name == "Toggle":
                setattr(options, field.name, options.OFF)
        options.memory_optimization = options.NO_MEM_OPT
        options.disable_model_pruning = True
        options.use_plugin_optimizers = options.ON
        options.debug_stripper = options.ON  # something has to be: it has nothing to do here
        config.graph_options.optimizer_options.opt_level = -1
        return self._tf.compat.v1.Session(graph=graph, config=config)


if __name__ == "__main__":
    main(Colocated)
