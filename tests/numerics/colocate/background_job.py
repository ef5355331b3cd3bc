"""A foreground of three kinds, and the background that runs beside it: what each computes, and how it is scheduled.

python -m tests.numerics.colocate.background_job OUT      prints JSON; the background writes its own into OUT
"""

import json
import sys
from pathlib import Path
from typing import Any

from tests.lowered import spare
from tests.numerics.colocate import background_training
from tests.numerics.colocate.background_training import KINDS, Training, policies
from tfwave.colocate import Background

STEPS = 24
SECONDS = 240.0
"""What the background gets once the foreground has ended."""


def foreground(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"alone": {kind: Training(kind).losses(STEPS) for kind in KINDS}, "beside": {}}
    program = [background_training.__file__, out]
    with Background(program, slowdown_at_most=1.05, memory_limit="64MiB") as background:
        for kind in KINDS:
            trained, losses = Training(kind), list[str]()
            for number in range(STEPS):
                with background.step():
                    losses.append(trained.loss(number))
            found["beside"][kind] = losses
        found["policies"] = policies()
        found["background while it runs"] = policies(background.pid)
        spare(background.pid)
        try:
            found["exit_code"] = background.wait(SECONDS)
        except TimeoutError:
            found["exit_code"] = None
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(foreground(Path(sys.argv[1]))))
