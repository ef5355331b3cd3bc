"""A step that is made to fit may be called and written as steps are."""

from typing import Any

import pytest

from tests.numerics.processes import said_in_pool

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return said_in_pool(64, "tests.numerics.memory.fitting_calls")


@pytest.mark.parametrize("case", ["named", "empty", "sparse", "given variable"])
def test_a_function_trains_the_same_however_it_is_called(case: str, found: dict[str, Any]) -> None:
    """By name, without a row, with a sparse batch of which some rows are traced, and with the variable."""
    assert found["same"][case]


def test_a_step_whose_constants_tensorflow_computes_beforehand_trains_the_same(found: dict[str, Any]) -> None:
    """Some of the ops that would have made them run all the same, behind those that read what they make."""
    assert found["same"]["means"]


def test_what_is_set_only_before_tensorflow_starts_is_set(found: dict[str, Any]) -> None:
    assert found["threads"] == 1


def test_plans_of_as_many_rows_in_two_shapes_are_all_left(found: dict[str, Any]) -> None:
    assert found["left"] == ["fitted_6_rows.plan.json", "fitted_6_rows_2.plan.json"]


def test_a_keras_model_without_a_call_that_logs_means_trains_the_same(found: dict[str, Any]) -> None:
    assert found["same"]["adversaries"]
    assert found["plans"] == 1


def test_a_keras_model_that_logs_no_loss_trains_the_same(found: dict[str, Any]) -> None:
    assert found["same"]["silent"]


def test_a_keras_model_trains_the_same_bits_where_the_last_batch_is_smaller(found: dict[str, Any]) -> None:
    assert found["same"]["unequal"]


SAID = {
    "by name alone": "EnforcerError: the step takes training by name alone: let it take that by place, too",
    "no such name": "TypeError: got an unexpected keyword argument 'speed'",
    "full": "PlanError: the steps that are traced, of 6 rows, have no room as they are",
    "in a function": "is a tf.function, in which its loss is not seen: leave @tf.function off",
}


@pytest.mark.parametrize("case", SAID)
def test_a_mistake_is_said_with_the_way_out(case: str, found: dict[str, Any]) -> None:
    assert SAID[case] in found["said"][case]
