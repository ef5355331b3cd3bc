"""Passes inside Grappler, TensorFlow's own graph optimizer, in the process that runs the graph."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from threading import Lock

from tfwave.errors import EnforcerError, TfwaveError
from tfwave.graph.view import GraphView
from tfwave.passes.base import Transform
from tfwave.proto.tensorflow_pb2 import GraphDef
from tfwave.runtime.live.grappler_plugin import Plugin, PluginCall

_REGISTERING = Lock()


@dataclass(frozen=True)
class Outcome:
    """What a pass did to one graph that Grappler showed to it.

    `fetches` and the number of `nodes` tell which graph it was; `edits` counts what the pass changed; `error` says
    why it left the graph as it was, and is empty if it did not fail.
    """

    fetches: tuple[str, ...] = ()
    nodes: int = 0
    edits: int = 0
    error: str = ""


_Failure = tuple[Outcome, BaseException]


@contextmanager
def in_grappler(graph_pass: Transform) -> Generator[list[Outcome]]:
    """Let Grappler run a pass on every graph that this process optimizes inside the block.

    That is: for a Session, where its master is (this process, or the server it connects to); for a
    `tf.function`, where it executes (here, or on the workers of a strategy). A graph is optimized when it first
    runs, and keeps for good what it got then.

    The pass sees graphs that are placed on devices, with at least one node on a CPU and at least 4 nodes;
    functions come inlined, or as graphs of their own. It is called twice per graph, other optimizers in between,
    and must find its own work done the second time. It runs in TensorFlow's threads, in several at once. What
    it edits in the function library is lost. A node that it adds without a device gets that of its first fanin.

    Grappler has taken nodes out by the first call: aliases, for one. So make the plan from a capture, whose graphs
    have been through it too: one that was made offline may name what is not there any more.

    A graph that the pass refuses or fails on runs as it is, and the job goes on:

    1. It refuses with a `TfwaveError`: a plan, or names of nodes, are those of one graph, and the job has others,
       which initialise, evaluate and read variables. This is raised at the end of the block only if the pass
       changed no graph at all; then it tells of the largest one, unless that was refused in one call and left as
       it is in the other, in which it is as planned.
    2. Any other exception is a fault of the pass. The first is raised at the end of the block.

    Yields:
        What the pass did, call by call; the list grows inside the block.

    Enter the first such block before other threads run graphs: TensorFlow registers optimizers unguarded.

    Raises:
        EnvironmentUnsupported: this TensorFlow takes no optimizer from Python; says what to do instead.
        EnforcerError: another pass is in Grappler; or, at the end of the block, cases 1 and 2.
    """
    use = _Use(graph_pass)
    with _switch().turned_to(use):
        try:
            yield use.outcomes
        except Exception as error:
            if failure := use.failure():
                error.add_note(str(failure))
            raise
    if failure := use.failure():
        raise failure


class _Use:
    """One pass while it is in Grappler."""

    def __init__(self, graph_pass: Transform) -> None:
        self._pass = graph_pass
        self._fault: _Failure | None = None
        self._refusal: _Failure | None = None
        self.outcomes: list[Outcome] = []

    def optimize(self, call: PluginCall) -> bytes | None:
        outcome, answer = Outcome(), None
        try:
            item = call.item()
            outcome = Outcome(item.fetches, len(item.graph.node))
            result = self._pass(item)
            if result.changed:
                answer = _placed(result.item.graph).SerializeToString()
            outcome = replace(outcome, edits=len(result.edits))
        except BaseException as error:  # none may cross C++, nor stop the job
            outcome = replace(outcome, error=str(error) or type(error).__name__)
            self._keep(outcome, error)
        self.outcomes.append(outcome)
        return answer

    def _keep(self, outcome: Outcome, error: BaseException) -> None:
        """The first fault, and the refusal of the largest graph: all others would keep their graphs alive."""
        if not isinstance(error, TfwaveError):
            self._fault = self._fault or (outcome, error)
        elif self._refusal is None or outcome.nodes > self._refusal[0].nodes:
            self._refusal = outcome, error

    def failure(self) -> BaseException | None:
        """What is to be raised at the end of the block."""
        failure = self._fault or (self._refusal if self._in_vain else None)
        return self._as_raised(*failure) if failure else None

    @property
    def _in_vain(self) -> bool:
        refused = self._refusal[0].fetches if self._refusal else ()
        taken = [outcome for outcome in self.outcomes if not outcome.error]
        return not any(outcome.edits or outcome.fetches == refused for outcome in taken)

    def _as_raised(self, outcome: Outcome, error: BaseException) -> BaseException:
        if not isinstance(error, Exception):
            return error
        raised = EnforcerError(
            f"the pass {self._pass} failed inside Grappler, on the graph of "
            f"{', '.join(outcome.fetches) or 'no fetch'}, which ran without it: {outcome.error}"
        )
        raised.__cause__ = error
        return raised


def _placed(graph: GraphDef) -> GraphDef:
    """A copy in which each node has a device: placement was before Grappler, and a step without one fails."""
    placed = GraphDef()
    placed.CopyFrom(graph)
    view = GraphView.of(placed)
    somewhere = next((node.device for node in placed.node if node.device), "")
    for index in view.topological_order:
        node = view.nodes[index]
        if not node.device:
            source = next(iter(view.fanins[index]), None)
            node.device = somewhere if source is None else view.nodes[source].device
    return placed


class _Switch:
    """What the process's plugin does: nothing, or the pass in use."""

    def __init__(self) -> None:
        self._use: _Use | None = None
        self._lock = Lock()
        self._plugin = Plugin(self._optimize)

    @contextmanager
    def turned_to(self, use: _Use) -> Generator[None]:
        with self._lock:
            if self._use is not None:
                raise EnforcerError("a pass is in Grappler already: put both into one Pipeline")
            self._use = use
        try:
            yield
        finally:
            self._use = None

    def _optimize(self, call: PluginCall) -> bytes | None:
        use = self._use
        return use.optimize(call) if use else None


def _switch() -> _Switch:
    with _REGISTERING:
        return _the_switch()


@cache
def _the_switch() -> _Switch:
    """The one of this process: TensorFlow takes a plugin once and for good."""
    return _Switch()
