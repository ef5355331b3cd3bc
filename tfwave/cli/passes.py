"""`tfwave passes`: what rewrites there are."""

from dataclasses import asdict

from rich.padding import Padding
from rich.text import Text

from tfwave.cli.output import JsonFlag, console, print_json
from tfwave.passes.catalogue import OptionDoc, PassDoc, catalogue


def passes_command(as_json: JsonFlag = False) -> None:
    """List the graph passes with their options.

    [bold]Examples[/bold]

      tfwave passes

      tfwave passes --json
    """
    docs = catalogue()
    if as_json:
        print_json([asdict(doc) for doc in docs])
        return
    for doc in docs:
        console.print(Text.assemble((doc.name, "bold"), _options(doc)))
        console.print(Padding(doc.summary, (0, 0, 0, 4)))
    console.print("docs/passes.md says more. A pass of your own is named as module:Class.")


def _options(doc: PassDoc) -> str:
    options = ", ".join(map(_option, doc.options))
    return f"{{{options}}}" * bool(options) + "  (takes a plan)" * doc.needs_plan


def _option(option: OptionDoc) -> str:
    shown = '""' if option.default == "" else option.default
    default = "" if option.default is None else f" = {shown}"
    return f"{option.name}: {option.type}{default}"
