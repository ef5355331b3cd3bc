"""TF_CONFIG: who a process is, and where plans reach each server."""

import json
import re
from typing import Any

import pytest

from tfwave.errors import EnforcerError
from tfwave.graph.names import task_of
from tfwave.runtime.control.address import listening_address
from tfwave.runtime.control.tf_config import (
    TfConfig,
    control_addresses,
    parse_tf_config,
    read_tf_config,
    this_task,
)

PS, WORKER = "/job:ps/replica:0/task:", "/job:worker/replica:0/task:"
KUBEFLOW = {
    "cluster": {
        "chief": ["job-chief-0.ns.svc:2222"],
        "ps": ["job-ps-0.ns.svc:2222", "job-ps-1.ns.svc:2222"],
        "worker": ["job-worker-0.ns.svc:2222"],
        "evaluator": ["job-evaluator-0.ns.svc:2222"],
    },
    "task": {"type": "ps", "index": 1},
    "environment": "cloud",
}


def config(**changes: Any) -> TfConfig:
    return parse_tf_config(json.dumps(KUBEFLOW | changes), "TF_CONFIG")


def refused(why: str, text: str) -> None:
    with pytest.raises(EnforcerError, match=why) as caught:
        parse_tf_config(text, "TF_CONFIG")
    assert "\n" not in str(caught.value)


def test_what_kubeflow_sets() -> None:
    read = read_tf_config({"TF_CONFIG": json.dumps(KUBEFLOW)})
    assert read == config()
    assert str(this_task(read)) == "ps:1"
    assert read.cluster["ps"] == {0: "job-ps-0.ns.svc:2222", 1: "job-ps-1.ns.svc:2222"}


def test_keys_of_others_are_passed_over() -> None:
    more = config(rpc_layer="grpc", protocol="grpc", session_master="x", model_dir="y", job={"a": 1})
    assert more == config()


def test_tasks_by_number() -> None:
    cluster = {"ps": {"1": "b:2", "0": "a:1"}, "worker": {"7": "c:3"}}
    read = config(cluster=cluster, task={"type": "worker", "index": "7"})
    assert str(this_task(read)) == "worker:7"
    assert list(control_addresses(read).items()) == [
        (f"{PS}0", "a:1001"),
        (f"{PS}1", "b:1002"),
        (f"{WORKER}7", "c:1003"),
    ]


def test_control_is_beside_tensorflow() -> None:
    addresses = control_addresses(config())
    assert list(addresses.items()) == [
        (f"{PS}0", "job-ps-0.ns.svc:3222"),
        (f"{PS}1", "job-ps-1.ns.svc:3222"),
        (f"{WORKER}0", "job-worker-0.ns.svc:3222"),
    ]
    assert addresses[task_of(f"{PS}1/device:CPU:0")] == "job-ps-1.ns.svc:3222"


@pytest.mark.parametrize(
    ("tensorflow", "control"),
    [("h:64535", "h:65535"), ("h:64536", "h:63536"), ("h:65535", "h:64535"), ("[::1]:1", "[::1]:1001")],
)
def test_the_port_stays_a_port(tensorflow: str, control: str) -> None:
    read = config(cluster={"ps": [tensorflow]})
    assert control_addresses(read) == {f"{PS}0": control}


def test_published_control_addresses_come_first() -> None:
    published = {"control": {"ps": ["a:1", "unix:/run/control"]}}
    assert list(control_addresses(config(tfwave=published)).values()) == [
        "a:1",
        "unix:/run/control",
        "job-worker-0.ns.svc:3222",
    ]


@pytest.mark.parametrize(
    ("control", "why"),
    [
        ({"ps": ["a:1"]}, "tfwave.control has no address for ps:1: list every task"),
        ({"ps": ["a:1", "b:1", "c:1"]}, "tfwave.control lists ps:2, which no server"),
        ({"worker": {"3": "a:1"}}, "tfwave.control lists worker:3, which no server"),
        ({"chief": ["a:1"]}, "tfwave.control lists chief, which no server"),
        ({"ps": ["a:1", "nowhere"]}, "control address 'nowhere' is malformed"),
    ],
)
def test_published_addresses_that_do_not_fit(control: Any, why: str) -> None:
    with pytest.raises(EnforcerError, match=why):
        control_addresses(config(tfwave={"control": control}))


def test_a_server_without_a_port() -> None:
    with pytest.raises(EnforcerError, match="the address 'alone' of ps:0 is not host:port"):
        control_addresses(config(cluster={"ps": ["alone"]}))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "TF_CONFIG is malformed: Invalid JSON"),
        ("[]", "TF_CONFIG is malformed"),
        ("{}", "TF_CONFIG is malformed: 'cluster': Field required"),
        ('{"cluster": {"ps": "a:1"}}', "'cluster' -> 'ps'"),
        ('{"cluster": {"ps": [1]}}', "'cluster' -> 'ps' -> '0'"),
        ('{"cluster": {"ps": {"-1": "a:1"}}}', "'cluster' -> 'ps' -> '-1'"),
        ('{"cluster": {}, "task": {"index": 0}}', "'task' -> 'type': Field required"),
        ('{"cluster": {}, "task": {"type": "ps", "index": -1}}', "'task' -> 'index'"),
        ('{"cluster": {}, "task": {"type": "ps", "index": "x"}}', "'task' -> 'index'"),
        ('{"cluster": {}, "tfwave": {"controls": {}}}', "'tfwave' -> 'controls'"),
    ],
)
def test_malformed(text: str, why: str) -> None:
    refused(why, text)


def test_not_set() -> None:
    for environment in ({}, {"TF_CONFIG": ""}):
        with pytest.raises(EnforcerError, match="TF_CONFIG is not set: set it to"):
            read_tf_config(environment)


@pytest.mark.parametrize(
    ("task", "why"),
    [
        (None, "names no task"),
        ({"type": "chief", "index": 0}, "the task chief:0 runs a program of its own"),
        ({"type": "evaluator", "index": 0}, "served are ps and worker"),
        ({"type": "ps", "index": 2}, "the task ps:2 is not in the cluster of TF_CONFIG, which has chief:0"),
    ],
)
def test_tasks_that_are_not_served(task: Any, why: str) -> None:
    with pytest.raises(EnforcerError, match=why):
        this_task(config(task=task))
    with pytest.raises(EnforcerError, match="which has none"):
        this_task(config(cluster={}))


@pytest.mark.parametrize(
    ("published", "listens"),
    [
        ("job-ps-0.ns.svc:3222", "0.0.0.0:3222"),
        ("localhost:1", "localhost:1"),
        ("127.0.0.1:1", "127.0.0.1:1"),
        ("10.1.2.3:1", "10.1.2.3:1"),
        ("[fd00::1]:1", "[fd00::1]:1"),
        ("unix:/run/control", "unix:/run/control"),
    ],
)
def test_where_to_listen(published: str, listens: str) -> None:
    assert listening_address(published) == listens


def test_where_to_listen_is_checked() -> None:
    with pytest.raises(ValueError, match=re.escape("'nowhere' is not host:port")):
        listening_address("nowhere")
