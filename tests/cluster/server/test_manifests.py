"""A JobSet without a cluster: its pods as processes with names and networks of their own, until all have ended."""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.server.named_hosts import Hosts, Process, named_hosts
from tests.cluster.speaker import end
from tests.operators import EXAMPLES, Pod, manifest, of_jobset
from tfwave.demo.network import NamespaceNetwork

pytestmark = pytest.mark.tensorflow

PROGRAM = "parameter_server_custom_loop.py"
TRAIN_SECONDS = 350
END_SECONDS = 60


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """What lies in the working directory of each container."""
    shutil.copy(EXAMPLES / PROGRAM, tmp_path)
    return tmp_path


def scaled(jobset: Any) -> Any:
    """With one server and one worker, as a user would scale it: in two places each."""
    for replicated in jobset["spec"]["replicatedJobs"]:
        replicated["template"]["spec"] |= {"completions": 1, "parallelism": 1}
    (jobs,) = {
        id(each): each
        for replicated in jobset["spec"]["replicatedJobs"]
        for each in replicated["template"]["spec"]["template"]["spec"]["containers"][0]["env"]
        if each["name"] == "TFWAVE_JOBS"
    }.values()
    jobs["value"] = "chief=1 ps=1 worker=1"
    return jobset


def start(hosts: Hosts, pod: Pod, image: Path) -> Process:
    command = [sys.executable if word == "python" else word for word in pod.command]
    return hosts.start(pod.host, command, pod.environment, image / f"{pod.job}-{pod.index}.log")


@pytest.mark.long
def test_a_jobset_trains_and_every_task_ends(image: Path) -> None:
    if reason := NamespaceNetwork.available():
        pytest.skip(f"no pods with networks of their own: {reason}")
    deployed = of_jobset(scaled(manifest("jobset.yaml")))
    assert [(pod.job, pod.index) for pod in deployed.pods] == [("chief", 0), ("ps", 0), ("worker", 0)]
    with named_hosts([pod.host for pod in deployed.pods], image) as hosts:
        running = {pod.job: start(hosts, pod, image) for pod in deployed.pods}
        servers = [running["ps"], running["worker"]]
        try:
            ended = running["chief"].wait(TRAIN_SECONDS)
            assert ended == 0, (image / "chief-0.log").read_text()[-3000:]
            assert [process.poll() for process in servers] == [None, None]
            for process in servers:
                process.terminate()  # as a kubelet does with the pods of jobs that JobSet deletes
            assert [process.wait(END_SECONDS) for process in servers] == [0, 0]
        finally:
            for process in running.values():
                end(process)
    assert (image / "chief-0.log").read_text().count("loss ") == 6
    assert "ps:0 is ready" in (image / "ps-0.log").read_text()
