"""Whatever goes in, it works or a `TfwaveError` says why."""

import random
from pathlib import Path

import pytest
from google.protobuf import text_format
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.containers import some_graph
from tests.fuzz.damage import any_field
from tests.fuzz.files import check_commands
from tests.fuzz.invariants import attempt, check_graph, check_text
from tests.fuzz.strategies import any_graph, any_pipeline, good_graph
from tfwave.errors import TfwaveError
from tfwave.graph.item import GraphItem
from tfwave.graph.saved_model import SavedModelDirectory
from tfwave.graph.verify import verify
from tfwave.proto.tensorflow_pb2 import GraphDef, MetaGraphDef, SavedModel

CRASHERS = sorted((Path(__file__).parent / "crashers").glob("*.pbtxt"))

SMALL = settings(
    max_examples=150,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
RANDOM = st.randoms(use_true_random=False)


@SMALL
@given(RANDOM)
def test_any_graph(rng: random.Random) -> None:
    check_graph(rng, any_graph(rng), any_graph(rng))


@SMALL
@given(RANDOM)
def test_any_nested_field(rng: random.Random) -> None:
    meta = MetaGraphDef(graph_def=some_graph())
    meta.MergeFromString(any_field(rng))
    attempt(lambda: SavedModelDirectory.of(Path("m"), SavedModel(meta_graphs=[meta])))


@SMALL
@given(RANDOM)
def test_any_pipeline_text(rng: random.Random) -> None:
    check_text(any_pipeline(rng, good_graph(rng)))


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
