"""Another chief of the training's servers, for a test to stop and kill: `python -m tests.faults.chief SPEC SEED`.

It builds the same model, from the first values on, and begins a step that waits for ever.
"""

import json
import sys

from tests.cluster.speaker import say
from tests.faults.place import Place
from tests.faults.training import Training


def main() -> None:
    spec, seed = sys.argv[1:]
    training = Training(Place(None, json.loads(spec)), int(seed))
    training.amid(lambda: say("begun"))


if __name__ == "__main__":
    main()
