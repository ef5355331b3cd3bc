"""The pages that a training leaves: of its plan, or of what else is known of it."""

import logging
from collections.abc import Callable
from pathlib import Path

from tfwave.errors import TfwaveError
from tfwave.plan.io import save_plan
from tfwave.plan.plan import Plan
from tfwave.report.page.facts import Facts

_log = logging.getLogger("tfwave")


def leave_page(directory: Path, name: str, plan: Plan) -> None:
    """Write a plan as ``<name>.plan.json``, its page as ``<name>.html``, and the page's facts as ``<name>.md``.

    The directory is made. What cannot be written is said in the log: no training ends for that.
    """
    from tfwave.report.page.gather import gather
    from tfwave.report.page.given import Given

    leave_facts(directory, name, lambda: gather(Given((f"{name}.plan.json",), {}, plan)), plan)


def leave_facts(directory: Path, name: str, facts: Callable[[], Facts], plan: Plan | None = None) -> None:
    """The same of facts that were gathered elsewhere, and of a plan if there is one."""
    from tfwave.report.page.fill import write_facts

    try:
        directory.mkdir(parents=True, exist_ok=True)
        if plan is not None:
            save_plan(plan, directory / f"{name}.plan.json")
        write_facts(facts(), directory / f"{name}.html")
    except (OSError, TfwaveError) as error:
        _log.warning("tfwave: there is no report of %s in '%s': %s", name, directory, error)
