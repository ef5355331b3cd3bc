"""From what was given to what a page says."""

from tfwave.errors import BundleError
from tfwave.report.page.facts import Facts
from tfwave.report.page.given import Given
from tfwave.report.page.headline import answers, figures
from tfwave.report.page.memory import memory_section
from tfwave.report.page.order import order_section
from tfwave.report.page.planned import plan_section, settings
from tfwave.report.page.split import split_section
from tfwave.report.page.steps import efficiency_section, times_section
from tfwave.report.page.timeline import timeline_section


def gather(given: Given) -> Facts:
    """All facts; a section is there if what was given holds it.

    Raises:
        BundleError: nothing was given; or as `memory_section`.
        PlanError: the plan is for another job than that of the capture.
    """
    if not given.names:
        raise BundleError("there is nothing to report on: give a run, a capture bundle or a plan")
    found = (
        timeline_section(given),
        order_section(given),
        times_section(given),
        efficiency_section(given),
        split_section(given),
        memory_section(given),
        plan_section(given.plan),
    )
    return Facts(
        title=f"tfwave: {', '.join(given.names)}",
        inputs=given.names,
        answers=answers(given),
        figures=figures(given),
        settings=settings(given.plan),
        sections=tuple([section for section in found if section is not None]),
    )
