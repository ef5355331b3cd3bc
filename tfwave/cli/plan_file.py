"""The plan that a command writes, and the one that it adds to."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from tfwave.errors import PlanError
from tfwave.plan.io import load_plan, save_plan
from tfwave.plan.plan import Plan

PlanOutput = Annotated[
    Path | None, typer.Option("-o", "--output", help="Write the plan; JSON if it ends in .json.")
]
AddTo = Annotated[
    Path | None,
    typer.Option("--add-to", metavar="PLAN", help="Keep the other sections of this plan in what -o writes."),
]


def write_plan(decided: Callable[[], Plan], output: Path | None, add_to: Path | None) -> None:
    """Write what was decided, if that is wanted: only then it is asked for, as prints of graphs take their time.

    Raises:
        PlanError: there is nowhere to write to, or the plan to add to cannot be read; or as `decided`.
    """
    if output is None:
        if add_to is not None:
            raise PlanError("--add-to says what to keep, not where to write: give -o FILE, too")
        return
    found = decided()
    save_plan(found if add_to is None else load_plan(add_to).with_sections_of(found), output)
