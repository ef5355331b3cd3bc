"""What a graph pass is: a frozen dataclass, its fields are its options."""

import hashlib
import json
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, get_type_hints

from tfwave.graph.edits import AttrSet, Edit
from tfwave.graph.item import GraphItem
from tfwave.graph.rewriter import GraphRewriter
from tfwave.graph.verify import verify
from tfwave.graph.view import GraphView
from tfwave.plan.plan import Plan

_LONGEST_SIGNATURE = 100
_PLANS = (Plan, Plan | None)
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True)
class PassResult:
    """The graph after a pass, and what the pass did to it, in order. No edit: nothing was to be done.

    `remarks` are for the user: what the edits do not say.
    """

    item: GraphItem
    edits: tuple[Edit, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether the graph differs from the one that went in."""
        return bool(self.edits)


class Transform(ABC):
    """What takes a graph and gives a graph: a pass, or a pipeline of them."""

    @abstractmethod
    def apply(self, item: GraphItem, view: GraphView) -> tuple[PassResult, GraphView]:
        """Rewrite a graph that was verified; gives the view of the result, verified too."""

    def __call__(self, item: GraphItem) -> PassResult:
        """Rewrite a graph; the one given is left as it is.

        Raises:
            GraphError: the graph is malformed, before or after.
            TfwaveError: what the pass itself raises.
        """
        return self.apply(item, verify(item))[0]


@dataclass(frozen=True)
class GraphPass(Transform):
    """One rewrite of a graph.

    A subclass is a frozen dataclass; its fields are its options, in Python and in the text form
    (``name{option=value}``). A field of type `Plan`, or `Plan | None` where a pass can do without, is no option: it
    is handed over as an object, and made of the graph where the pass has an option `policy` that names one. A pass
    implements `run`; `requires` and `ensures` are its contract, checked at each call.
    """

    name: ClassVar[str]

    def __init_subclass__(cls) -> None:
        """A class ``AckWindow`` is the pass ``ack_window``."""
        cls.name = _WORD_START.sub("_", cls.__name__).lower()

    @abstractmethod
    def run(self, graph: GraphRewriter) -> None:
        """Edit the graph. Running a pass on its own output changes nothing."""

    def requires(self, view: GraphView) -> None:
        """Raise a `TfwaveError` that names what a graph lacks to go into this pass."""

    def ensures(self, view: GraphView) -> None:
        """Raise a `TfwaveError` if a graph that came out of this pass is not as promised."""

    def apply(self, item: GraphItem, view: GraphView) -> tuple[PassResult, GraphView]:
        """Check what the pass requires, run it, verify the result, check what it ensures."""
        self.requires(view)
        result = self._rewritten(item, view)
        after = _verified(result, view)
        self.ensures(after)
        return result, after

    def _rewritten(self, item: GraphItem, view: GraphView) -> PassResult:
        rewriter = GraphRewriter(item, self._signature(), view)
        self.run(rewriter)
        return PassResult(rewriter.finish(), tuple(rewriter.edits), tuple(rewriter.remarks))

    def _signature(self) -> str:
        """What the nodes that it adds say of it: the text form, or a digest where that is long."""
        text = str(self)
        if len(text) <= _LONGEST_SIGNATURE:
            return text
        return f"{self.name}#{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    @classmethod
    def options(cls) -> dict[str, Any]:
        """The type of each option by its name, in order."""
        hints = get_type_hints(cls)
        return {field.name: hints[field.name] for field in fields(cls) if hints[field.name] not in _PLANS}

    def __str__(self) -> str:
        """The text form, without the options that have their default."""
        defaults = {field.name: field.default for field in fields(self)}
        values = {option: getattr(self, option) for option in self.options()}
        options = [
            f"{option}={json.dumps(value, separators=(',', ':'))}"
            for option, value in values.items()
            if value != defaults[option]
        ]
        return f"{self.name}{{{','.join(options)}}}" if options else self.name


def _verified(result: PassResult, before: GraphView) -> GraphView:
    """The view of a result. Notes change nothing of a graph's structure, which is then as it was."""
    if not result.changed:
        return before
    if all(isinstance(edit, AttrSet) for edit in result.edits):
        return replace(before, nodes=tuple(result.item.graph.node))
    return verify(result.item)
