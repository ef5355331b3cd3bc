"""The order of what a strategy's functions transfer: traced, planned, enforced and watched while they train."""

from typing import Any

from tfwave.distribute.figures import Figures
from tfwave.distribute.run import ScheduleRun
from tfwave.distribute.servers import Servers
from tfwave.distribute.settings import Settings
from tfwave.errors import EnforcerError
from tfwave.plan.plan import Plan
from tfwave.runtime.events import Events
from tfwave.runtime.job_devices import JobDevices


class Schedule:
    """Orders the functions that one coordinator schedules, from `start` to `stop`.

    Each traced function goes through the phases of `Progress` by itself, and has a plan of its own. The work is
    done in a thread of the chief; a failure there is said once, and training goes on unordered.
    """

    def __init__(self, coordinator: Any, servers: Servers, job: JobDevices) -> None:
        """For a `ClusterCoordinator` of a job."""
        self._coordinator = coordinator
        self._servers = servers
        self._job = job
        self._run: ScheduleRun | None = None

    @property
    def settings(self) -> Settings | None:
        """Of the run that is under way; None when stopped."""
        return self._run.settings if self._run else None

    @property
    def plans(self) -> dict[str, Plan]:
        """The plans in force, by function."""
        return self._run.plans if self._run else {}

    @property
    def events(self) -> Events | None:
        """Of the run that is under way, for TensorBoard, if they are wanted."""
        return self._run.events if self._run else None

    @property
    def phases(self) -> dict[str, str]:
        """How far each function has come."""
        return self._run.phases() if self._run else {}

    def advised_steps(self, graph: Any) -> int | None:
        """How many steps a call of the function in a `tf.Graph` should make, as `choose_steps` says.

        None, as long as that is not measured, or when the schedule is stopped.
        """
        return self._run.advised_steps(graph) if self._run else None

    def figures(self) -> Figures:
        """What happened since the last call, or the start."""
        if self._run is None:
            raise EnforcerError("the schedule is stopped: start it before the figures are asked for")
        return self._run.figures()

    def start(self, settings: Settings, events: Events | None = None) -> None:
        """Begin anew: forget all plans, measure, trace, plan; what comes into force is told by `events`.

        Raises:
            EnforcerError: a server does not answer.
            EnvironmentUnsupported: this TensorFlow's coordinator cannot be watched.
        """
        self.stop()
        self._servers.install({})
        self._servers.announce()
        run = ScheduleRun(self._servers, self._job, settings, events)
        run.begin(self._coordinator)
        self._run = run

    def stop(self) -> None:
        """Leave all as it was before `start`: nothing is watched, no plan is in force."""
        run, self._run = self._run, None
        if run is not None:
            run.end()
