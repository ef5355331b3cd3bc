"""The layers of a Keras 3 model on the devices that a user gave them."""

from collections.abc import Container, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any

from tfwave.errors import TfwaveError
from tfwave.plan.given import GivenPlan
from tfwave.runtime.waves.options import AUTO, Number, Offset, WaveOptions


class LayerDevices:
    """Says which layers lie on which devices; a layer in a named one lies where that does, or where it is told.

    Attributes:
        count: how many devices there are.
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        """Take the devices of layers by the names of these, such as ``{"front": "CPU:0", "back": "CPU:1"}``.

        Raises:
            TfwaveError: less than two devices, or one that this process does not have.
        """
        self._places = {name: _short_name(device) for name, device in places.items()}
        self.count = len(set(self._places.values()))
        if self.count < 2:
            raise TfwaveError("the layers are given one device, and waves pass several: name layers of each")

    def options(
        self, waves: Number | None, average: str, offset: Offset | None, plan: GivenPlan | None
    ) -> WaveOptions:
        """The options of a model that lies on these devices.

        Raises:
            TfwaveError: of other waves than pass devices.
            PassError: more than 64 waves.
        """
        if average != "batch":
            raise TfwaveError(
                f"average is '{average}', and waves on several devices average over the call: average='batch'"
            )
        if offset is not None or plan is not None or waves == AUTO:
            raise TfwaveError(
                "waves on several devices go by a table, without an offset, a plan or 'auto': give their number"
            )
        count = self.count if waves is None else waves
        if count not in range(2, self.count + 1):
            raise TfwaveError(
                f"there are {count} waves, and {self.count} devices: give 2 to as many as there are devices"
            )
        return WaveOptions.parallel(int(count))

    def check_names(self, model: Any) -> None:
        """Refuse a model without these layers.

        Raises:
            TfwaveError: names what is not there, or there twice.
        """
        names = [layer.name for layer in _layers(model)]
        for name in self._places:
            if names.count(name) != 1:
                told = ", ".join(dict.fromkeys(names))
                raise TfwaveError(
                    f"the model '{model.name}' has {names.count(name)} layers '{name}', which is given a device: "
                    f"its layers are {told[:200]}"
                )

    @contextmanager
    def building(self, model: Any) -> Generator[None]:
        """Inside the block these layers, and those in them, make their variables on their devices."""
        with self._entered(model, ("build", "call"), {layer.name for layer in _layers(model)}):
            yield

    @contextmanager
    def running(self, model: Any) -> Generator[None]:
        """Inside the block those of these layers that have no weights run on their devices; others follow theirs.

        What a function has in it, such as a recurrent layer's loop, may say no device: it is where its call is.
        """
        with self._entered(model, ("call",), {layer.name for layer in _layers(model) if not layer.weights}):
            yield

    @contextmanager
    def _entered(self, model: Any, methods: Iterable[str], names: Container[str]) -> Generator[None]:
        with ExitStack() as stack:
            for layer in _layers(model):
                if layer.name in self._places and layer.name in names:
                    for method in methods:
                        _put_on(layer, method, self._places[layer.name], stack)
            yield

    def check_weights(self, model: Any) -> None:
        """Refuse weights that lie elsewhere.

        Raises:
            TfwaveError: names the weight, and says how it gets there.
        """
        owners = self._owners(model)
        for weight in model.trainable_variables:
            if id(weight) not in owners:
                raise TfwaveError(
                    f"no device is given for '{weight.path}': name its layer, or one that this is in, in devices"
                )
            name, found = owners[id(weight)], weight.value.device
            if not found.endswith(self._places[name]):
                raise TfwaveError(
                    f"'{weight.path}' lies on {found}, and its layer '{name}' is given {self._places[name]}: make "
                    "the layer's weights inside tf.device(...), or leave the model without an Input, so that fit "
                    "makes them there"
                )

    def _owners(self, model: Any) -> Mapping[int, str]:
        """By the identity of a variable the innermost of these layers that has it."""
        named = [layer for layer in _layers(model) if layer.name in self._places]
        return {id(weight): layer.name for layer in named for weight in layer.variables}


def _layers(model: Any) -> Iterator[Any]:
    """Those of a model, each before those that are in it."""
    return iter(model._flatten_layers(include_self=False))


def _put_on(layer: Any, method: str, device: str, stack: ExitStack) -> None:
    """Let a method of a layer run on a device, until the stack is closed."""
    tensorflow: Any = import_module("tensorflow")
    own: Any = layer.__dict__.get(method)
    stock = getattr(layer, method)

    def placed(*args: Any, **kwargs: Any) -> Any:
        with tensorflow.device(device):
            found = stock(*args, **kwargs)
        for variable in layer.variables:
            if variable._value is None and "_deferred_initialize" not in vars(variable):
                _defer(variable, device)
        return found

    placed.__wrapped__ = stock  # Keras asks for the signature  # pyright: ignore[reportFunctionMemberAccess]
    object.__setattr__(layer, method, placed)
    if own is None:
        stack.callback(object.__delattr__, layer, method)
    else:
        stack.callback(object.__setattr__, layer, method, own)


def _defer(variable: Any, device: str) -> None:
    """Let a variable that Keras makes later, behind the block in which it builds, lie on a device."""
    tensorflow: Any = import_module("tensorflow")
    stock = variable._deferred_initialize

    def initialize() -> None:
        object.__delattr__(variable, "_deferred_initialize")
        with tensorflow.device(device):
            stock()

    object.__setattr__(variable, "_deferred_initialize", initialize)


def _short_name(device: str) -> str:
    """``/device:CPU:1``, as this process has it."""
    tensorflow: Any = import_module("tensorflow")
    there = [f"/device:{_kind_and_number(one.name)}" for one in tensorflow.config.list_logical_devices()]
    found = f"/device:{_kind_and_number(device)}"
    if found not in there:
        raise TfwaveError(f"there is no device '{device}': this process has {', '.join(there)}")
    return found


def _kind_and_number(device: str) -> str:
    return device.rpartition("/")[2].removeprefix("device:").upper()
