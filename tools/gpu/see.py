"""Does TensorFlow see the GPU, which of its libraries work, and does the native library build and load there?"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tfwave.demo.processes import Task
from tfwave.errors import EnforcerError
from tfwave.runtime.allocator import Device
from tools.bench.memory.limited import Pools, environment, open_pools
from tools.bench.memory.tick_tock_modes import load_traced
from tools.gpu import see_task
from tools.gpu.links import PROFILER, take_out
from tools.gpu.part import Row, Setting, measuring

ASK_SECONDS = 150.0
WORDS = 30
"""Lines of what TensorFlow says when it looks for its devices."""
TRACED = ("vgg", 4)
"""The model, and its batch, of the step that is traced."""
_DEVICES = """
import json
import tensorflow as tf
gpus = tf.config.list_physical_devices("GPU")
print(json.dumps({
    "tensorflow": tf.__version__,
    "built": dict(tf.sysconfig.get_build_info()),
    "gpus": [gpu.name for gpu in gpus],
    "details": [tf.config.experimental.get_device_details(gpu) for gpu in gpus],
}, default=str))
"""


def main() -> None:
    """Each by itself: what fails keeps nothing else from being seen."""
    with measuring(sys.argv[1:]) as (setting, rows), open_pools(setting.folder, setting.device) as pools:
        asked = Asked(pools, setting.sizes.setting)
        rows.once("devices", partial(devices, setting.device))
        rows.once("native library", partial(asked.row, do="built"))
        rows.once("stash", partial(asked.row, do="stash", size=setting.sizes.stashed))
        rows.once("doctor", doctor)
        for name in see_task.OPERATIONS:
            rows.once(f"operation {name}", partial(asked.row, do="operation", name=name))
        rows.once("copies", partial(asked.row, do="copies", size=setting.sizes.copy))
        rows.once("trace", partial(traced, pools, setting))


@dataclass
class Asked:
    """A process that is asked one thing after the other, and made anew where that ended it."""

    pools: Pools
    limit: int
    _task: Task | None = None

    def row(self, **request: object) -> Row:
        """Its answer.

        Raises:
            EnforcerError: it ended, or said what is wrong.
        """
        self._task = self._task or self.pools.start(self.limit, see_task.MODULE)
        try:
            answer = self._task.request(request, ASK_SECONDS)
        except EnforcerError:
            self._task.end()
            self._task = None
            raise
        if "error" in answer:
            raise EnforcerError(answer["error"])
        return answer


def devices(device: Device) -> Row:
    """What TensorFlow says of them.

    Raises:
        EnforcerError: it fails, or sees no GPU where one is asked for.
    """
    hidden = {"CUDA_VISIBLE_DEVICES": ""} if device == Device.CPU else {}
    variables = os.environ | environment(device) | {"TF_CPP_MIN_LOG_LEVEL": "0"} | hidden
    done = _ran([sys.executable, "-c", _DEVICES], variables)
    said = done.stderr.splitlines()[-WORDS:]
    if done.returncode:
        raise EnforcerError(f"TensorFlow ended with {done.returncode}: {' | '.join(said)}")
    found = json.loads(done.stdout)
    if device == Device.GPU and not found["gpus"]:
        raise EnforcerError(f"TensorFlow sees no GPU: {' | '.join(said)}")
    return found | {"said": said}


def doctor() -> Row:
    """What `tfwave doctor` says; code 2 says that something is missing."""
    done = _ran([sys.executable, "-m", "tfwave", "doctor", "--json"], os.environ)
    return {"code": done.returncode, "checks": json.loads(done.stdout)}


def traced(pools: Pools, setting: Setting) -> Row:
    """Whether a step can be traced, with its kernels; without the profiling library, if that ends the process.

    Raises:
        EnforcerError: it ends without it, too.
    """
    try:
        return _profile(pools)
    except EnforcerError as error:
        if not take_out(setting.folder.parents[1] / "links", PROFILER):
            raise
        return _profile(pools) | {"without": PROFILER, "because": str(error)}


def _profile(pools: Pools) -> Row:
    found = load_traced(pools.profile(*TRACED))
    kernels = any(step.core_seconds is not None for step in found.bundle.manifest.steps)
    return {
        "kernels_traced": kernels and pools.device == Device.GPU,
        "word": found.captured.peak,
        "peak": found.measured_peak,
    }


def _ran(command: Sequence[str], variables: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=ASK_SECONDS, check=False, env=dict(variables)
    )


if __name__ == "__main__":
    main()
