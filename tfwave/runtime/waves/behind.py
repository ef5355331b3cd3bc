"""Which op of the forward pass an op of the backward pass is the gradient of: what tapes record is noted."""

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import Any, cast

_LOCK = threading.RLock()


class _Scope(str):
    """The name scope of an op of the forward pass, which a tape keeps for its gradient, and the op's name."""

    op: str


class GradientNotes:
    """Puts itself in the place of what TensorFlow's tapes call to record an op, and to make its gradient.

    `found` has the ops of gradients that are made in graphs, each with the op of the forward pass. A tape gives
    them no device. What adds up several gradients of one tensor is of no op.
    """

    def __init__(self) -> None:
        """Nothing is noted before it is put in."""
        self.found: dict[str, str] = {}
        self._backprop: Any = import_module("tensorflow.python.eager.backprop")
        self._execute: Any = import_module("tensorflow.python.eager.execute")
        self._record: Any = import_module("tensorflow.python.eager.record")
        self._native: Any = import_module("tensorflow.python.pywrap_tfe")
        self._stock = self._execute.record_gradient, self._record.record_operation

    def put_in(self) -> None:
        """From now on ops are noted."""
        self._execute.record_gradient = self._record_gradient
        self._record.record_operation = self._record_operation
        self._native.TFE_Py_RegisterGradientFunction(self._gradient)

    def take_out(self) -> None:
        """All is as it was; a tape that recorded meanwhile works as ever."""
        self._execute.record_gradient, self._record.record_operation = self._stock
        self._native.TFE_Py_RegisterGradientFunction(self._backprop._gradient_function)

    def _record_gradient(self, op_name: Any, inputs: Any, attrs: Any, outputs: Sequence[Any]) -> None:
        op = _op_of(outputs)
        scope: Any = import_module("tensorflow").__internal__.get_name_scope()
        if op is not None:
            scope = _Scope(scope)
            scope.op = op
        self._native.TFE_Py_RecordGradient(op_name, inputs, attrs, outputs, scope)

    def _gradient(self, *args: Any) -> Any:
        with self._noted(getattr(args[-1], "op", None)):
            return self._backprop._gradient_function(*args)

    def _record_operation(
        self,
        op_type: str,
        output_tensors: Sequence[Any],
        input_tensors: Sequence[Any],
        backward_function: Callable[..., Any],
        forward_function: Callable[..., Any] | None = None,
    ) -> None:
        """The arguments have TensorFlow's names, by which some are given."""
        op = _op_of(output_tensors)

        def noted(*gradients: Any) -> Any:
            with self._noted(op):
                return backward_function(*gradients)

        self._stock[1](op_type, output_tensors, input_tensors, noted, forward_function)

    def _noted(self, op: str | None) -> AbstractContextManager[None]:
        """What is made inside the block is of the gradient of this op."""
        tensorflow: Any = import_module("tensorflow")
        if op is None or tensorflow.executing_eagerly():
            return nullcontext()

        def note(made: Any) -> str:
            self.found[made.name] = op
            return ""

        graph = tensorflow.compat.v1.get_default_graph()
        return cast("AbstractContextManager[None]", graph.device(note))


@contextmanager
def gradients_noted() -> Generator[dict[str, str]]:
    """Inside the block the mapping gets the ops of gradients, each with the op that it is the gradient of.

    One block at a time: others wait for its end.
    """
    with _LOCK:
        notes = GradientNotes()
        notes.put_in()
        try:
            yield notes.found
        finally:
            notes.take_out()


def _op_of(outputs: Sequence[Any]) -> str | None:
    """The op in a graph that made these tensors, if one did."""
    tensorflow: Any = import_module("tensorflow")
    made = (tensor for tensor in outputs if tensorflow.is_symbolic_tensor(tensor))
    return next((tensor.op.name for tensor in made if hasattr(tensor, "op")), None)
