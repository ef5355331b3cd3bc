"""Several waves of a training step in one call."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, cast

from tfwave.errors import EnforcerError
from tfwave.runtime.waves.options import WaveOptions
from tfwave.runtime.waves.rewritten import RewrittenStep
from tfwave.runtime.waves.state import WaveState
from tfwave.runtime.waves.step import TracedStep


class WaveFunction:
    """Runs a step for each wave, wave w + 1 beginning where wave w has ended its forward pass.

    Wave 0 updates the variables of the step itself, the others variables of their own on the same devices, which
    `state` holds: they begin with the values that those of wave 0 have when this function is made, unless the state
    has them already. Variables that the step only reads are shared. It may be called within a `tf.function`, too.
    """

    def __init__(self, step: TracedStep, options: WaveOptions, state: WaveState) -> None:
        """Rewrite a traced step.

        Args:
            step: as `trace_step` gives it; all that it changes are variables.
            options: how many waves, and what they average.
            state: the variables of the further waves, shared with other functions of the same training.

        Raises:
            PassError: the step cannot run in waves; see `grappler_passes.tick_tock`.
            GraphError: its graph is not understood; names the node.
            EnforcerError: it changes what is no variable, such as an iterator or a table.
        """
        rewritten = RewrittenStep(step, options)
        self._step, self._waves = step, options.waves
        self._function = function_of(rewritten, rewritten.captured(state))

    def __call__(self, batches: Sequence[Any], carried: Sequence[Any] = ()) -> tuple[list[Any], list[Any]]:
        """Run all waves.

        Args:
            batches: the arguments of each wave's step, a tuple each; as many as there are waves.
            carried: what the first wave is carried.

        Returns:
            What the step returned in each wave, and what the last wave carries on. All of it is given after the
            updates of all waves.

        Raises:
            EnforcerError: another number of batches.
        """
        if len(batches) != self._waves:
            raise EnforcerError(f"{self._waves} waves need {self._waves} batches, not {len(batches)}")
        step = self._step
        results = self._function(*carried, *(leaf for args in batches for leaf in step.leaves(args)))
        state, rest = results[: step.carried], results[step.carried :]
        size = len(rest) // self._waves
        return [step.packed(rest[w * size : (w + 1) * size]) for w in range(self._waves)], list(state)


def function_of(rewritten: RewrittenStep, captured: Mapping[str, Any]) -> Any:
    """A `ConcreteFunction` of the graph of the waves; `captured` is what is outside of it, by its feeds."""
    tensorflow: Any = import_module("tensorflow")
    specs = [tensorflow.TensorSpec(t.shape, t.dtype) for t in rewritten.arguments.values()]
    return tensorflow.compat.v1.wrap_function(_body(rewritten, captured), specs)


def _body(rewritten: RewrittenStep, captured: Mapping[str, Any]) -> Callable[..., Any]:
    """A function that imports the graph of the waves, for `wrap_function`, which adds no control edges to it."""
    tensorflow: Any = import_module("tensorflow")
    v1 = tensorflow.compat.v1
    graph_def = v1.GraphDef.FromString(rewritten.item.graph.SerializeToString())

    def waves(*given: Any) -> Any:
        inside = v1.get_default_graph()
        fed = dict(zip(rewritten.arguments, given, strict=True))
        fed |= {name: _captured(inside, value) for name, value in captured.items()}
        names = [*rewritten.outputs, *rewritten.targets]
        with tensorflow.device(None):
            found: Any = tensorflow.graph_util.import_graph_def(graph_def, fed, names, name="")
        outputs, targets = found[: len(rewritten.outputs)], found[len(rewritten.outputs) :]
        with tensorflow.control_dependencies(targets):
            return [tensorflow.identity(tensor) for tensor in outputs or [tensorflow.constant(0)]]

    return waves


def _captured(graph: Any, value: Any) -> Any:
    """What stands for a value from outside in the graph of a function that is being made.

    What is to be asked for at each call gives a tensor of this graph, one for all who ask.
    """
    return graph.capture(cast("Callable[[], Any]", value)()[0] if callable(value) else value)
