"""The errors tfwave raises. Each message names the thing at fault and the way out, in one line."""

from collections.abc import Iterator

LONGEST_QUOTE = 200
"""A message repeats no more characters of what it was given."""


def excerpt(text: str, place: int = 0) -> str:
    """What a message repeats of a text, in one line: all of it, or what is around a place, dots for the rest."""
    start = max(0, min(place - LONGEST_QUOTE // 2, len(text) - LONGEST_QUOTE))
    end = start + LONGEST_QUOTE
    shown = " ".join(text[start:end].split())
    return "..." * (start > 0) + shown + "..." * (end < len(text))


def origins(error: BaseException | None) -> Iterator[BaseException]:
    """An error, what it came from, and so on, each once: ``raise error from error`` makes a ring of them."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        before = error.__cause__ or error.__context__
        yield error
        error = before


class TfwaveError(Exception):
    """Base of all errors that tfwave raises on purpose; the CLI prints it and exits with code 2."""


class GraphError(TfwaveError):
    """A graph that cannot be read, or is malformed: names the node."""


class CostError(TfwaveError):
    """Costs that cannot be read, or are negative or not a number: names the op."""


class MissingCost(CostError):
    """No cost is known for an op or transfer: names it."""


class PassError(TfwaveError):
    """A graph pass that is not known, has a wrong option, or failed: names it and the passes before it."""


class PlanError(TfwaveError):
    """A plan that cannot be read, has gaps or duplicates, or was made for another graph."""


class BundleError(TfwaveError):
    """A capture bundle or run directory that cannot be read or written."""


class CheckpointError(TfwaveError):
    """A checkpoint of a pool's jobs that cannot be read or written, or is that of another job or pool."""


class EnforcerError(TfwaveError):
    """The run-time part could not be built, loaded, reached or obeyed."""


class EnvironmentUnsupported(TfwaveError):
    """This machine lacks something (TensorFlow, a compiler, root): names it and how to get it."""
