"""Several trainings in one process under one memory limit."""

from collections.abc import Sequence
from pathlib import Path

from tfwave.colocate.job import Job
from tfwave.colocate.pool import Pool
from tfwave.colocate.results import Results
from tfwave.memory.colocation import Colocation
from tfwave.plan.given import GivenPlan
from tfwave.plan.plan import Plan
from tfwave.report.drawn.colocation import colocation_figure
from tfwave.report.page.left import leave_page
from tfwave.report.told import tell_plan
from tfwave.runtime.events import Events

_NAME = "colocation"


def run(
    jobs: Sequence[Job],
    memory_limit: str | int | None = None,
    *,
    plan: GivenPlan | None = None,
    wait_seconds: float | None = None,
    report_dir: str | Path | None = None,
) -> Results:
    """Train several jobs at once, so that they never hold more than the limit together (Waterwave section 4).

    That is a `Pool` of jobs that are all there from the start, and planned together:

    1. Each makes its first steps alone. They are steps as any other.
    2. A plan cuts each step into node groups (`tfwave.memory.colocation.colocate`), or leaves them to run in turn,
       if they fit in no other way, or kept the cores too busy in point 1. If not all jobs fit, those that come
       first, by priority and then in their order, go on without those that do not fit beside them. What was planned
       is in `Results.plan`, for another run, and what was traced in `Results.bundles`; a `plan` that is given takes
       the place of the traced steps.
    3. From then on they run beside each other, as there is room.

    Nothing is raised for what becomes of a job once steps are made: its result has what it returned until then, and
    in `error` why it ended: its own error, a `PlanError` that says why it has no room, or a `GraphError` that names
    the node at which its step cannot be cut. On Ctrl-C each job ends its step before `KeyboardInterrupt` goes on;
    what they returned is lost, their variables are not.

    Args:
        jobs: with different names.
        memory_limit: bytes, or as "512MiB"; by default, and at most, that of the pool.
        plan: with these jobs, by their names, or its file: that of an earlier run, or of `tfwave colocate`. A job
            whose step is not what was planned fails, and the others go on.
        wait_seconds: as for `Pool`.
        report_dir: a directory that gets the plan, if there is one, as ``colocation.plan.json``, a page of it as
            ``colocation.html`` (see `tfwave report`), and for TensorBoard what it says as text and what each job
            holds in each slot as a picture (with ``tfwave[plot]``); None: none.

    Raises:
        EnforcerError: as `Pool`, or a step that is none.
        EnvironmentUnsupported: as `Pool`.
        PlanError: two jobs of one name, a limit above the pool's, or a plan for other jobs.
    """
    with Pool(memory_limit, wait_seconds=wait_seconds) as pool:
        handles = pool.add_all(jobs, plan)
    bundles = {handle.name: handle.bundle for handle in handles if handle.bundle is not None}
    planned = pool.plan
    if planned is not None and report_dir is not None:
        _leave(Path(report_dir), planned)
    return Results(
        {handle.name: handle.result() for handle in handles},
        planned,
        None if planned is None else pool.figures,
        bundles,
    )


def _leave(directory: Path, plan: Plan) -> None:
    leave_page(directory, _NAME, plan)
    groups, events = plan.groups, Events(directory)
    drawn = {"memory": lambda: colocation_figure(Colocation.of(groups))} if groups else {}
    tell_plan(events, _NAME, plan, drawn)
    events.close()
