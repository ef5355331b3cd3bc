"""How many waves of a step one device runs, and when they begin: tick and tock, or one."""

from tfwave.errors import PlanError
from tfwave.plan.fingerprint import graph_print
from tfwave.plan.waves import Waves
from tfwave.rewrite.waves.training import Training
from tfwave.waves.fit import fitting_offset, least_room
from tfwave.waves.needs import PoolNeeds
from tfwave.waves.verdict import WaveVerdict


def planned_waves(
    training: Training, verdict: WaveVerdict, needs: PoolNeeds, limit_bytes: int, others: int
) -> Waves:
    """Two waves at the least offset that fits, where a gain is expected; else one. `Waves.verdict` says why.

    On one device there are no more, as in the paper: one tock beside the tick wave. `others` is as in
    `fitting_offset`, and `verdict` what `judge_waves` says of these needs.
    """
    if not verdict.is_gain:
        return _one(training, needs, limit_bytes, verdict.text)
    try:
        offset = fitting_offset(training, needs.memory, limit_bytes, others)
    except PlanError as error:
        return _one(training, needs, limit_bytes, str(error))
    return Waves(
        graph=graph_print(training.step.view),
        count=2,
        offset=offset,
        limit_bytes=limit_bytes,
        needed_bytes=least_room(training, needs.memory, offset, others),
        speedup=verdict.best.speedup,
        speedup_low=verdict.low,
        speedup_high=verdict.high,
        verdict=verdict.text,
    )


def _one(training: Training, needs: PoolNeeds, limit_bytes: int, reason: str) -> Waves:
    needed = needs.fixed(1) + needs.alone
    return Waves(graph_print(training.step.view), 1, 0.0, limit_bytes, needed, verdict=reason)
