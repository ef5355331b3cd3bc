"""A job that has no room beside others is made to fit, if it allows what that costs (Dymem)."""

import logging
from typing import Any

from tfwave.bundle.bundle import Bundle
from tfwave.colocate.job import Job
from tfwave.errors import PlanError
from tfwave.memory.slots import limit_for
from tfwave.offload.captured import captured_step
from tfwave.offload.fit import Fits
from tfwave.offload.section import memory_section
from tfwave.passes.base import Transform
from tfwave.passes.registry import find_pass
from tfwave.plan.fingerprint import graph_print
from tfwave.plan.plan import Plan
from tfwave.runtime.stash import load_stash_ops, reserve_for
from tfwave.sizes import in_words

_log = logging.getLogger("tfwave")


def refitted(job: Job, bundle: Bundle, left: int) -> Transform:
    """What makes the step of a job that was captured hold no more than `left` bytes, as `refit_plan` says.

    Raises:
        PlanError, BundleError: as `refit_plan`.
        EnvironmentUnsupported: the stash cannot be had.
    """
    plan = refit_plan(job, bundle, left)
    load_stash_ops()
    reserve_for(plan)
    make: Any = find_pass("fit_memory")
    return make(plan)


def refit_plan(job: Job, bundle: Bundle, left: int) -> Plan:
    """How the step holds no more than `left` bytes; or as few as it can, as its groups may have room then.

    By bytes alone: where those lie that others leave of a pool, nobody knows.

    Raises:
        PlanError: it comes slower by more than the job allows.
        BundleError: as `tfwave.offload.captured.captured_step`.
    """
    captured = captured_step(bundle)
    fits = Fits(captured.step)
    least = fits.least_limit
    held = max(left, least)
    fit = fits.within(held)
    assert fit is not None  # greedy finds one from the least on
    memory = memory_section(fit, graph_print(captured.view), limit_for(held, 2), limit_for(least, 2))
    slower, most = memory.seconds / memory.plain_seconds - 1, job.fit_slowed_at_most or 0.0
    if slower > most:
        raise PlanError(
            f"made to fit into {in_words(held)} its step comes slower by {slower:.0%}, over its "
            f"fit_slowed_at_most of {most:.0%}"
        )
    _log.info(
        "tfwave: the job '%s' is made to fit: %d of its tensors are away, up to %s are held, %.0f%% slower "
        "by the model",
        job.name,
        len(memory.tensors),
        in_words(memory.peak_bytes),
        slower * 100,
    )
    return Plan(memory=memory)
