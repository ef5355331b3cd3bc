"""The commands and the passes as text, with their options."""

from collections.abc import Iterator
from enum import Enum
from typing import Any, get_type_hints

from typer.main import get_command

from tfwave.cli.app import app
from tfwave.passes.catalogue import catalogue


def public_commands() -> str:
    """Each command with its arguments and options: names, type, default."""
    commands: dict[str, Any] = vars(get_command(app))["commands"]
    return "".join(f"{line}\n" for name, command in leaves(commands) for line in _command(name, command))


def public_passes() -> str:
    """Each pass with its options."""
    lines: list[str] = []
    for doc in catalogue():
        lines.append(f"{doc.name}{' (takes a plan)' * doc.needs_plan}")
        lines += [
            _line(option.name, option.type, option.default, is_required=option.default is None)
            for option in doc.options
        ]
    return "".join(f"{line}\n" for line in lines)


def leaves(commands: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Those that do something, by the words that call them."""
    for name, command in commands.items():
        of_group: dict[str, Any] = vars(command).get("commands", {})
        yield from (
            [(f"{name} {word}", leaf) for word, leaf in leaves(of_group)] if of_group else [(name, command)]
        )


def _command(name: str, command: Any) -> Iterator[str]:
    yield f"tfwave {name}"
    for parameter in command.params:
        flags = [name for name in (*parameter.opts, *parameter.secondary_opts) if name.startswith("-")]
        title = ", ".join(flags) or parameter.metavar or parameter.name.upper()
        yield _line(title, shown_type(command, parameter), parameter.default, is_required=parameter.required)


def shown_type(command: Any, parameter: Any) -> str:
    """What a parameter is for Python, or the values that it may have."""
    kind = get_type_hints(command.callback)[parameter.name]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return "|".join(map(str, kind))
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _line(title: str, kind: str, default: object, *, is_required: bool) -> str:
    shown = "" if default is None else f" = {str(default) or repr(default)}"
    return f"    {title}: {kind}{', must be given' if is_required else shown}"
