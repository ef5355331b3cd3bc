"""The text form of a pipeline: ``recv_priority,ack_window{window=2},control_edges``.

A value is JSON (``2``, ``0.5``, ``true``, ``"text"``, ``["a","b"]``) or a bare word, read as text. Which options
there are, of which type, is what the dataclass of the pass says.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tfwave.errors import PassError, excerpt
from tfwave.passes.base import GraphPass
from tfwave.passes.pipeline import Instrument, Pipeline
from tfwave.passes.planned import Planner, planned
from tfwave.passes.registry import find_pass
from tfwave.plan.plan import Plan
from tfwave.planner.uncaptured import plan_graph

_NAME = re.compile(r"[\w.:]+")
_WORD = re.compile(r"\w+")
_BARE = re.compile(r"[^\s,{}\"\[\]]+")


def parse_pipeline(
    text: str,
    plan: Plan | None = None,
    instruments: tuple[Instrument, ...] = (),
    planner: Planner = plan_graph,
) -> Pipeline:
    """Read a pipeline; `plan` goes to the passes that take one.

    For ``recv_priority{policy=tic}`` `planner` makes a plan of the graph that comes into the pass: by default from
    the graph alone; with times, ``functools.partial(plan_graph, costs="costs.json")``.

    Raises:
        PassError: bad syntax (shows where), an unknown pass or option, a value of a wrong type, no plan given, or
            one where a pass plans by itself.
        TfwaveError: an unknown policy.
    """
    reader = _Reader(text)
    passes = [planned(_read_pass(reader, plan), plan, planner)]
    while not reader.at_end:
        reader.take(",")
        passes.append(planned(_read_pass(reader, plan), plan, planner))
    return Pipeline(tuple(passes), instruments)


def build_pass(name: str, options: Mapping[str, Any], plan: Plan | None = None) -> GraphPass:
    """A pass from its name and options; `plan` for the field of that type, if it has one.

    Raises:
        PassError: an unknown pass or option, a value of a wrong type, no plan given.
    """
    kind = find_pass(name)
    types = kind.options()
    values = {option: _checked(name, types, option, value) for option, value in options.items()}
    for field in fields(kind):
        if field.name not in types:
            values[field.name] = _needed(plan, name) if field.default is MISSING else plan
        elif field.name not in values and field.default is MISSING:
            raise PassError(f"the pass {name} needs the option '{field.name}': {name}{{{field.name}=...}}")
    return kind(**values)


def _needed(plan: Plan | None, name: str) -> Plan:
    if plan is None:
        raise PassError(
            f"the pass {name} needs a plan: give --plan FILE, as `tfwave plan` writes it, or "
            "parse_pipeline(text, plan)"
        )
    return plan


def _checked(name: str, types: Mapping[str, Any], option: str, value: Any) -> Any:
    if option not in types:
        raise PassError(
            f"the pass {name} has no option '{option}'; its options: {', '.join(types) or 'none'}"
        )
    try:
        return TypeAdapter(types[option]).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise PassError(f"{name}{{{option}={excerpt(json.dumps(value))}}}: {reason}") from error


def _read_pass(reader: "_Reader", plan: Plan | None) -> GraphPass:
    name = reader.take_match(_NAME, "the name of a pass")
    options: dict[str, Any] = {}
    end = "}" if reader.skip("{") else ""
    while end and not reader.skip(end):
        if options:
            reader.take(",")
        option = reader.take_match(_WORD, "an option")
        if option in options:
            raise PassError(f"the pass {name} has the option '{option}' twice: leave one out")
        reader.take("=")
        options[option] = reader.take_value()
    return build_pass(name, options, plan)


@dataclass
class _Reader:
    """A text with a position, before which all is read."""

    text: str
    position: int = 0

    @property
    def at_end(self) -> bool:
        self._skip_space()
        return self.position == len(self.text)

    def skip(self, symbol: str) -> bool:
        """Read `symbol` if it comes next."""
        self._skip_space()
        found = self.text.startswith(symbol, self.position)
        self.position += len(symbol) if found else 0
        return found

    def take(self, symbol: str) -> None:
        if not self.skip(symbol):
            raise self._error(f"'{symbol}'")

    def take_match(self, pattern: re.Pattern[str], wanted: str) -> str:
        self._skip_space()
        found = pattern.match(self.text, self.position)
        if found is None:
            raise self._error(wanted)
        self.position = found.end()
        return found[0]

    def take_value(self) -> Any:
        self._skip_space()
        try:
            value, self.position = json.JSONDecoder().raw_decode(self.text, self.position)
        except (ValueError, RecursionError):
            return self.take_match(_BARE, "a value")
        return value

    def _skip_space(self) -> None:
        while self.text[self.position : self.position + 1].isspace():
            self.position += 1

    def _error(self, wanted: str) -> PassError:
        found = self.text[self.position : self.position + 12] or "the end"
        before = self.text[: self.position]
        line, column = before.count("\n"), self.position - (before.rfind("\n") + 1)
        where = f"line {line + 1}, column {column + 1}" if line else f"column {column + 1}"
        return PassError(
            f"cannot read the passes '{excerpt(self.text, self.position)}': {where} should be {wanted}, "
            f"it is '{found}'"
        )
