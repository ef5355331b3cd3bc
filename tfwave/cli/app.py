"""The `tfwave` command: one file per sub-command, imported when it is called."""

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from tfwave.cli.commands import COMMANDS, Imported
from tfwave.cli.errors import said_in_one_line
from tfwave.version import __version__


class _Tfwave(TyperGroup):
    """Help needs the table of commands only; a call imports the one that is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = Imported()

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = COMMANDS.get(cmd_name)
        return command and TyperCommand(cmd_name, help=command.told)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, told, rest = super().resolve_command(ctx, args)
        return name, told and self.commands[name], rest


app = typer.Typer(
    name="tfwave",
    cls=_Tfwave,
    help="Move the tensors and the memory of a TensorFlow job in the right order, on the stock pip wheel.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tfwave {__version__}")
        raise typer.Exit


def _common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Say the version, and end."),
    ] = False,
) -> None:
    """What every command takes."""


app.callback()(_common)


def main() -> None:
    """Run the command line; an error is one line on standard error and exit code 2.

    Modules that are named on it, as ``module:function``, may lie in the working directory, too, unless Python was
    told to look for none there (``-P``).
    """
    if not sys.flags.safe_path and "" not in sys.path:
        sys.path.append("")
    with said_in_one_line():
        app()
