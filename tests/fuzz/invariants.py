"""What must hold whatever goes in: it works, or a `TfwaveError` says why; never anything else, never for ever."""

import contextlib
import io
import os
import random
import resource
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TypeVar

from grappler_passes.ack_window import AckWindow
from grappler_passes.control_edges import ControlEdges
from grappler_passes.counter_barrier import CounterBarrier
from grappler_passes.cross_step import CrossStep
from grappler_passes.cut import Cut
from grappler_passes.recv_priority import RecvPriority
from grappler_passes.split_variables import SplitVariables
from grappler_passes.strip import Strip
from grappler_passes.tick_tock import TickTock
from grappler_passes.tick_tock_partitions import TickTockPartitions
from tests.fuzz.strategies import GONE, any_channel
from tests.plans import plan_by_hand
from tests.rewrites import graph_bytes, in_order
from tfwave.cli.app import main
from tfwave.cost.network import Network
from tfwave.cost.uniform import uniform_costs
from tfwave.errors import TfwaveError
from tfwave.graph.diff import diff
from tfwave.graph.functions.lower import lower
from tfwave.graph.item import GraphItem
from tfwave.graph.marks import is_marked
from tfwave.graph.partition.place import place
from tfwave.graph.text import canonical_bytes, canonical_text
from tfwave.graph.transfer import find_transfers
from tfwave.graph.verify import verify
from tfwave.passes.base import GraphPass, Transform
from tfwave.passes.pipeline import Pipeline
from tfwave.passes.text import parse_pipeline
from tfwave.plan.plan import Plan
from tfwave.planner import PlanRequest, make_plan
from tfwave.proto.tensorflow_pb2 import GraphDef

SECONDS = 5.0
_T = TypeVar("_T")


class Hang(BaseException):
    """A call took too long."""


@contextmanager
def time_limit(seconds: float = SECONDS) -> Generator[None]:
    """Raise `Hang` in a block that takes longer, CPU time: nothing here waits, and the machine may be busy."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise Hang(f"more than {seconds:g} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def memory_limit(more: int = 1 << 30) -> Generator[None]:
    """Let a block raise `MemoryError` rather than take this much more memory."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + more
    ends = [each for each in (limit, *before) if each != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min(ends), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def attempt(call: Callable[[], _T], *graphs: GraphDef) -> _T | None:
    """What a call gives; None where it raises a `TfwaveError`, which must name something of `graphs`, if given."""
    with time_limit():
        try:
            return call()
        except TfwaveError as error:
            said = str(error)
    assert said.strip(), "an error without a message"
    names = {name for graph in graphs for name in names_in(graph)}
    assert not names or any(name in said for name in names), f"the error names nothing: {said}"
    return None


def names_in(graph: GraphDef) -> set[str]:
    """All that an error can name: nodes, inputs, ops, devices, functions; or it says that there is no node."""
    library = graph.library.function
    nodes = [*graph.node, *(node for function in library for node in function.node_def)]
    found = {text for node in nodes for text in (node.name, node.op, node.device, *node.input)}
    found |= {function.signature.name for function in library}
    return (found - {""}) | {"no nodes", "another graph", "has no name", "''", GONE}


def check_graph(rng: random.Random, graph: GraphDef, other: GraphDef) -> None:
    """All that takes a graph."""
    before = graph.SerializeToString(deterministic=True)
    item = GraphItem(graph, fetches=_any_fetches(rng, graph))
    attempt(lambda: canonical_text(graph), graph)
    attempt(lambda: canonical_bytes(graph), graph)
    same = attempt(lambda: diff(graph, graph), graph)
    assert same is None or same.equal
    attempt(lambda: diff(graph, other), graph, other)
    attempt(lambda: place(item), graph)
    attempt(lambda: lower(item), graph)
    if attempt(lambda: verify(item), graph) is not None:
        for transform in transforms(rng, item):
            check_transform(transform, item)
    assert graph.SerializeToString(deterministic=True) == before


def _any_fetches(rng: random.Random, graph: GraphDef) -> tuple[str, ...]:
    """None, which is most of what files know, or a node or two."""
    names = [node.name for node in graph.node if node.name]
    count = rng.choice((0, 0, 1, 2))
    return tuple(
        f"{name}{rng.choice(('', ':0', ':1'))}" for name in rng.sample(names, min(len(names), count))
    )


def check_transform(transform: Transform, item: GraphItem) -> None:
    """Whatever the pass does is deterministic, idempotent and undone exactly."""
    result = attempt(lambda: transform(item), item.graph)
    if result is None:
        return
    verify(result.item)
    again = attempt(lambda: transform(result.item))
    assert again is not None, f"{transform} refuses its own output"
    assert not again.edits, f"{transform} is not idempotent"
    assert graph_bytes(transform(item).item) == graph_bytes(result.item)
    undone = attempt(lambda: Strip()(result.item))
    if not any(is_marked(node) for node in item.graph.node):
        assert undone is not None, f"{transform} cannot be undone"
        assert in_order(undone.item.graph) == in_order(item.graph), f"{transform} is not undone exactly"


def transforms(rng: random.Random, item: GraphItem) -> list[Transform]:
    """Each pass, and pipelines of them, for a graph that is well-formed."""
    names = [node.name for node in item.graph.node]
    groups = tuple((name,) for name in rng.sample(names, min(len(names), 2)))
    passes: list[GraphPass] = [Strip(), Cut(), ControlEdges(), AckWindow(rng.randint(1, 3))]
    passes.append(SplitVariables(512))
    if item.fetches:
        passes.append(CrossStep(rng.randint(1, 3)))
        passes += [TickTock(), TickTock(3, "batch", 0.5), TickTockPartitions()]
    if len(groups) == 2:
        passes.append(CounterBarrier(groups))
    plan = attempt(lambda: any_plan(rng, item.graph))
    if plan is None:
        return list(passes)
    noted = RecvPriority(plan)
    chains = ((noted, ControlEdges()), (noted, AckWindow(2)), (Cut(), noted, ControlEdges()))
    return [*passes, noted, *map(Pipeline, chains)]


def any_plan(rng: random.Random, graph: GraphDef) -> Plan:
    """A plan for a graph that is cut; else one that orders some nodes of it."""
    view = verify(GraphItem(graph))
    transfers = find_transfers(view).data
    if transfers:
        return make_plan(view, transfers, Network(uniform_costs(view)), PlanRequest("tic"))
    names = rng.sample(view.names, min(len(view), 3))
    return plan_by_hand({any_channel(rng): names})


def check_text(text: str) -> None:
    """The text of a pipeline, which reads back."""
    pipeline = attempt(lambda: parse_pipeline(text))
    if pipeline is not None:
        assert str(parse_pipeline(str(pipeline))) == str(pipeline)


def check_command(folder: Path, arguments: Sequence[str], sources: Sequence[Path], out: Path | None) -> int:
    """One `tfwave` command: no traceback, inputs untouched, and on an error nothing written."""
    before = [_content(source) for source in sources]
    listed = _listing(folder)
    code, said = run(arguments)
    assert code in (0, 1, 2), (code, said)
    assert "Traceback" not in said
    if code == 2:
        assert said.startswith("tfwave: error: ") or "Usage:" in said, said
        assert _listing(folder) == listed, "an error left something behind"
    elif out is not None:
        assert _listing(folder) - listed <= {out, *out.rglob("*")}, "more than OUT was written"
    assert [_content(source) for source in sources] == before
    return code


def run(arguments: Sequence[str]) -> tuple[int, str]:
    """The exit code of the command line, and what it said on standard error."""
    saved = sys.argv, sys.stdin
    sys.argv, sys.stdin = ["tfwave", *arguments], io.TextIOWrapper(io.BytesIO())
    shown, said = io.TextIOWrapper(io.BytesIO()), io.StringIO()
    try:
        with time_limit(), contextlib.redirect_stdout(shown), contextlib.redirect_stderr(said):
            main()
    except SystemExit as left:
        return int(left.code or 0), said.getvalue()
    finally:
        sys.argv, sys.stdin = saved
    raise AssertionError("the command did not exit")


def _listing(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def _content(path: Path) -> dict[str, bytes]:
    if os.path.isfile(path):
        return {str(path): path.read_bytes()}
    inside = sorted(path.rglob("*")) if os.path.isdir(path) else []
    return {str(file): file.read_bytes() for file in inside if file.is_file()}
