"""The batches that Keras takes from its data, and what TensorFlow calls their types."""

from collections.abc import Callable
from typing import Any


def plain_batch(batch: Any) -> Any:
    """A batch as Keras steps take it: None where a dataset says so by an Optional."""
    tensorflow: Any = __import__("tensorflow")
    return tensorflow.nest.map_structure(_without(tensorflow.experimental.Optional), batch)


def batch_spec(iterator: Any, batch: Any) -> Any:
    """The `tf.TypeSpec`s of the batches of an iterator; those of one batch if it does not tell."""
    tensorflow: Any = __import__("tensorflow")
    if hasattr(iterator, "element_spec"):
        return tensorflow.nest.map_structure(_without(tensorflow.OptionalSpec), iterator.element_spec)
    return tensorflow.nest.map_structure(_spec_of, batch)


def spec_of_a_replica(spec: Any) -> Any:
    """The `tf.TypeSpec` of what the first replica is given."""
    return getattr(spec, "_value_specs", (spec,))[0]


def _without(kind: Any) -> Callable[[Any], Any]:
    def kept(leaf: Any) -> Any:
        return None if isinstance(leaf, kind) else leaf

    return kept


def _spec_of(leaf: Any) -> Any:
    tensorflow: Any = __import__("tensorflow")
    return None if leaf is None else tensorflow.type_spec_from_value(leaf)
