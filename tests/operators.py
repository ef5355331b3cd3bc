"""What an operator of Kubernetes makes of a manifest: pods with names, commands and environments."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.fork_server import ROOT

EXAMPLES = ROOT / "examples"
SECRETS = {"tfwave": {"token": "the-token-of-this-test"}}
PORT = 2222


@dataclass(frozen=True)
class Pod:
    """One task; `host` is the name that the others know it by."""

    job: str
    index: int
    host: str
    command: list[str]
    environment: dict[str, str]


@dataclass(frozen=True)
class Deployed:
    """All pods of a manifest; those of `ending` end it, and then the others are told to end, or left."""

    pods: list[Pod]
    ending: frozenset[str]
    cleans: bool


def manifest(name: str) -> Any:
    import yaml

    return yaml.safe_load((EXAMPLES / name).read_text())


def of_jobset(jobset: Any) -> Deployed:
    """As JobSet's controller does, and the controller of indexed Jobs."""
    spec, name = jobset["spec"], jobset["metadata"]["name"]
    network = spec.get("network", {})
    assert network.get("enableDNSHostnames", True)
    pods = [
        _pod_of_job(replicated, job, index, f"{name}-{{}}.{network.get('subdomain', name)}")
        for replicated in spec["replicatedJobs"]
        for job in range(replicated.get("replicas", 1))
        for index in range(_indexed(replicated["template"]["spec"]))
    ]
    policy = spec["successPolicy"]
    assert policy["operator"] == "All"
    return Deployed(pods, frozenset(policy["targetReplicatedJobs"]), cleans=True)


def of_tfjob(tfjob: Any) -> Deployed:
    """As Kubeflow's training operator does: it ends with the chief, and cleans up if it is told to."""
    name, replicas = tfjob["metadata"]["name"], tfjob["spec"]["tfReplicaSpecs"]
    cluster = {
        kind.lower(): [f"{name}-{kind.lower()}-{i}.default.svc:{PORT}" for i in range(each["replicas"])]
        for kind, each in replicas.items()
    }
    pods: list[Pod] = []
    for kind, each in replicas.items():
        for index, address in enumerate(cluster[kind.lower()]):
            config = {"cluster": cluster, "task": {"type": kind.lower(), "index": index}}
            told = {"TF_CONFIG": json.dumps(config | {"environment": "cloud"})}
            host = address.partition(":")[0]
            pods.append(_pod(kind.lower(), index, host, spec=each["template"]["spec"], labels={}, told=told))
    policy = tfjob["spec"].get("runPolicy", {}).get("cleanPodPolicy", "None")
    return Deployed(pods, frozenset({"chief"}), policy in {"Running", "All"})


def _indexed(job: Any) -> int:
    assert job["completionMode"] == "Indexed"
    assert job["completions"] == job["parallelism"], "all tasks run at the same time"
    return job["completions"]


def _pod_of_job(replicated: Any, job: int, index: int, host: str) -> Pod:
    name = replicated["name"]
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": name, "jobset.sigs.k8s.io/job-index": str(job)}
    told = {"JOB_COMPLETION_INDEX": str(index)}
    spec = replicated["template"]["spec"]["template"]["spec"]
    return _pod(name, index, host.format(f"{name}-{job}-{index}"), spec=spec, labels=labels, told=told)


def _pod(
    job: str, index: int, host: str, *, spec: Any, labels: Mapping[str, str], told: Mapping[str, str]
) -> Pod:
    (container,) = spec["containers"]
    environment = dict(_variables(container["env"], labels)) | told
    return Pod(job, index, host, container["command"], environment)


def _variables(listed: Any, labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for each in listed:
        if "value" in each:
            assert "$(" not in each["value"]
            yield each["name"], each["value"]
        elif field := each["valueFrom"].get("fieldRef"):
            yield (
                each["name"],
                labels[field["fieldPath"].removeprefix("metadata.labels['").removesuffix("']")],
            )
        else:
            secret = each["valueFrom"]["secretKeyRef"]
            yield each["name"], SECRETS[secret["name"]][secret["key"]]
