"""All commands by name: what `tfwave --help` says of each, and where it lives; it is imported when it is called."""

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.main import get_group

_OF_A_PROGRAM = {"allow_extra_args": True, "allow_interspersed_args": False}
"""Settings of a command whose last arguments are a program's own, also those that are named as its options."""


@dataclass(frozen=True)
class Command:
    """Where a command lives, `module:name` in `tfwave.cli`, and the first paragraph of what it says of itself."""

    home: str
    told: str
    settings: dict[str, Any] = field(default_factory=dict[str, Any])


COMMANDS = {
    "doctor": Command(
        "doctor:doctor_command",
        "Say what works on this machine: TensorFlow, compiler, native library, namespaces.",
    ),
    "inspect": Command(
        "inspect:inspect_command",
        "Show the nodes, devices and transfers of a graph or a capture bundle; or what a plan says.",
    ),
    "plan": Command(
        "plan:plan_command",
        "Order the transfers of a graph, and say what that should give.",
    ),
    "balance": Command(
        "balance:balance_command",
        "Show what each parameter server has to do, and place the variables so that none has more than the others.",
    ),
    "simulate": Command(
        "simulate:simulate_command",
        "Simulate a step as captured and with other networks, servers, workers or batches, ordered and unordered.",
    ),
    "memory": Command(
        "memory:memory_command",
        "Show what a captured step holds in memory: the peak, the least pool, the curve, and the largest tensors.",
    ),
    "fit": Command(
        "fit:fit_command",
        "Tell whether a captured training step fits into a memory, and what makes it fit: a forecast.",
    ),
    "waves": Command(
        "waves:waves_command",
        "Tell whether waves of a captured step would help in a memory: tick-tock against one larger batch.",
    ),
    "embeddings": Command(
        "embeddings:embeddings_command",
        "Forecast what staged steps of embedding tables take on a network, and say how to stage them.",
    ),
    "colocate": Command(
        "colocate:colocate_command",
        "Tell whether captured jobs fit into one memory together, and how they would run there.",
    ),
    "stragglers": Command(
        "stragglers:stragglers_command",
        "Forecast how long reduces wait for stragglers, who joins them, and how many gradients a second there are.",
    ),
    "timeline-diff": Command(
        "timeline_diff:timeline_diff_command",
        "Compare when things begin and how long they take: medians of captured steps, or simulated ones.",
    ),
    "rewrite": Command(
        "rewrite:rewrite_command",
        "Run graph passes and write what comes out; the input is left as it is.",
    ),
    "undo": Command(
        "rewrite:undo_command",
        "Take back all that tfwave did to a graph: the pass 'strip'.",
    ),
    "merge": Command(
        "merge:merge_command",
        "Put the graphs of several jobs into one, with nothing in common.",
    ),
    "diff": Command(
        "diff:diff_command",
        "Compare two graphs by node, whatever order the nodes are in. Exit code 1 if they differ.",
    ),
    "passes": Command(
        "passes:passes_command",
        "List the graph passes with their options.",
    ),
    "launch": Command(
        "launch:launch_command",
        "Run a training program on parameter servers and workers of its own, all on this machine.",
        _OF_A_PROGRAM,
    ),
    "background": Command(
        "background:background_command",
        "Run a training program on what everything else on this machine leaves idle, with no need of root.",
        _OF_A_PROGRAM,
    ),
    "demo": Command(
        "demo:demo_command",
        "Run a real parameter-server job unordered and in tfwave's order, in turn, and compare.",
    ),
    "conformance": Command(
        "conformance:conformance_command",
        "Compare the planned order with the hand-offs that the hook logged, each channel by its discipline's rule.",
    ),
    "report": Command(
        "report:report_command",
        "Write one page: is it worth it, was the order kept, what do I set.",
    ),
    "burst": Command(
        "burst:burst_app",
        "Give each layer of a model its own number of devices (burst parallelism).",
    ),
}
"""In the sequence of `tfwave --help`."""


def in_paragraphs(text: str | None) -> str:
    """A docstring with each paragraph in one line, as far in as it was."""
    paragraphs = inspect.cleandoc(text or "").split("\n\n")
    return "\n\n".join(
        " ".join([first, *map(str.strip, more)]) for first, *more in map(str.splitlines, paragraphs)
    )


class Imported(Mapping[str, Any]):
    """The commands themselves, as Click has them; each is imported when it is looked up."""

    def __getitem__(self, name: str) -> Any:
        return _imported(name)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


@cache
def _imported(name: str) -> Any:
    command = COMMANDS[name]
    module, _, attribute = command.home.partition(":")
    found = getattr(import_module(f"tfwave.cli.{module}"), attribute)
    parent = typer.Typer(rich_markup_mode="rich", pretty_exceptions_enable=False)
    if isinstance(found, typer.Typer):
        parent.add_typer(found, name=name)
    else:
        parent.command(name, context_settings=command.settings)(found)
    made = get_group(parent).commands[name]
    _unwrap_help(made)
    return made


def _unwrap_help(command: Any) -> None:
    """Of a command and those that it has: a terminal wraps its lines itself."""
    command.help = in_paragraphs(command.help)
    for part in getattr(command, "commands", {}).values():
        _unwrap_help(part)
