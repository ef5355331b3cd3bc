"""The settings of a device's pool as they are obeyed, and the pool's peak against the model's word.

`off` of a row is the pool's peak over the model's word, less 1: at most a tenth is promised. `held` is what came of
steps in a pool that has as much as the model says they need.
"""

import sys
from collections.abc import Iterator
from functools import partial

from tfwave.memory.slots import limit_for
from tfwave.runtime.allocator import Device
from tools.bench.memory.limited import environment
from tools.bench.memory.tick_tock_modes import GANG, Case
from tools.bench.memory.tick_tock_trials import Work, open_work
from tools.gpu import allocator_task
from tools.gpu.part import Row, Setting, measuring, told

SECONDS = 120.0
STEPS = 3


def main() -> None:
    """The settings, then model by model."""
    with measuring(sys.argv[1:]) as (setting, rows):
        for name, options in settings(setting.device):
            rows.once(f"setting {name}", partial(obeyed, setting, options))
        with open_work(setting.folder, STEPS, setting.device) as work:
            for model, batch in setting.sizes.models.items():
                rows.once(f"peak {model}", partial(peak, work, model, batch))


def settings(device: Device) -> Iterator[tuple[str, tuple[str, ...]]]:
    """By name, the options of `allocator_task`; a CPU's pool has a limit only."""
    yield "limit", ()
    if device == Device.GPU:
        yield "limit, all at the start", ("--no-growth",)
        yield "cudaMallocAsync", ("--asynchronous",)


def obeyed(setting: Setting, options: tuple[str, ...]) -> Row:
    """What a process with a limit gets."""
    limit = setting.sizes.setting
    words = [allocator_task.MODULE, setting.device, str(limit), *options]
    return {"limit": limit, **told(words, SECONDS, environment(setting.device))}


def peak(work: Work, model: str, batch: int) -> Row:
    """The model's word for a step, and the pool's."""
    step = work.traced(model, batch)
    word = step.captured.peak
    limit = limit_for(word, 1)
    trial = work.trial(Case(model, GANG, batch, limit))
    return {
        "model": model,
        "batch": batch,
        "word": word,
        "peak": step.measured_peak,
        "off": step.measured_peak / word - 1,
        "limit": limit,
        "held": trial.outcome,
        "held_peak": trial.peak,
    }


if __name__ == "__main__":
    main()
