"""What tests of this folder run in one process, one after the other."""

from pathlib import Path

from tests.numerics.conftest import LONGEST, group_of
from tests.numerics.corpus import SAMPLES


def test_tests_of_a_sample_or_else_of_a_file_are_a_group() -> None:
    rewrites = "tests/numerics/passes/test_rewrites.py::test_ack_window"
    assert group_of(f"{rewrites}[small_calls-1]") == "small_calls"
    assert group_of("tests/numerics/test_corpus.py::test_two_runs[small_calls-plain]") == "small_calls"
    assert group_of(f"{rewrites}[other-1]") == group_of(rewrites) == "test_rewrites.py"


def test_the_longest_groups_are_there() -> None:
    files = {path.name for path in Path(__file__).parent.rglob("test_*.py")}
    assert set(LONGEST) <= SAMPLES.keys() | files
