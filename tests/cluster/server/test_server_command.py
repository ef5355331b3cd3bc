"""`python -m tfwave.server`: a job served by it, under fire; and what it refuses."""

import json
import os
import signal
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.cluster.job import run_chief
from tests.cluster.model import VARIABLES, Model, build, by_step, plan_of, sends
from tests.cluster.server.chief import STEPS
from tests.cluster.server.server_command import (
    Job,
    command,
    forked,
    peak_bytes,
    running,
    seconds_to_end,
    tell_other_thread,
)
from tests.cluster.speaker import Process, end, read_line
from tests.controlled import flood, open_channel, raw_call
from tests.ports import free_ports
from tfwave.errors import EnforcerError
from tfwave.plan.plan import Plan
from tfwave.runtime.control.client import ControlClient
from tfwave.runtime.control.credentials import Credentials
from tfwave.runtime.control.tf_config import control_addresses, parse_tf_config

pytestmark = pytest.mark.tensorflow

TOKEN = "the-token-of-this-test"
SHOWN = (("authorization", f"Bearer {TOKEN}"),)
PS = "/job:ps/replica:0/task:0"
GIGABYTE = 1 << 30
END_SECONDS = 20


@pytest.fixture(scope="module")
def job() -> Iterator[Job]:
    with running(TOKEN) as started:
        yield started


@pytest.fixture(scope="module")
def address(job: Job) -> str:
    """Of the control service of the ps, as the chief finds it."""
    return control_addresses(parse_tf_config(json.dumps(job.config), "TF_CONFIG"))[PS]


@pytest.fixture(scope="module")
def model(job: Any) -> Model:
    """Closed by the test that ends its worker."""
    return build(job, 0, [0], "commanded")


@pytest.fixture(scope="module")
def plan(model: Model) -> Plan:
    return plan_of(sends(model.partitions([model.loss, model.train])), seed=1, source=PS)


@pytest.fixture
def control(address: str) -> Iterator[ControlClient]:
    with ControlClient(address, credentials=Credentials(TOKEN)) as client:
        yield client
        client.remove()


def test_it_says_where_it_is(job: Job, address: str) -> None:
    target = "grpc://" + job.config["cluster"]["ps"][0]
    assert job.ready == {
        "task": "ps:0",
        "target": target,
        "enforcer": "hook",
        "control": address,
        "metrics": job.ready["metrics"],
    }


def test_a_plan_is_kept_and_counted(job: Job, model: Model, plan: Plan, control: ControlClient) -> None:
    control.install(plan)
    before = _metric(job, "tfwave_ordered_transfers_total")
    model.step(3)
    assert [ranks for ranks, _ in by_step(control.hand_offs())] == [list(range(VARIABLES))] * 3
    assert _metric(job, "tfwave_ordered_transfers_total") == before + 3 * VARIABLES
    assert _metric(job, "tfwave_plan_installed") == 1


def _metric(job: Job, name: str) -> float:
    with urllib.request.urlopen(f"http://{job.ready['metrics']}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    (value,) = [line.split()[1] for line in lines if line.startswith(name + '{job="ps",task="0"}')]
    return float(value)


def test_a_thousand_calls_do_not_disturb_running_steps(
    address: str, model: Model, plan: Plan, control: ControlClient
) -> None:
    def losses() -> list[float]:
        model.session.run("init")
        return model.step(100)

    quiet = losses()
    control.install(plan)
    with ThreadPoolExecutor(1) as pool:
        under_fire = pool.submit(losses)
        codes = Counter(call.code() for call in flood(address, 1000, SHOWN))
        assert under_fire.result(200) == quiet
    assert codes.keys() == {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}
    counters = control.health().counters
    assert (counters.held, counters.live_steps, counters.deadlines) == (0, 0, 0)
    steps = [ranks for ranks, _ in by_step(control.hand_offs()) if len(ranks) == VARIABLES]
    assert steps == [list(range(VARIABLES))] * 100


def test_a_gigabyte_is_refused_and_never_held(
    job: Job, address: str, model: Model, control: ControlClient
) -> None:
    peak, body = peak_bytes(job.ps), bytes(GIGABYTE)
    with open_channel(address) as channel:
        assert raw_call(channel, "Install", body, SHOWN).code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert raw_call(channel, "Install", body).code() == grpc.StatusCode.UNAUTHENTICATED
    assert peak_bytes(job.ps) - peak < GIGABYTE / 16
    assert not control.health().installed
    model.step()


def test_a_wrong_token(address: str, model: Model, plan: Plan, control: ControlClient) -> None:
    control.install(plan)
    for wrong in (None, Credentials(TOKEN[:-1] + "T")):
        with (
            ControlClient(address, credentials=wrong) as stranger,
            pytest.raises(EnforcerError, match=f"{address} refuses this client"),
        ):
            stranger.remove()
    assert control.health().installed
    model.step()


def test_a_cluster_coordinator_trains(job: Job, plan: Plan, control: ControlClient) -> None:
    before = control.install(plan).counters.unplanned
    config = job.config | {"task": {"type": "chief", "index": 0}}
    losses = run_chief("tests.cluster.server.chief", variables={"TF_CONFIG": json.dumps(config)})
    assert len(losses) == STEPS
    assert losses == sorted(losses, reverse=True)
    assert len(set(losses)) == STEPS
    assert control.health().counters.unplanned > before  # the hook saw its transfers


def refusal(process: Process) -> str:
    """Its last line, once it has ended with code 2."""
    out, err = process.communicate(timeout=200)
    assert (process.returncode, out) == (2, ""), err
    assert "Traceback" not in err
    last = err.splitlines()[-1]
    assert last.startswith("tfwave: error: ")
    return last


def test_ports_in_use(job: Job, address: str) -> None:
    config = job.config | {"task": {"type": "ps", "index": 0}}
    port = config["cluster"]["ps"][0].rpartition(":")[2]
    secret = {"TFWAVE_TOKEN": TOKEN}
    started = {
        f"control address '{address}' is in use": forked(config, environment=secret),
        f"no TensorFlow server starts at localhost:{port}": forked(config, "--control", "127.0.0.1:0"),
    }
    for why, process in started.items():
        assert why in refusal(process)


def test_it_ends_when_told(job: Job, model: Model) -> None:
    model.session.close()
    for process, number in ((job.ps, signal.SIGTERM), (job.worker, signal.SIGINT)):
        assert seconds_to_end(process, number) < END_SECONDS
        assert process.returncode == 0
        assert process.stderr
        assert TOKEN not in process.stderr.read()


def test_published_control_tls_files_and_a_config_file(tmp_path: Path) -> None:
    from tests.tls import authority

    ours = authority(tmp_path, "ours")
    cert, key = ours.signed("server")
    tensorflow, wanted = free_ports(2)
    config = {
        "cluster": {"worker": [f"127.0.0.1:{tensorflow}"]},
        "task": {"type": "worker", "index": 0},
        "tfwave": {"control": {"worker": [f"{os.uname().nodename}:{wanted}"]}},
    }
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    process = command(
        None,
        *("--config", str(file), "--tls-cert", str(cert), "--tls-key", str(key), "--tls-ca", str(ours.cert)),
    )
    try:
        line = read_line(process)
        assert line == (
            f"worker:0 is ready: grpc://127.0.0.1:{tensorflow}, ordered by the hook, control at 0.0.0.0:{wanted}\n"
        )
        with ControlClient(f"localhost:{wanted}", credentials=ours.mutual("chief")) as client:
            assert client.health().enforcer == "hook"
        with (
            ControlClient(f"localhost:{wanted}") as stranger,
            pytest.raises(EnforcerError, match="no control service answers"),
        ):
            stranger.health()
        tell_other_thread(process, signal.SIGTERM)
        assert process.wait(END_SECONDS) == 0
    finally:
        end(process)


CLUSTER = {"ps": ["ps-0.example:2222"], "worker": ["127.0.0.1:2222"]}


@pytest.mark.parametrize(
    ("config", "arguments", "why"),
    [
        (None, (), "TF_CONFIG is not set"),
        ("{'cluster'", (), "TF_CONFIG is malformed: Invalid JSON"),
        (None, ("--config", "nowhere"), "cannot read 'nowhere' (No such file or directory)"),
        (None, ("--config", "-"), "standard input is malformed: Invalid JSON"),
        ({"cluster": CLUSTER}, (), "names no task"),
        ({"cluster": CLUSTER, "task": {"type": "ps", "index": 3}}, (), "ps:3 is not in the cluster"),
        ({"cluster": CLUSTER, "task": {"type": "chief", "index": 0}}, (), "runs a program of its own"),
        ({"cluster": CLUSTER, "task": {"type": "ps"}}, (), "control address '0.0.0.0:3222' is refused"),
        (
            {"cluster": CLUSTER, "task": {"type": "ps"}},
            ("--token-file", "nowhere"),
            "token file 'nowhere' cannot be read",
        ),
    ],
)
def test_what_it_refuses(config: Any, arguments: tuple[str, ...], why: str) -> None:
    process = command(config, *arguments)
    out, err = process.communicate(timeout=200)
    assert (process.returncode, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith("tfwave: error: ")
    assert why in err


def test_without_a_compiler(tmp_path: Path) -> None:
    """Then only the hook is refused; left alone, it takes the proxy (`test_distribute`)."""
    config = {"cluster": CLUSTER, "task": {"type": "worker", "index": 0}}
    bare = {"PATH": str(tmp_path), "CXX": "", "TFWAVE_CACHE_DIR": str(tmp_path)}
    refused = refusal(forked(config, "--enforcer", "hook", environment=bare))
    assert "no C++ compiler: install g++" in refused


def test_help_has_examples() -> None:
    process = command(None, "--help")
    out, _ = process.communicate(timeout=200)
    assert process.returncode == 0
    assert "python -m tfwave.server --token-file" in out
