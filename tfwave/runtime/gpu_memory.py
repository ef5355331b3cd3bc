"""The options of GPUs' memory pools that TensorFlow takes once it is imported."""

from importlib import import_module
from typing import Any

from tfwave.errors import EnforcerError, EnvironmentUnsupported
from tfwave.runtime.allocator import AllocatorSettings, say


def limit_gpus(settings: AllocatorSettings) -> tuple[str, ...]:
    """Give each GPU one logical device with the limit, after TensorFlow is imported and before it runs; says so.

    Memory growth goes by the variable that `set_up` sets: TensorFlow's own function for it is refused for GPUs with
    logical devices.

    Raises:
        EnforcerError: TensorFlow is already running.
        EnvironmentUnsupported: there is no GPU.
    """
    tf: Any = import_module("tensorflow")
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        raise EnvironmentUnsupported("TensorFlow sees no GPU: limit the CPU's pool, or install its drivers")
    limited = tf.config.LogicalDeviceConfiguration(memory_limit=settings.limit_mb)
    try:
        for gpu in gpus:
            tf.config.set_logical_device_configuration(gpu, [limited])
    except RuntimeError as err:
        raise EnforcerError(f"the GPUs are already in use ({err}): limit them before the first op") from err
    return say(f"{gpu.name}: a limit of {settings.limit_mb} MiB" for gpu in gpus)


def gpu_options(settings: AllocatorSettings) -> Any:
    """The `GPUOptions` for the first GPU in a Session's or server's config: limit, growth, and splitting.

    Nowhere else does TensorFlow take `padding_fraction`, which was never tried on a GPU.
    """
    tf: Any = import_module("tensorflow")
    options = tf.compat.v1.GPUOptions(allow_growth=settings.growth)
    options.experimental.internal_fragmentation_fraction = settings.padding_fraction
    options.experimental.use_cuda_malloc_async = settings.asynchronous
    options.experimental.virtual_devices.add(memory_limit_mb=[settings.limit_mb])
    return options
