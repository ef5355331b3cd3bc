"""The devices that a burst plan gives each layer of a model."""

from collections.abc import Sequence
from typing import Any

from tfwave.burst.shards import device_of
from tfwave.errors import PlanError, TfwaveError
from tfwave.keras.bursts.nodes import Node
from tfwave.keras.bursts.sharded import Place
from tfwave.plan.given import GivenPlan, section_of
from tfwave.plan.layers import Layers
from tfwave.plan.plan import Plan


class PlannedDevices:
    """A plan's layers, and the devices that its numbers stand for.

    Attributes:
        devices: by their full names.
        host: what inputs come from.
        batch: the largest one.
        plan: with its layers alone.
    """

    def __init__(self, plan: GivenPlan, devices: Sequence[str] | None) -> None:
        """Look the devices up.

        Raises:
            PlanError: no such plan, or it has no layers, or is for another number of devices.
            TfwaveError: a device is not there, or there twice.
        """
        layers = section_of(plan, Layers)
        self.plan = Plan(layers=layers)
        self._layers = {layer.name: layer for layer in layers.layers}
        self.batch = layers.batch
        self.host = _full_name("/device:CPU:0")
        self.devices = tuple(map(_full_name, _own(layers.devices) if devices is None else devices))
        if len(self.devices) != layers.devices:
            raise PlanError(
                f"the plan's layers are for {layers.devices} devices, and there are {len(self.devices)}: make one "
                f"with `tfwave burst plan --devices {len(self.devices)}`"
            )
        if len(set(self.devices)) < len(self.devices):
            raise TfwaveError(f"a device is given twice: {', '.join(self.devices)}")

    def place(self, layer: str, batch: int) -> Place:
        """The devices of a layer, by shard; no shard without a sample."""
        planned = self._layers[layer]
        count = min(planned.count, batch)
        return tuple(self.devices[planned.first + device_of(shard, count)] for shard in range(count))

    def check_model(self, model: Any, nodes: Sequence[Node]) -> None:
        """Refuse a model that the plan was not made for, or with a layer that no plan can split.

        Raises:
            PlanError: names the layers that differ.
            TfwaveError: names the layer.
        """
        names = [node.name for node in nodes]
        for fault, found in (
            (f"has no devices for the layers {{}} of '{model.name}'", set(names) - self._layers.keys()),
            (
                f"has devices for layers that '{model.name}' does not have, {{}}",
                self._layers.keys() - set(names),
            ),
        ):
            if found:
                told = ", ".join(sorted(found))[:200]
                raise PlanError(
                    f"the plan {fault.format(told)}: it was made for another model; profile this one with `tfwave "
                    "burst profile`, and plan it"
                )
        for node in nodes:
            if self._layers[node.name].count > 1:
                self._check_split(node)

    def _check_split(self, node: Node) -> None:
        count = self._layers[node.name].count
        inner: list[Any] = node.layer._flatten_layers() if hasattr(node.layer, "_flatten_layers") else []
        if any(getattr(layer, "stateful", False) for layer in inner):
            raise TfwaveError(
                f"layer '{node.name}' keeps a state for each sample from batch to batch, and cannot run on {count} "
                "devices: give it one in the plan, or make it with stateful=False"
            )
        for tensor in node.call.outputs:
            if not tensor.shape or tensor.shape[0] not in (None, self.batch):
                raise TfwaveError(
                    f"layer '{node.name}' gives a tensor of the shape {tuple(tensor.shape)}, whose first axis is "
                    f"not the batch: it cannot run on {count} devices; give it one in the plan"
                )

    def check_batch(self, batch: int) -> None:
        """Refuse a batch that is larger than the planned one.

        Raises:
            PlanError: says both.
        """
        if batch > self.batch:
            raise PlanError(
                f"the plan is for a batch of {self.batch}, and this one has {batch} samples: make one with `tfwave "
                f"burst plan --batch {batch}`"
            )


def _own(count: int) -> list[str]:
    """The first devices of this process."""
    config: Any = __import__("tensorflow").config
    found = config.list_logical_devices("GPU") or config.list_logical_devices("CPU")
    names = [device.name for device in found]
    if len(names) < count:
        raise PlanError(
            f"the plan's layers are for {count} devices, and this process has {', '.join(names)}: name devices of "
            "other machines, or make logical ones (tf.config.set_logical_device_configuration)"
        )
    return names[:count]


def _full_name(name: str) -> str:
    """With its job and task, so that no scope around it adds another's."""
    tensorflow: Any = __import__("tensorflow")
    wanted = name if "/" in name else f"/device:{name.removeprefix('device:')}"
    try:
        with tensorflow.device(wanted):
            found = tensorflow.zeros([]).device
        if _is_of(tensorflow.DeviceSpec.from_string(wanted), tensorflow.DeviceSpec.from_string(found)):
            return found
    except (ValueError, tensorflow.errors.OpError) as error:
        raise TfwaveError(f"there is no device '{name}': {error}") from error
    there = ", ".join(device.name for device in tensorflow.config.list_logical_devices())
    raise TfwaveError(f"there is no device '{name}': there are {there}")


def _is_of(wanted: Any, found: Any) -> bool:
    asked = (wanted.job, wanted.task, wanted.device_type, wanted.device_index)
    given = (found.job, found.task, found.device_type, found.device_index)
    return all(one is None or one == other for one, other in zip(asked, given, strict=True))
