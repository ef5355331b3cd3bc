"""One training step, traced so that it can run in waves."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tfwave.runtime.remade import python_function, refuse_compiled, remade
from tfwave.runtime.waves.behind import gradients_noted
from tfwave.runtime.waves.targets import rows_opened, targets_noted


@dataclass(frozen=True)
class TracedStep:
    """A step in a graph of its own.

    Its tensors go in as those that are carried, then the leaves of the arguments, and come out as those that are
    carried, then the leaves of what the step returns, without None.
    """

    concrete: Any
    """The `ConcreteFunction`; takes and gives flat tensors."""
    carried: int
    """How many tensors each wave takes from the one before."""
    args: Any
    """The `tf.TypeSpec`s of the arguments, a tuple."""
    returned: Any
    """What the step returned when it was traced."""
    ends: tuple[str, ...]
    """The ops whose gradients it takes: where its forward pass ends. None: it uses no tape of its own graph."""
    forward_of: Mapping[str, str]
    """Of each op that a tape made for the gradient of one op: that op."""

    def __call__(self, args: Any, carried: Sequence[Any] = ()) -> tuple[Any, list[Any]]:
        """Run a plain step, of wave 0 alone; as `WaveFunction`, with one tuple of arguments."""
        results = self.concrete(*carried, *self.leaves(args))
        return self.packed(results[self.carried :]), list(results[: self.carried])

    def leaves(self, args: Any) -> list[Any]:
        """The tensors of arguments, in order.

        Raises:
            ValueError, TypeError: they are built unlike those of the trace.
        """
        tensorflow: Any = import_module("tensorflow")
        tensorflow.nest.assert_same_structure(self.args, args, expand_composites=True)
        return [leaf for leaf in tensorflow.nest.flatten(args, expand_composites=True) if leaf is not None]

    def packed(self, tensors: Sequence[Any]) -> Any:
        """Tensors, in order, as what the step returns."""
        nest: Any = import_module("tensorflow").nest
        rest = iter(tensors)
        flat = [
            None if t is None else next(rest) for t in nest.flatten(self.returned, expand_composites=True)
        ]
        return nest.pack_sequence_as(self.returned, flat, expand_composites=True)


def trace_step(step: Callable[..., Any], args: Any, carried: Sequence[Any] = ()) -> TracedStep:
    """Trace a step: a Python function, or the one that a `tf.function` is made of.

    Args:
        step: takes `args`, and returns tensors in any structure. With `carried` its first argument is a list of the
            tensors that are carried, and it returns a pair: what it returns, and the list of their new values.
        args: the `tf.TypeSpec`s of its arguments, a tuple of structures, or values like them. None stays None.
        carried: the `tf.TensorSpec`s of tensors that go from wave to wave, each wave as if it came after the one
            before. They may neither wait for an update nor follow from one.

    A variable that it makes lazily, at its first call, is made by the trace.

    Raises:
        EnforcerError: XLA is to compile it; what it calls may be compiled.
    """
    tensorflow: Any = import_module("tensorflow")
    nest = tensorflow.nest
    refuse_compiled(step, "and would run all waves as it likes")
    python = python_function(step)
    specs = specs_of(args)
    count = len(carried)
    kept: list[Any] = []

    def flat(*tensors: Any) -> Any:
        rest = iter(tensors[count:])
        leaves = [None if s is None else next(rest) for s in nest.flatten(specs, expand_composites=True)]
        given = nest.pack_sequence_as(specs, leaves, expand_composites=True)
        both: Any = python(list(tensors[:count]), *given) if count else (python(*given), ())
        returned, state = both
        kept.append(returned)
        found: Any = nest.flatten(returned, expand_composites=True)
        return [tensorflow.convert_to_tensor(t) for t in (*state, *found) if t is not None]

    leaves = [spec for spec in nest.flatten(specs, expand_composites=True) if spec is not None]
    function = remade(step, flat, input_signature=[*carried, *leaves])
    with rows_opened(), targets_noted() as targets, gradients_noted() as forward_of:
        concrete = function.get_concrete_function()
    ends = dict.fromkeys(t.op.name for t in targets if getattr(t, "graph", None) is concrete.graph)
    return TracedStep(concrete, count, specs, kept[-1], tuple(ends), forward_of)


def specs_of(args: Any) -> Any:
    """The `tf.TypeSpec`s of arguments in any structure, for `trace_step`; None and specs stay."""
    return import_module("tensorflow").nest.map_structure(_spec, args)


def _spec(leaf: Any) -> Any:
    tensorflow: Any = import_module("tensorflow")
    if leaf is None or isinstance(leaf, tensorflow.TypeSpec):
        return leaf
    return tensorflow.type_spec_from_value(leaf)
