"""A program that ends in the midst of what its schedule does; prints which threads are left at the very end."""

import atexit
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def tell() -> None:
    """Behind all that tfwave does at the end: what is registered first comes last."""
    sys.stdout.write(f"{[thread.name for thread in threading.enumerate() if thread.daemon]}\n")
    sys.stdout.flush()


atexit.register(tell)

from tests.graphs import SERVERS, WORKER  # noqa: E402
from tests.unit.coordinated import Coordinator  # noqa: E402
from tfwave.distribute import run  # noqa: E402
from tfwave.distribute.schedule import Schedule  # noqa: E402
from tfwave.distribute.servers import Servers  # noqa: E402
from tfwave.distribute.settings import Settings  # noqa: E402
from tfwave.runtime.job_devices import JobDevices  # noqa: E402

TICK_SECONDS = 0.3

begun, pool = threading.Event(), ThreadPoolExecutor(1)


def tick(_: Any) -> None:
    """Take a while, and then ask servers, by threads of a pool that takes no work as Python ends."""
    begun.set()
    time.sleep(TICK_SECONDS)
    pool.submit(int)


run.ScheduleRun._tick = tick
coordinator = Coordinator(1)
schedule = Schedule(coordinator, Servers({}), JobDevices((WORKER, SERVERS[0]), [WORKER]))
schedule.start(Settings())
begun.wait()
