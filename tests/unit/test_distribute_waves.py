"""Which strategies train in waves, by which options, and what a call takes."""

from typing import Any

import pytest

import tfwave
from tfwave.distribute.waves import InWaves
from tfwave.errors import EnforcerError, PassError
from tfwave.runtime.waves.options import WaveOptions


class MirroredStrategy:
    """As much of TensorFlow's as is asked for: its name."""


class OneDeviceStrategy:
    pass


class ParameterServerStrategy:
    _is_parameter_server_strategy_v2 = True


def test_a_mirrored_strategy_is_given_its_waves() -> None:
    strategy = MirroredStrategy()
    assert tfwave.distribute.wrap(strategy, waves=3, average="batch", offset=0.5) is strategy
    train = tfwave.distribute.in_waves(len, strategy=strategy)
    assert (train.waves, train.offset) == (3, 0.5)
    with pytest.raises(EnforcerError, match="wrapped already"):
        tfwave.distribute.wrap(strategy, waves=2)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("policy", "tic"),
        ("enforcer", "proxy"),
        ("control", {"ps": ["a:1"]}),
        ("credentials", object()),
        ("trace_steps", 3),
    ],
)
def test_options_of_an_order_are_not_for_waves(option: str, value: Any) -> None:
    strategy = MirroredStrategy()
    with pytest.raises(EnforcerError, match=f"the option {option} orders what parameter servers send"):
        tfwave.distribute.wrap(strategy, waves=2, **{option: value})
    assert vars(strategy) == {}


@pytest.mark.parametrize(
    ("option", "value"), [("waves", 2), ("average", "batch"), ("offset", 0.5), ("offset", "auto")]
)
@pytest.mark.parametrize("kind", [ParameterServerStrategy, OneDeviceStrategy])
def test_options_of_waves_are_for_a_mirrored_strategy(kind: type[Any], option: str, value: Any) -> None:
    with pytest.raises(EnforcerError, match=f"the option {option} is for the waves of a MirroredStrategy"):
        tfwave.distribute.wrap(kind(), **{option: value})


def test_a_mirrored_strategy_needs_waves() -> None:
    with pytest.raises(EnforcerError, match=r"a MirroredStrategy has no transfers to order.*give waves=2"):
        tfwave.distribute.wrap(MirroredStrategy())
    for waves in (0, 65):
        with pytest.raises(PassError, match=f"waves is {waves}"):
            tfwave.distribute.wrap(MirroredStrategy(), waves=waves)
    with pytest.raises(PassError, match="offset is 2"):
        tfwave.distribute.wrap(MirroredStrategy(), waves=2, offset=2.0)
    with pytest.raises(
        EnforcerError, match=r"OneDeviceStrategy cannot be wrapped.*or a .*MirroredStrategy with waves=2"
    ):
        tfwave.distribute.wrap(OneDeviceStrategy())


def test_an_offset_is_chosen_in_a_limited_pool_for_one_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    strategy: Any = MirroredStrategy()
    with pytest.raises(EnforcerError, match=r"limit_memory\('512MiB'\).*or give the offset as a number"):
        tfwave.distribute.wrap(strategy, waves=2, offset="auto")
    with pytest.raises(PassError, match="known for 2 waves, not for 1: take waves=2"):
        tfwave.distribute.wrap(strategy, offset="auto")
    monkeypatch.setattr("tfwave.capture.wave_offset.pool_limit", lambda: 1000)
    strategy.num_replicas_in_sync = 2
    with pytest.raises(EnforcerError, match="known for one replica, not for 2: give the offset as a number"):
        tfwave.distribute.wrap(strategy, waves=2, offset="auto")
    strategy.num_replicas_in_sync = 1
    train = tfwave.distribute.in_waves(len, strategy=tfwave.distribute.wrap(strategy, waves=2, offset="auto"))
    assert train.offset is None


def test_a_strategy_without_waves_is_refused() -> None:
    for strategy in (MirroredStrategy(), ParameterServerStrategy()):
        with pytest.raises(EnforcerError, match=r"has no waves: tfwave\.distribute\.wrap"):
            tfwave.distribute.in_waves(len, strategy=strategy)


def test_steps_of_a_mirrored_strategy_do_not_overlap() -> None:
    strategy = tfwave.distribute.wrap(MirroredStrategy(), waves=2)
    for steps in (None, 4):
        with pytest.raises(EnforcerError, match=rf"steps=({steps})\): train in waves"):
            tfwave.distribute.overlap(len, steps, strategy=strategy)
    with pytest.raises(EnforcerError, match="sends nothing to servers"):
        tfwave.distribute.schedule_of(strategy)


def test_a_call_has_a_batch_for_each_wave_at_most() -> None:
    train = InWaves(len, MirroredStrategy(), WaveOptions(2))
    for batches in ((), (1, 2, 3)):
        with pytest.raises(EnforcerError, match=f"each of 2 waves, not {len(batches)}"):
            train(*batches)
