"""A burst plan on the devices of real workers."""

import json
import os
import subprocess
import sys

import pytest

from tests.cluster.cluster import free_addresses, serving, start

pytestmark = pytest.mark.tensorflow


def test_workers_run_layers_as_one_process_does() -> None:
    addresses = free_addresses(4)
    spec = {"worker": addresses[:3], "chief": addresses[3:]}
    workers = [start(spec, "worker", [task], None) for task in range(3)]
    with serving(*workers):
        done = subprocess.run(
            [sys.executable, "-m", "tests.cluster.burst_chief", json.dumps(spec)],
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
            env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["apart"] < 1e-5
    here, there = found["losses"]
    assert there == pytest.approx(here, rel=1e-5)
    assert found["ran"] == {f"/job:worker/task:{task}/device:CPU:0": 2 for task in (1, 2)}
