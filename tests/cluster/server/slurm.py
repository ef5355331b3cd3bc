"""A cluster of Slurm on one machine: its daemons in processes, each node with a network of its own."""

import contextlib
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.server.named_hosts import Hosts, Process, named_hosts
from tests.waiting import wait_until
from tfwave.demo.network import NamespaceNetwork

NODES = ("node1", "node2")
CONTROLLER = os.uname().nodename.partition(".")[0]
START_SECONDS = 120
_DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scancel", "sinfo")
_CONFIG = """
ClusterName=one
SlurmctldHost={controller}({address})
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str | None:
    """Why there can be no such cluster here; None: there can."""
    absent = [name for name in _DAEMONS if not shutil.which(name)]
    return f"no {absent[0]}: apt install slurm-wlm" if absent else NamespaceNetwork.available()


@dataclass(frozen=True)
class Slurm:
    """A cluster that takes jobs."""

    hosts: Hosts
    folder: Path

    def run(self, command: Sequence[str], out: Path, seconds: float) -> int:
        """Run a command where jobs are submitted; its exit code."""
        process = self.hosts.start(CONTROLLER, command, {"SLURM_CONF": f"{self.folder}/slurm.conf"}, out)
        try:
            return process.wait(seconds)
        finally:
            process.kill()
            process.wait()


@contextlib.contextmanager
def cluster(folder: Path, cpus: int) -> Iterator[Slurm]:
    """Start the daemons, and end them; each node says that it has so many processors."""
    with contextlib.ExitStack() as started:
        hosts = started.enter_context(named_hosts([*NODES, CONTROLLER], folder))
        _configure(hosts, folder, cpus)
        running: list[Process] = []

        def start(host: str, *command: str) -> None:
            running.append(hosts.start(host, command, {}, folder / f"{command[0]}_{host}.log"))
            started.callback(_end, running[-1])

        start(CONTROLLER, *_munge(folder))
        wait_until(lambda: (folder / "munge.sock").exists() or running[0].poll() is not None, START_SECONDS)
        config = ["-f", str(folder / "slurm.conf")]
        start(CONTROLLER, "slurmctld", "-D", *config)
        for node in NODES:
            start(node, "slurmd", "-D", "-N", node, *config)
        slurm = Slurm(hosts, folder)
        _wait_for_nodes(slurm, running)
        yield slurm


def _munge(folder: Path) -> list[str]:
    """The command of the daemon that vouches for the others; the key is of this cluster alone."""
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    files = {"key-file": key.name, "socket": "munge.sock", "pid-file": "munge.pid", "seed-file": "munge.seed"}
    options = [f"--{name}={folder / file}" for name, file in files.items()]
    return ["munged", "--foreground", "--force", "--num-threads=1", *options]


def _configure(hosts: Hosts, folder: Path, cpus: int) -> None:
    lines = [_CONFIG.format(controller=CONTROLLER, address=hosts.address(CONTROLLER), folder=folder)]
    lines += [f"NodeName={node} NodeAddr={hosts.address(node)} CPUs={cpus} State=UNKNOWN" for node in NODES]
    (folder / "slurm.conf").write_text("\n".join([*lines, ""]))
    for name in ("state", *NODES):
        (folder / name).mkdir()


def _wait_for_nodes(slurm: Slurm, daemons: Sequence[Process]) -> None:
    said = slurm.folder / "sinfo.log"
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and all(daemon.poll() is None for daemon in daemons):
        said.write_text("")
        slurm.run(["sinfo", "--noheader", "--format=%T %D"], said, START_SECONDS)
        if said.read_text().split() == ["idle", str(len(NODES))]:
            return
        time.sleep(0.2)
    logs = "\n".join(log.read_text()[-1000:] for log in sorted(slurm.folder.glob("*d_*.log")))
    raise AssertionError(f"the nodes do not come up: {said.read_text()}\n{logs}")


def _end(daemon: Process) -> None:
    daemon.terminate()
    try:
        daemon.wait(60)
    finally:
        daemon.kill()
        daemon.wait()
