"""What TensorBoard shows of a plan: as text, and as a picture where matplotlib is there."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from tfwave.errors import TfwaveError
from tfwave.plan.plan import Plan
from tfwave.report.drawn.figure import encoded
from tfwave.report.order_text import order_text
from tfwave.report.page.facts import Table
from tfwave.report.page.planned import settings
from tfwave.runtime.events import Events

Picture = Callable[[], Any]
"""Gives a figure of matplotlib."""

_log = logging.getLogger("tfwave")


def tell_plan(events: Events, name: str, plan: Plan, pictures: Mapping[str, Picture], step: int = 0) -> None:
    """Write a plan's order, or its sections, as text, and each picture as ``tfwave/<what>/<name>``.

    A picture that cannot be drawn is left out, and the log says why: no training ends for that.
    """
    if plan.has_order:
        events.text(f"tfwave/order/{name}", order_text(plan), step)
    else:
        events.text(f"tfwave/plan/{name}", table_text(settings(plan)), step)
    tell_pictures(events, name, pictures, step)


def tell_pictures(events: Events, name: str, pictures: Mapping[str, Picture], step: int = 0) -> None:
    """Write the pictures alone; what was told before is there to be read then, too."""
    for what, draw in pictures.items():
        try:
            events.image(f"tfwave/{what}/{name}", encoded(draw), step)
        except TfwaveError as error:
            _log.warning("tfwave: TensorBoard gets no picture of %s: %s", name, error)
    events.flush()


def table_text(table: Table) -> str:
    """A table in Markdown."""
    rows = [table.columns, *table.rows]
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]])
