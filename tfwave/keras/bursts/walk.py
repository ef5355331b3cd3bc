"""A Keras 3 model whose layers run on the devices of a burst plan."""

from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from tfwave.errors import TfwaveError
from tfwave.keras.bursts.layer_run import LayerRun
from tfwave.keras.bursts.nodes import Node, nodes_of
from tfwave.keras.bursts.planned import PlannedDevices
from tfwave.keras.bursts.sharded import Part, Place, Shards
from tfwave.plan.given import GivenPlan


@contextmanager
def burst(model: Any, plan: GivenPlan, devices: Sequence[str] | None = None) -> Generator[None]:
    """Run a Keras 3 model by a burst plan: inside the block, where it is called with ``training=True``.

    For loops of your own; for `fit` see `tfwave.keras.BurstCallback`, which says what is promised. The call belongs
    into a `tf.function`, and so does the tape: what it asks gradients of has the devices of the plan, forward and
    backward. Outputs, and what is made of them, are on the first device.

    Args:
        model: a functional or sequential one, which has its weights.
        plan: with layers (``tfwave burst plan``), or the name of its file.
        devices: by the numbers of the plan, as `tf.config.list_logical_devices` names them, of this process or of a
            cluster that it is connected to; those of this process, if nothing says otherwise: its GPUs, or CPUs.

    Raises:
        PlanError: no such plan, or it has no layers, or was made for another model or number of devices.
        TfwaveError: a device is not there, or the model is of another kind, or calls a layer twice.
    """
    with running(model, PlannedDevices(plan, devices)):
        yield


@contextmanager
def running(model: Any, planned: PlannedDevices) -> Generator["Walk"]:
    """Inside the block the model runs on these devices; a model that it is in sees the same."""
    nodes = nodes_of(model)
    planned.check_model(model, nodes)
    functional = getattr(model, "_functional", model)
    walk = Walk(functional, nodes, planned)
    object.__setattr__(functional, "_run_through_graph", walk)
    try:
        yield walk
    finally:
        object.__delattr__(functional, "_run_through_graph")


class Walk:
    """Takes the place of Keras's own walk over a functional model's layers, and has it walk with shards.

    Attributes:
        has_begun: whether the model was called so that it runs by the plan.
    """

    def __init__(self, functional: Any, nodes: Sequence[Node], planned: PlannedDevices) -> None:
        self._functional, self._planned = functional, planned
        self._nodes = {node.name: node for node in nodes}
        self._stock = functional._run_through_graph
        self.has_begun = False

    def __call__(self, inputs: Any, operation_fn: Any = None, call_fn: Any = None) -> Any:
        keras: Any = __import__("keras")
        tensorflow: Any = __import__("tensorflow")
        training = getattr(self._functional._get_call_context(), "training", None)
        if tensorflow.executing_eagerly() or training is not True:
            return self._stock(inputs, *(given for given in (operation_fn, call_fn) if given is not None))
        self.has_begun = True
        flat = keras.tree.flatten(inputs)
        shards = _ShardsOfAStep(self._functional, self._nodes, self._planned, _samples(flat))

        def on_shards(op: Any) -> Callable[..., list[Shards]]:
            return shards.called(op, operation_fn(op))

        outputs = self._stock(
            [shards.of_input(name, tensor) for name, tensor in zip(self._input_names(), flat, strict=True)],
            operation_fn=on_shards,
        )
        return keras.tree.map_structure(shards.whole, outputs)

    def _input_names(self) -> list[str]:
        return [tensor._keras_history.operation.name for tensor in self._functional.inputs]


class _ShardsOfAStep:
    """Activations of one call of the model, and who reads them where."""

    def __init__(self, functional: Any, nodes: dict[str, Node], planned: PlannedDevices, batch: int) -> None:
        planned.check_batch(batch)
        self._nodes, self._batch = nodes, batch
        self._host, self._home = (planned.host,), (planned.devices[0],)
        self._places = {name: planned.place(name, batch) for name in nodes}
        self._readers: defaultdict[int, Counter[Place]] = defaultdict(Counter)
        for name, node in nodes.items():
            for symbol in {id(tensor) for tensor in node.call.input_tensors}:
                self._readers[symbol][self._places[name]] += 1
        for tensor in functional.outputs:  # one may be given twice, and is read as often
            self._readers[id(tensor)][self._home] += 1

    def of_input(self, name: str, tensor: Any) -> Any:
        """What the model is given, on the devices of its input layer; nothing, if it is given nothing."""
        if tensor is None:
            return None
        place = self._places[name]
        given = Part(tensor, getattr(tensor, "_keras_mask", None))
        parts = Shards(name, self._batch, self._host, [given], Counter([place])).take(place)
        return self._shards(name, self._nodes[name].call.outputs[0], parts)

    def called(self, op: Any, call: Callable[..., Any]) -> Callable[..., list[Shards]]:
        """A layer, as the walk calls it: with shards in the places of tensors."""

        def on_shards(*args: Any, **kwargs: Any) -> list[Shards]:
            keras: Any = __import__("keras")
            read = {id(one): one for one in keras.tree.flatten((args, kwargs)) if isinstance(one, Shards)}
            numbers = {identity: number for number, identity in enumerate(read)}

            def with_tensors(tensors: Sequence[Any]) -> Any:
                def filled(one: Any) -> Any:
                    return tensors[numbers[id(one)]] if isinstance(one, Shards) else one

                return call(
                    *keras.tree.map_structure(filled, args), **keras.tree.map_structure(filled, kwargs)
                )

            place = self._places[op.name]
            taken = [one.take(place) for one in read.values()]
            made = LayerRun(op, with_tensors, place, self._batch).run(taken)
            symbols = self._nodes[op.name].call.outputs
            return [self._shards(op.name, *pair) for pair in zip(symbols, made, strict=True)]

        return on_shards

    def whole(self, output: Any) -> Any:
        """What the model gives, on the first device."""
        if not isinstance(output, Shards):
            return output
        (part,) = output.take(self._home)
        return part.with_mask(part.tensor)

    def _shards(self, name: str, symbol: Any, parts: Sequence[Part]) -> Shards:
        return Shards(name, self._batch, self._places[name], parts, self._readers[id(symbol)])


def _samples(inputs: Sequence[Any]) -> int:
    """Of a batch."""
    tensorflow: Any = __import__("tensorflow")
    given = [one for one in inputs if one is not None]
    for one in given:
        if not isinstance(one, tensorflow.Tensor):
            raise TfwaveError(
                f"a burst plan cannot split a {type(one).__name__}: give the model dense tensors"
            )
    sizes: set[int] = {(one.shape[0] if one.shape.rank else None) or 0 for one in given}
    if len(sizes) != 1 or 0 in sizes:
        raise TfwaveError(
            f"inputs of the shapes {[tuple(one.shape) for one in given]} have no batch that is known when the step "
            "is traced: call the function without an input_signature, on inputs of one number of samples"
        )
    return sizes.pop()
