"""Plans for traced functions: what they transfer, what that costs, and in which order it should go."""

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from tfwave.capture.function import FunctionGraph, cut_function
from tfwave.capture.plan import plan_function, simulated_function
from tfwave.capture.worker_trace import CostedFunction, function_costs
from tfwave.distribute.servers import Servers
from tfwave.errors import EnforcerError
from tfwave.graph.names import task_of
from tfwave.plan.fingerprint import first_difference
from tfwave.plan.plan import Plan
from tfwave.planner.overlap import StepLoad, choose_steps, step_load
from tfwave.report.drawn.timeline import timeline_figure
from tfwave.report.told import Picture
from tfwave.runtime.job_devices import JobDevices

LEAST_PULLS = 2
"""What pulls fewer has nothing to order."""


class Draft(NamedTuple):
    """A plan that was made of a trace.

    `steps` is how many a call of the function should make; None: it makes several already. `costed` is what was
    traced; None, if the plan was given.
    """

    plan: Plan
    steps: int | None
    costed: CostedFunction | None = None

    @property
    def pictures(self) -> dict[str, Picture]:
        """A step without the plan, and under it, as simulated."""
        return {} if self.costed is None else {"timeline": partial(_timeline, self.costed, self.plan)}


@dataclass(frozen=True)
class Drafter:
    """Traces functions on the servers of a job, one at a time, and plans them for its workers."""

    servers: Servers
    policy: str
    job: JobDevices

    def cut(self, concrete: Any) -> FunctionGraph:
        """What a `ConcreteFunction` transfers.

        Raises:
            GraphError: it cannot be cut offline.
            EnforcerError: its steps overlap, and a server has no hook; or it pulls next to nothing but in a loop.
        """
        function = cut_function(concrete, self.job)
        if function.looped and len(function.pulls) < LEAST_PULLS:
            raise EnforcerError(
                "it pulls in a loop, anew in each iteration, which nothing orders: unroll it (see "
                "tfwave.distribute.overlap); a tf_keras model does without one by compile(steps_per_execution=1)"
            )
        if function.overlaps:
            self._refuse_proxies()
        return function

    def mismatch(self, plan: Plan, function: FunctionGraph) -> str | None:
        """Why a plan is not one for this function and these workers, in words; None if it is."""
        planned = {task_of(order.channel.destination) for order in plan.orders}
        for worker in self.job.workers:
            if worker not in planned:
                return f"it orders nothing that arrives at '{worker}'"
        return first_difference(plan.graph, function.view)

    def start(self) -> None:
        """Begin a trace, everywhere or nowhere.

        Raises:
            EnforcerError: a worker is gone, or traced by its user.
        """
        try:
            self.servers.start_trace()
        except EnforcerError:
            with suppress(EnforcerError):
                self.servers.stop_trace()  # of those that began
            raise

    def stop(self) -> None:
        """End a trace of which nothing is made.

        Raises:
            EnforcerError: a worker is gone.
        """
        self.servers.stop_trace()

    def draft(self, function: FunctionGraph) -> Draft:
        """End the trace, and plan the function by it.

        Raises:
            TfwaveError: a worker is gone, or saw no step.
        """
        costed = function_costs(function, self.servers.stop_trace())
        plan = plan_function(costed, self.policy, self.job.workers)
        return Draft(plan, None if function.overlaps else choose_steps(self._load(costed)), costed)

    def _load(self, costed: CostedFunction) -> StepLoad:
        function = costed.function
        return step_load(
            function.view, function.task, costed.transfers, costed.network, len(self.job.workers)
        )

    def _refuse_proxies(self) -> None:
        for task, enforcer in self.servers.enforcers().items():
            if enforcer != "hook":
                raise EnforcerError(
                    f"its steps overlap, which needs the hook, and {task} orders by the {enforcer}"
                )


def _timeline(costed: CostedFunction, plan: Plan) -> Any:
    steps = simulated_function(costed, plan)
    return timeline_figure(
        {"unordered, simulated": steps.free.timeline, "ordered, simulated": steps.ordered.timeline}, plan
    )
