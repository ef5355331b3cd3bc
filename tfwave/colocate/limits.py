"""What memory a process may have: its CPU's pool, and those of its GPUs."""

from collections.abc import Callable
from typing import Any, Literal, cast

from tfwave.runtime.allocator import AllocatorSettings, Device, one_region, say, set_up, set_variables
from tfwave.runtime.gpu_memory import gpu_options as options_of
from tfwave.runtime.gpu_memory import limit_gpus
from tfwave.runtime.lowered import OWN_THREADS
from tfwave.runtime.planned_pool import PlannedPool, open_pool
from tfwave.sizes import parse_size


def limit_memory(  # noqa: PLR0913
    limit: str | int,
    *,
    device: Literal["cpu", "gpu"] = "cpu",
    growth: bool = True,
    asynchronous: bool = False,
    own_threads: bool = False,
    configure: Callable[[], object] | None = None,
) -> tuple[str, ...]:
    """Give this process a CPU pool, or each of its GPUs one, of so many bytes, as "512MiB"; says what was done.

    Call it before TensorFlow is imported: it does that itself, after setting the variables that TensorFlow reads
    (see `tfwave.runtime.allocator`), and starts it. The CPU's pool is in one piece; `tfwave.colocate.run` is for
    that one.

    Args:
        limit: of the CPU with all its logical devices, or of each GPU; at least 4 MiB.
        device: whose pool.
        growth: of GPUs: take memory as it is needed, not all at the start.
        asynchronous: of GPUs: CUDA's own pool (`cudaMallocAsync`), which may take more than the limit.
        own_threads: each session computes in threads of its own, as a `background_session` must.
        configure: called before TensorFlow starts, for what `tf.config` can set only then, such as threads and
            logical devices.

    Raises:
        EnforcerError: TensorFlow is already imported, the limit is too small, or an option or device
            cannot be.
        EnvironmentUnsupported: a variable has another value, or there is no GPU.
        PlanError: it is no size.
    """
    settings = AllocatorSettings(parse_size(limit), cast("Device", device), growth, asynchronous)
    said = set_up(settings)
    if own_threads:
        set_variables({OWN_THREADS: "1"})
        said += say([f"sessions compute in threads of their own: {OWN_THREADS}=1"])
    if configure is not None:
        configure()
    return (*said, one_region()) if settings.device == Device.CPU else (*said, *limit_gpus(settings))


def planned_pool(limit: str | int, *, configure: Callable[[], object] | None = None) -> PlannedPool:
    """Give this process a CPU pool of so many bytes, as "512MiB", in which a step's buffers can lie as planned.

    In place of `limit_memory`, and like that before TensorFlow is imported. Capture a step in it, have its buffers
    placed (``tfwave memory BUNDLE --placement -o plan.json``), and install that plan; what it does not know lies
    elsewhere in the pool. Steps give the same results, bit for bit. A step's ops should begin in the order in which
    they were captured: in one thread (``inter_op_parallelism_threads=1``); what finds its place taken lies
    elsewhere, and `PlannedPool.figures` counts it. Or have the step made to fit, with places (``tfwave fit
    --placement``, `tfwave.fit_memory`): then ops may run side by side. `tfwave.colocate.run` takes other pools.
    `configure` is as in `limit_memory`.

    Raises:
        EnforcerError: TensorFlow is already imported, the limit is under 4 MiB, or it does not use the pool.
        EnvironmentUnsupported: a variable has another value, or the native library cannot be had.
        PlanError: it is no size.
    """
    return open_pool(parse_size(limit), configure)


def gpu_options(
    limit: str | int, *, growth: bool = True, asynchronous: bool = False, padding_fraction: float = 0.0
) -> Any:
    """The first GPU's memory in a session or server: ``tf.compat.v1.ConfigProto(gpu_options=gpu_options("8GiB"))``.

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
