"""The command line as Markdown, each command with what it takes; TensorFlow is not imported."""

import re
from collections.abc import Iterator
from inspect import cleandoc
from typing import Any

from typer.main import get_command

from tests.golden.cli import leaves, shown_type
from tfwave.cli.app import app

_BOLD = re.compile(r"\[bold\](.+?)\[/bold\]")
_EXAMPLE = re.compile(r"^ {2}(?=\S)", re.MULTILINE)


def commands_page() -> str:
    """All commands, in the sequence of `tfwave --help`."""
    commands: dict[str, Any] = vars(get_command(app))["commands"]
    head = "# All commands and their options\n\nWhat `--help` says of each.\n"
    return head + "".join(
        f"\n{line}\n" for name, command in leaves(commands) for line in _command(name, command)
    )


def _command(name: str, command: Any) -> Iterator[str]:
    yield f"## `tfwave {name}`"
    yield _help(command.callback.__doc__ or "")
    rows = [_row(parameter, shown_type(command, parameter)) for parameter in command.params]
    yield "\n".join(["| takes | what |", "|---|---|", *rows])


def _help(text: str) -> str:
    """The commands' own markup as Markdown: what is bold, and examples as a block."""
    told, bold, examples = cleandoc(text).partition("[bold]Examples[/bold]")
    lines = [line.strip() for line in examples.splitlines() if line.strip()]
    block = "\n".join(["```console", *lines, "```"])
    told = _BOLD.sub(r"**\1**", told.replace("\\[", "[")).strip()
    return f"{told}\n\n{block}" if bold else told


def _row(parameter: Any, kind: str) -> str:
    flags = [flag for flag in (*parameter.opts, *parameter.secondary_opts) if flag.startswith("-")]
    taken = [f"`{flag}`" for flag in flags] or [f"`{parameter.metavar or parameter.name.upper()}`"]
    told = f"{getattr(parameter, 'help', None) or ''} {_value(parameter, kind)}".strip()
    return f"| {_cell('<br>'.join(taken))} | {_cell(told)} |"


def _value(parameter: Any, kind: str) -> str:
    """In brackets: what is taken, beside True, and what it is without being given."""
    kinds = kind.removesuffix(" | None").replace("pathlib.Path", "path").replace("Path", "path")
    parts = [] if kinds == "bool" else [f"`{kinds}`"]
    if parameter.required:
        parts.append("must be given")
    elif parameter.default not in (None, False, (), ""):
        parts.append(f"default `{parameter.default}`")
    return f"({', '.join(parts)})" if parts else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
