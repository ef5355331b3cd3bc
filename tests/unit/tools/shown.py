"""Whether what a bench says is shown on the page of what was measured, before it is recorded."""

from typing import Any

from tools.bench.record import RECORDS
from tools.bench.views import VIEWS
from tools.gpu.parts import PARTS
from tools.measured import foretold, rows, table


def assert_shown(name: str, *results: dict[str, Any]) -> str:
    """There is a command that records it, and each column of its tables has a value; the tables."""
    assert name in RECORDS or name in {f"gpu-{part.name}" for part in PARTS}
    told: list[str] = []
    for view in VIEWS[name]:
        found = [row for result in results for row in rows(result, view.rows)]
        assert found, view.rows
        for column in view.columns:
            assert any(row.get(column.partition(":")[0]) is not None for row in found), column
        assert view.forecast is None or any(foretold(view, found)), view.rows
        told += table(view, found)
    return "\n".join(told)
