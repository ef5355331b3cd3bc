"""A training that faults strike: what it computes, how struck steps end, and whether its order is kept beside them.

The same faults strike under the hook, under the proxy and on stock servers: losses and ends of steps must be equal.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from tests.cluster.model import VARIABLES, Model, build, by_step, gate_first, plan_of, sends
from tests.faults.ledger import WENT_ON
from tests.faults.place import Place
from tests.replayed import forbidden
from tests.waiting import wait_until
from tfwave.plan.plan import Plan
from tfwave.report.conformance import read_hand_offs
from tfwave.runtime.control.client import ControlClient

v1 = tf.compat.v1
ORDERED = 0
SERVER = "/job:ps/replica:0/task:0"
WORKER = "/job:worker/replica:0/task:0"
LONG = 60.0
"""Seconds after which a hook gives up waiting: longer than any fault lasts."""


@dataclass
class Training:
    """A model on a server and a worker. What orders there has one plan for all of its steps, the gate in front."""

    place: Place
    seed: int
    model: Model = field(init=False)
    plan: Plan = field(init=False)
    losses: list[str] = field(default_factory=list)
    journal: list[tuple[str, str]] = field(default_factory=list)
    blocked: Any = field(init=False)
    """A step that says that it has begun, and waits for `unblock`; it changes nothing."""
    has_begun: Any = field(init=False)
    not_a_number: Any = field(init=False)
    edges: dict[tuple[str, str], list[str]] = field(init=False)
    unread: int = 0
    """Steps since the plan was installed: the log has no others."""

    def __post_init__(self) -> None:
        self.model = build(self.place, 0, [0], "trained")
        with self.model.session.graph.as_default(), tf.device(SERVER):
            begun = tf.queue.FIFOQueue(100, [tf.float32], [[]], shared_name="begun")
            self.blocked = self.model.blocked, begun.enqueue(1.0)
            self.has_begun = begun.dequeue()
        with self.model.session.graph.as_default(), tf.device(WORKER):
            self.not_a_number = tf.debugging.check_numerics(tf.math.log(-tf.abs(self.model.loss)), "broken")
        self.unblock()
        edges = sends(self.model.partitions(self.blocked))
        self.wait_begun()
        for pair, names in sends(self.model.partitions([self.model.loss, self.model.train])).items():
            edges[pair] = sorted({*names, *edges[pair]})
        self.edges = edges
        self.plan = self.drawn(self.seed)
        self.restart()

    @property
    def order(self) -> ControlClient | None:
        return self.place.order

    def drawn(self, seed: int) -> Plan:
        """A random order, the gate in front."""
        return gate_first(plan_of(self.edges, seed, SERVER))

    def other_plan(self) -> Plan:
        return self.drawn(self.seed + 1)

    def restart(self) -> None:
        """From the first values on, under the plan."""
        self.model.session.run("init")
        self.install()

    def install(self) -> None:
        if self.order:
            self.order.install(self.plan, enabled=True, deadline_seconds=LONG)
        self.unread = 0

    def run(
        self, steps: int, faults: Mapping[int, str], acts: Mapping[str, Callable[["Training"], str]]
    ) -> None:
        """Train; before a step that a fault strikes, and behind the last, all hand-offs so far were in order."""
        for step in range(steps):
            if step in faults:
                self.check_order()
                self.journal.append((faults[step], acts[faults[step]](self)))
                self.check_idle()
                self.check_log()
                self.install()
            self.losses.append(float(self.model.step()[0]).hex())
            self.unread += 1
        self.check_order()
        self.check_idle()

    def check_order(self) -> None:
        """Each step since the plan was installed went exactly by it."""
        if self.order is None:
            return
        steps = by_step(self.order.hand_offs())
        assert [(len(ranks), why) for ranks, why in steps] == [(VARIABLES, {ORDERED})] * self.unread
        assert all(ranks == sorted(ranks) for ranks, _ in steps)

    def check_log(self) -> None:
        """Whatever struck: nothing left as no run of the protocols' models would have let it leave."""
        if self.order is not None:
            log = read_hand_offs(self.order.hand_offs(), lambda _, channel: str(channel))
            assert forbidden(log) == []

    def check_idle(self) -> None:
        """Nothing is held, no step is counted."""
        if self.order is not None:
            wait_until(lambda: self.counts() == (0, 0))

    def counts(self) -> tuple[int, int]:
        assert self.order
        counters = self.order.health().counters
        return counters.held, counters.live_steps

    def amid(self, act: Callable[[], object], session: Any = None, **run: Any) -> str:
        """Do it while a step has begun, of which the server holds all for its first transfer; how the step ends."""
        with ThreadPoolExecutor(1) as pool:
            step = pool.submit((session or self.model.session).run, self.blocked, **run)
            self.wait_begun()
            if self.order:
                wait_until(lambda: self.counts()[0] == VARIABLES)
            act()
            return ended(step)

    def ends(self, fetches: Any, **run: Any) -> str:
        """How a step ends that nothing disturbs."""
        with ThreadPoolExecutor(1) as pool:
            return ended(pool.submit(self.model.session.run, fetches, **run))

    def wait_begun(self) -> None:
        self.model.session.run(self.has_begun)

    def unblock(self) -> None:
        self.model.session.run(self.model.unblock)

    def recover(self) -> None:
        """Until a step that only reads comes through."""
        wait_until(lambda: self.ends(self.model.loss).startswith(WENT_ON))

    def close(self) -> None:
        self.model.session.close()

    def other_session(self) -> Any:
        """Another one of the same graph and variables."""
        session = self.model.session
        return v1.Session(session.sess_str, graph=session.graph, config=session._config)

    def reconnect(self) -> None:
        """Go on in another session: the worker or the server of the one before has died."""
        self.model.abandon()
        self.model.session = self.other_session()


def ended(step: Future[Any]) -> str:
    """That training goes on, and with what, or the error that the step ended with."""
    try:
        return f"{WENT_ON} with {loss_of(step.result(100)).hex()}"
    except tf.errors.OpError as error:
        return type(error).__name__


def loss_of(value: Any) -> float:
    """Of a step that fetches it, alone or first."""
    return float(value[0] if isinstance(value, tuple) else value)
