"""What memory a process may have: its CPU's pool, and those of its GPUs."""

from typing import Any, Literal, cast

from tfwave.runtime.allocator import AllocatorSettings, Device, one_region, set_up
from tfwave.runtime.gpu_memory import gpu_options as options_of
from tfwave.runtime.gpu_memory import limit_gpus
from tfwave.sizes import parse_size


def limit_memory(
    limit: str | int,
    *,
    device: Literal["cpu", "gpu"] = "cpu",
    growth: bool = True,
    asynchronous: bool = False,
) -> tuple[str, ...]:
    """Give this process a CPU pool, or each of its GPUs one, of so many bytes, as "512MiB"; says what was done.

    Call it before TensorFlow is imported: it does that itself, after setting the variables that TensorFlow reads
    (see `tfwave.runtime.allocator`). The CPU's pool is in one piece. That of GPUs never ran on a GPU, and
    `tfwave.colocate.run` is for the CPU's.

    Args:
        limit: of the CPU with all its logical devices, or of each GPU; at least 4 MiB.
        device: whose pool.
        growth: of GPUs: take memory as it is needed, not all at the start.
        asynchronous: of GPUs: CUDA's own pool (`cudaMallocAsync`), which may take more than the limit.

    Raises:
        EnforcerError: TensorFlow is already imported, the limit is too small, or an option or device
            cannot be.
        EnvironmentUnsupported: a variable has another value, or there is no GPU.
        PlanError: it is no size.
    """
    settings = AllocatorSettings(parse_size(limit), cast("Device", device), growth, asynchronous)
    said = set_up(settings)
    return (*said, one_region()) if settings.device == Device.CPU else (*said, *limit_gpus(settings))


def gpu_options(
    limit: str | int, *, growth: bool = True, asynchronous: bool = False, padding_fraction: float = 0.0
) -> Any:
    """The first GPU's memory in a session or server: ``tf.compat.v1.ConfigProto(gpu_options=gpu_options("8GiB"))``.

    It never ran on a GPU.

    Args:
        limit: of that GPU, as "8GiB"; at least 4 MiB.
        growth: take memory as it is needed, not all at the start.
        asynchronous: CUDA's own pool (`cudaMallocAsync`), which may take more than the limit.
        padding_fraction: a chunk under twice as large as asked for is given whole if that wastes less than this
            share of the limit; 0: less than 128 MiB, TensorFlow's default.

    Raises:
        EnforcerError: the limit is too small, the fraction out of range, or not for cudaMallocAsync.
        PlanError: it is no size.
    """
    return options_of(
        AllocatorSettings(parse_size(limit), Device.GPU, growth, asynchronous, padding_fraction)
    )
