"""Files made to break the reader: refused with a clear error, in little time and memory, and nothing is left."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bundles import small_bundle
from tests.containers import graphs, save, some_model, with_noop
from tests.hostile import calls_in_calls, nested, nested_text, run_limited
from tfwave.bundle.bundle import load_bundle, save_bundle
from tfwave.cost.file import load_costs
from tfwave.errors import GraphError, TfwaveError
from tfwave.files import LONGEST
from tfwave.graph.container import open_container
from tfwave.graph.functions import size
from tfwave.graph.functions.lower import lower
from tfwave.graph.functions.size import DEEPEST_CALLS
from tfwave.graph.item import GraphItem
from tfwave.graph.load import load_graph, parse_graph
from tfwave.graph.verify import verify
from tfwave.graph.view import GraphView
from tfwave.plan.io import load_plan
from tfwave.proto.tensorflow_pb2 import GraphDef, NodeDef
from tfwave.report.run import HAND_OFFS_FILE, load_run
from tfwave.whatif.timeline_file import load_timeline

READERS: dict[str, Callable[[Path], object]] = {
    "graph": load_graph,
    "plan": load_plan,
    "costs": lambda path: load_costs(path, GraphView.of(GraphDef(node=[NodeDef(name="a", op="NoOp")]))),
    "timeline": load_timeline,
}


def test_60000_nested_messages(tmp_path: Path) -> None:
    model = some_model()
    model.meta_graphs[0].MergeFromString(nested(60_000))
    source = save(model, tmp_path / "m")
    code, said = run_limited(["inspect", str(source)])
    assert code == 2
    assert f"'{source}/saved_model.pb': field 15 nests messages deeper than 100" in said


def test_wide_fields_take_little_memory(tmp_path: Path) -> None:
    """Half a million fields, in 98 messages each of which is a string, too."""
    model = some_model()
    del model.meta_graphs[1:]
    model.meta_graphs[0].MergeFromString(nested(98, data=b"\x08\x00" * 500_000))
    code, said = run_limited(["inspect", str(save(model, tmp_path / "m"))])
    assert (code, "error" in said) == (0, False)


@pytest.mark.parametrize("depth", [33, 200, 100_000])
def test_text_that_nests_too_deep(tmp_path: Path, depth: int) -> None:
    file = tmp_path / "g.pbtxt"
    file.write_text(nested_text(depth))
    code, said = run_limited(["inspect", str(file)])
    assert code == 2
    assert f"'{file}' nests messages deeper than 100" in said


def test_text_may_nest_as_deep_as_protobuf_reads() -> None:
    graph = parse_graph(nested_text(32).encode(), "g")
    assert parse_graph(graph.SerializeToString(), "g") == graph


def test_calls_that_double_at_each_level() -> None:
    with pytest.raises(GraphError, match=r"'top': with the function 'f0' inlined.* 3,298,534,883,326 nodes"):
        lower(GraphItem(calls_in_calls(40, 2)), inline_calls=True)


def test_calls_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size, "MOST_NODES", 40)
    graph = calls_in_calls(3, 2)
    lower(GraphItem(graph), inline_calls=True)
    graph.node.add().CopyFrom(graph.node[0])
    graph.node[-1].name = "b"
    with pytest.raises(GraphError, match=r"node 'b': .* 44 nodes"):
        lower(GraphItem(graph), inline_calls=True)


def test_calls_in_calls_have_a_limit() -> None:
    lowered = lower(GraphItem(calls_in_calls(DEEPEST_CALLS - 1, 1)), inline_calls=True)
    assert any(node.op == "NoOp" and node.name.endswith("leaf") for node in lowered.graph.node)
    with pytest.raises(GraphError, match=r"'top': with the function 'f0' inlined.* 201 calls deep"):
        lower(GraphItem(calls_in_calls(DEEPEST_CALLS, 1)), inline_calls=True)


def test_functions_that_call_each_other_are_measured_once() -> None:
    graph = calls_in_calls(3, 1)
    graph.library.function[2].node_def[0].attr["f"].func.name = "f0"
    with pytest.raises(GraphError, match="calls itself"):
        lower(GraphItem(graph), inline_calls=True)


def test_a_long_chain_of_functions_is_checked_in_time(tmp_path: Path) -> None:
    file = tmp_path / "g.pb"
    file.write_bytes(calls_in_calls(5000, 1).SerializeToString())
    code, _ = run_limited(["inspect", str(file)])
    assert code == 0
    verify(load_graph(file))


@pytest.mark.parametrize("kind", READERS)
def test_a_pipe_a_device_and_a_socket_are_not_read(tmp_path: Path, kind: str) -> None:
    pipe, door = tmp_path / "pipe", tmp_path / "door"
    os.mkfifo(pipe)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(door))
        for place, what in ((door, "a socket"), (pipe, "a pipe"), (Path("/dev/zero"), "a device")):
            with pytest.raises(TfwaveError, match=f"'{place}'.*it is {what}, not a file: save"):
                READERS[kind](place)


@pytest.mark.parametrize("kind", READERS)
def test_what_is_longer_than_protobuf_allows_is_not_read(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "long"
    with file.open("wb") as made:
        made.truncate(LONGEST + 1)
    with pytest.raises(TfwaveError, match=r"long'.* 2,147,483,648 bytes long"):
        READERS[kind](file)


def test_the_files_of_a_bundle_and_a_run_are_files(tmp_path: Path) -> None:
    for name in (HAND_OFFS_FILE, "bundle.json"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(TfwaveError, match="it is a pipe, not a file"):
        load_run(tmp_path)
    with pytest.raises(TfwaveError, match=r"bundle\.json' is neither a file nor a directory"):
        load_bundle(tmp_path)


def test_standard_input_without_end(tmp_path: Path) -> None:
    """A pipe and a device are read there, within the limit: a whole graph, or a clear error."""
    file = tmp_path / "g.pb"
    file.write_bytes(some_model().meta_graphs[0].graph_def.SerializeToString())
    with file.open("rb") as given:
        assert run_limited(["inspect", "-"], given.fileno())[0] == 0
    os.mkfifo(tmp_path / "pipe")
    code, said = run_limited(["inspect", "/dev/zero"])
    assert (code, "it is a device, not a file" in said) == (2, True)
    code, said = run_limited(["inspect", str(tmp_path / "pipe")])
    assert (code, "it is a pipe, not a file" in said) == (2, True)


def test_a_link_to_a_graph_is_read(tmp_path: Path) -> None:
    (tmp_path / "g.pb").write_bytes(some_model().meta_graphs[0].graph_def.SerializeToString())
    (tmp_path / "link").symlink_to("g.pb")
    assert load_graph(tmp_path / "link").graph == load_graph(tmp_path / "g.pb").graph


def _link(target: str) -> Callable[[Path], None]:
    return lambda place: place.symlink_to(target)


HOSTILE: dict[str, tuple[Callable[[Path], None], str]] = {
    "link out": (_link("../../secret"), r"is a link to '\.\./\.\./secret'"),
    "link to a folder": (_link("."), r"is a link to '\.'"),
    "loop": (_link("bad"), "is a link to 'bad'"),
    "link to nothing": (_link("nowhere"), "is a link to 'nowhere'"),
    "link to a device": (_link("/dev/zero"), "is a link to '/dev/zero'"),
    "link to the root": (_link("/"), "is a link to '/'"),
    "pipe": (os.mkfifo, "is neither a file nor a directory: remove it"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_nothing_leads_out_of_a_directory(tmp_path: Path, case: str) -> None:
    (tmp_path / "secret").write_text("mine")
    make, says = HOSTILE[case]
    source, bundle = save(some_model(), tmp_path / "in"), tmp_path / "bundle"
    save_bundle(small_bundle(), bundle)
    container = open_container(str(source))
    make(source / "assets" / "bad")
    make(bundle / "graphs" / "bad")
    with pytest.raises(TfwaveError, match=f"'{bundle}/graphs/bad' {says}"):
        load_bundle(bundle)
    with pytest.raises(TfwaveError, match=f"'{source}/assets/bad' {says}"):
        open_container(str(source))
    with pytest.raises(TfwaveError, match=f"'{source}/assets/bad' {says}"):
        container.write([with_noop(item) for item in graphs(container)], str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_variables_that_are_a_link_to_root(tmp_path: Path) -> None:
    source = save(some_model(), tmp_path / "in")
    (source / "variables").rename(tmp_path / "variables")
    (source / "variables").symlink_to("/")
    code, said = run_limited(["rewrite", str(source), "--passes", "strip", "-o", str(tmp_path / "out")])
    assert code == 2
    assert f"'{source}/variables' is a link to '/'" in said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "variables"]
