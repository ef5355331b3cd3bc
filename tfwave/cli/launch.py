"""`tfwave launch`: a whole job on this machine."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from tfwave.errors import EnforcerError
from tfwave.reduce.service import Coordinator
from tfwave.runtime.background import BackgroundProcess, python_command
from tfwave.runtime.launch import local_servers, run_chief, run_workers
from tfwave.sizes import parse_size


def launch_command(  # noqa: PLR0913, PLR0917
    context: typer.Context,
    script: Annotated[Path, typer.Argument(help="The chief's program; what follows are its arguments.")],
    ps: Annotated[int | None, typer.Option(min=1, help="How many parameter servers. Default: 1.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="How many workers.")] = 2,
    reduce: Annotated[
        bool, typer.Option("--reduce", help="The program is the workers', which reduce; no servers.")
    ] = False,
    background: Annotated[
        Path | None,
        typer.Option(metavar="SCRIPT", help="A training beside the job, on what all others leave idle."),
    ] = None,
    background_memory: Annotated[
        str | None,
        typer.Option(metavar="512MiB", help="Of TensorFlow's CPU pool in it. Default: as the program says."),
    ] = None,
) -> None:
    """Run a training program on parameter servers and workers of its own, all on this machine.

    Starts `python -m tfwave.server` for each task on free ports of loopback, then the program, as the chief, with
    TF_CONFIG set. When it ends, so do they; its exit code is the command's. At Ctrl-C it has half a minute to end
    by itself, on servers that still run.

    With --reduce it runs the program once for each worker, for tfwave.keras.PartialReduce, with a coordinator.
    The exit code is 0 if all of them end well, else that of the first that did not; the others go on.

    With --background another program trains as tfwave background runs it, until the job ends: whatever
    becomes of it, the exit code is the job's. Where it fails it is started again, later each time; where its memory
    ran out, with half its batch, if it asks for that: tfwave.colocate.background_batch.

    [bold]Examples[/bold]

      tfwave launch examples/parameter_server_custom_loop.py

      tfwave launch --ps 2 --workers 4 train.py --epochs 3

      tfwave launch --reduce --workers 3 examples/partial_reduce_keras.py

      tfwave launch --background other.py --background-memory 512MiB train.py
    """
    if not script.is_file():
        raise EnforcerError(f"there is no program '{script}': give a Python file")
    if reduce and ps is not None:
        raise EnforcerError("a job that reduces has no servers: leave out --ps, or --reduce")
    if background_memory is not None and background is None:
        raise EnforcerError("--background-memory is that of another training: give it as --background SCRIPT")
    command = [sys.executable, str(script), *context.args]
    memory = None if background_memory is None else parse_size(background_memory)
    with _beside(background, memory):
        if reduce:
            with Coordinator() as coordinator:
                raise typer.Exit(run_workers(workers, command, coordinator.address))
        with local_servers(ps or 1, workers) as job:
            raise typer.Exit(run_chief(job, command))


@contextmanager
def _beside(background: Path | None, memory_bytes: int | None) -> Generator[None]:
    """Run a program on what is left idle, as long as the block runs."""
    if background is None:
        yield
        return
    process = BackgroundProcess(python_command([background]), memory_bytes, restarts=True)
    try:
        yield
    finally:
        process.end()
