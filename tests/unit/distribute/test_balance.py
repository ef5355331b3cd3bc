"""Placements of variables: their measure, their bounds, and where round robin loses."""

import itertools
import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfwave.balance.measure import measure
from tfwave.balance.result import Balance
from tfwave.balance.solve import balance, largest_first
from tfwave.balance.variable import Variable
from tfwave.errors import GraphError, PlanError


def dealt(sizes: Sequence[int], servers: int, needs: Sequence[float] | None = None) -> list[Variable]:
    """Variables as round robin deals them, needed one after the other unless it is said when."""
    needed = needs or [float(i) for i in range(len(sizes))]
    return [
        Variable(f"v{i}", size, need, server=i % servers)
        for i, (size, need) in enumerate(zip(sizes, needed, strict=True))
    ]


few = settings(max_examples=40, deadline=None, database=None)
SIZES = st.lists(st.integers(0, 50) | st.sampled_from([1000, 1024, 4096]), min_size=1, max_size=12)


@st.composite
def dealt_variables(draw: st.DrawFn) -> tuple[list[Variable], int]:
    sizes, servers = draw(SIZES), draw(st.integers(1, 4))
    needs = draw(st.lists(st.integers(0, 5), min_size=len(sizes), max_size=len(sizes)))
    return dealt(sizes, servers, [float(n) for n in needs]), servers


def plain_measure(variables: Sequence[Variable], assigned: Sequence[int], servers: int) -> tuple[int, int]:
    """The measure as it is defined, word for word."""

    def needed(server: int, by: float) -> int:
        pairs = zip(variables, assigned, strict=True)
        return sum(v.bytes for v, at in pairs if at == server and v.need <= by)

    moments = sorted({v.need for v in variables if v.bytes})
    waited = sum(max(needed(s, t) for s in range(servers)) for t in moments)
    return max(needed(s, float("inf")) for s in range(servers)), waited


def least_possible(sizes: Sequence[int], servers: int) -> int:
    """The bytes of the busiest server in the best of all placements."""
    return min(
        max(
            sum(s for s, at in zip(sizes, assigned, strict=True) if at == server) for server in range(servers)
        )
        for assigned in itertools.product(range(servers), repeat=len(sizes))
    )


def measured(found: Balance) -> tuple[int, int]:
    return plain_measure(found.variables, found.assigned, found.servers)


@few
@given(dealt_variables())
def test_every_variable_is_placed_once_and_nothing_is_lost(case: tuple[list[Variable], int]) -> None:
    variables, servers = case
    found = balance(variables, servers)
    assert set(found.placement.variables) == {v.name for v in variables}
    assert set(found.placement.variables.values()) <= set(range(servers))
    assert sum(found.bytes_after) == sum(v.bytes for v in variables) == sum(found.bytes_now or ())


@few
@given(dealt_variables())
def test_it_is_never_worse_than_round_robin(case: tuple[list[Variable], int]) -> None:
    variables, servers = case
    now = [v.server or 0 for v in variables]
    assert measured(balance(variables, servers)) <= plain_measure(variables, now, servers)


@few
@given(dealt_variables())
def test_the_measure_is_what_its_words_say(case: tuple[list[Variable], int]) -> None:
    variables, servers = case
    found = balance(variables, servers)
    assert measure(found.variables, found.assigned, servers) == measured(found)
    assert (max(found.bytes_after), found.waited_bytes) == measured(found)


@few
@given(dealt_variables(), st.randoms(use_true_random=False))
def test_the_order_of_the_variables_makes_no_difference(
    case: tuple[list[Variable], int], rng: random.Random
) -> None:
    variables, servers = case
    shuffled = rng.sample(variables, len(variables))
    assert balance(shuffled, servers) == balance(variables, servers)


@few
@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(1, 3))
def test_the_busiest_server_is_near_the_best_of_all(sizes: list[int], servers: int) -> None:
    """Graham's bound of largest first, 4/3 - 1/(3 m); the search does not lose it."""
    best = least_possible(sizes, servers)
    variables = dealt(sizes, servers)
    for busiest in (
        measure(variables, largest_first(variables, servers), servers)[0],
        max(balance(variables, servers).bytes_after),
    ):
        assert 3 * servers * busiest <= (4 * servers - 1) * best
    assert balance(variables, servers).bound_bytes <= best


def test_kernels_and_biases_are_the_complaint() -> None:
    """In turn, two servers get all the kernels and all the biases."""
    found = balance(dealt([4096, 16] * 6, 2), 2)
    assert found.bytes_now == (6 * 4096, 6 * 16)
    assert found.bytes_after == (3 * 4112, 3 * 4112)
    assert found.ratio == 1
    assert found.gain == pytest.approx(1 - 4112 / 8192)
    assert found.gains


def test_each_moment_is_even_too() -> None:
    """The totals are the same for all pairs; only dealing in the order of need keeps both servers at work."""
    variables = [Variable(f"v{i}", 100, float(i), server=i // 4) for i in range(8)]
    found = balance(variables, 2)
    assert found.bytes_now == found.bytes_after == (400, 400)
    assert [sorted(found.assigned[i : i + 2]) for i in (0, 2, 4, 6)] == [[0, 1]] * 4
    assert (found.waited_bytes_now, found.waited_bytes) == (2600, 2000)
    assert (found.gain, found.waited_gain, found.gains) == (0, pytest.approx(6 / 26), True)


def test_exchanges_undo_what_largest_first_spoils() -> None:
    """Sizes that fall with the need: largest first puts the two first needed on one server."""
    sizes, needs = [10, 9, 9, 10], [3.0, 0.0, 1.0, 2.0]
    found = balance(dealt(sizes, 2, needs), 2)
    by_need = {v.need: s for v, s in zip(found.variables, found.assigned, strict=True)}
    assert by_need[0.0] != by_need[1.0]
    assert found.bytes_after == (19, 19)


def test_what_is_even_stays_where_it_is() -> None:
    variables = [
        Variable("a", 5, 0.0, server=1),
        Variable("b", 5, 1.0, server=0),
        Variable("c", 0, 2.0, server=1),
    ]
    found = balance(variables, 2)
    assert found.placement.variables == {"a": 1, "b": 0, "c": 1}
    assert found.gain == 0
    assert not found.gains


def test_what_moves_nothing_goes_by_what_it_holds() -> None:
    variables = [Variable(f"v{i}", 0, 0.0, resident_bytes=size) for i, size in enumerate([8, 4, 2, 2])]
    found = balance([Variable("w", 1, 0.0), *variables], 2)
    assert found.placement.variables == {"w": 0, "v0": 1, "v1": 0, "v2": 0, "v3": 0}


def test_followers_go_where_their_variable_goes() -> None:
    variables = [Variable("a", 9, 0.0), Variable("b", 5, 1.0, followers=("b/Adam", "b/Adam_1"))]
    assert balance(variables, 2).placement.variables == {"a": 0, "b": 1, "b/Adam": 1, "b/Adam_1": 1}


def test_seconds_are_carried_along() -> None:
    variables = [Variable(f"v{i}", 10, float(i), wire_seconds=0.5, server=0) for i in range(4)]
    found = balance(variables, 2)
    assert (found.wire_seconds_now, found.wire_seconds_after) == ((2.0, 0.0), (1.0, 1.0))
    assert found.gain == 0.5


def test_even_bytes_that_take_longer_are_no_gain() -> None:
    """The small one takes as long as the large one: many small tensors are latency."""
    sizes, seconds, servers = [100, 50, 50], [0.1, 1.0, 1.0], [0, 0, 1]
    variables = [
        Variable(f"v{i}", size, float(i), wire_seconds=seconds[i], server=servers[i])
        for i, size in enumerate(sizes)
    ]
    found = balance(variables, 2)
    assert found.bytes_after == (100, 100)
    assert found.gain == pytest.approx(1 - 2.0 / 1.1)
    assert not found.gains


def test_variables_of_no_server_have_no_gain() -> None:
    found = balance([Variable("a", 5, 0.0), Variable("b", 5, 1.0, server=7)], 2)
    assert (found.bytes_now, found.wire_seconds_now, found.waited_bytes_now, found.gain) == (None,) * 4
    assert found.gains


def test_one_variable_may_be_too_large() -> None:
    assert balance(dealt([50, 60, 10], 2), 2).too_large is None
    found = balance(dealt([90, 50, 10], 2), 2)
    assert found.too_large == Variable("v0", 90, 0.0, server=0)
    assert (found.bound_bytes, found.ratio) == (90, 1)


def test_nothing_to_place() -> None:
    found = balance([], 3)
    assert (found.bytes_after, found.ratio, found.placement.variables) == ((0, 0, 0), 1.0, {})


def test_many_variables_are_told_apart_in_parts_of_a_step() -> None:
    rng = random.Random(3)
    variables = dealt([rng.randint(1, 10**6) for _ in range(600)], 4)
    found = balance(variables, 4)
    assert found.ratio < 1.001
    assert found.waited_bytes < (found.waited_bytes_now or 0)


def test_it_refuses_what_it_cannot_place() -> None:
    with pytest.raises(PlanError, match="on 0 servers"):
        balance([], 0)
    with pytest.raises(PlanError, match="on 4097 servers: give from 1 to 4096"):
        balance([], 4097)
    with pytest.raises(GraphError, match=r"'b' cannot have \d+ bytes"):
        balance([Variable("a", 2**40, 0.0), Variable("b", 2**62, 1.0)], 2)
    with pytest.raises(GraphError, match="'b/m' is there twice"):
        balance([Variable("a", 1, 0.0, followers=("b/m",)), Variable("b/m", 1, 0.0)], 2)
