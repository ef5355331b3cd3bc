"""What a choice does: the turns of the ops, the bytes that are held then, and how long that takes."""

from dataclasses import dataclass

from tfwave.offload.choice import Choice
from tfwave.offload.held import Held
from tfwave.offload.moves import Move, moves_of
from tfwave.offload.timed import FittedRun, fitted_run
from tfwave.offload.turns import MOST_BESIDE, KeptTurns, kept_turns


@dataclass(frozen=True)
class Forecast:
    """By the model.

    Attributes:
        choice: that was made.
        moves: when its tensors go and come.
        turns: which ops keep their turn.
        run: what runs when.
    """

    choice: Choice
    moves: tuple[Move, ...]
    turns: KeptTurns
    run: FittedRun

    @property
    def peak(self) -> int:
        """The most bytes that are held at once."""
        return self.turns.peak

    @property
    def extra_seconds(self) -> float:
        """What a step takes beyond one as it is."""
        return max(0.0, self.run.run.seconds - self.choice.layout.step.seconds)


def forecast(choice: Choice, limit: int, most_beside: int = MOST_BESIDE) -> Forecast:
    """Of a choice that keeps to a limit, and lets so many ops run at most when one begins."""
    layout, moves = choice.layout, moves_of(choice, limit)
    turns = kept_turns(layout, moves, Held.of(layout, moves), limit, most_beside)
    return Forecast(choice, moves, turns, fitted_run(layout, moves, turns))
