"""Whatever goes in, it works or a `TfwaveError` says why."""

import random
from pathlib import Path

import pytest
from google.protobuf import text_format
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.files import check_commands
from tests.fuzz.invariants import check_graph
from tests.fuzz.kinds import KINDS
from tests.fuzz.strategies import good_graph
from tfwave.errors import TfwaveError
from tfwave.graph.item import GraphItem
from tfwave.graph.verify import verify
from tfwave.proto.tensorflow_pb2 import GraphDef

CRASHERS = sorted((Path(__file__).parent / "crashers").glob("*.pbtxt"))

SMALL = settings(
    max_examples=150,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
IN_MEMORY = [kind for kind in KINDS if kind != "command"]
RANDOM = st.randoms(use_true_random=False)


@SMALL
@given(RANDOM)
@pytest.mark.parametrize("kind", IN_MEMORY)
def test_any_input(kind: str, rng: random.Random) -> None:
    KINDS[kind](rng, Path())


@pytest.mark.parametrize("seed", range(150))
def test_any_command(seed: int, tmp_path: Path) -> None:
    check_commands(random.Random(seed), tmp_path)


@pytest.mark.parametrize("file", CRASHERS, ids=lambda file: file.stem)
def test_what_broke_it_once(file: Path) -> None:
    graph = text_format.Parse(file.read_text(), GraphDef())
    for seed in range(5):
        check_graph(random.Random(seed), graph, GraphDef())


def test_the_graphs_that_faults_are_planted_in_are_good() -> None:
    refused = [seed for seed in range(50) if not _is_good(seed)]
    assert not refused


def _is_good(seed: int) -> bool:
    try:
        verify(GraphItem(good_graph(random.Random(seed))))
    except TfwaveError:
        return False
    return True
