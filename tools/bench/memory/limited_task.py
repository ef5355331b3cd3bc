"""The process of a trial: TensorFlow with a limited pool, as its first request says.

Started with {"limit": bytes, "device": "cpu" or "gpu"}, which it answers when the pool is one region, it does then,
as often as asked:
{"do": "profile", "model": str, "batch": int, "steps": n, "out": directory} writes a model's graph, and a capture of
its step, to `out`; answers {"losses": [of each step, as hex], "peak": bytes} of `n` steps from the first values;
{"do": "build", "model": str, "batch": int, "out": file} writes only the graph, to a file;
{"do": "load", "graph": file, "resets": [node], "calls": [[[fetch], [target]]]} takes a graph, and the calls that
make a step of all jobs in it;
{"do": "run", "steps": n} makes steps: {"seconds": [of each], "losses": [[of each fetch, as hex] of each step],
"peak": most bytes of the pool since the graph was loaded}.

Where the pool has no room, the answer is {"error": "exhausted"}. Grappler is off, so that a graph runs as it is.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfwave.capture.session import capture_session
from tfwave.demo.child import Channel
from tfwave.runtime.allocator import AllocatorSettings, Device, one_region, set_up
from tfwave.runtime.gpu_memory import gpu_options, limit_gpus
from tools.bench.memory.limited_models import LOSS, RESET, TRAIN, build
from tools.bench.memory.one_device import narrow

MODULE = "tools.bench.memory.limited_task"
TRACED_STEPS = 3
WARMUP_STEPS = 1


class Trial:
    """A session on the limited pool."""

    def __init__(self, settings: AllocatorSettings) -> None:
        import tensorflow as tf

        self._tf: Any = tf
        self._settings = settings
        self.device = f"{settings.device.upper()}:0"
        if settings.device == Device.GPU:
            tf.config.list_logical_devices()  # its pool is made now, with its limit: a session would take all
        self._session: Any = None
        self._calls: list[Any] = []

    def profile(self, model: str, batch: int, steps: int, out: str) -> dict[str, object]:
        Path(out).mkdir(parents=True)
        graph = self._write(model, batch, Path(out, "graph.pb"))
        with self._open(graph) as session:
            session.run(RESET)
            self._tf.config.experimental.reset_memory_stats(self.device)
            with capture_session(session, out=Path(out, "bundle"), steps=TRACED_STEPS, warmup=WARMUP_STEPS):
                losses = [session.run([f"{LOSS}:0", TRAIN])[0] for _ in range(steps)]
            peak = self._peak()
        if self._settings.device == Device.GPU:
            narrow(Path(out, "bundle"))
        return {"losses": [float(loss).hex() for loss in losses], "peak": peak}

    def build(self, model: str, batch: int, out: str) -> dict[str, object]:
        self._write(model, batch, Path(out))
        return {}

    def load(self, graph: str, resets: list[str], calls: list[Any]) -> dict[str, object]:
        own = self._tf.Graph()
        with own.as_default():
            definition = self._tf.compat.v1.GraphDef.FromString(Path(graph).read_bytes())
            self._tf.graph_util.import_graph_def(definition, name="")
        self._session, self._calls = self._open(own), calls
        self._session.run(resets)
        self._tf.config.experimental.reset_memory_stats(self.device)
        return {}

    def run(self, steps: int) -> dict[str, object]:
        seconds: list[float] = []
        losses: list[list[str]] = []
        for _ in range(steps):
            begin = time.perf_counter()
            found = [loss for call in self._calls for loss in self._session.run(call)[0]]
            seconds.append(time.perf_counter() - begin)
            losses.append([float(loss).hex() for loss in found])
        return {"seconds": seconds, "losses": losses, "peak": self._peak()}

    def answer(self, do: str, **request: Any) -> dict[str, object]:
        try:
            return getattr(self, do)(**request)
        except self._tf.errors.ResourceExhaustedError:
            return {"error": "exhausted"}

    def _peak(self) -> int:
        return self._tf.config.experimental.get_memory_info(self.device)["peak"]

    def _write(self, model: str, batch: int, out: Path) -> Any:
        graph = build(model, batch)
        out.write_bytes(graph.as_graph_def().SerializeToString(deterministic=True))
        return graph

    def _open(self, graph: Any) -> Any:
        config = self._config()
        config.graph_options.rewrite_options.disable_meta_optimizer = True
        config.graph_options.optimizer_options.opt_level = -1
        return self._tf.compat.v1.Session(graph=graph, config=config)

    def _config(self) -> Any:
        """Of a session on the pool."""
        config = self._tf.compat.v1.ConfigProto()
        if self._settings.device == Device.GPU:
            config.gpu_options.CopyFrom(gpu_options(self._settings))
        return config


def _pool(limit: int, device: Device) -> AllocatorSettings:
    """Make the pool, in one region: a GPU's is if it is taken at the start."""
    settings = AllocatorSettings(limit, device, growth=device == Device.CPU)
    set_up(settings)
    if device == Device.CPU:
        one_region()
    else:
        limit_gpus(settings)
    return settings


def main(kind: type[Trial] = Trial, pool: Callable[[int, Device], AllocatorSettings] = _pool) -> None:
    """Obey until standard input is closed."""
    channel = Channel()
    requests = channel.requests()
    first = next(requests)
    trial = kind(pool(first["limit"], Device(first["device"])))
    channel.say()
    for request in requests:
        channel.say(**trial.answer(**request))
    os._exit(0)


if __name__ == "__main__":
    main()
