"""A schedule from its start to its stop: real control services, with no TensorFlow behind them."""

import gc
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from weakref import ref

import pytest

from tests.controlled import FakeHook
from tests.graphs import SERVERS, WORKER
from tests.plans import plan_by_hand
from tests.unit.coordinated import Closure, Coordinator, Function
from tests.waiting import wait_until
from tfwave.distribute import enforcement, judge, progress, run, scheduled_function
from tfwave.distribute.progress import Phase, Progress
from tfwave.distribute.schedule import Schedule
from tfwave.distribute.scheduled_function import ScheduledFunction
from tfwave.distribute.servers import Servers
from tfwave.distribute.settings import Settings
from tfwave.errors import EnforcerError
from tfwave.graph.names import Channel
from tfwave.plan.io import load_plan
from tfwave.plan.plan import Plan
from tfwave.proto import control_pb2
from tfwave.runtime.control.service import ControlServer, serve
from tfwave.runtime.coordinator import StepRun
from tfwave.runtime.job_devices import JobDevices

PS = "/job:ps/replica:0/task:0"
DEVICES = [WORKER, WORKER.replace("task:0", "task:1")]
WORKERS = [device.removesuffix("/device:CPU:0") for device in DEVICES]
LONG = 60.0
PULLS = 3


class Hook(FakeHook):
    """Hands off what the test says that each step under a plan does."""

    def __init__(self) -> None:
        super().__init__()
        self.installed: list[list[str]] = []
        self.ranks = list(range(PULLS))
        self.reason = control_pb2.ORDERED
        self.enforcer = "hook"
        self._handed: list[tuple[int, str, control_pb2.Reason]] = []
        self._begin = 0

    def status(self) -> control_pb2.Status:
        return control_pb2.Status(enforcer=self.enforcer, installed=self.plan is not None)

    def install(self, plan: Plan | Mapping[str, Plan]) -> None:
        super().install(plan)
        self.installed.append(self.functions)
        self._begin = len(self._handed)  # what was not read is lost

    def remove(self) -> None:
        super().remove()
        self.installed.append([])

    @property
    def functions(self) -> list[str]:
        return sorted(self.plan) if isinstance(self.plan, Mapping) else []

    def send(self, step: int, function: str) -> None:
        if function in self.functions:
            self._handed.append((step, function, self.reason))

    def hand_offs(self, cursor: int = 0) -> control_pb2.HandOffs:
        fresh = self._handed[max(cursor, self._begin) :]
        answer = control_pb2.HandOffs(next_cursor=len(self._handed))
        functions = sorted({function for _, function, _ in fresh})
        for function in functions:
            answer.channels.add(source_device="ps", destination_device="worker", function=function)
        for step, function, reason in fresh:
            for rank in self.ranks:
                channel = functions.index(function)
                answer.hand_offs.add(step=step, channel=channel, rank=rank, reason=reason)
        return answer


class Tracer:
    """Notes the functions that ran while it was on; refuses so often before it starts, and while it is on."""

    def __init__(self) -> None:
        self.on = False
        self.starts = 0
        self.refusals = 0
        self.seen: list[str] = []

    def start(self) -> None:
        if self.refusals:
            self.refusals -= 1
            raise EnforcerError("somebody else traces it")
        if self.on:
            raise EnforcerError("it is traced already")
        self.on = True
        self.starts += 1
        self.seen = []

    def stop(self) -> control_pb2.Trace:
        self.on = False
        trace = control_pb2.Trace(functions=dict(enumerate(self.seen)))
        trace.channels.add(source_device=SERVERS[0], destination_device=WORKER)
        for step, function in enumerate(self.seen):
            trace.ops.add(function=function, node="sum", min_seconds=1e-3)
            pulled = [f"v{i}{step_of_two}" for step_of_two in ("", "_1") for i in range(PULLS)]
            for i, node in enumerate(pulled, 1):
                trace.arrivals.add(step=step, edge=f"edge_{i}_{node}", bytes=400, arrived_nanos=1000 * i)
        return trace


@dataclass
class Job:
    hook: Hook
    tracers: list[Tracer]
    services: dict[str, ControlServer]
    worker_hooks: list[FakeHook]
    coordinator: Coordinator
    schedule: Schedule
    steps: int = 0
    seconds_unordered: float = 1e-3
    seconds_ordered: float = 0.0
    phases: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    def step(self, *functions: Function) -> None:
        for function in functions:
            name = function.function_def.signature.name
            ordered = name in self.hook.functions
            for worker in self.coordinator.workers:
                worker.seconds = self.seconds_ordered if ordered else self.seconds_unordered
            self.coordinator.step(function)
            self.steps += 1
            self.hook.send(self.steps, name)
            for tracer in self.tracers:
                tracer.seen += [name] * tracer.on
        if not self.phases or self.phases[-1] != self.schedule.phases:
            self.phases.append(self.schedule.phases)

    def run(self, *functions: Function, until: Callable[[], bool]) -> None:
        end = time.monotonic() + LONG
        while not until():
            assert time.monotonic() < end, self.phases
            self.step(*functions)
            time.sleep(0.001)

    def until_ordered(self, *functions: Function) -> None:
        names = {function.function_def.signature.name for function in functions}
        self.run(
            *functions, until=lambda: {n for n, p in self.schedule.phases.items() if p == "ordered"} >= names
        )


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    monkeypatch.setattr(run, "_TICK_SECONDS", 0.005)
    monkeypatch.setattr(enforcement, "_WATCH_SECONDS", 0.01)
    monkeypatch.setattr(enforcement, "_WATCH_SHARE", 1)
    monkeypatch.setattr(judge, "_QUIET_SECONDS", 0)  # these steps are handed off at once
    hook, worker_hooks, tracers = Hook(), [FakeHook(), FakeHook()], [Tracer(), Tracer()]
    services = {PS: serve(hook)}
    services[PS].trace_with(Tracer())
    for task, worker_hook, tracer in zip(WORKERS, worker_hooks, tracers, strict=True):
        services[task] = serve(worker_hook)
        services[task].trace_with(tracer)
    coordinator = Coordinator(len(WORKERS))
    servers = Servers({task: service.address for task, service in services.items()})
    schedule = Schedule(coordinator, servers, JobDevices((*DEVICES, SERVERS[0]), WORKERS))
    made = Job(hook, tracers, services, worker_hooks, coordinator, schedule)
    yield made
    schedule.stop()
    for service in services.values():
        service.stop()


@pytest.fixture
def started(job: Job) -> Job:
    job.schedule.start(Settings(trace_steps=3))
    return job


def test_a_function_is_measured_traced_planned_and_ordered(started: Job) -> None:
    function = Function("f")
    started.step(function)
    for phase, steps in (("warming up", 1), ("measured unordered", 3), ("traced", 3)):
        wait_until(lambda phase=phase: started.schedule.phases == {"f": phase})
        assert started.hook.functions == []
        for _ in range(steps - 1):
            started.step(function)
            time.sleep(0.02)
        assert started.schedule.phases == {"f": phase}
        assert all(tracer.on == (phase == "traced") for tracer in started.tracers)
        started.step(function)
    wait_until(lambda: started.schedule.phases == {"f": "ordered"})
    assert started.hook.installed == [[], ["f"]]
    plan = started.schedule.plans["f"]
    assert [order.channel for order in plan.orders] == [Channel(SERVERS[0], device) for device in DEVICES]
    assert {t.bytes for t in plan.transfers} == {400}
    assert started.hook.plan == {"f": plan}
    assert [tracer.starts for tracer in started.tracers] == [1, 1]
    assert not any(tracer.on for tracer in started.tracers)


def test_a_plan_in_force_is_left_with_a_page_of_it(job: Job, tmp_path: Path) -> None:
    job.schedule.start(Settings(trace_steps=3, report_dir=tmp_path / "report"))
    job.until_ordered(Function("f"))
    assert load_plan(tmp_path / "report" / "f.plan.json") == job.schedule.plans["f"]
    assert "f.plan.json" in (tmp_path / "report" / "f.html").read_text()


def test_a_plan_of_an_earlier_run_takes_the_place_of_a_trace(
    started: Job, caplog: pytest.LogCaptureFixture
) -> None:
    function, other = Function("f"), Function("other", pulls=PULLS + 1)
    started.until_ordered(function)
    plan = started.schedule.plans["f"]
    started.schedule.start(Settings(trace_steps=3, plan=plan))
    started.phases.clear()
    started.until_ordered(function)
    assert started.schedule.plans == {"f": plan}
    assert [tracer.starts for tracer in started.tracers] == [1, 1]
    assert {"f": "traced"} not in started.phases
    assert caplog.messages == []
    started.until_ordered(other)
    assert [tracer.starts for tracer in started.tracers] == [2, 2]
    (message,) = caplog.messages
    assert message.startswith("tfwave: other is traced, as the plan does not fit it: the planned graph has")


def test_a_plan_for_other_workers_is_not_followed(started: Job, caplog: pytest.LogCaptureFixture) -> None:
    function = Function("f")
    started.until_ordered(function)
    plan = started.schedule.plans["f"]
    of_one = replace(plan, orders=plan.orders[:1])
    started.schedule.start(Settings(trace_steps=3, plan=of_one))
    started.until_ordered(function)
    channels = [order.channel for order in started.schedule.plans["f"].orders]
    assert channels == [order.channel for order in plan.orders]
    assert f"it orders nothing that arrives at '{WORKERS[1]}'" in caplog.text


def test_plans_of_an_earlier_chief_are_forgotten_and_workers_told(job: Job) -> None:
    job.hook.install({"f": plan_by_hand({Channel("a", "b"): ("edge_1_old",)})})
    job.schedule.start(Settings())
    assert job.hook.plan is None
    assert [hook.settings for hook in job.worker_hooks] == [{"hooked_tasks": (PS,)}] * 2


def test_a_function_that_pulls_one_tensor_is_left_alone(started: Job) -> None:
    started.until_ordered(Function("f"))
    started.run(Function("g", pulls=1), until=lambda: started.steps > 50)
    assert set(started.schedule.phases) == {"f"}


def test_a_function_that_pulls_in_a_loop_is_told(started: Job, caplog: pytest.LogCaptureFixture) -> None:
    started.step(Function("f", pulls=1, looped=3))
    wait_until(lambda: "the transfers of f stay unordered: it pulls in a loop" in caplog.text)
    assert started.schedule.phases == {}


def test_of_a_function_that_pulls_in_a_loop_too_the_rest_is_ordered(started: Job) -> None:
    started.until_ordered(Function("f", looped=3))
    plan = started.schedule.plans["f"]
    assert {t.key.node for t in plan.transfers} == {f"v{i}" for i in range(PULLS)}


def test_a_second_function_leaves_the_plan_of_the_first(started: Job) -> None:
    first, second = Function("f"), Function("g")
    started.until_ordered(first)
    started.until_ordered(first, second)
    assert started.hook.installed == [[], ["f"], ["f", "g"]]
    assert set(started.schedule.plans) == {"f", "g"}


def test_functions_are_traced_one_after_the_other(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    functions = Function("f"), Function("g")
    job.seconds_unordered = 0.0
    monkeypatch.setattr(run, "_TICK_SECONDS", 0.1)
    job.schedule.start(Settings(trace_steps=3))
    for _ in range(10):
        job.step(*functions)  # both are measured when the schedule looks
    monkeypatch.setattr(run, "_TICK_SECONDS", 0.005)
    job.until_ordered(*functions)
    for phases in job.phases:
        assert list(phases.values()).count("traced") <= 1
    assert [tracer.starts for tracer in job.tracers] == [2, 2]


def test_steps_beside_the_trace_of_another_function_do_not_count(started: Job) -> None:
    first, second = Function("f"), Function("g")
    started.run(first, until=lambda: started.schedule.phases.get("f") == "traced")
    for _ in range(20):
        started.step(second)
    time.sleep(0.05)
    assert started.schedule.phases == {"f": "traced", "g": "warming up"}


def test_a_trace_in_which_its_function_runs_no_more_ends_and_is_made_again(
    started: Job, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As of an evaluation between long trainings, however often that happens."""
    monkeypatch.setattr(scheduled_function, "_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(scheduled_function, "_TRACE_SECONDS", LONG)
    rare = Function("rare")
    steps_beside = progress._MOST_BESIDE * started.schedule.settings.trace_steps

    def wait_for(phase: str) -> None:
        wait_until(lambda: started.schedule.phases.get("rare") == phase)

    started.step(rare, rare)
    for i in range(4):
        wait_for("measured unordered")
        started.step(rare, rare, rare)
        wait_for("traced")
        started.step(*[Function(f"other{i}")] * steps_beside)  # no more: they would count to its own trace
        wait_for("measured unordered")
    assert caplog.text.count("the transfers of rare stay unordered for now") == 1
    started.until_ordered(rare)


@pytest.mark.parametrize(
    ("ranks", "reason"),
    [([0, 1, 2], control_pb2.RELEASED), ([2, 1, 0], control_pb2.ORDERED)],
    ids=["released", "inverted"],
)
def test_an_order_that_is_not_kept_is_taken_back(
    started: Job, caplog: pytest.LogCaptureFixture, ranks: list[int], reason: control_pb2.Reason
) -> None:
    started.hook.ranks, started.hook.reason = ranks, reason
    function = Function("f")
    started.run(function, until=lambda: started.schedule.phases.get("f") == "unordered")
    assert started.hook.plan is None
    assert started.schedule.plans == {}
    assert "the order of f is taken back: only 0% of its steps kept it" in caplog.text


def test_an_order_without_hand_offs_is_taken_back(started: Job) -> None:
    started.hook.ranks = []
    started.run(Function("f"), until=lambda: started.schedule.phases.get("f") == "unordered")
    assert started.hook.plan is None


def test_an_order_that_loses_three_times_is_taken_back(
    started: Job, caplog: pytest.LogCaptureFixture
) -> None:
    started.seconds_unordered, started.seconds_ordered = 0.0, 20e-3  # longer than a busy machine adds to each
    started.run(Function("f"), until=lambda: started.schedule.phases.get("f") == "unordered")
    assert started.hook.installed == [[], *[["f"], []] * 3]
    assert [tracer.starts for tracer in started.tracers] == [1, 1]
    assert "x the time that they take without" in caplog.text


def test_an_order_that_comes_again_is_told_once(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, Plan, int]] = []
    monkeypatch.setattr(
        enforcement,
        "tell_plan",
        lambda events, name, plan, pictures, step: told.append((name, plan, step)),
    )
    job.seconds_unordered, job.seconds_ordered = 0.0, 20e-3
    settings = Settings(trace_steps=3, report_dir=tmp_path / "report")
    job.schedule.start(settings, settings.events())
    job.run(Function("f"), until=lambda: job.schedule.phases.get("f") == "unordered")
    assert job.hook.installed == [[], *[["f"], []] * 3]
    assert told == [("f", load_plan(tmp_path / "report" / "f.plan.json"), 0)]


def test_an_order_that_pays_stays(started: Job) -> None:
    function = Function("f")
    started.until_ordered(function)
    before = started.steps
    started.run(function, until=lambda: started.steps > before + 25)
    time.sleep(0.2)  # it is judged
    started.seconds_ordered = 2e-3  # the machine's mood
    for _ in range(90):
        started.step(function)
    time.sleep(0.3)  # it would be judged again
    assert started.hook.installed == [[], ["f"]]


def test_a_trace_that_is_refused_is_tried_again(
    started: Job, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker may be away, and a function that is new then has its turn when the worker is back."""
    monkeypatch.setattr(scheduled_function, "_PAUSE_SECONDS", 0.01)
    started.tracers[1].refusals = 4
    started.until_ordered(Function("f"))
    assert [tracer.starts for tracer in started.tracers] == [5, 1]
    assert caplog.text.count("the transfers of f stay unordered for now") == 1


def test_a_trace_that_is_refused_again_waits_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, asked = SimpleNamespace(now=0.0), list[float]()

    def refuse() -> None:
        asked.append(clock.now)
        raise EnforcerError("a worker is away")

    monkeypatch.setattr(scheduled_function, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    named: Any = SimpleNamespace(name="f")
    drafter: Any = SimpleNamespace(start=refuse)
    graph = Function("f").graph
    function = ScheduledFunction(ref(graph), named, Progress(1, 1, Phase.MEASURING), drafter, named)
    for second in range(1000):
        clock.now = float(second)
        function.count(StepRun(0, None, clock.now, 0.0))
        function.advance(may_trace=True)
    assert asked == [0, 5, 15, 35, 75, 155, 315, 615, 915]


def test_a_trace_that_told_nothing_three_times_is_given_up(
    started: Job, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as blind:
        for tracer in started.tracers:
            blind.setattr(
                tracer, "stop", lambda tracer=tracer: setattr(tracer, "on", False) or control_pb2.Trace()
            )
        started.run(Function("f"), until=lambda: started.schedule.phases.get("f") == "unordered")
    assert [tracer.starts for tracer in started.tracers] == [3, 3]
    assert not any(tracer.on for tracer in started.tracers)
    assert "the transfers of f stay unordered: no step of f was traced" in caplog.text
    started.until_ordered(Function("g"))


def test_a_trace_ends_though_the_function_runs_no_more(started: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduled_function, "_TRACE_SECONDS", 0.1)
    function = Function("f")
    started.run(function, until=lambda: started.schedule.phases.get("f") == "traced")
    wait_until(lambda: started.schedule.phases["f"] != "traced")
    assert not any(tracer.on for tracer in started.tracers)


def test_a_server_that_lost_its_plan_gets_it_again(started: Job) -> None:
    started.until_ordered(Function("f"))
    started.hook.remove()
    wait_until(lambda: started.hook.functions == ["f"])


def test_a_server_that_is_gone_ends_the_ordering_not_the_training(
    started: Job, caplog: pytest.LogCaptureFixture
) -> None:
    function = Function("f")
    started.until_ordered(function)
    started.services[PS].stop()
    wait_until(lambda: "training goes on unordered" in caplog.text)
    wait_until(lambda: "put" not in vars(started.coordinator.queue))
    started.step(function)


def test_a_worker_that_comes_back_is_told_before_it_runs(started: Job) -> None:
    for hook in started.worker_hooks:
        hook.settings.clear()
    started.coordinator.queue.put(Closure(Function("f"), fails=1))
    started.coordinator.workers[1].work()
    assert [hook.settings for hook in started.worker_hooks] == [{}, {"hooked_tasks": (PS,)}]


def test_a_worker_whose_servers_do_not_answer_comes_back_unordered(
    started: Job, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(run, "_RECOVERY_SECONDS", 0.05)
    started.services[PS].stop()
    started.coordinator.queue.put(Closure(Function("f"), fails=1))
    started.coordinator.workers[1].work()
    assert "worker 1 is back, but stays unordered" in caplog.text
    assert started.coordinator.workers[1].recoveries == 1


def test_the_figures_are_of_the_steps_since_they_were_asked_for(started: Job) -> None:
    function = Function("f")
    started.until_ordered(function)
    time.sleep(0.1)
    before = started.steps
    assert started.schedule.figures().steps == 2 * before
    started.run(function, until=lambda: started.steps == before + 10)
    time.sleep(0.1)  # nothing more comes of them
    figures = started.schedule.figures()
    assert (figures.steps, figures.exact_share, figures.inversions, figures.released) == (20, 1, 0, 0)


def test_hand_offs_are_read_before_new_plans(started: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Function("f")
    monkeypatch.setattr(enforcement, "_WATCH_SECONDS", LONG)
    started.until_ordered(first)
    time.sleep(0.05)  # the first look is over
    started.hook.reason = control_pb2.RELEASED
    for _ in range(5):
        started.step(first)
    started.hook.reason = control_pb2.ORDERED
    started.until_ordered(first, Function("g"))
    assert started.schedule.figures().released == 5


def test_hand_offs_are_read_before_a_plan_is_installed_again(
    started: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Function("f")
    monkeypatch.setattr(enforcement, "_WATCH_SECONDS", 0.2)
    started.until_ordered(first)
    time.sleep(0.05)  # the first look is over
    started.hook.reason = control_pb2.RELEASED
    for _ in range(5):
        started.step(first)
    started.hook.remove()
    wait_until(lambda: started.hook.functions == ["f"])
    assert started.schedule.figures().released == 5


def test_stopping_leaves_nothing_behind(started: Job, caplog: pytest.LogCaptureFixture) -> None:
    function = Function("f")
    started.until_ordered(function)
    started.run(Function("g"), until=lambda: started.schedule.phases.get("g") == "traced")
    assert all(tracer.on for tracer in started.tracers)
    started.schedule.stop()
    assert not any(tracer.on for tracer in started.tracers)
    assert started.hook.plan is None
    assert "put" not in vars(started.coordinator.queue)
    assert (started.schedule.settings, started.schedule.plans, started.schedule.phases) == (None, {}, {})
    with pytest.raises(EnforcerError, match="the schedule is stopped"):
        started.schedule.figures()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_plans_are_forgotten_though_a_worker_is_gone_amid_a_trace(
    started: Job, caplog: pytest.LogCaptureFixture
) -> None:
    started.until_ordered(Function("f"))
    started.run(Function("g"), until=lambda: started.schedule.phases.get("g") == "traced")
    started.services[WORKERS[1]].stop()
    started.schedule.stop()
    assert started.hook.plan is None
    assert WORKERS[1] in caplog.text


def test_a_schedule_ends_with_its_coordinator(job: Job) -> None:
    """As where a program makes a strategy, drops it and makes another one."""
    servers = Servers({task: service.address for task, service in job.services.items()})
    job_devices = JobDevices((*DEVICES, SERVERS[0]), WORKERS)
    schedule: Schedule | None = Schedule(Coordinator(len(WORKERS)), servers, job_devices)
    assert schedule is not None
    schedule.start(Settings())
    job.hook.install({"f": plan_by_hand({Channel("a", "b"): ("x",)})})
    (thread,) = [each for each in threading.enumerate() if each.name == "tfwave-schedule"]
    schedule = None
    gc.collect()
    wait_until(lambda: not thread.is_alive())
    assert job.hook.plan is None


def test_starting_again_begins_anew(started: Job) -> None:
    function = Function("f")
    started.until_ordered(function)
    started.schedule.start(Settings("tic", trace_steps=2))
    assert started.hook.plan is None
    assert started.schedule.phases == {}
    started.until_ordered(function)
    assert started.schedule.plans["f"].policy == "tic"


def test_a_single_step_gets_advice(started: Job) -> None:
    function = Function("f")
    assert started.schedule.advised_steps(function.graph) is None
    started.until_ordered(function)
    assert started.schedule.advised_steps(function.graph) == 1  # it pushes nothing
    assert started.schedule.advised_steps(Function("g").graph) is None
    started.schedule.stop()
    assert started.schedule.advised_steps(function.graph) is None


def test_steps_that_overlap_are_ordered_in_both_directions(started: Job) -> None:
    function = Function("f", steps=2)
    started.until_ordered(function)
    assert started.schedule.advised_steps(function.graph) is None
    worker_plans = [hook.plan for hook in started.worker_hooks]
    for device, plans in zip(DEVICES, worker_plans, strict=True):
        assert isinstance(plans, Mapping)
        assert [order.channel for order in plans["f"].orders] == [Channel(device, SERVERS[0])]
    started.schedule.stop()
    assert [hook.plan for hook in started.worker_hooks] == [None, None]


def test_steps_that_overlap_need_the_hook(started: Job, caplog: pytest.LogCaptureFixture) -> None:
    started.hook.enforcer = "proxy"
    single = Function("g")
    started.run(Function("f", steps=2), single, until=lambda: started.schedule.phases.get("g") == "ordered")
    assert "f" not in started.schedule.phases
    assert (
        f"the transfers of f stay unordered: its steps overlap, which needs the hook, and {PS}" in caplog.text
    )


def test_a_program_that_ends_ends_its_schedule_in_silence() -> None:
    """Python cuts off what still runs behind that: in TensorFlow, that is an abort."""
    chief = subprocess.run(
        [sys.executable, "-m", "tests.unit.distribute.ended_chief"],
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert (chief.returncode, chief.stdout, chief.stderr) == (0, "[]\n", "")
