"""Whatever gets at state, however it does: a pass gives the same bits, or refuses by name."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import tensorflow as tf

from grappler_passes.counter_barrier import CounterBarrier
from grappler_passes.cross_step import CrossStep
from grappler_passes.gather_on_server import GatherOnServer
from grappler_passes.split_variables import SplitVariables
from tests.numerics.corpus.places import CPUS, v1
from tests.numerics.corpus.sample import Array, make_item, same_bits
from tests.numerics.passes.access.step import STEPS, Step
from tests.rewrites import check_rewrite, graph_bytes
from tfwave.errors import TfwaveError
from tfwave.graph.item import GraphItem
from tfwave.passes.base import PassResult
from tfwave.rewrite.steps.copies import step_name

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(60)]

OVERLAPPED, CALLS = 3, 2


class Built:
    """A step of `STEPS`, and what running it needs."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.step = name, Step(folder)
        with tf.Graph().as_default() as graph:
            STEPS[name](self.step)
            self.init = tf.group(*self.step.inits, name="init").name
        self.read, self.change = self.step.fetches[0].name, self.step.change.name
        data = graph.as_graph_def().SerializeToString()
        self.item = make_item(data, [], [self.read, self.change], [self.init])

    def run(self, item: GraphItem, steps: int = 1) -> list[Array]:
        """What all steps read, `steps` of them a call."""
        self.step.reset()
        with tf.Graph().as_default() as graph:
            tf.graph_util.import_graph_def(v1.GraphDef.FromString(graph_bytes(item)), name="")
        names = [step_name(name, k) for k in range(steps) for name in (self.read, self.change)]
        config = v1.ConfigProto(
            device_count={"CPU": CPUS}, inter_op_parallelism_threads=4, operation_timeout_in_ms=20_000
        )
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        with v1.Session(graph=graph, config=config) as session:
            session.run(self.init)
            got = [session.run(names)[::2] for _ in range(OVERLAPPED * CALLS // steps)]
        return [np.asarray(value) for values in got for value in values]


def cross_step(built: Built) -> str:
    return compared(built, check_rewrite(CrossStep(OVERLAPPED), built.item), OVERLAPPED, "in order")


def split_variables(built: Built) -> str:
    result = check_rewrite(SplitVariables(512), built.item)
    kinds = "cut" if result.changed else "whole" if result.remarks else "nothing"
    return compared(built, result, 1, kinds)


def counter_barrier(built: Built) -> str:
    groups = ((built.read.partition(":")[0],), (built.change,))
    return compared(built, check_rewrite(CounterBarrier(groups), built.item), 1, "as it was")


def gather_on_server(built: Built) -> str:
    result = check_rewrite(GatherOnServer(), built.item)
    kinds = "gathered" if result.changed else "whole" if result.remarks else "as it was"
    return compared(built, result, 1, kinds) if result.changed else kinds


def compared(built: Built, result: PassResult, steps: int, outcome: str) -> str:
    assert same_bits(plain(built.name), built.run(result.item, steps))
    return outcome


@cache
def plain(name: str) -> list[Array]:
    """What all steps of the program's own graph read."""
    with TemporaryDirectory() as folder:
        built = Built(name, Path(folder))
        return built.run(built.item)


PASSES: tuple[Callable[[Built], str], ...] = (cross_step, split_variables, counter_barrier, gather_on_server)


def documented() -> dict[str, list[str]]:
    """The rows of the table of those that are run here: what the passes do, by the access."""
    text = (Path(__file__).parents[3] / "docs" / "access.md").read_text()
    rows = text.partition("| --- |")[2].partition("\n\n")[0].splitlines()[1:]
    return {first.strip(): [cell.strip() for cell in cells] for first, *cells in map(_cells, rows)}


def _cells(row: str) -> list[str]:
    return row.strip("|").split("|")


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("place", range(len(PASSES)), ids=lambda place: PASSES[place].__name__)
def test_the_same_bits_or_refused_by_name(name: str, place: int, tmp_path: Path) -> None:
    built = Built(name, tmp_path)
    try:
        outcome = PASSES[place](built)
    except TfwaveError as error:
        outcome = "refused" if named(error) in {node.name for node in built.item.graph.node} else str(error)
    assert documented()[name][place] == outcome


def named(error: TfwaveError) -> str:
    """The node that an error begins with."""
    return str(error).partition("'")[2].partition("'")[0]


def test_all_that_is_documented_is_run() -> None:
    assert documented().keys() == STEPS.keys()
