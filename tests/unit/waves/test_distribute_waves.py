"""Which strategies train in waves, by which options, and what a call takes."""

from typing import Any

import pytest

import tfwave
from tests.strategies import (
    CollectiveAllReduceStrategy,
    MirroredStrategy,
    OneDeviceStrategy,
    ParameterServerStrategy,
)
from tfwave.distribute.in_waves import InWaves
from tfwave.errors import EnforcerError, PassError
from tfwave.runtime.waves.options import WaveOptions


def test_a_mirrored_strategy_is_given_its_waves() -> None:
    strategy = MirroredStrategy()
    assert tfwave.distribute.waves(strategy, 3, average="batch", offset=0.5, report_dir="told") is strategy
    train = tfwave.distribute.in_waves(len, strategy=strategy)
    assert (train.waves, train.offset) == (3, 0.5)
    with pytest.raises(EnforcerError, match="has its waves already"):
        tfwave.distribute.waves(strategy)


def test_other_strategies_have_no_waves() -> None:
    for strategy in (ParameterServerStrategy(), OneDeviceStrategy()):
        with pytest.raises(
            EnforcerError, match=r"cannot train in waves: give a tf\.distribute\.MirroredStrategy"
        ):
            tfwave.distribute.waves(strategy)
        assert vars(strategy) == {}


def test_several_machines_are_refused_with_the_reason() -> None:
    strategy = CollectiveAllReduceStrategy()
    for give in (tfwave.distribute.waves, tfwave.distribute.wrap):
        with pytest.raises(
            EnforcerError, match=r"MultiWorkerMirroredStrategy trains on several machines, .* for ever"
        ):
            give(strategy, waves=2)


def test_a_wave_is_not_enough() -> None:
    for waves in (0, 65):
        with pytest.raises(PassError, match=f"waves is {waves}"):
            tfwave.distribute.waves(MirroredStrategy(), waves)
    with pytest.raises(PassError, match="offset is 2"):
        tfwave.distribute.waves(MirroredStrategy(), offset=2.0)
    with pytest.raises(EnforcerError, match="one wave is plain training: give waves=2"):
        tfwave.distribute.waves(MirroredStrategy(), 1)


def test_an_offset_is_chosen_in_a_limited_pool_for_one_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    strategy: Any = MirroredStrategy()
    with pytest.raises(EnforcerError, match=r"limit_memory\('512MiB'\).*or give the offset as a number"):
        tfwave.distribute.waves(strategy, offset="auto")
    with pytest.raises(PassError, match="known for 2 waves, not for 1: take waves=2"):
        tfwave.distribute.waves(strategy, 1, offset="auto")
    monkeypatch.setattr("tfwave.capture.wave_choice.pool_limit", lambda: 1000)
    strategy.num_replicas_in_sync = 2
    with pytest.raises(EnforcerError, match="known for one replica, not for 2: give the offset as a number"):
        tfwave.distribute.waves(strategy, offset="auto")
    strategy.num_replicas_in_sync = 1
    train = tfwave.distribute.in_waves(len, strategy=tfwave.distribute.waves(strategy, offset="auto"))
    assert train.offset is None


def test_a_strategy_without_waves_is_refused() -> None:
    for strategy in (MirroredStrategy(), ParameterServerStrategy()):
        with pytest.raises(EnforcerError, match=r"has no waves: tfwave\.distribute\.waves"):
            tfwave.distribute.in_waves(len, strategy=strategy)


def test_steps_of_a_mirrored_strategy_do_not_overlap() -> None:
    strategy = tfwave.distribute.waves(MirroredStrategy())
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
