"""What a page is made of: a run, capture bundles, plans."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field, ValidationError

from tfwave.bundle.bundle import Bundle, is_bundle, load_bundle, malformed
from tfwave.errors import BundleError
from tfwave.files import read_file
from tfwave.plan.io import load_plan
from tfwave.plan.plan import Plan
from tfwave.report.conformance import HandOff
from tfwave.report.figures import StepFigures, step_figures
from tfwave.report.iterations import Iteration, traced_iterations
from tfwave.report.run import MODES, load_run

FIGURES_FILE = "figures.json"
UNORDERED, ORDERED = MODES
CAPTURED = "captured"
"""The mode of the only bundle, of which nobody says whether it was ordered."""

_Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Measured(BaseModel):
    """What a page needs of ``figures.json``: by mode, the seconds of each worker in each step."""

    network: str
    outputs_equal: bool
    step_seconds: dict[str, list[list[_Seconds]]]


@dataclass(frozen=True)
class Given:
    """What was given; `bundles` are captured steps by mode, `hand_offs` likewise."""

    names: tuple[str, ...]
    bundles: dict[str, Bundle]
    plan: Plan | None = None
    hand_offs: dict[str, list[HandOff]] | None = None
    measured: Measured | None = None

    @cached_property
    def iterations(self) -> dict[str, tuple[Iteration, ...]]:
        """Traced steps by mode, each judged by its own times."""
        return {mode: traced_iterations(bundle) for mode, bundle in self.bundles.items()}

    @cached_property
    def figures(self) -> dict[str, StepFigures]:
        """Of the measured steps, by mode; empty where none were measured."""
        if self.measured is None:
            return {}
        seconds = self.measured.step_seconds
        return {m: step_figures(seconds[m], self.iterations.get(m, ())) for m in MODES}


def read_given(paths: Iterable[Path]) -> Given:
    """Read what `tfwave demo` wrote, capture bundles and plans; sections of several plans are put together.

    A first bundle was captured without an order, a second one under it.

    Raises:
        BundleError, PlanError: one cannot be read, there are two runs, or more than two bundles; names it.
    """
    given = Given((), {})
    for path in paths:
        given = replace(_with(given, path), names=(*given.names, path.name or str(path)))
    if given.hand_offs is None and list(given.bundles) == [UNORDERED]:
        return replace(given, bundles={CAPTURED: given.bundles[UNORDERED]})
    return given


def _with(given: Given, path: Path) -> Given:
    if is_bundle(path):
        return _with_bundle(given, path)
    if path.is_dir():
        return _with_run(given, path)
    return _with_plan(given, load_plan(path))


def _with_plan(given: Given, plan: Plan) -> Given:
    return replace(given, plan=plan if given.plan is None else given.plan.with_sections_of(plan))


def _with_bundle(given: Given, path: Path) -> Given:
    free = [mode for mode in MODES if mode not in given.bundles]
    if not free:
        raise BundleError(
            f"'{path}' is a third capture: give one without an order, and at most one under the order"
        )
    return replace(given, bundles=given.bundles | {free[0]: load_bundle(path)})


def _with_run(given: Given, path: Path) -> Given:
    if given.hand_offs is not None or given.bundles:
        raise BundleError(
            f"'{path}' is a run, which has its own captures: give it first, and without bundles"
        )
    hand_offs = load_run(path)
    places = {UNORDERED: path / "bundle", ORDERED: path / "ordered"}
    plan = path / "plan.json"
    return replace(
        _with_plan(given, load_plan(plan)) if plan.is_file() else given,
        bundles={mode: load_bundle(place) for mode, place in places.items() if is_bundle(place)},
        hand_offs=hand_offs,
        measured=_measured(path / FIGURES_FILE),
    )


def _measured(path: Path) -> Measured | None:
    """None where there is no such file."""
    if not path.is_file():
        return None
    try:
        found = Measured.model_validate_json(read_file(path))
    except ValidationError as error:
        raise malformed(path, error) from error
    workers = [len(step) for mode in MODES for step in found.step_seconds.get(mode, [])]
    if set(found.step_seconds) != set(MODES) or not all(map(found.step_seconds.get, MODES)) or 0 in workers:
        raise BundleError(
            f"'{path}' is malformed: step_seconds: it must hold steps of {' and '.join(MODES)}, each "
            "with its workers"
        )
    return found
