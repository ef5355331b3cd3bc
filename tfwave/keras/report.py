"""What TensorBoard gets of each epoch."""

from tfwave.distribute.figures import Figures
from tfwave.runtime.events import Events


def tell_epoch(events: Events, epoch: int, figures: Figures) -> None:
    """Write an epoch's figures as scalars, and its steps as a histogram."""
    for name, value in figures.logs().items():
        events.scalar(name.replace("tfwave_", "tfwave/"), value, epoch)
    if figures.seconds:
        events.histogram("tfwave/seconds", figures.seconds, epoch)
    events.flush()
