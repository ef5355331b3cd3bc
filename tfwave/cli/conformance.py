"""`tfwave conformance`: was the order kept in a run?"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tfwave.cli.output import JsonFlag, print_json, print_table
from tfwave.report.conformance import Conformance, conformance
from tfwave.report.run import load_run


def conformance_command(
    run: Annotated[Path, typer.Argument(help="A run's directory, such as demo-run.", metavar="RUN")],
    as_json: JsonFlag = False,
) -> None:
    """Compare the planned order with the hand-offs that the hook logged.

    Exits with code 1 if a step that ran under the plan did not keep it.

    [bold]Examples[/bold]

      tfwave conformance demo-run

      tfwave conformance demo-run --json
    """
    judged = {mode: conformance(hand_offs) for mode, hand_offs in load_run(run).items()}
    if as_json:
        print_json({mode: asdict(figures) | {"exact": figures.exact} for mode, figures in judged.items()})
    else:
        print_conformance(judged)
    if not judged["ordered"].exact:
        raise typer.Exit(1)


def print_conformance(judged: dict[str, Conformance]) -> None:
    """Show figures by mode; a step is one step on one channel."""
    print_table(
        "hand-offs against the plan",
        ["mode", "steps", "exact", "inversions", "share of pairs", "late", "released"],
        [
            (mode, c.steps, c.exact_steps, c.inversions, f"{c.inversion_share:.1%}", c.late, c.released)
            for mode, c in judged.items()
        ],
    )
