"""The process of `stream.py`: the trainings of a search in one limited pool, in one of the ways of `WAYS`.

Its only argument is a JSON object: {"way", "limit": bytes, "batch", "steps", "beside": trainings at once}. It
prints another: {"seconds": of all, "ends": {name: seconds from the beginning}, "losses": {name: [hex]},
"peak": bytes, "alone": [those that could not be made to fit beside others], "waited": groups that waited for room}.

With {"batch"} alone it prints what a step of each model holds at most, traced in a pool that does not bind: bytes.
"""

import gc
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import tfwave.colocate
from tfwave.bundle.bundle import Bundle
from tfwave.bundle.memory import captured_memory
from tfwave.colocate import Job, Pool
from tfwave.errors import PlanError
from tools.bench.memory.limited_models import IMAGE, MODELS, MadeBefore, Making
from tools.bench.memory.stream_jobs import RATES, SEARCHED, WAYS, Training, trainings

FIT_SLOWED_AT_MOST = 0.5
DEVICE = "CPU:0"
AMPLE = "2GiB"
"""A pool in which each model has room."""
SAMPLED = 4
"""Of so many rows one is traced where a step is made to fit: a whole batch has no room beside others."""


class _Fed(MadeBefore):
    """Layers over images that a step is called with."""

    def __init__(self, images: Any, variables: list[Any]) -> None:
        super().__init__(images.shape[0], variables)
        self._images = images

    def images(self) -> Any:
        return self._images


def step_of(training: Training) -> Any:
    """A `tf.function` on variables of its own, which are given their first values; it returns the loss."""
    import tensorflow as tf

    first = Making(1)
    MODELS[training.model](first)
    variables = first.made

    @tf.function
    def step(images: Any) -> Any:
        loss = MODELS[training.model](_Fed(images, variables))
        gradients = [tf.convert_to_tensor(each) for each in tf.gradients(loss, variables)]
        updates = [v.assign_sub(training.rate * g) for v, g in zip(variables, gradients, strict=True)]
        with tf.control_dependencies(updates):
            return tf.identity(loss)

    return step


@dataclass
class Search:
    """Trainings that wait, and what became of others. Images are the same for all of them."""

    waiting: SimpleQueue[Training]
    images: np.ndarray
    beside: int
    begin: float = field(default_factory=time.monotonic)
    ends: dict[str, float] = field(default_factory=dict)
    losses: dict[str, list[str]] = field(default_factory=dict)
    alone: list[str] = field(default_factory=list)
    waited: int = 0

    def next(self) -> Training | None:
        try:
            return self.waiting.get_nowait()
        except Empty:
            return None

    def end(self, training: Training, losses: list[Any]) -> None:
        gc.collect()  # functions and their variables know each other
        self.losses[training.name] = [float(loss).hex() for loss in losses]
        self.ends[training.name] = time.monotonic() - self.begin


def in_turn(search: Search) -> None:
    """One after the other, each as it is."""
    while (training := search.next()) is not None:
        step = step_of(training)
        losses = [float(step(search.images)) for _ in range(training.steps)]
        del step
        search.end(training, losses)


def offloaded(search: Search) -> None:
    """Several at once, each made to fit into its share of the pool; one that cannot be goes while no other does."""
    lanes = [threading.Lock() for _ in range(search.beside)]
    share = tfwave.runtime.pool.pool_limit() // search.beside
    failures: list[BaseException] = []

    def lane(own: threading.Lock) -> None:
        try:
            while not failures and (training := search.next()) is not None:
                _offloaded_one(search, training, own, lanes, share)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=lane, args=(own,)) for own in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def _offloaded_one(
    search: Search, training: Training, own: threading.Lock, lanes: list[threading.Lock], share: int
) -> None:
    losses: list[float] = []
    with ExitStack() as nobody_else:
        for each in lanes:
            nobody_else.enter_context(each)
        plain = step_of(training)
        step = tfwave.fit_memory(plain, share, sample_rows=max(1, len(search.images) // SAMPLED))
        try:
            losses.append(float(step(search.images)))
        except PlanError:
            search.alone.append(training.name)
            losses += [float(plain(search.images)) for _ in range(training.steps)]
    while len(losses) < training.steps:
        with own:
            losses.append(float(step(search.images)))
    del step, plain
    search.end(training, losses)


def colocated(search: Search, fit_slowed_at_most: float | None = None) -> None:
    """In a pool, which a training enters when another has ended."""
    with Pool() as pool:
        there: dict[Training, Any] = {}
        while True:
            while len(there) < search.beside and (training := search.next()) is not None:
                batches = [search.images] * training.steps
                job = Job(training.name, step_of(training), batches, fit_slowed_at_most=fit_slowed_at_most)
                there[training] = pool.add(job)
                del job
            if not there:
                break
            for training in [each for each, handle in there.items() if handle.ended]:
                result = there.pop(training).result()
                if result.error is not None:
                    raise result.error
                search.end(training, list(result.values))
            time.sleep(0.01)
        search.waited = pool.figures.waited


def both(search: Search) -> None:
    """In a pool, each of which may be made to fit where it has no room."""
    colocated(search, FIT_SLOWED_AT_MOST)


RUN: dict[str, Callable[[Search], None]] = dict(zip(WAYS, (in_turn, offloaded, colocated, both), strict=True))


def held(batch: int) -> dict[str, int]:
    """Of each model, the most bytes that a step holds."""
    tfwave.colocate.limit_memory(AMPLE)
    images = _images(batch)
    return {
        model: captured_memory(_captured(Training(model, model, RATES[0], 1), images)).memory.profile.peak
        for model in SEARCHED
    }


def _captured(training: Training, images: np.ndarray) -> Bundle:
    with TemporaryDirectory() as directory:
        return tfwave.capture_function(step_of(training), images, out=directory, steps=2, warmup=2)


def _images(batch: int) -> np.ndarray:
    return np.random.default_rng(1).random((batch, IMAGE, IMAGE, 3), np.float32)


def run(way: str, limit: int, batch: int, steps: int, beside: int) -> dict[str, object]:
    """All trainings, in a way."""
    tfwave.colocate.limit_memory(limit)
    import tensorflow as tf

    waiting: SimpleQueue[Training] = SimpleQueue()
    for training in trainings(steps):
        waiting.put(training)
    tf.config.experimental.reset_memory_stats(DEVICE)  # the pool was all in use once, to be of one piece
    search = Search(waiting, _images(batch), beside)
    RUN[way](search)
    return {
        "seconds": time.monotonic() - search.begin,
        "ends": search.ends,
        "losses": search.losses,
        "peak": tf.config.experimental.get_memory_info(DEVICE)["peak"],
        "alone": search.alone,
        "waited": search.waited,
    }


if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    print(json.dumps(run(**request) if "way" in request else held(**request)), flush=True)
    os._exit(0)
