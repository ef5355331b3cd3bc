"""The process of a trial whose graph may use the stash; else as `limited_task`.

{"do": "moved"} answers what the stash has moved, {"out": {"copies": n, "bytes": n, "seconds": s}, "back": those};
{"do": "traced"} makes a step, and answers {"copied_seconds": of copies to and from a GPU, "beside_kernels_seconds":
how long of that it computed}.
"""

from dataclasses import asdict

from tfwave.proto.tensorflow_pb2 import StepStats
from tfwave.runtime.allocator import AllocatorSettings
from tfwave.runtime.stash import load_stash_ops, stash_figures
from tools.bench.memory.limited_task import Trial, main
from tools.bench.memory.one_device import overlapped_seconds

MODULE = "tools.bench.memory.fitted_task"


class FittedTrial(Trial):
    """A session whose graphs may hold the native library's ops."""

    def __init__(self, settings: AllocatorSettings) -> None:
        super().__init__(settings)
        load_stash_ops()

    def moved(self) -> dict[str, object]:
        figures = stash_figures()
        return {"out": asdict(figures.out), "back": asdict(figures.back)}

    def traced(self) -> dict[str, object]:
        v1 = self._tf.compat.v1
        options, metadata = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE), v1.RunMetadata()
        for call in self._calls:
            self._session.run(call, options=options, run_metadata=metadata)
        stats = StepStats.FromString(metadata.step_stats.SerializeToString())
        copied, beside = overlapped_seconds(stats)
        return {"copied_seconds": copied, "beside_kernels_seconds": beside}


if __name__ == "__main__":
    main(FittedTrial)
