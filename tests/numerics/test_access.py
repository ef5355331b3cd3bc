"""Whatever gets at state, however it does: a pass gives the same bits, or refuses by name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from grappler_passes.counter_barrier import CounterBarrier
from grappler_passes.cross_step import CrossStep
from grappler_passes.split_variables import SplitVariables
from tests.numerics.access_graphs import STEPS, Step
from tests.numerics.corpus.places import CPUS, v1
from tests.numerics.corpus.sample import Array, make_item, same_bits
from tests.rewrites import check_rewrite, graph_bytes
from tfwave.errors import TfwaveError
from tfwave.graph.item import GraphItem
from tfwave.graph.step_copies import step_name

pytestmark = [pytest.mark.tensorflow, pytest.mark.timeout(60)]

OVERLAPPED, CALLS = 3, 2


class Built:
    """A step of `STEPS`, and what running it needs."""

    def __init__(self, name: str, folder: Path) -> None:
        self.step = Step(folder)
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


def outcome(make: Callable[[Built], Any], built: Built, steps: int) -> str:
    try:
        result = check_rewrite(make(built), built.item)
    except TfwaveError as error:
        return f"refused: {error}"
    assert same_bits(built.run(built.item), built.run(result.item, steps))
    return "same"


PASSES: dict[str, tuple[Callable[[Built], Any], int]] = {
    "cross_step": (lambda _: CrossStep(OVERLAPPED), OVERLAPPED),
    "split_variables": (lambda _: SplitVariables(512), 1),
    "counter_barrier": (lambda b: CounterBarrier(((b.read.partition(":")[0],), (b.change,))), 1),
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("transform", PASSES)
def test_access(name: str, transform: str, tmp_path: Path) -> None:
    print(name, transform, outcome(PASSES[transform][0], Built(name, tmp_path), PASSES[transform][1]))
