"""The job for Slurm, on daemons of Slurm's own: two nodes, a step of servers, the chief in the batch script."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.server.slurm import NODES, Slurm, cluster, missing
from tests.operators import EXAMPLES
from tfwave.runtime.control.from_env import expand_nodes

pytestmark = pytest.mark.tensorflow

PROGRAM = EXAMPLES / "parameter_server_custom_loop.py"
TRAIN_SECONDS = 380


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    if reason := missing():
        pytest.skip(f"no Slurm on this machine: {reason}")
    with cluster(tmp_path_factory.mktemp("slurm"), cpus=4) as started:
        yield started


def submit(slurm: Slurm, program: Path) -> tuple[int, str]:
    """The exit code of the job, and what it said."""
    out = slurm.folder / f"{program.stem}.out"
    path = f"--export=ALL,PATH={Path(sys.executable).parent}:/usr/bin:/bin"
    command = ["sbatch", "--wait", path, f"--output={out}", str(scaled(slurm.folder)), str(program)]
    return slurm.run(command, slurm.folder / "sbatch.log", TRAIN_SECONDS), out.read_text()


def scaled(folder: Path) -> Path:
    """The example with a server and a worker, each on a node."""
    text = (EXAMPLES / "slurm.sbatch").read_text()
    for was, now in (("--ntasks=6", "--ntasks=2"), ("ps=2 worker=4", "ps=1 worker=1")):
        assert text.count(was) == 1
        text = text.replace(was, now)
    script = folder / "small.sbatch"
    script.write_text(text)
    return script


@pytest.mark.long
def test_a_job_trains_and_every_task_ends(slurm: Slurm) -> None:
    code, said = submit(slurm, PROGRAM)
    assert code == 0, said[-3000:]
    assert said.count("loss ") == 6
    for task, node in zip(("ps:0", "worker:0"), NODES, strict=True):
        assert f"{task} is ready: grpc://{node}:" in said
    assert "srun: error" not in said  # the servers ended well, and were not killed


def test_the_job_ends_as_its_program_does(slurm: Slurm) -> None:
    failing = slurm.folder / "failing.py"
    failing.write_text("raise SystemExit(7)\n")
    assert submit(slurm, failing)[0] == 7


@pytest.mark.parametrize("nodes", ["node[1-2]", "a[08-11],b,c[1,3-4]"])
def test_lists_of_nodes_are_slurms(slurm: Slurm, nodes: str) -> None:
    out = slurm.folder / "names.log"
    out.write_text("")
    assert slurm.run(["scontrol", "show", "hostnames", nodes], out, 60) == 0
    assert expand_nodes(nodes) == out.read_text().split()
