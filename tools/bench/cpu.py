"""What a call costs the processor, whoever else uses it."""

import time
from collections.abc import Callable


def cpu_seconds(call: Callable[[], object]) -> float:
    """Of all threads of this process."""
    start = time.process_time()
    call()
    return time.process_time() - start
