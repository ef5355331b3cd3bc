"""The layers of a Keras 3 model in an order in which they can run, and what each reads."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tfwave.errors import TfwaveError
from tfwave.keras.ready import check_keras


@dataclass(frozen=True)
class Node:
    """One call of a layer, as Keras noted it when the model was made.

    Attributes:
        name: of the layer.
        layer: that is called.
        reads: the names of the layers whose outputs it reads, each once.
        call: Keras's own note of the call, with its symbolic tensors.
    """

    name: str
    layer: Any
    reads: tuple[str, ...]
    call: Any

    @property
    def output_bytes(self) -> float:
        """Of one sample.

        Raises:
            TfwaveError: a side beside the batch is not known; names the layer.
        """
        return sum(self._bytes(tensor) for tensor in self.call.outputs)

    @property
    def weights(self) -> list[Any]:
        """What is trained."""
        return getattr(self.layer, "trainable_variables", [])

    @property
    def weight_bytes(self) -> float:
        """Of what is trained."""
        return sum(math.prod(weight.shape) * _bytes_of(weight.dtype) for weight in self.weights)

    def _bytes(self, tensor: Any) -> float:
        if None in tensor.shape[1:]:
            raise TfwaveError(
                f"layer '{self.name}' gives tensors of the shape {tuple(tensor.shape)}: give the model's inputs a "
                "known shape beside the batch"
            )
        return math.prod(tensor.shape[1:]) * _bytes_of(tensor.dtype)


def nodes_of(model: Any) -> tuple[Node, ...]:
    """The layers of a functional or sequential model; a model that is a layer of it is one of them.

    Raises:
        TfwaveError: it is another kind of model, has no shapes yet, or calls a layer twice; says what to do.
    """
    check_keras(model)
    functional = getattr(model, "_functional", model)
    if not hasattr(functional, "_nodes_by_depth"):
        raise TfwaveError(
            f"the layers of '{model.name}' are not known: make it a functional or sequential model, "
            "with keras.Input"
        )
    makers: dict[int, str] = {}
    found: dict[str, Node] = {}
    for call in _calls(functional):
        name = call.operation.name
        if name in found:
            raise TfwaveError(
                f"'{model.name}' calls the layer '{name}' twice, and its devices are one decision: make "
                "two layers of it"
            )
        reads = tuple(dict.fromkeys(makers[id(tensor)] for tensor in call.input_tensors))
        found[name] = Node(name, call.operation, reads, call)
        makers |= {id(tensor): name for tensor in call.outputs}
    return tuple(found.values())


def _calls(functional: Any) -> Iterator[Any]:
    """Those whose outputs the model's need, inputs among them, each behind what it reads."""
    depths: dict[int, list[Any]] = functional._nodes_by_depth
    for depth in sorted(depths, reverse=True):
        yield from (call for call in depths[depth] if call.operation)


def _bytes_of(dtype: str) -> int:
    tensorflow: Any = __import__("tensorflow")
    return tensorflow.as_dtype(dtype).size
