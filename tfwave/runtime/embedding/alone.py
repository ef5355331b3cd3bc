"""The servers' part of a step by itself."""

from importlib import import_module
from typing import Any

from tfwave.runtime.embedding.rows import EARLY, FIRST, LATE, REST
from tfwave.runtime.embedding.specs import signature_of
from tfwave.runtime.embedding.wire import Wire


def served(wire: Wire, spec: Any) -> Any:
    """A `tf.function` of a batch's row sets: its rows are gathered, and updated by gradients of 0."""
    tensorflow: Any = import_module("tensorflow")
    sets, _ = signature_of(wire.layout, spec)

    def serve(sets: Any) -> Any:
        asked = wire.asked(sets)
        _, rows = asked.look_up(asked.pull(EARLY, LATE), [])
        asked.push([tensorflow.zeros_like(own) for own in rows], FIRST, REST)
        return [tensorflow.size(own) for own in rows]

    return tensorflow.function(serve, input_signature=[sets], autograph=False)
