"""What the bench of all-to-alls makes of what ranks said."""

from argparse import Namespace

import pytest

from tools.bench.embeddings.all_to_all import bound, late, modes
from tools.bench.embeddings.all_to_all_task import EVEN, MODES, TENSORFLOW, UNEVEN, counts_of
from tools.bench.interleaved import wire_seconds

GIVEN = Namespace(ranks=2, rate=1e9, bytes=3000)


def test_all_rows_are_dealt_out() -> None:
    assert counts_of(UNEVEN, 4, 100) == [40, 30, 20, 10]
    assert counts_of(EVEN, 3, 10) == [4, 3, 3]
    assert counts_of(UNEVEN, 3, 10) == [6, 3, 1]


@pytest.mark.parametrize(("mode", "most"), [(UNEVEN, 2000), (EVEN, 1500), (TENSORFLOW, 1500)])
def test_the_bound_is_what_the_busiest_card_moves(mode: str, most: int) -> None:
    assert bound(mode, GIVEN) == wire_seconds([most], 1e9)
    assert bound(mode, Namespace(ranks=2, rate=0, bytes=3000)) is None


def test_the_busiest_card_may_be_one_that_receives() -> None:
    """Of four ranks the first gets 40 of each other's 100."""
    assert bound(UNEVEN, Namespace(ranks=4, rate=1e9, bytes=100)) == wire_seconds([120], 1e9)


def test_an_exchange_is_from_the_first_begin_to_the_last_end() -> None:
    blocks = [[[1.0, 2.0, 2.0], [5.0, 8.0, 8.0]], [[10.0, 11.0, 11.0], [20.0, 21.0, 21.0]]]
    later = [[[begin + 0.5, end + 1, end + 1] for begin, end, _ in block] for block in blocks]
    said = [{"in_time": dict.fromkeys(MODES, own)} for own in (blocks, later)]
    found = modes(said, GIVEN)
    assert found[EVEN]["blocks_seconds"] == [3.0, 2.0]
    assert found[EVEN]["median_seconds"] == 2.0
    assert found[UNEVEN]["over_wire"] == pytest.approx(2 / wire_seconds([2000], 1e9))


def test_a_late_rank_costs_what_comes_behind_its_begin() -> None:
    """The other one has its own splits 0.2 s later, and all of them 0.5 s after the late rank's begin."""
    first = [[0.0, 1.0, 0.5], [10.0, 13.5, 10.7]]
    last = [[0.0, 0.9, 0.9], [13.0, 13.1, 13.1]]
    said = [{"late": {mode: [pair, pair] for mode in MODES}} for pair in (first, last)]
    found = late(said)
    assert found[UNEVEN]["after_seconds"] == 0.5
    assert found[UNEVEN]["among_in_time_seconds"] == 0.5
    assert found[UNEVEN]["among_cost_seconds"] == pytest.approx(0.2)
    assert found[UNEVEN]["late_rank_seconds"] == pytest.approx(0.1)
    assert found[TENSORFLOW].keys() == {"after_seconds", "after_of_exchanges_seconds", "late_rank_seconds"}
