"""`python -m tfwave.server`: one task of a cluster, from TF_CONFIG."""

import json
import os
import signal
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from tfwave.cli.commands import in_paragraphs
from tfwave.cli.errors import said_in_one_line
from tfwave.errors import EnforcerError
from tfwave.runtime.control.address import listening_address
from tfwave.runtime.control.credentials import find_credentials
from tfwave.runtime.control.from_env import config_from_environment
from tfwave.runtime.control.limits import DEFAULT_LIMITS, ControlLimits
from tfwave.runtime.control.tf_config import (
    SERVED_JOBS,
    VARIABLE,
    control_address,
    parse_tf_config,
    tf_config_text,
    this_task,
)
from tfwave.runtime.server import Server

_STOPS = (signal.SIGTERM, signal.SIGINT)


class Enforcer(StrEnum):
    """As `tfwave.Server` takes it."""

    auto = "auto"
    hook = "hook"
    proxy = "proxy"


def server_command(  # noqa: PLR0913, PLR0917
    program: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- PROGRAM...]",
            help="What a task that is no server runs, such as the chief, with TF_CONFIG set.",
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(metavar="FILE|-", help="Read this instead of the environment variable TF_CONFIG."),
    ] = None,
    from_env: Annotated[
        bool,
        typer.Option(
            "--from-env",
            help="Find the cluster and the task from what Kubernetes or Slurm set, with TFWAVE_JOBS.",
        ),
    ] = False,
    control: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Where plans come in: host:port or unix:/path. Else as TF_CONFIG says under tfwave.control, or at "
            "the task's port + 1000; on all interfaces if the task's host is a name.",
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="TensorFlow's port, if not the cluster's.")
    ] = None,
    enforcer: Annotated[
        Enforcer, typer.Option(help="What orders: the native hook, or a proxy, which needs no compiler.")
    ] = Enforcer.auto,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:]PORT", help="Serve Prometheus metrics there; a port alone is on loopback."
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(help="Callers must show the token in this file, or that in TFWAVE_TOKEN."),
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate of this server, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its key, PEM, without a password.")] = None,
    tls_ca: Annotated[
        Path | None, typer.Option(help="Callers must show a certificate of this authority, PEM.")
    ] = None,
    longest_deadline: Annotated[
        float, typer.Option(metavar="SECONDS", help="Callers may not have tensors held for longer.")
    ] = DEFAULT_LIMITS.longest_deadline_seconds,
    least_rate: Annotated[
        float,
        typer.Option(
            metavar="BYTES/S", help="Callers on other machines may not pace what is sent to less than this."
        ),
    ] = DEFAULT_LIMITS.least_bytes_per_second,
    as_json: Annotated[bool, typer.Option("--json", help="Say as JSON that it is ready.")] = False,
) -> None:
    """Serve one task of a cluster, a parameter server or worker, that sends in a plan's order.

    Says in one line when it is ready, and runs until SIGTERM or SIGINT.

    Control beyond this machine takes a token or TLS; a token without TLS can be read on the network.

    TensorFlow's own port is as open as ever.

    [bold]Examples[/bold]

      python -m tfwave.server

      python -m tfwave.server --token-file /secrets/token --metrics 0.0.0.0:9464

      python -m tfwave.server --tls-cert me.pem --tls-key me.key --tls-ca ca.pem --json

      python -m tfwave.server --config cluster.json --control 127.0.0.1:3222

      TFWAVE_JOBS="chief=1 ps=2 worker=4" python -m tfwave.server --from-env -- python train.py
    """
    signals = _leave_at_signals()
    # As TensorFlow's guide to parameter servers asks: the coordinator hears at once that a server is gone.
    os.environ.setdefault("GRPC_FAIL_FAST", "use_caller")
    told, where = _read(config, from_env)
    cluster = parse_tf_config(told, where)
    if program and cluster.task and cluster.task.type not in SERVED_JOBS:
        _become(program, told)
    task = this_task(cluster)
    server = Server(
        cluster.cluster,
        task.type,
        task.index,
        port=port,
        enforcer=enforcer.value,
        control=control or listening_address(control_address(cluster, task)),
        credentials=find_credentials(
            token_file=token_file, tls_cert=tls_cert, tls_key=tls_key, tls_ca=tls_ca
        ),
        limits=ControlLimits(longest_deadline, least_rate),
        metrics=metrics,
    )
    typer.echo(_ready(server, str(task), as_json))
    sys.stdout.flush()
    _wait(signals)


def main() -> None:
    """Run the command; an error is one line on standard error and exit code 2."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
    app.command(help=in_paragraphs(server_command.__doc__))(server_command)
    with said_in_one_line():
        app(prog_name="python -m tfwave.server")


def _leave_at_signals() -> int:
    """A file that can be read whenever a signal has come."""
    heard, told = os.pipe()
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told)
    for number in _STOPS:
        signal.signal(number, _leave)
    return heard


def _wait(signals: int) -> NoReturn:
    """Python leaves in the main thread only, and a signal that another thread took would not end a `pause` here."""
    while True:
        os.read(signals, 1)


def _leave(number: int, frame: Any) -> NoReturn:
    """A TensorFlow server cannot be ended, but with its process."""
    del number, frame
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _become(program: list[str], told: str) -> NoReturn:
    """The process goes on as another program."""
    try:
        os.execvpe(program[0], program, os.environ | {VARIABLE: told})  # noqa: S606
    except OSError as err:
        raise EnforcerError(f"cannot run '{program[0]}' ({err.strerror}): is it on PATH?") from err


def _read(config: str | None, from_env: bool) -> tuple[str, str]:
    """TF_CONFIG, and what to call it in errors."""
    if from_env and config is not None:
        raise EnforcerError("--from-env and --config both tell of the cluster: give one of them")
    if from_env:
        return json.dumps(config_from_environment(os.environ)), "the environment"
    if config is None:
        return tf_config_text(), VARIABLE
    try:
        data = sys.stdin.buffer.read() if config == "-" else Path(config).read_bytes()
    except OSError as err:
        raise EnforcerError(f"cannot read '{config}' ({err.strerror}): give a file as TF_CONFIG is") from err
    return data.decode(errors="replace"), "standard input" if config == "-" else f"'{config}'"


def _ready(server: Server, task: str, as_json: bool) -> str:
    where = {
        "task": task,
        "target": server.target,
        "enforcer": server.enforcer.status().enforcer,
        "control": server.control_address,
        "metrics": server.metrics_address,
    }
    if as_json:
        return json.dumps(where)
    metrics = f", metrics at http://{server.metrics_address}/metrics" if server.metrics_address else ""
    return (
        f"{task} is ready: {server.target}, ordered by the {where['enforcer']}, "
        f"control at {server.control_address}{metrics}"
    )
