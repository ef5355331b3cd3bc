"""What is planned for random steps: replayed op by op, and against all there is to choose from."""

import itertools
import random
import tarfile

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.golden.kept import INPUTS
from tests.offloaded import random_step, replayed
from tfwave.bundle.bundle import load_bundle
from tfwave.offload import fit as fitting
from tfwave.offload.bound import relief_bound
from tfwave.offload.captured import captured_step
from tfwave.offload.choice import Choice, Prices
from tfwave.offload.curve import fitted_curve
from tfwave.offload.exact import exact_choice
from tfwave.offload.fit import LEAD, Fits, Policy
from tfwave.offload.forecast import forecast
from tfwave.offload.greedy import greedy_choice
from tfwave.offload.layout import Layout, Method
from tfwave.offload.orders import depth_first_order, lean_order
from tfwave.offload.section import memory_section
from tfwave.offload.step import TrainingStep
from tfwave.plan.fingerprint import NO_GRAPH

MANY = settings(max_examples=40, deadline=None, database=None)
MOST = 6


def traced(step: TrainingStep) -> tuple[int, ...]:
    return tuple(range(len(step.ops)))


@pytest.mark.parametrize("policy", [Policy.GREEDY, Policy.DYMEM])
@pytest.mark.parametrize("seed", range(80))
def test_each_promise_is_kept(policy: Policy, seed: int) -> None:
    rng = random.Random(seed)
    step = random_step(rng, rng.randint(2, 8))
    least, most = Fits(step).least_limit, Layout.of(step, traced(step), 3).peak
    limit = least + round(rng.random() * max(0, most - least))
    fit = Fits(step).within(limit, policy)
    if fit is None:
        assert policy is Policy.DYMEM  # which offloads all, and knows one order only
        return
    plan = memory_section(fit, NO_GRAPH, limit, least)
    held = replayed(step, plan)
    assert max(held) <= plan.peak_bytes <= limit
    assert forecast(fit.forecast.choice, max(held)).peak <= plan.peak_bytes
    assert plan.seconds >= plan.plain_seconds == step.seconds
    curve = fitted_curve(fit.forecast)
    assert curve.held.tolist() == held
    assert (curve.held + curve.offloaded + curve.recomputed >= fit.layout.kept).all()


@pytest.mark.parametrize("seed", [*range(16), 130, 237])
def test_the_fastest_of_two_orders_and_two_views_of_copies_is_taken(seed: int) -> None:
    """In the last two the view is faster by which most copies hide."""
    rng = random.Random(seed)
    step = random_step(rng, rng.randint(4, 14))
    limit = Fits(step).least_limit + rng.randint(0, 120)
    found = Fits(step).within(limit)
    seconds: list[float] = []
    for order, exposed in itertools.product((traced(step), lean_order(step)), (1.0, 0.1)):
        layout = Layout.of(step, order, LEAD)
        if not Choice.all_of(layout, Method.OFFLOAD).fits(limit):
            layout = Layout.of(step, order, 0)
        choice = greedy_choice(Prices(layout, exposed), limit)
        if choice is not None:
            seconds.append(forecast(choice, limit).extra_seconds)
    assert found is not None
    assert not found.price or found.forecast.extra_seconds == min(seconds)


@MANY
@given(rng=st.randoms(use_true_random=False))
def test_orders_leave_each_op_behind_what_it_needs(rng: random.Random) -> None:
    step = random_step(rng, rng.randint(2, 15))
    for order in (lean_order(step), depth_first_order(step)):
        assert sorted(order) == list(range(len(step.ops)))
        place = {op: at for at, op in enumerate(order)}
        assert all(place[source] < place[op] for op in place for source in step.ops[op].after)
        for buffer in step.buffers:
            for use, writer in itertools.product(buffer.uses, buffer.writers):
                assert (use < writer) == (place[use] < place[writer])


@MANY
@given(rng=st.randoms(use_true_random=False), share=st.floats(-0.1, 0.9))
def test_greedy_has_a_plan_wherever_the_optimum_has_one_and_finds_it(
    rng: random.Random, share: float
) -> None:
    step = random_step(rng, rng.randint(2, 9))
    lead = rng.choice([0, 3])
    assume(share >= 0 or not lead)  # under what all offloaded holds, copies back begin as late as they can
    layout = Layout.of(step, traced(step), lead)
    assume(0 < len(layout.candidates) <= MOST)
    low = Choice.all_of(layout, Method.OFFLOAD).peak
    limit = round(low + share * (layout.peak - low))
    prices = Prices(layout)
    ways = itertools.product(Method, repeat=len(layout.candidates))
    choices = [Choice.of(layout, np.array(methods)) for methods in ways]
    known = [c for c in choices if np.isfinite(prices.total(c)) and c.fits(limit)]
    found = greedy_choice(prices, limit)
    if not known:
        assert found is None
        return
    best = min(map(prices.total, known))
    assert found is not None
    assert found.fits(limit)
    assert best <= prices.total(found) <= best * 1.01 + 1e-15
    assert relief_bound(prices, limit) <= best * (1 + 1e-9)


@MANY
@given(seed=st.integers(0, 1 << 32))
def test_a_choice_with_another_method_is_as_if_it_were_made_anew(seed: int) -> None:
    rng = random.Random(seed)
    step = random_step(rng, rng.randint(2, 12))
    layout = Layout.of(step, rng.choice([traced(step), lean_order(step)]), rng.choice([0, 3])).condensed()
    assume(layout.candidates)
    assert all(need < number for number, needs in enumerate(layout.needs) for need in needs)
    ways = [[*Method] if each.chain else [Method.KEEP, Method.OFFLOAD] for each in layout.candidates]
    choice = Choice.of(layout, np.array([rng.choice(each) for each in ways]))
    for _ in range(8):
        number = rng.randrange(len(ways))
        choice = choice.having(number, rng.choice(ways[number]))
        anew = Choice.of(layout, choice.methods)
        assert choice.held.tolist() == anew.held.tolist()
        assert choice.needed.tolist() == anew.needed.tolist()
        assert choice.returns.tolist() == anew.returns.tolist()


@MANY
@given(rng=st.randoms(use_true_random=False), share=st.floats(0, 0.9))
def test_the_integer_optimum_is_that_of_all_choices(rng: random.Random, share: float) -> None:
    pytest.importorskip("scipy")
    step = random_step(rng, rng.randint(2, 8))
    layout = Layout.of(step, traced(step), rng.choice([0, 3]))
    assume(0 < len(layout.candidates) <= MOST)
    low = Choice.all_of(layout, Method.OFFLOAD).peak
    limit = round(low + share * (layout.peak - low))
    prices = Prices(layout)
    ways = itertools.product(Method, repeat=len(layout.candidates))
    choices = [Choice.of(layout, np.array(methods)) for methods in ways]
    known = [prices.total(c) for c in choices if np.isfinite(prices.total(c)) and c.fits(limit)]
    optimum = exact_choice(prices, limit, 20)
    assert optimum.bound == pytest.approx(min(known), rel=1e-3, abs=1e-15)
    assert optimum.choice is not None
    assert optimum.choice.fits(limit)
    assert prices.total(optimum.choice) == pytest.approx(min(known), rel=1e-3, abs=1e-15)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> TrainingStep:
    """A ResNet-like step that TensorFlow traced."""
    out = tmp_path_factory.mktemp("traced")
    with tarfile.open(INPUTS / "resnet_alone.tar.gz") as archive:
        archive.extractall(out, filter="data")
    return captured_step(load_bundle(out / "resnet_alone")).step


@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
def test_a_real_step_costs_no_more_than_what_the_solver_finds(real: TrainingStep, share: float) -> None:
    """Within 1 %, and there is a plan wherever it finds one; by the policy exact the cheaper of both is taken."""
    pytest.importorskip("scipy")
    for order in (traced(real), lean_order(real)):
        layout = Layout.of(real, order, 0)
        low = Choice.all_of(layout, Method.OFFLOAD).peak
        limit, prices = round(low + share * (layout.peak - low)), Prices(layout)
        found, optimum = greedy_choice(prices, limit), exact_choice(prices, limit, 5)
        assert found is not None
        assert found.fits(limit)
        assert prices.total(found) >= optimum.bound * (1 - 1e-3)
        if optimum.choice is not None:
            assert prices.total(found) <= prices.total(optimum.choice) * 1.01


def test_exact_is_no_dearer_than_greedy_where_the_solver_has_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("scipy")
    monkeypatch.setattr(fitting, "EXACT_SECONDS", 1e-9)
    step = random_step(random.Random(1), 9)
    least, most = Fits(step).least_limit, Layout.of(step, traced(step), 3).peak
    limit = (least + most) // 2
    greedy, exact = (Fits(step).within(limit, policy) for policy in (Policy.GREEDY, Policy.EXACT))
    assert greedy is not None
    assert exact is not None
    assert exact.policy is Policy.EXACT
    assert exact.cost == greedy.cost > (0, 0)
