import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.unit.graph.test_rewriter import chain
from tfwave.errors import GraphError, PassError
from tfwave.graph.load import load_graph
from tfwave.graph.rewriter import GraphRewriter
from tfwave.graph.verify import verify
from tfwave.graph.view import GraphView
from tfwave.passes.base import GraphPass
from tfwave.passes.instruments import Dumper, Recorder
from tfwave.passes.pipeline import Pipeline
from tfwave.passes.registry import find_pass, pass_names
from tfwave.passes.text import build_pass, parse_pipeline
from tfwave.plan.plan import Plan
from tfwave.proto.tensorflow_pb2 import AttrValue

OWN = "tests.unit.passes.test_pipeline"


@dataclass(frozen=True)
class AddNodes(GraphPass):
    """Add some NoOps."""

    prefix: str = "new"
    count: int = 1
    waits: tuple[str, ...] = ()

    def run(self, graph: GraphRewriter) -> None:
        for i in range(self.count):
            graph.add_node(f"{self.prefix}{i}", "NoOp", [f"^{name}" for name in self.waits])


@dataclass(frozen=True)
class Needs(GraphPass):
    """Want a node before or after."""

    before: str = ""
    after: str = ""

    def requires(self, view: GraphView) -> None:
        if self.before and self.before not in view.names:
            raise GraphError(f"there is no {self.before}")

    def ensures(self, view: GraphView) -> None:
        if self.after and self.after not in view.names:
            raise GraphError(f"there is no {self.after}")

    def run(self, graph: GraphRewriter) -> None:
        pass


@dataclass(frozen=True)
class Loop(GraphPass):
    """Make a cycle."""

    def run(self, graph: GraphRewriter) -> None:
        graph.add_control_edge("c", "b")


@dataclass(frozen=True)
class Broken(GraphPass):
    """Have a bug."""

    required: int

    def run(self, graph: GraphRewriter) -> None:
        raise ZeroDivisionError


def test_a_pipeline_runs_its_passes_in_order() -> None:
    pipeline = Pipeline((AddNodes("x"), Needs(before="x0"), AddNodes("y", waits=("x0",))))
    result = pipeline(chain())
    assert [edit.node.name for edit in result.edits] == ["x0", "y0"]  # type: ignore[union-attr]
    assert [n.name for n in result.item.graph.node][-2:] == ["x0", "y0"]
    assert not pipeline(result.item).changed


def test_a_pipeline_may_hold_a_pipeline() -> None:
    inner = Pipeline((AddNodes("x"), AddNodes("y")))
    assert len(Pipeline((inner, AddNodes("z")))(chain()).edits) == 3


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (Needs(before="q"), 'pass 2 of 2, needs{before="q"}, after add_nodes: there is no q'),
        (Needs(after="q"), 'pass 2 of 2, needs{after="q"}, after add_nodes: there is no q'),
        (AddNodes(waits=("q",), prefix="z"), "node 'z0': input '^q' names a node that does not exist"),
        (Loop(), "pass 2 of 2, loop, after add_nodes: the graph has a cycle: c -> b -> c"),
    ],
)
def test_an_error_names_the_pass_and_those_before(last: GraphPass, message: str) -> None:
    with pytest.raises(PassError) as caught:
        Pipeline((AddNodes(), last))(chain())
    assert message in str(caught.value)
    assert isinstance(caught.value.__cause__, GraphError)


def test_a_bug_in_a_pass_keeps_its_kind_and_names_the_pass() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        Pipeline((AddNodes(), Broken(1)))(chain())
    assert caught.value.__notes__ == ["in pass 2 of 2, broken{required=1}, after add_nodes"]


def test_instruments_see_each_stage(tmp_path: Path) -> None:
    recorder = Recorder()
    Pipeline((AddNodes(count=2), Needs()), (recorder, Dumper(tmp_path)))(chain())
    first, second = recorder.stages
    assert (first.graph_pass, first.nodes_added, first.op_differences) == (
        "add_nodes{count=2}",
        2,
        (("NoOp", 2),),
    )
    assert (second.graph_pass, second.nodes_added, second.op_differences) == ("needs", 0, ())
    assert first.seconds > 0
    sizes = {file.name: len(load_graph(file).graph.node) for file in tmp_path.iterdir()}
    assert sizes == {"00_input.pb": 4, "01_add_nodes.pb": 6, "02_needs.pb": 6}


@pytest.mark.parametrize(
    "text",
    [
        "strip",
        f"{OWN}:AddNodes{{prefix=x,count=3}}",
        f' strip , {OWN}:AddNodes{{ prefix = "a,b}}" , waits = ["p", "q"] }} ',
        f"{OWN}:Needs{{}},strip",
    ],
)
def test_text_says_what_to_run(text: str) -> None:
    pipeline = parse_pipeline(text)
    assert all(isinstance(p, GraphPass) for p in pipeline.passes)
    if "AddNodes" in text:
        expected = AddNodes("x", 3) if "count" in text else AddNodes("a,b}", waits=("p", "q"))
        assert expected in pipeline.passes


def test_the_text_of_a_pass_reads_back() -> None:
    passes = (AddNodes("a b", 2, ("x", "y")), AddNodes(), Broken(4))
    text = str(Pipeline(passes))
    assert text == 'add_nodes{prefix="a b",count=2,waits=["x","y"]},add_nodes,broken{required=4}'
    for name in ("add_nodes", "broken"):
        text = text.replace(name, f"{OWN}:{find_pass(f'{OWN}:{_camel(name)}').__name__}")
    assert parse_pipeline(text).passes == passes


def _camel(name: str) -> str:
    return name.title().replace("_", "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column 1 should be the name of a pass, it is 'the end'"),
        ("strip,", "column 7 should be the name of a pass"),
        ("strip strip", "column 7 should be ','"),
        ("strip{", "column 7 should be an option"),
        ("strip{x", "column 8 should be '='"),
        (f"{OWN}:AddNodes{{count=", "should be a value"),
        (f"{OWN}:AddNodes{{count=1", "should be ','"),
        ("stripp", "there is no pass 'stripp': choose one of "),
        ("strip{x=1}", "the pass strip has no option 'x'; its options: none"),
        (f"{OWN}:AddNodes{{count=two}}", "Input should be a valid integer"),
        (f"{OWN}:AddNodes{{count=true}}", "Input should be a valid integer"),
        (f"{OWN}:AddNodes{{cuont=2}}", "has no option 'cuont'; its options: prefix, count, waits"),
        (f"{OWN}:AddNodes{{count=1,count=2}}", "has the option 'count' twice: leave one out"),
        (f"{OWN}:Broken", "needs the option 'required'"),
        (f"{OWN}:Nothing", f"there is no pass '{OWN}:Nothing'"),
        ("no.such.module:X", "there is no pass 'no.such.module:X'"),
        (f"{OWN}:chain", "is not a pass"),
        ("recv_priority", "needs a plan: give --plan FILE, as `tfwave plan` writes it, or name a policy"),
        (f"{OWN}:Ordered", f"the pass {OWN}:Ordered needs a plan: give --plan FILE"),
        ("strip,\n\nstrip strip", "line 3, column 7 should be ','"),
    ],
)
def test_a_wrong_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(PassError) as caught:
        parse_pipeline(text)
    assert message in str(caught.value)


def test_an_error_quotes_a_long_text_around_the_place() -> None:
    names = json.dumps([f"node_{i}" for i in range(20_000)])
    with pytest.raises(PassError) as caught:
        parse_pipeline(f"{OWN}:AddNodes{{waits={names}}},strip strip,{OWN}:AddNodes{{waits={names}}}")
    assert "strip strip" in str(caught.value)
    assert len(str(caught.value)) < 350
    with pytest.raises(PassError) as caught:
        parse_pipeline(f"{OWN}:AddNodes{{waits={names}}},{OWN}:Broken{{required=1}}")(chain())
    assert len(str(caught.value)) < 700


def test_the_catalogue_is_the_files_of_grappler_passes() -> None:
    files = {f.stem for f in (Path(__file__).parents[3] / "grappler_passes").glob("*.py")} - {"__init__"}
    assert set(pass_names()) == files
    for name in pass_names():
        assert find_pass(name).name == name
        assert find_pass(name).__doc__


def test_options_may_come_from_python() -> None:
    assert build_pass(f"{OWN}:AddNodes", {"count": 4}) == AddNodes(count=4)


@dataclass(frozen=True)
class Ordered(GraphPass):
    """Cannot do without a plan."""

    plan: Plan

    def run(self, graph: GraphRewriter) -> None:
        """Not reached."""


@dataclass(frozen=True)
class Insured(GraphPass):
    """Has a policy that is none of transfers."""

    policy: str = "fire"

    def run(self, graph: GraphRewriter) -> None:
        """Do nothing."""


def test_another_policy_is_just_an_option() -> None:
    assert parse_pipeline(f"{OWN}:Insured").passes == (Insured(),)


@dataclass(frozen=True)
class NotedLoop(GraphPass):
    """Make a cycle, and a note."""

    def run(self, graph: GraphRewriter) -> None:
        graph.add_control_edge("c", "b")
        graph.note("a", "seen", AttrValue(b=True))


@dataclass(frozen=True)
class Note(GraphPass):
    """Make a note."""

    def run(self, graph: GraphRewriter) -> None:
        graph.note("a", "seen", AttrValue(b=True))


def test_a_note_does_not_hide_what_else_was_done() -> None:
    with pytest.raises(GraphError, match="the graph has a cycle"):
        NotedLoop()(chain())


def test_the_view_after_a_note_shows_it() -> None:
    item = chain()
    result, view = Note().apply(item, verify(item))
    assert [node.attr["_tfwave_seen"].b for node in view.nodes if node.name == "a"] == [True]
    assert view.nodes[0].SerializeToString() == result.item.graph.node[0].SerializeToString()
    assert view.topological_order == verify(result.item).topological_order
