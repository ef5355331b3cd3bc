"""A CPU pool with a limit, in processes of their own: it is there once for all that a process runs."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from tfwave.colocate import gpu_options

pytestmark = pytest.mark.tensorflow

ROOT = Path(__file__).parents[3]
LIMIT_MB = 64
PROGRAM = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
from tfwave.runtime.allocator import AllocatorSettings, one_region, set_up
set_up(AllocatorSettings({limit} << 20))
import tensorflow as tf
from tensorflow.python.util import _pywrap_util_port
found = {{"onednn": _pywrap_util_port.IsMklEnabled(), "said": ""}}

def hold(megabytes):
    return tf.raw_ops.Empty(shape=[megabytes << 18], dtype=tf.float32)

def fits(megabytes):
    try:
        hold(megabytes)
    except tf.errors.ResourceExhaustedError:
        return False
    return True

{steps}
print(json.dumps(found))
"""
FITS = """
found["said"] = one_region()
held = [hold(1) for _ in range(20)]
del held
found["fits"] = fits({under}), fits({over})
"""
APART = """
held = [hold(1) for _ in range(20)]
del held
with ThreadPoolExecutor(3) as threads:
    in_one = threads.submit(one_region)
    found["fits"] = list(threads.map(fits, [{under}, {over}]))
    found["said"] = str(in_one.exception())
"""


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, Any]]:
    """What the programs print; at once, as TensorFlow waits 10 s before each of its refusals."""
    programs = {"fits": FITS, "apart": APART}
    with ThreadPoolExecutor(len(programs)) as threads:
        return dict(zip(programs, threads.map(run, programs.values()), strict=True))


def run(steps: str) -> dict[str, Any]:
    steps = steps.format(under=LIMIT_MB - 4, over=LIMIT_MB + 1)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TF_CPU", "TF_ENABLE"))}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(limit=LIMIT_MB, steps=steps)],
        cwd=ROOT,
        env=kept | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
        timeout=300,
    )
    return json.loads(ran.stdout)


def test_of_one_region_all_can_be_had_again(found: dict[str, dict[str, Any]]) -> None:
    told = found["fits"]
    assert told["fits"] == [True, False]
    assert told["said"] == f"CPU pool of {LIMIT_MB} MiB: one region of {LIMIT_MB - 3} MiB or more"
    assert not told["onednn"]


def test_regions_stay_apart(found: dict[str, dict[str, Any]]) -> None:
    """What is free in all would be enough."""
    told = found["apart"]
    assert told["fits"] == [False, False]
    assert f"has no {LIMIT_MB - 3} MiB in one piece any more" in told["said"]


def test_gpu_options_have_what_was_set() -> None:
    options = gpu_options("512MiB", growth=False, padding_fraction=0.25)
    config = tf.compat.v1.ConfigProto.FromString(
        tf.compat.v1.ConfigProto(gpu_options=options).SerializeToString()
    )
    experimental = config.gpu_options.experimental
    assert not config.gpu_options.allow_growth
    assert experimental.internal_fragmentation_fraction == 0.25
    assert not experimental.use_cuda_malloc_async
    assert [list(device.memory_limit_mb) for device in experimental.virtual_devices] == [[512]]
    asynchronous = gpu_options("512MiB", asynchronous=True)
    assert asynchronous.experimental.use_cuda_malloc_async
    assert asynchronous.allow_growth
