"""A Keras 3 model whose optimizer takes its gradients from reduces between processes."""

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfwave.errors import EnforcerError
from tfwave.reduce.member import Member
from tfwave.reduce.options import Options
from tfwave.reduce.update import Update


class ReducedSteps:
    """In the place of a model's train function.

    The seam is `Optimizer.apply`: what it is given goes to the member, and as many reduced gradients as have come,
    none or several, are applied one after the other.
    """

    def __init__(self, model: Any, options: Options) -> None:
        """Connect to the coordinator.

        Raises:
            EnforcerError: no port is free, or an address or credential is not as it should be.
        """
        self._model, self._optimizer = model, model.optimizer
        if not self._optimizer.built:
            self._optimizer.build(model.trainable_variables)
        self._trained: list[Any] = list(model.trainable_variables)
        self._present = [True] * len(self._trained)
        shapes = [(str(variable.dtype), tuple(variable.shape)) for variable in self._variables()]
        self._member = Member(
            options,
            sum(map(_size, self._trained)),
            self._trained[0].dtype,
            hashlib.sha256(repr(shapes).encode()).hexdigest(),
        )
        self._plain = self._optimizer.apply
        self._function: Any = None

    def join(self) -> None:
        """Wait for the other workers, and take the first one's variables.

        Raises:
            EnforcerError: as `Member.join`.
        """
        self._load(self._member.join(self._state()))
        self._optimizer.apply = self._apply
        self._function = self._model._make_function(self._model.train_step)

    def __call__(self, iterator: Any) -> Any:
        """Train on what an execution takes; what ends the reduces is raised as it is."""
        tensorflow: Any = __import__("tensorflow")
        try:
            return self._function(iterator)
        except tensorflow.errors.OpError as err:
            if self._member.failure:
                raise EnforcerError(self._member.failure) from err
            raise

    def serve(self) -> None:
        """Give the variables to workers that came late."""
        self._member.serve(self._state)

    def logs(self) -> dict[str, float]:
        """The figures so far."""
        figures = self._member.figures
        return {
            "tfwave_reduces": figures.reduces,
            "tfwave_joined": figures.joined,
            "tfwave_dropped": figures.dropped,
        }

    def drain(self) -> None:
        """Apply what still comes, until no worker has anything.

        Raises:
            EnforcerError: as `Member.drain`.
        """
        tensorflow: Any = __import__("tensorflow")
        for update in self._member.drain(self._state):
            self._apply_flat(tensorflow.constant(_mean(update)))

    def close(self) -> None:
        """Leave the others, and the optimizer as it was."""
        self._member.close()
        if "apply" in vars(self._optimizer):
            del self._optimizer.apply

    def _variables(self) -> list[Any]:
        return [*self._model.weights, *self._optimizer.variables]

    def _state(self) -> bytes:
        return b"".join(np.asarray(variable).tobytes() for variable in self._variables())

    def _load(self, state: bytes | None) -> None:
        if state is None:
            return
        start = 0
        for variable in self._variables():
            value = np.asarray(variable)
            here = np.frombuffer(state, value.dtype, value.size, start)
            variable.assign(here.reshape(value.shape))
            start += value.nbytes

    def _apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """What the train step calls, with the variables that it was made for."""
        del trainable_variables
        tensorflow: Any = __import__("tensorflow")
        self._present = [grad is not None for grad in grads]
        pieces = [
            tensorflow.zeros(_size(variable), variable.dtype)
            if grad is None
            else tensorflow.reshape(grad, [-1])
            for grad, variable in zip(grads, self._trained, strict=True)
        ]
        flat = tensorflow.concat(pieces, 0)
        updates = tensorflow.numpy_function(self._exchange, [flat], flat.dtype, stateful=True)
        updates.set_shape([None, flat.shape[0]])

        def is_one_left(number: Any) -> Any:
            return number < tensorflow.shape(updates)[0]

        def apply_one(number: Any) -> Any:
            self._apply_flat(updates[number])
            return number + 1

        tensorflow.while_loop(is_one_left, apply_one, [tensorflow.constant(0)], parallel_iterations=1)

    def _apply_flat(self, flat: Any) -> None:
        """One update; variables that have no gradient in the step have none here."""
        tensorflow: Any = __import__("tensorflow")
        pieces = tensorflow.split(flat, [_size(variable) for variable in self._trained])
        grads = [
            tensorflow.reshape(piece, variable.shape) if present else None
            for piece, variable, present in zip(pieces, self._trained, self._present, strict=True)
        ]
        self._plain(grads, self._trained)

    def _exchange(self, flat: Any) -> Any:
        updates = self._member.exchange(np.array(flat))
        return np.stack([_mean(update) for update in updates]) if updates else flat[:0].reshape(0, len(flat))


def _mean(update: Update) -> Any:
    return update.values / update.values.dtype.type(update.members)


def _size(variable: Any) -> int:
    return math.prod(variable.shape)
