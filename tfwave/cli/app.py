"""The `tfwave` command: one file per sub-command."""

from typing import Annotated

import typer

from tfwave.cli.background import background_command
from tfwave.cli.balance import balance_command
from tfwave.cli.burst import burst_app
from tfwave.cli.colocate import colocate_command
from tfwave.cli.conformance import conformance_command
from tfwave.cli.demo import demo_command
from tfwave.cli.diff import diff_command
from tfwave.cli.doctor import doctor_command
from tfwave.cli.embeddings import embeddings_command
from tfwave.cli.errors import said_in_one_line
from tfwave.cli.fit import fit_command
from tfwave.cli.inspect import inspect_command
from tfwave.cli.launch import CONTEXT as LAUNCH_CONTEXT
from tfwave.cli.launch import launch_command
from tfwave.cli.memory import memory_command
from tfwave.cli.merge import merge_command
from tfwave.cli.passes import passes_command
from tfwave.cli.plan import plan_command
from tfwave.cli.report import report_command
from tfwave.cli.rewrite import rewrite_command, undo_command
from tfwave.cli.simulate import simulate_command
from tfwave.cli.stragglers import stragglers_command
from tfwave.cli.timeline_diff import timeline_diff_command
from tfwave.cli.waves import waves_command
from tfwave.version import __version__

app = typer.Typer(
    name="tfwave",
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
app.command("doctor")(doctor_command)
app.command("inspect")(inspect_command)
app.command("plan")(plan_command)
app.command("balance")(balance_command)
app.command("simulate")(simulate_command)
app.command("memory")(memory_command)
app.command("fit")(fit_command)
app.command("waves")(waves_command)
app.add_typer(burst_app, name="burst")
app.command("embeddings")(embeddings_command)
app.command("colocate")(colocate_command)
app.command("stragglers")(stragglers_command)
app.command("timeline-diff")(timeline_diff_command)
app.command("rewrite")(rewrite_command)
app.command("undo")(undo_command)
app.command("merge")(merge_command)
app.command("diff")(diff_command)
app.command("passes")(passes_command)
app.command("launch", context_settings=LAUNCH_CONTEXT)(launch_command)
app.command("background", context_settings=LAUNCH_CONTEXT)(background_command)
app.command("demo")(demo_command)
app.command("conformance")(conformance_command)
app.command("report")(report_command)


def main() -> None:
    """Run the command line; an error is one line on standard error and exit code 2."""
    with said_in_one_line():
        app()
