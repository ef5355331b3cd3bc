"""The section of a plan on the devices of a model's layers."""

import math
from dataclasses import dataclass

from tfwave.errors import PlanError

OF_LAYER, OF_JOB = "layer", "job"
LIMITS_OF = (OF_LAYER, OF_JOB)


@dataclass(frozen=True)
class LayerDevices:
    """A layer runs on `count` devices, by number from `first` on."""

    name: str
    first: int
    count: int


@dataclass(frozen=True)
class Layers:
    """On how many devices each layer of a model runs (DeepPool section 4), and what that promises.

    Attributes:
        devices: that there are.
        batch: samples of a step, all devices together.
        limit: of device-seconds, over those on one device; 0: none.
        limit_of: `OF_LAYER`: each layer keeps to it; `OF_JOB`: all of them together do.
        layers: in an order in which they can run.
        seconds: predicted: of a step.
        bound_seconds: no plan takes less, by the same model.
        one_device_seconds: predicted: of a step on one device.
        device_seconds: predicted: of a step, over all devices together.
        data_parallel_seconds: predicted: of a step with every layer on all devices.

    Raises:
        PlanError: a layer twice, or on devices that there are not; or figures that cannot be; names it.
    """

    devices: int
    batch: int
    limit: float
    limit_of: str
    layers: tuple[LayerDevices, ...]
    seconds: float = 0.0
    bound_seconds: float = 0.0
    one_device_seconds: float = 0.0
    device_seconds: float = 0.0
    data_parallel_seconds: float = 0.0

    def __post_init__(self) -> None:
        """Hold what every reader relies on."""
        if self.devices < 1 or self.batch < 1:
            raise PlanError(f"the plan's layers are for {self.devices} devices and a batch of {self.batch}")
        if self.limit_of not in LIMITS_OF:
            raise PlanError(
                f"the plan's limit is of '{self.limit_of}', it must be one of {', '.join(LIMITS_OF)}"
            )
        if not (self.limit == 0 or 1 <= self.limit < math.inf):
            raise PlanError(f"the plan's limit is {self.limit:g} x, it must be at least 1, or 0 for none")
        promised = (self.seconds, self.bound_seconds, self.one_device_seconds, self.device_seconds)
        for figure in (*promised, self.data_parallel_seconds):
            if not 0 <= figure < math.inf:
                raise PlanError(f"a time that the plan promises of its layers is {figure} s")
        named: set[str] = set()
        for layer in self.layers:
            if layer.name in named:
                raise PlanError(f"the plan has the layer '{layer.name}' twice")
            named.add(layer.name)
            if not (layer.first >= 0 and layer.count >= 1 and layer.first + layer.count <= self.devices):
                raise PlanError(
                    f"the plan has the layer '{layer.name}' on {layer.count} devices from {layer.first} on, and "
                    f"there are {self.devices}"
                )

    @property
    def gap(self) -> float:
        """How far a step may be above the fastest: 0 is proven optimal, by the model."""
        return self.seconds / self.bound_seconds - 1 if self.bound_seconds else 0.0

    @property
    def amplification(self) -> float:
        """Device-seconds over those on one device."""
        return self.device_seconds / self.one_device_seconds if self.one_device_seconds else 0.0
