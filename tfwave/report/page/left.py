"""The page that a training leaves of its plan."""

import logging
from pathlib import Path

from tfwave.errors import TfwaveError
from tfwave.plan.io import save_plan
from tfwave.plan.plan import Plan

_log = logging.getLogger("tfwave")


def leave_page(directory: Path, name: str, plan: Plan) -> None:
    """Write a plan as ``<name>.plan.json``, its page as ``<name>.html``, and the page's facts as ``<name>.md``.

    The directory is made. What cannot be written is said in the log: no training ends for that.
    """
    from tfwave.report.page.fill import write_page
    from tfwave.report.page.given import Given

    file = directory / f"{name}.plan.json"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        save_plan(plan, file)
        write_page(Given((file.name,), {}, plan), directory / f"{name}.html")
    except (OSError, TfwaveError) as error:
        _log.warning("tfwave: there is no report of %s in '%s': %s", name, directory, error)
