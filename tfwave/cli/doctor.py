"""`tfwave doctor`: what works on this machine, and how to mend what does not."""

import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import typer
from rich.progress import Progress

from tfwave.cli.output import JsonFlag, print_json, print_table, progress_console
from tfwave.demo.network import NamespaceNetwork
from tfwave.errors import TfwaveError
from tfwave.runtime.compiler import find_compiler
from tfwave.runtime.native import ensure_built, tensorflow_version


@dataclass(frozen=True)
class Check:
    """One thing looked at: what was found, and, where it is not well, how to mend it."""

    name: str
    ok: bool
    needed: bool
    found: str


def doctor_command(as_json: JsonFlag = False) -> None:
    """Say what works on this machine: TensorFlow, compiler, native library, namespaces.

    Exits with code 2 if something is missing that tfwave cannot do without.

    [bold]Examples[/bold]

      tfwave doctor

      tfwave doctor --json
    """
    checks = list(_checks())
    if as_json:
        print_json([asdict(check) for check in checks])
    else:
        rows = [("ok" if c.ok else "MISSING" if c.needed else "absent", c.name, c.found) for c in checks]
        print_table("this machine", ["", "what", "found"], rows, words=["what", "found"])
    if any(check.needed and not check.ok for check in checks):
        raise typer.Exit(2)


def _checks() -> Iterator[Check]:
    yield Check("Python", sys.version_info >= (3, 11), True, platform.python_version())
    yield _check("TensorFlow", tensorflow_version)
    yield _check("C++ compiler", lambda: find_compiler().version, needed=False)
    yield _check("native library", _library, needed=False)
    reason = NamespaceNetwork.available()
    yield Check("network namespaces (for the demo's link)", reason is None, False, reason or "usable")


def _check(name: str, find: Callable[[], str], *, needed: bool = True) -> Check:
    try:
        return Check(name, True, needed, find())
    except TfwaveError as error:
        return Check(name, False, needed, str(error))


def _library() -> str:
    with Progress(console=progress_console, transient=True) as bar:
        task = bar.add_task("building the native library", total=None)
        return str(ensure_built(lambda done, total, what: bar.update(task, completed=done, total=total)))
