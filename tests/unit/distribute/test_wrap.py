"""One line around a strategy: which product it gets, and which options are for that."""

from collections.abc import Callable
from inspect import Parameter, signature
from types import SimpleNamespace
from typing import Any, get_overloads

import pytest

import tfwave
from tests.strategies import MirroredStrategy, OneDeviceStrategy, ParameterServerStrategy
from tfwave.distribute import order, ordering, waves, wrap
from tfwave.errors import EnforcerError, EnvironmentUnsupported, PassError, PlanError
from tfwave.plan.fingerprint import NO_GRAPH
from tfwave.plan.plan import Plan
from tfwave.plan.waves import Waves

ORDER = {"policy": "tac", "enforcer": "auto", "control": None, "credentials": None, "trace_steps": 5}
BOTH = {"plan": None, "report_dir": None}
PLAN = Plan(waves=Waves(NO_GRAPH, 2, 0.25, 1000, 900))
WAVES = {"average": "wave", "offset": None}


def options(product: Callable[..., Any]) -> dict[str, Parameter]:
    """With their names and types; a strategy is none."""
    return {name: p for name, p in signature(product).parameters.items() if name != "strategy"}


def test_a_mirrored_strategy_gets_its_waves() -> None:
    strategy = MirroredStrategy()
    assert wrap(strategy, waves=3, average="batch", offset=0.5) is strategy
    train = tfwave.distribute.in_waves(len, strategy=strategy)
    assert (train.waves, train.offset) == (3, 0.5)


def test_a_plan_says_the_waves() -> None:
    strategy = MirroredStrategy()
    wrap(strategy, plan=PLAN, average="batch")
    train = tfwave.distribute.in_waves(len, strategy=strategy)
    assert (train.waves, train.offset, train.plan) == (2, 0.25, PLAN)
    with pytest.raises(PassError, match="the option waves is 2, and the plan says it, too"):
        wrap(MirroredStrategy(), plan=PLAN, waves=2)
    with pytest.raises(PlanError, match="the plan makes no waves: make one that does with `tfwave waves"):
        wrap(MirroredStrategy(), plan=Plan(policy="tac"))


def test_a_plan_without_an_order_orders_nothing() -> None:
    with pytest.raises(PlanError, match="the plan orders no transfers: make one that does with `tfwave plan"):
        wrap(ParameterServerStrategy(), plan=PLAN)


def test_a_mirrored_strategy_needs_waves() -> None:
    for given in ({}, WAVES):
        with pytest.raises(
            EnforcerError, match=r"a MirroredStrategy has no transfers to order.*give waves=2"
        ):
            wrap(MirroredStrategy(), **given)


@pytest.mark.parametrize("error", [KeyboardInterrupt, EnvironmentUnsupported])
def test_an_order_that_was_not_begun_can_be_asked_for_again(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by Ctrl-C while servers do not answer."""

    def begin(*_: Any) -> None:
        raise error

    scheduled = SimpleNamespace(start=begin), SimpleNamespace(enforcers=dict)
    monkeypatch.setattr(ordering, "_scheduled", lambda *_: scheduled)
    strategy = ParameterServerStrategy()
    for _ in range(2):
        with pytest.raises(error):
            wrap(strategy)


@pytest.mark.parametrize("option", ORDER)
def test_options_of_an_order_are_not_for_waves(option: str) -> None:
    """Also where they are as they would be anyway."""
    strategy = MirroredStrategy()
    given: dict[str, Any] = {"waves": 2, option: ORDER[option]}
    with pytest.raises(
        EnforcerError, match=f"the option {option} orders what parameter servers send.*: leave it out"
    ):
        wrap(strategy, **given)
    assert vars(strategy) == {}


@pytest.mark.parametrize("option", ["waves", *WAVES])
@pytest.mark.parametrize("kind", [ParameterServerStrategy, OneDeviceStrategy])
def test_options_of_waves_are_for_a_mirrored_strategy(kind: type[Any], option: str) -> None:
    given: dict[str, Any] = {option: {"waves": 1, **WAVES}[option]}
    wanted = f"the option {option} is for the waves of a MirroredStrategy, and this is a {kind.__name__}"
    with pytest.raises(EnforcerError, match=wanted):
        wrap(kind(), **given)


def test_other_strategies_cannot_be_ordered() -> None:
    for product in (order, wrap):
        with pytest.raises(
            EnforcerError, match=r"a OneDeviceStrategy has no parameter servers.*distribute\.waves"
        ):
            product(OneDeviceStrategy())
    with pytest.raises(EnforcerError, match="a MirroredStrategy has no parameter servers"):
        order(MirroredStrategy())


def test_type_checkers_see_the_options_of_both() -> None:
    """None must be given: a strategy that is just wrapped is to be ordered, and a plan can say the waves."""
    for_order, for_waves = (options(overload) for overload in get_overloads(wrap))
    for seen, product in ((for_order, options(order)), (for_waves, options(waves))):
        assert {name: p.annotation for name, p in seen.items()} == {
            name: p.annotation for name, p in product.items()
        }
        assert {p.kind for p in seen.values()} == {Parameter.KEYWORD_ONLY}
    required = [name for name, p in (for_order | for_waves).items() if p.default is Parameter.empty]
    assert required == []


def test_options_are_as_the_tests_above_have_them() -> None:
    assert {name: p.default for name, p in options(order).items()} == {**ORDER, **BOTH}
    assert {name: p.default for name, p in options(waves).items()} == {"waves": None, **WAVES, **BOTH}
