"""The manifests among the examples: what Kubernetes takes, and what each of their pods is told."""

import copy
import json
from collections import Counter
from typing import Any

import pytest

from tests.fork_server import ROOT
from tests.operators import EXAMPLES, Deployed, Pod, manifest, of_jobset, of_tfjob
from tfwave.runtime.control.from_env import config_from_environment
from tfwave.runtime.control.tf_config import TfConfig, control_addresses, parse_tf_config

KINDS = {"jobset.yaml": ("jobset", of_jobset), "kubeflow_tfjob.yaml": ("tfjob", of_tfjob)}
PORTS = {"tensorflow": 2222, "tfjob-port": 2222, "control": 3222, "metrics": 9464}


def schema(kind: str) -> Any:
    return _strict(json.loads((ROOT / "tests/schemas" / f"{kind}.json").read_text()))


def _strict(node: Any) -> Any:
    """Nothing is taken that the schema does not name."""
    if isinstance(node, list):
        return [_strict(each) for each in node]
    if not isinstance(node, dict):
        return node
    strict = {key: _strict(each) for key, each in node.items()}
    if isinstance(node.get("properties"), dict) and node.get("type") == "object":
        strict.setdefault("additionalProperties", False)
    return strict


def faults(kind: str, given: Any) -> list[str]:
    import jsonschema

    found = jsonschema.Draft7Validator(schema(kind)).iter_errors(given)
    return [f"{'.'.join(map(str, each.absolute_path))}: {each.message}" for each in found]


@pytest.mark.parametrize("name", KINDS)
def test_kubernetes_takes_it(name: str) -> None:
    assert faults(KINDS[name][0], manifest(name)) == []


@pytest.mark.parametrize(
    ("place", "key"),
    [
        ("", "specs"),
        ("spec", "succesPolicy"),
        ("spec.replicatedJobs.0.template.spec", "completionmode"),
        ("spec.replicatedJobs.1.template.spec.template.spec.containers.0", "commands"),
        ("spec.replicatedJobs.2.template.spec.template.spec.containers.0.env.0", "values"),
    ],
)
def test_the_schema_refuses_what_it_does_not_know(place: str, key: str) -> None:
    changed = copy.deepcopy(manifest("jobset.yaml"))
    node = changed
    for step in place.split(".") if place else ():
        node = node[int(step) if step.isdigit() else step]
    node[key] = "x"
    assert any(f"'{key}' was unexpected" in fault for fault in faults("jobset", changed))


@pytest.mark.parametrize("name", KINDS)
def test_each_pod_is_told_of_all_and_which_it_is(name: str) -> None:
    deployed = deploy(name)
    known = {f"{pod.host}:2222": (pod.job, pod.index) for pod in deployed.pods}
    assert Counter(pod.job for pod in deployed.pods) == {"chief": 1, "ps": 2, "worker": 4}
    for pod in deployed.pods:
        config = config_of(pod)
        assert config.task
        assert (config.task.type, config.task.index) == (pod.job, pod.index)
        told = {address: (job, i) for job, tasks in config.cluster.items() for i, address in tasks.items()}
        assert told == known
        assert len(control_addresses(config)) == 6
        assert len(pod.environment["TFWAVE_TOKEN"]) > 8


@pytest.mark.parametrize("name", KINDS)
def test_it_ends_with_the_chief_and_leaves_no_pod(name: str) -> None:
    deployed = deploy(name)
    assert deployed.ending == {"chief"}
    assert deployed.cleans


@pytest.mark.parametrize("name", KINDS)
def test_the_ports_are_those_that_are_listened_at(name: str) -> None:
    listed = _containers(manifest(name)["spec"])
    assert len(listed) == 3
    ports = [port for container in listed for port in container.get("ports", [])]
    assert ports
    assert all(PORTS[port["name"]] == port["containerPort"] for port in ports)


def test_the_job_of_kubeflow_says_that_it_is_of_yesterday() -> None:
    assert (EXAMPLES / "kubeflow_tfjob.yaml").read_text().startswith("# LEGACY: ")


def deploy(name: str) -> Deployed:
    return KINDS[name][1](manifest(name))


def config_of(pod: Pod) -> TfConfig:
    text = pod.environment.get("TF_CONFIG") or json.dumps(config_from_environment(pod.environment))
    return parse_tf_config(text, pod.host)


def _containers(node: Any) -> list[Any]:
    if isinstance(node, list):
        return [found for each in node for found in _containers(each)]
    if not isinstance(node, dict):
        return []
    return node.get("containers") or [found for each in node.values() for found in _containers(each)]
