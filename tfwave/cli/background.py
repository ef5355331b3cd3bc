"""`tfwave background`: a training that takes only what all others leave."""

from pathlib import Path
from typing import Annotated

import typer

from tfwave.runtime.background import BackgroundProcess, python_command
from tfwave.runtime.termination import exit_on_sigterm
from tfwave.sizes import parse_size


def background_command(
    context: typer.Context,
    script: Annotated[Path, typer.Argument(help="A training program; what follows are its arguments.")],
    memory: Annotated[
        str | None,
        typer.Option(metavar="512MiB", help="Of TensorFlow's CPU pool in it. Default: as the program says."),
    ] = None,
) -> None:
    """Run a training program on what everything else on this machine leaves idle, with no need of root.

    Its threads run where nobody else wants a core (SCHED_IDLE); it says at its start what that came to. Its exit
    code is the command's; Ctrl-C, SIGTERM or the end of the command end it. To have a foreground's steps timed, and
    the training paused where it slows them, start it in the foreground's program: tfwave.colocate.Background.

    [bold]Examples[/bold]

      tfwave background train.py --epochs 3

      tfwave background --memory 512MiB train.py
    """
    command = python_command([script, *context.args])
    with exit_on_sigterm():
        process = BackgroundProcess(command, None if memory is None else parse_size(memory))
        try:
            code = process.wait()
        finally:
            process.end()
    raise typer.Exit(code)
