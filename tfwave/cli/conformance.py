"""`tfwave conformance`: was the order kept in a run?"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tfwave.cli.output import JsonFlag, console, print_json, print_table
from tfwave.graph.names import short_channel
from tfwave.report.conformance import Conformance, conformance
from tfwave.report.page.order import said_of, summary_of
from tfwave.report.run import load_run


def conformance_command(
    run: Annotated[Path, typer.Argument(help="A run's directory, such as demo-run.", metavar="RUN")],
    as_json: JsonFlag = False,
) -> None:
    """Compare the planned order with the hand-offs that the hook logged, each channel by its discipline's rule.

    By a counter, ranks must rise in each step. By priority, none may have left while a lower rank was ready and
    waited. Exits with code 1 if a step that ran under the plan did not keep it, or if none ran.

    [bold]Examples[/bold]

      tfwave conformance demo-run

      tfwave conformance demo-run --json
    """
    judged = {mode: conformance(hand_offs) for mode, hand_offs in load_run(run).items()}
    if as_json:
        print_json({mode: asdict(figures) | {"exact": figures.exact} for mode, figures in judged.items()})
    else:
        print_conformance(judged)
        print_channels(judged)
        console.print(said_of(judged["ordered"]))
    if not judged["ordered"].exact:
        raise typer.Exit(1)


def print_conformance(judged: dict[str, Conformance]) -> None:
    """Show figures by mode."""
    summary = summary_of(judged)
    print_table("hand-offs against the plan", summary.columns, summary.rows)


def print_channels(judged: dict[str, Conformance]) -> None:
    """Show each channel's figures by mode."""
    print_table(
        "channels",
        ["mode", "channel", "discipline", "hand-offs", "violations", "exact steps"],
        [
            (mode, short_channel(c.channel), c.discipline, c.hand_offs, c.violations, f"{c.exact_share:.1%}")
            for mode, figures in judged.items()
            for c in figures.channels
        ],
        words=["channel", "discipline"],
    )
