"""What to change: flags and sweeps."""

import pytest

from tfwave.errors import TfwaveError
from tfwave.whatif.change import Change, parse_changes


def test_no_setting_is_as_captured() -> None:
    assert parse_changes({}, []) == [Change()]


def test_settings_hold_in_all_combinations_and_the_last_sweep_is_fastest() -> None:
    found = parse_changes({"latency": "50us"}, ["servers=1,2", "bandwidth=8gbit, 16gbit"])
    assert [(c.servers, c.bandwidth, c.latency_seconds) for c in found] == [
        (1, 1e9, 50 * 1e-6),
        (1, 2e9, 50 * 1e-6),
        (2, 1e9, 50 * 1e-6),
        (2, 2e9, 50 * 1e-6),
    ]
    assert found[1].label == "latency 50us, servers 1, bandwidth 16gbit"


def test_each_setting() -> None:
    given = {
        "bandwidth": "1kbit",
        "latency": "0",
        "servers": "3",
        "workers": "4",
        "batch-scale": "0.5",
    }
    (found,) = parse_changes(given, [])
    assert (found.bandwidth, found.latency_seconds, found.servers, found.workers, found.batch_scale) == (
        125,
        0,
        3,
        4,
        0.5,
    )


@pytest.mark.parametrize(
    ("given", "sweeps", "says"),
    [
        ({"bandwidth": "fast"}, [], "--bandwidth fast: bandwidth 'fast' is malformed"),
        ({"bandwidth": "0gbit"}, [], "--bandwidth 0gbit: it must be above zero"),
        ({"latency": "-1us"}, [], "--latency -1us: latency '-1us' is malformed"),
        ({"servers": "0"}, [], "--servers 0: give a whole number from 1"),
        ({"workers": "two"}, [], "--workers two: give a whole number from 1"),
        ({"workers": "9999999"}, [], "to 4096"),
        ({"batch-scale": "nan"}, [], "--batch-scale nan: give a number above zero"),
        ({"batch-scale": "x"}, [], "--batch-scale x: give a number above zero"),
        ({}, ["speed=1"], "--sweep 'speed=1' is malformed: write NAME=VALUE,VALUE with one of bandwidth"),
        ({}, ["servers"], "--sweep 'servers' is malformed"),
        ({}, ["servers=1,,2"], "--sweep 'servers=1,,2' is malformed"),
        ({}, ["servers=1,x"], "--servers x"),
        ({"servers": "1"}, ["servers=2"], "servers is given twice"),
        ({}, ["workers=1", "workers=2"], "workers is given twice"),
        ({}, [f"servers={','.join(['1'] * 40)}", f"workers={','.join(['1'] * 40)}"], "more than 1000"),
    ],
)
def test_what_is_malformed_names_its_flag(given: dict[str, str], sweeps: list[str], says: str) -> None:
    with pytest.raises(TfwaveError) as refused:
        parse_changes(given, sweeps)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)
