"""Keras 3 models on parameter servers, the callback for them and for tf_keras, and those for waves, bursts, small
pools and partial reduces.

The names below load on first use; importing tfwave.keras imports neither Keras nor TensorFlow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfwave.keras.burst_fit import BurstCallback as BurstCallback
    from tfwave.keras.bursts.walk import burst as burst
    from tfwave.keras.callback import ScheduleCallback as ScheduleCallback
    from tfwave.keras.fit_memory import FitMemoryCallback as FitMemoryCallback
    from tfwave.keras.partial_reduce import PartialReduce as PartialReduce
    from tfwave.keras.tick_tock import TickTockCallback as TickTockCallback
    from tfwave.keras.training import fit as fit

_HOMES = {
    "BurstCallback": "tfwave.keras.burst_fit",
    "FitMemoryCallback": "tfwave.keras.fit_memory",
    "PartialReduce": "tfwave.keras.partial_reduce",
    "ScheduleCallback": "tfwave.keras.callback",
    "TickTockCallback": "tfwave.keras.tick_tock",
    "burst": "tfwave.keras.bursts.walk",
    "fit": "tfwave.keras.training",
}

__all__ = [*_HOMES]  # noqa: PLE0604  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tfwave.keras' has no attribute '{name}'")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
