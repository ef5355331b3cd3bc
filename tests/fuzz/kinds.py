"""What a seed breaks things with: one of the kinds of damaged input, each by all that takes it."""

import random
from collections.abc import Callable
from pathlib import Path

from tests.containers import some_graph
from tests.fuzz.damage import any_field
from tests.fuzz.files import check_commands
from tests.fuzz.invariants import attempt, check_graph, check_text
from tests.fuzz.strategies import any_graph, any_pipeline, good_graph
from tfwave.graph.saved_model import SavedModelDirectory
from tfwave.proto.tensorflow_pb2 import MetaGraphDef, SavedModel


def check_graphs(rng: random.Random, _folder: Path) -> None:
    check_graph(rng, any_graph(rng), any_graph(rng))


def check_field(rng: random.Random, _folder: Path) -> None:
    meta = MetaGraphDef(graph_def=some_graph())
    meta.MergeFromString(any_field(rng))
    attempt(lambda: SavedModelDirectory.of(Path("m"), SavedModel(meta_graphs=[meta])))


def check_pipeline(rng: random.Random, _folder: Path) -> None:
    check_text(any_pipeline(rng, good_graph(rng)))


KINDS: dict[str, Callable[[random.Random, Path], None]] = {
    "graph": check_graphs,
    "field": check_field,
    "pipeline": check_pipeline,
    "command": check_commands,
}


def check(seed: int, folder: Path) -> None:
    """What this seed draws; the folder, which is there and empty, may be written to."""
    kind = list(KINDS)[seed % len(KINDS)]
    KINDS[kind](random.Random(seed), folder)
