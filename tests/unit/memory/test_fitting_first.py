"""First steps of several threads, without TensorFlow."""

from typing import Any

import pytest

from tfwave.fitting import function
from tfwave.fitting.function import FittedFunction


class Fitted(FittedFunction):
    """Notes its first steps, and whether it had its turn then."""

    def __init__(self, turn: "Turn") -> None:
        super().__init__(None, 1, None)
        self.turn = turn
        self.firsts: list[bool] = []

    def _first(self, kind: Any, batch: tuple[Any, ...]) -> Any:
        self.firsts.append(self.turn.held)
        instance: Any = lambda *batch: ("planned", *batch)  # noqa: E731
        plan: Any = None  # without a pool, nobody reads it
        self._instances[kind], self._plans[kind] = instance, plan
        return ("first", *batch)


class Turn:
    """In the place of the lock; another thread has had it before, and may have made the same first step."""

    held = False
    before: Any = None

    def __enter__(self) -> None:
        self.held = True
        if self.before is not None:
            before, self.before = self.before, None
            before()

    def __exit__(self, *_: object) -> None:
        self.held = False


@pytest.fixture
def fitted(monkeypatch: pytest.MonkeyPatch) -> Fitted:
    turn = Turn()
    monkeypatch.setattr(function, "_FIRST", turn)
    monkeypatch.setattr(function, "kind_of", repr)
    monkeypatch.setattr(function, "lengths_of", lambda _: ())
    return Fitted(turn)


def test_a_first_step_has_its_turn(fitted: Fitted) -> None:
    assert [fitted(1), fitted(1), fitted(2)] == [("first", 1), ("planned", 1), ("first", 2)]
    assert fitted.firsts == [True, True]
    assert not fitted.turn.held


def test_what_another_thread_has_planned_meanwhile_is_not_planned_again(fitted: Fitted) -> None:
    fitted.turn.before = lambda: fitted(1)
    assert fitted(1) == ("planned", 1)
    assert fitted.firsts == [True]
