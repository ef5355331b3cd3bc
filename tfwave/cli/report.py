"""`tfwave report`: a page that says whether it is worth it, whether the order was kept, and what to set."""

from pathlib import Path
from typing import Annotated

import typer

from tfwave.bundle.bundle import is_bundle
from tfwave.cli.output import console, under_way
from tfwave.cli.outputs import check_outputs
from tfwave.report.page.fill import write_page
from tfwave.report.page.given import read_given


def report_command(
    inputs: Annotated[
        list[Path],
        typer.Argument(help="What tfwave demo wrote, capture bundles, plans.", metavar="RUN|BUNDLE|PLAN..."),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The page; report.md lies beside a report.html.")
    ] = Path("report.html"),
) -> None:
    """Write one page: is it worth it, was the order kept, what do I set.

    The page needs no network: charts, tables and their data are in it. The same facts are beside it as Markdown,
    for a chat or a pull request. Of two bundles the first was captured without an order, the second under it; with
    one bundle and a plan of its transfers, the step under the plan is simulated.

    [bold]Examples[/bold]

      tfwave report demo-run -o report.html

      tfwave report captured plan.json -o report.html
    """
    files = [path for path in inputs if is_bundle(path) or path.is_file()]  # a run may hold its page
    check_outputs(files, dict.fromkeys((output, output.parent / f"{output.stem}.md")))
    with under_way(f"writing '{output}'"):
        markdown = write_page(read_given(inputs), output)
    console.print(f"the page is '{output}', the same facts are in '{markdown}'", soft_wrap=True)
