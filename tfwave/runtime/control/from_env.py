"""TF_CONFIG, from what a scheduler sets in the environment of each task.

TFWAVE_JOBS tells what a job consists of, ``chief=1 ps=2 worker=4``, and TFWAVE_PORT TensorFlow's port (2222 if it
is not set). Where the tasks are, and which of them this process is, follows from

1. Kubernetes, where TFWAVE_HOSTS is set: pods with names, numbered as those of an indexed Job, such as a JobSet
   makes. TFWAVE_HOSTS is the pods' host name, with {job} and {index} in it (``train-{job}-0-{index}.train``),
   TFWAVE_JOB the job of this pod, JOB_COMPLETION_INDEX its number in it.
2. Slurm: the ranks of the step ``srun --distribution=block`` are the servers, in the order of TFWAVE_JOBS. The
   chief is the batch script, on the first node. Each further task of a node has the next port.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfwave.errors import EnforcerError
from tfwave.runtime.control.tf_config import SERVED_JOBS

_PORT = 2222
_LARGEST_JOB = 100_000
_JOB = re.compile(r"([a-z]+)=(\d+)")
_RANGE = r"\d{1,6}(?:-\d{1,6})?"
_PIECE = re.compile(rf"([^\[\],]+)|\[({_RANGE}(?:,{_RANGE})*)\]")
_NODES = re.compile(rf"(?:{_PIECE.pattern})+")
_RUN = re.compile(r"(\d{1,6})(?:\(x(\d{1,6})\))?")

Config = dict[str, Any]


def config_from_environment(environment: Mapping[str, str]) -> Config:
    """What TF_CONFIG would be, as JSON holds it; the cases are those of this module.

    Raises:
        EnforcerError: a variable is missing or malformed; names it.
    """
    jobs = _jobs(environment)
    port = _number(environment, "TFWAVE_PORT", _PORT)
    if "TFWAVE_HOSTS" in environment:
        return _of_pod(environment, jobs, port)
    if "SLURM_JOB_NODELIST" in environment:
        return _of_slurm(environment, jobs, port)
    raise EnforcerError(
        "no scheduler tells where the tasks are: set TFWAVE_HOSTS (Kubernetes), start it in a job of Slurm, or set "
        "TF_CONFIG and leave --from-env out"
    )


def expand_nodes(nodes: str) -> list[str]:
    """The names that a list of Slurm's stands for: ``a[1-2,07],b`` is a1, a2, a07, b.

    Raises:
        EnforcerError: it is not such a list.
    """
    found: list[str] = []
    place = 0
    while place < len(nodes):
        one = _NODES.match(nodes, place)
        if one is None or nodes[one.end() : one.end() + 1] not in {"", ","}:
            raise EnforcerError(f"'{nodes}' is no list of nodes as Slurm's, such as node[1-3],other")
        pieces = [[text] if text else list(_numbers(ranges)) for text, ranges in _PIECE.findall(one[0])]
        found += map("".join, itertools.product(*pieces))
        place = one.end() + 1
    return found


def _jobs(environment: Mapping[str, str]) -> dict[str, int]:
    text = environment.get("TFWAVE_JOBS", "")
    found = [_JOB.fullmatch(word) for word in text.split()]
    jobs = {one[1]: int(one[2]) for one in found if one}
    if not jobs or len(jobs) < len(found) or max(jobs.values()) > _LARGEST_JOB:
        raise EnforcerError(
            f"TFWAVE_JOBS is '{text}': set it to each job and its tasks, such as 'chief=1 ps=2 worker=4'"
        )
    return jobs


def _of_pod(environment: Mapping[str, str], jobs: Mapping[str, int], port: int) -> Config:  # case 1
    hosts = environment["TFWAVE_HOSTS"]
    if "{job}" not in hosts or "{index}" not in hosts:
        raise EnforcerError(
            f"TFWAVE_HOSTS is '{hosts}': set it to the pods' host name, with {{job}} and {{index}} in it"
        )
    cluster = {
        job: [f"{hosts.replace('{job}', job).replace('{index}', str(i))}:{port}" for i in range(count)]
        for job, count in jobs.items()
    }
    own, index = environment.get("TFWAVE_JOB", ""), _number(environment, "JOB_COMPLETION_INDEX")
    if index >= jobs.get(own, 0):
        raise EnforcerError(
            f"TFWAVE_JOB is '{own}' and JOB_COMPLETION_INDEX {index}: TFWAVE_JOBS has no such task"
        )
    return {"cluster": cluster, "task": {"type": own, "index": index}}


def _of_slurm(environment: Mapping[str, str], jobs: Mapping[str, int], port: int) -> Config:  # case 2
    servers = [(job, index) for job in jobs if job in SERVED_JOBS for index in range(jobs[job])]
    nodes = expand_nodes(environment["SLURM_JOB_NODELIST"])
    runs = _RUN.findall(environment.get("SLURM_TASKS_PER_NODE", ""))
    tasks = [int(count) for count, times in runs for _ in range(int(times or 1))]
    places = [(node, local) for node, count in enumerate(tasks) for local in range(count)]
    if len(places) != len(servers) or len(tasks) > len(nodes):
        raise EnforcerError(
            f"Slurm has {len(places)} tasks on {len(nodes)} nodes, TFWAVE_JOBS {len(servers)} servers: start it "
            f"with sbatch --ntasks={len(servers)}, and one srun for all of them"
        )
    cluster: dict[str, list[str]] = {}
    for (job, _), (node, local) in zip(servers, places, strict=True):
        cluster.setdefault(job, []).append(f"{nodes[node]}:{port + local}")
    if jobs.get("chief"):
        cluster["chief"] = [f"{nodes[0]}:{port + tasks[0]}"]
    return {"cluster": cluster, "task": _task_of_slurm(environment, servers, places)}


def _task_of_slurm(
    environment: Mapping[str, str], servers: Sequence[tuple[str, int]], places: Sequence[tuple[int, int]]
) -> Config:
    if "SLURM_STEP_NODELIST" not in environment:
        return {"type": "chief", "index": 0}
    rank = _number(environment, "SLURM_PROCID")
    here = (_number(environment, "SLURM_NODEID"), _number(environment, "SLURM_LOCALID"))
    if rank >= len(places) or places[rank] != here:
        raise EnforcerError(f"rank {rank} is not where it is expected: give srun --distribution=block")
    job, index = servers[rank]
    return {"type": job, "index": index}


def _numbers(ranges: str) -> Iterator[str]:
    for one in ranges.split(","):
        first, _, last = one.partition("-")
        for number in range(int(first), int(last or first) + 1):
            yield str(number).zfill(len(first))


def _number(environment: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = environment.get(name, "" if default is None else str(default))
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise EnforcerError(f"{name} is '{text}': it must be a number")
    return int(text)
