"""Ordering the transfers of a `tf.distribute` strategy, letting its steps overlap, and training in waves."""

from tfwave.distribute.blocks import blocks as blocks
from tfwave.distribute.figures import Figures as Figures
from tfwave.distribute.in_waves import InWaves as InWaves
from tfwave.distribute.in_waves import across_devices as across_devices
from tfwave.distribute.in_waves import in_waves as in_waves
from tfwave.distribute.mirrored import waves as waves
from tfwave.distribute.ordering import order as order
from tfwave.distribute.ordering import schedule_of as schedule_of
from tfwave.distribute.overlap import Overlap as Overlap
from tfwave.distribute.overlap import overlap as overlap
from tfwave.distribute.placement import Placed as Placed
from tfwave.distribute.placement import place as place
from tfwave.distribute.reduce import Reduced as Reduced
from tfwave.distribute.reduce import reduce as reduce
from tfwave.distribute.schedule import Schedule as Schedule
from tfwave.distribute.wrap import wrap as wrap
