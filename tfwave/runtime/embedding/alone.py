"""Steps in one process: the servers' part by itself."""

from importlib import import_module
from typing import Any

from tfwave.runtime.embedding.packed import unpacked
from tfwave.runtime.embedding.rows import EARLY, FIRST, LATE, REST
from tfwave.runtime.embedding.wire import Sums, Wire


def served(wire: Wire, spec: Any) -> Any:
    """A `tf.function` of a batch's packed row sets: its rows are gathered, and updated by gradients of 0."""
    tensorflow: Any = import_module("tensorflow")

    def serve(vector: Any) -> Any:
        asked = wire.asked(unpacked(wire.layout, spec[0], vector))
        _, rows = asked.look_up(asked.pull(EARLY, LATE), [])
        asked.push(Sums([tensorflow.zeros_like(own) for own in rows], wire.optimizers()), FIRST, REST)
        return [tensorflow.size(own) for own in rows]

    return tensorflow.function(
        serve, input_signature=[tensorflow.TensorSpec([None], "int32")], autograph=False
    )


def own_task() -> str:
    """This process, as the names of its devices begin: of a cluster, if a strategy has joined one."""
    tensorflow: Any = import_module("tensorflow")
    with tensorflow.device(None):
        return tensorflow.constant(0).device.partition("device:")[0]
