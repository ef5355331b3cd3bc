"""The process of a trial whose graph may use the stash; else as `limited_task`."""

from tfwave.runtime.stash import load_stash_ops
from tools.bench.limited_task import Trial, main

MODULE = "tools.bench.fitted_task"


class FittedTrial(Trial):
    """A session whose graphs may hold the native library's ops."""

    def __init__(self) -> None:
        super().__init__()
        load_stash_ops()


if __name__ == "__main__":
    main(FittedTrial)
