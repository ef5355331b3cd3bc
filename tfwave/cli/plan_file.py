"""The plan that a command writes, and the one that it adds to."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

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


@dataclass(frozen=True)
class PlanFile:
    """Where a plan goes, and the plan whose other sections it keeps; or nowhere."""

    path: Path | None
    kept: Plan | None

    @classmethod
    def of(cls, output: Path | None, add_to: Path | None) -> Self:
        """As the options say.

        Raises:
            PlanError: there is something to keep and nowhere to write to, or it cannot be read.
        """
        if output is None and add_to is not None:
            raise PlanError("--add-to says what to keep, not where to write: give -o FILE, too")
        return cls(output, None if add_to is None else load_plan(add_to))

    def write(self, decided: Callable[[], Plan]) -> None:
        """Write what was decided, if that is wanted: only then it is asked for, as prints of graphs take time.

        Raises:
            PlanError: as `decided`.
            TfwaveError: the file cannot be written.
        """
        if self.path is not None:
            found = decided()
            save_plan(found if self.kept is None else self.kept.with_sections_of(found), self.path)
