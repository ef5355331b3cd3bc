"""What `tfwave` says of the inputs: each golden is a command line, its exit code and its output."""

import hashlib
import shlex
from pathlib import Path

from typer.testing import CliRunner

from tests.golden.kept import steps
from tfwave import TfwaveError
from tfwave.cli.app import app

_JOB, _SERVED = "bert_training", "vgg_inference"
_GRU, _RESNET = "gru_alone", "resnet_alone"
_GRAPHS = (
    "lstm_step_v1",
    "resnet50_step",
    "small_branches",
    "small_calls",
    "small_control_edges",
    "small_ports",
)
_POLICIES = ("tic", "tac", "fifo", "random", "reverse", "exact", "search")
_SERVER, _WORKER = (
    f"/job:{task}/device:CPU:0" for task in ("ps/replica:0/task:1", "worker/replica:0/task:0")
)
_MOST_LINES = 1700

COMMANDS = {
    "inspect_job": f"inspect {_JOB} --json",
    **{f"plan_job_{policy}": f"plan {_JOB} --policy {policy} --json" for policy in _POLICIES},
    **{
        f"plan_inference_{policy}": f"plan {_SERVED} --policy {policy} --json" for policy in ("tac", "search")
    },
    "plan_job_random_seed_3": f"plan {_JOB} --policy random --seed 3 --json",
    "plan_job_to_a_server": f"plan {_JOB} --device {_SERVER} --json",
    "plan_job_for_3_workers": f"plan {_JOB} --workers 3 --json",
    **{f"plan_{graph}": f"plan {graph}.pb --policy tic --json" for graph in _GRAPHS},
    "plan_without_transfers": "plan partitioned_step.pb --policy tic --json",
    "plan_without_times": "plan small_ports.pb --policy tac --json",
    "simulate_networks_and_workers": (
        f"simulate {_JOB} --sweep bandwidth=100mbit,10gbit --sweep workers=1,4 --json"
    ),
    "simulate_one_server": f"simulate {_JOB} --servers 1 --batch-scale 2 --latency 50us --json",
    "simulate_balanced": f"simulate {_JOB} --servers 3 --balance --policy tic --json",
    "simulate_inference": f"simulate {_SERVED} --sweep bandwidth=500mbit,2gbit --servers 1 --json",
    "balance_job": f"balance {_JOB} --json",
    "balance_job_on_3_servers": f"balance {_JOB} --servers 3 --json",
    "balance_lstm_step_v1": "balance lstm_step_v1.pb --json",
    "memory_of_the_worker": f"memory {_JOB} --device {_WORKER} --json",
    "memory_gru": f"memory {_GRU} --top 5 --json",
    "memory_resnet": f"memory {_RESNET} --top 5 --json",
    "fit_resnet": f"fit {_RESNET} --memory 60MiB --json",
    "fit_resnet_in_little": f"fit {_RESNET} --memory 48MiB --json",
    "fit_resnet_as_dymem": f"fit {_RESNET} --memory 84MiB --policy dymem --json",
    "fit_without_room": f"fit {_RESNET} --memory 32MiB --json",
    "fit_of_several_parts": f"fit {_JOB} --memory 1GiB --json",
    "waves_gru": f"waves {_GRU} --memory 16MiB --json",
    "waves_gru_in_more_memory": f"waves {_GRU} --memory 48MiB --json",
    "waves_resnet": f"waves {_RESNET} --memory 128MiB --json",
    "waves_resnet_steady": f"waves {_RESNET} --memory 80MiB --compute-share 0.3 --sync-ms 20 --pace steady --json",
    "waves_without_room": f"waves {_RESNET} --memory 16MiB --json",
    "colocate_beside": f"colocate {_GRU} {_RESNET} --memory 128MiB --json",
    "colocate_in_turn": f"colocate {_GRU} {_RESNET} --memory 70MiB --json",
    "colocate_in_groups": f"colocate {_GRU} {_GRU} --memory 16MiB --json",
    "colocate_large_in_groups": f"colocate {_RESNET} {_RESNET} --memory 160MiB --json",
    "colocate_four": f"colocate {_GRU} {_GRU} {_GRU} {_RESNET} --memory 76MiB --json",
    "colocate_without_room": f"colocate {_GRU} {_RESNET} --memory 32MiB --json",
    "colocate_by_algorithm_1": (
        f"colocate {_GRU} {_GRU} --memory 20MiB --policy algorithm1 --split-size 1MiB"
    ),
    "colocate_of_two_devices": f"colocate {_JOB} {_GRU} --memory 32MiB --json",
}
"""Golden -> arguments; where a graph is given, the fetches of its step are added."""


def said(name: str) -> str:
    """What a command says; the current directory must hold all inputs."""
    return run(COMMANDS[name])


def run(line: str) -> str:
    """The command line, its exit code and output, or its error."""
    done = CliRunner().invoke(app, [*shlex.split(line), *_fetches(line)])
    if isinstance(done.exception, TfwaveError):
        return f"tfwave {line}\nerror: {done.exception}\n"
    if not isinstance(done.exception, SystemExit | None):
        raise done.exception
    return f"tfwave {line}\nexit code {done.exit_code}\n{_kept(done.stdout)}"


def _kept(text: str) -> str:
    """Whole, or where it is long its beginning, and a digest that stands for the rest."""
    lines = text.splitlines(keepends=True)
    if len(lines) <= _MOST_LINES:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()
    rest = f"... and {len(lines) - _MOST_LINES} more lines; sha256 of all {digest}\n"
    return "".join([*lines[:_MOST_LINES], rest])


def _fetches(line: str) -> list[str]:
    step = steps().get(Path(line.split()[1]).stem)
    return [text for fetch in (step.fetches if step else ()) for text in ("--fetch", fetch)]
