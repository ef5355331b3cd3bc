"""How much is measured: on a GPU, and on a CPU to see whether all works."""

from collections.abc import Mapping
from dataclasses import dataclass

from tfwave.runtime.allocator import Device

MB = 1 << 20
GB = 1 << 30


@dataclass(frozen=True)
class Sizes:
    """Of one kind of device; pools and copies in bytes.

    Attributes:
        models: batches by model, at which the pool's peak is compared with the model's word.
        pool: in which waves, jobs and fitted steps are compared.
        waves: models that are trained in waves, with the batch of each wave for the peaks by offset.
        jobs: models side by side, joined by +.
        fitted: batches by model, from which the largest fitted ones are sought.
        blocks: of each way, for throughputs; `steps` in each.
        copy: that is timed between host and device.
        stashed: of each tensor that is moved through the stash.
        setting: the limit of the pool whose settings are tried.
        background: the batch of a training in the background.
        window: seconds for which a foreground is timed.
    """

    models: Mapping[str, int]
    pool: int
    waves: Mapping[str, int]
    jobs: tuple[str, ...]
    fitted: Mapping[str, int]
    blocks: int
    steps: int
    copy: int
    stashed: int
    setting: int
    background: int
    window: float


SIZES: Mapping[Device, Sizes] = {
    Device.GPU: Sizes(
        models={"resnet": 256, "vgg": 512, "dense_bert": 256, "inception": 256, "lstm": 256},
        pool=4 * GB,
        waves={"resnet": 64, "vgg": 128, "dense_bert": 64},
        jobs=("resnet+dense_bert", "resnet+resnet+dense_bert+dense_bert"),
        fitted={"resnet": 128, "vgg": 256},
        blocks=5,
        steps=6,
        copy=GB,
        stashed=128 * MB,
        setting=8 * GB,
        background=512,
        window=5.0,
    ),
    Device.CPU: Sizes(
        models={"vgg": 4, "resnet": 2},
        pool=160 * MB,
        waves={"resnet": 2},
        jobs=("resnet+resnet", "resnet+resnet+resnet+resnet"),
        fitted={"resnet": 8},
        blocks=1,
        steps=2,
        copy=64 * MB,
        stashed=4 * MB,
        setting=256 * MB,
        background=8,
        window=1.0,
    ),
}
