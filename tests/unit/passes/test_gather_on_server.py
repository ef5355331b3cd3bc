"""gather_on_server on a function as Grappler shows it: what it returns is fetched, its updates are preserved."""

import pytest

from grappler_passes.gather_on_server import GatherOnServer
from tests.steps import FLOAT, SERVER, WORKER, Builder
from tfwave.errors import PassError
from tfwave.graph.item import GraphItem
from tfwave.proto.tensorflow_pb2 import DT_INT32, DT_RESOURCE, AttrValue

INT, ROWS = AttrValue(type=DT_INT32), "tfwave/gather_on_server/{}/rows"


def function(update: str) -> GraphItem:
    """It returns rows, and changes the table by others, for which no tensor that it returns waits."""
    build = Builder()
    build.graph.versions.producer = 2000
    build.node("table", "_Arg", device=SERVER, T=AttrValue(type=DT_RESOURCE), index=AttrValue(i=0))
    for index, name in enumerate(("ids", "others"), 1):
        build.node(name, "_Arg", device=WORKER, T=INT, index=AttrValue(i=index))
    axis = AttrValue()
    axis.tensor.dtype = DT_INT32
    axis.tensor.int_val.append(0)
    build.node("axis", "Const", device=WORKER, dtype=INT, value=axis)
    build.read("read", "table")
    kinds = {"Tparams": FLOAT, "Tindices": INT, "Taxis": INT}
    for name, ids in (("own", "ids"), ("late", "others")):
        build.node(name, "GatherV2", "read", ids, "axis", device=WORKER, **kinds, batch_dims=AttrValue(i=0))
    if update == "rows":
        scattered = ("table", "ids", "own", "^read")
        build.node("update", "ResourceScatterSub", *scattered, device=SERVER, dtype=FLOAT, Tindices=INT)
    else:
        build.update("update", "table", "own", "^read")
    build.node("returned", "_Retval", "late", device=WORKER, T=FLOAT, index=AttrValue(i=0))
    return GraphItem(build.graph, fetches=("returned",), preserve=frozenset(["returned", "update"]))


def test_what_a_function_updates_waits_for_all_rows_that_were_gathered() -> None:
    nodes = {node.name: node for node in GatherOnServer()(function("rows")).item.graph.node}
    assert nodes["own"].input[0] == ROWS.format("own")
    assert f"^{ROWS.format('late')}" in nodes["update"].input


def test_a_table_that_a_function_changes_whole_is_refused() -> None:
    with pytest.raises(
        PassError, match=r"node 'update' .* may change all rows of the table that 'read' reads"
    ):
        GatherOnServer()(function("whole"))
