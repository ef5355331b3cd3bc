"""`tfwave memory --placement`: which pool a step needs, by how its bytes are placed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfwave.bundle.bundle import Bundle
from tfwave.bundle.memory import CapturedMemory
from tfwave.cli.output import console, print_table, short_device
from tfwave.errors import PlanError
from tfwave.memory.pool.compared import PlacingFigures, compare
from tfwave.memory.pool.lives import Life, traced_lives
from tfwave.offload.captured import captured_step
from tfwave.offload.planned import planned_lives
from tfwave.plan.io import load_plan
from tfwave.sizes import in_words


@dataclass(frozen=True)
class PlacedStep:
    """A captured step, what it takes, and what each way of placing that needs."""

    found: CapturedMemory
    planned: bool
    lives: Sequence[Life]
    figures: Sequence[PlacingFigures]

    def document(self) -> dict[str, Any]:
        """For machines."""
        return {
            "device": self.found.memory.profile.device,
            "step": self.found.step,
            "as": "planned" if self.planned else "traced",
            "allocations": len(self.lives),
            "live_peak_bytes": self.figures[0].live_bytes,
            "placings": [vars(each) | {"over_peak": each.over_peak} for each in self.figures],
        }

    def show(self) -> None:
        """For people."""
        how = "as planned, op after op" if self.planned else "as traced"
        console.print(
            f"{short_device(self.found.memory.profile.device)}: step {self.found.step + 1} {how}; "
            f"{len(self.lives)} allocations that it takes and gives back, "
            f"{in_words(self.figures[0].live_bytes)} at once at most",
            soft_wrap=True,
        )
        rows = [
            (each.placing, in_words(each.pool_bytes), f"{each.over_peak:.3f}", f"{each.unusable:.1%}")
            for each in self.figures
        ]
        print_table("the pool that each way of placing needs", ["placing", "pool", "pool/peak", "U_f"], rows)


def placed_step(bundle: Bundle, found: CapturedMemory, device: str | None, plan: Path | None) -> PlacedStep:
    """Place what a captured step takes, as it was traced or as the section `memory` of a plan has it.

    Raises:
        PlanError: the plan has no such section, or is for another step.
        BundleError: it is to run as planned, and is no training step.
    """
    lives = traced_lives(found.memory) if plan is None else _planned(bundle, device, plan)
    return PlacedStep(found, plan is not None, lives, compare(lives))


def _planned(bundle: Bundle, device: str | None, path: Path) -> Sequence[Life]:
    memory = load_plan(path).memory
    if memory is None:
        raise PlanError(
            f"'{path}' has no section memory: make it by tfwave fit BUNDLE --memory ... -o {path}"
        )
    step = captured_step(bundle, device).step
    if {op.node for op in step.ops} != set(memory.order):
        raise PlanError(f"'{path}' is for another step than that of the bundle: make it from this bundle")
    return planned_lives(step, memory)
