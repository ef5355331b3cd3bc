"""What the further waves of a training keep from call to call."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tfwave.errors import EnforcerError


@dataclass(frozen=True)
class KeptGradient:
    """A gradient that the last wave of a call leaves for the first of the next.

    `name` is that of its handle in the graph, `shape` a `tf.TensorShape`, maybe unknown; it lies on `device`, where
    the gradient is computed.
    """

    name: str
    dtype: Any
    shape: Any
    device: str


class WaveState:
    """The variables of waves 1, 2, ..., made as calls need them, and the gradients kept for the next call.

    One for each training: all functions of one training share it, such as those of two batch sizes. Wave 0 has the
    variables that the step itself uses.
    """

    def __init__(self) -> None:
        """Nothing is made before a `WaveFunction` needs it."""
        self._module: Any = None
        self._handles: list[Any] = []
        self._made: dict[tuple[int, int], Any] = {}
        self._kept: dict[str, Any] = {}

    @property
    def trackable(self) -> Any:
        """For checkpoints, beside what holds wave 0's variables: ``tf.train.Checkpoint(model=..., waves=...)``.

        It has `further`, for each wave from 1 on its variables, in the order in which the step captures those of
        wave 0; `kept`; and what it was told to `hold`. What is restored before variables are made comes into them
        as they are.
        """
        if self._module is None:
            self._module = _tensorflow().Module(name="waves")
            self._module.further = []
            self._module.kept = []
            self._module.held = []
        return self._module

    @property
    def copies(self) -> Sequence[int]:
        """The bytes of each variable of the further waves; what is kept for the next call is not among them."""
        return [made.shape.num_elements() * made.dtype.size for made in self._made.values()]

    def variable(self, handle: Any, wave: int, device: str = "") -> Any:
        """The variable of a wave in the place of the one that a handle stands for; made with the value of that.

        It is made on `device`; if that is empty, where the other is.

        Raises:
            EnforcerError: the handle is not one of a variable.
        """
        number = self._number(handle)
        if (number, wave) not in self._made:
            value, further = _read(handle), self.trackable.further
            made = _variable(value, value.shape, device or handle.device, f"wave_{wave}")
            while len(further) < wave:
                further.append([])
            further[wave - 1].append(made)
            self._made[number, wave] = made
        return self._made[number, wave]

    def kept(self, going_on: str, gradients: Sequence[KeptGradient]) -> dict[str, Any]:
        """The variables behind the handles of what is kept, by their names; made at the first call.

        Raises:
            EnforcerError: others were kept so far.
        """
        names = [going_on, *(gradient.name for gradient in gradients)]
        if not self._kept:
            self._kept = dict(zip(names, [_flag(), *map(_nothing, gradients)], strict=True))
            for variable in self._kept.values():
                self.trackable.kept.append(variable)
        if list(self._kept) != names:
            raise EnforcerError(
                "a batch of another shape makes a graph with other gradients, and none is kept for it: give the "
                "batches of a training one shape, as batch(..., drop_remainder=True) does"
            )
        return self._kept

    def hold(self, variables: Iterable[Any]) -> None:
        """Let checkpoints of the training have these `tf.Variable`s, too, which nothing else holds for them."""
        held = self.trackable.held
        for variable in variables:
            if not any(variable is known for known in held):
                held.append(variable)

    def begin_anew(self) -> None:
        """Let the next call's first wave take its own gradient alone (``average="wave"``)."""
        for flag in list(self._kept.values())[:1]:
            flag.assign(value=False)

    def follow(self) -> None:
        """Give the variables of the further waves the values that those of wave 0 have."""
        for (number, _), variable in self._made.items():
            variable.assign(_read(self._handles[number]))

    def after_plain_steps(self, average: str) -> None:
        """Wave 0 has gone on alone: the others follow (``"batch"``), or all begin anew (``"wave"``)."""
        if average == "batch":
            self.follow()
        else:
            self.begin_anew()

    def _number(self, handle: Any) -> int:
        for number, known in enumerate(self._handles):
            if known is handle:
                return number
        self._handles.append(handle)
        return len(self._handles) - 1


def _flag() -> Any:
    return _variable(_tensorflow().constant(value=False), (), "", "going_on")


def _nothing(gradient: KeptGradient) -> Any:
    """Zeros; one for each length that is not known."""
    tensorflow = _tensorflow()
    shape = () if gradient.shape.rank is None else [1 if size is None else size for size in gradient.shape]
    with tensorflow.init_scope(), tensorflow.device(gradient.device):
        zeros = tensorflow.zeros(shape, gradient.dtype)
    return _variable(zeros, gradient.shape, gradient.device, "kept")


def _read(handle: Any) -> Any:
    tensorflow = _tensorflow()
    told = getattr(handle, "_handle_data", None)
    if told is None or not told.is_set or not told.shape_and_type:
        raise EnforcerError(
            f"the step changes what is behind {handle!r}, which is no variable, and waves cannot have one each: "
            "read batches outside of the step, and give them as arguments"
        )
    with tensorflow.init_scope():
        dtype = tensorflow.dtypes.as_dtype(told.shape_and_type[0].dtype)
        return tensorflow.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)


def _variable(value: Any, shape: Any, device: str, name: str) -> Any:
    """A variable that no strategy's scope gets hold of."""
    tensorflow = _tensorflow()
    module: Any = import_module("tensorflow.python.ops.resource_variable_ops")
    with tensorflow.init_scope(), tensorflow.device(device):
        return module.ResourceVariable(value, trainable=False, shape=shape, name=name)


def _tensorflow() -> Any:
    return import_module("tensorflow")
