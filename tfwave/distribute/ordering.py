"""What a `ParameterServerStrategy` is given: an order of what it transfers."""

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from tfwave.distribute.mirrored import is_mirrored
from tfwave.distribute.schedule import Schedule
from tfwave.distribute.servers import Servers
from tfwave.distribute.settings import Settings
from tfwave.errors import EnforcerError
from tfwave.plan.given import GivenPlan, order_of
from tfwave.runtime.control.credentials import Credentials, find_credentials
from tfwave.runtime.control.tf_config import (
    VARIABLE,
    TfConfig,
    TfwaveConfig,
    control_addresses,
    read_tf_config,
)
from tfwave.runtime.coordinator import coordinator_of
from tfwave.runtime.job_devices import job_devices
from tfwave.runtime.variables import cluster_of

Enforcer = Literal["auto", "hook", "proxy"]

_ATTRIBUTE = "_tfwave_schedule"
_log = logging.getLogger("tfwave")
_Strategy = TypeVar("_Strategy")


def order(  # noqa: PLR0913
    strategy: _Strategy,
    *,
    policy: str = "tac",
    enforcer: Enforcer = "auto",
    control: Mapping[str, Sequence[str]] | None = None,
    credentials: Credentials | None = None,
    trace_steps: int = 5,
    plan: GivenPlan | None = None,
    report_dir: str | Path | None = None,
) -> _Strategy:
    """Have a `ParameterServerStrategy` move its tensors in the right order.

    The same strategy is returned, so all that takes one takes this one; what its `ClusterCoordinator` schedules
    is watched. Each traced function runs its first steps as always, is then measured and traced for `trace_steps`
    steps of each worker, planned, and ordered on all parameter servers (TicTac sections 4 and 5); one whose steps
    overlap (see `overlap`) in both directions, on the workers too. A function that is traced anew has a plan of
    its own. An order that is not kept, or that makes steps slower each time that it is compared, is taken back
    with a warning.

    A worker may have several devices: what they pull has one order, by what all of them compute, and each channel,
    a pair of devices, keeps its own part of it. It never ran on a GPU: where a worker has one, a function whose
    nodes do not all name their devices, or that runs with TensorFlow's soft placement, stays unordered, with a
    warning that names such a node.

    All parameter servers and workers must be tfwave servers (`python -m tfwave.server`, or `tfwave.Server`). Do
    this before the first step: a worker cannot order a function that it has run before.

    Args:
        strategy: a `tf.distribute.ParameterServerStrategy`.
        policy: "tac", "tic", "search", "exact" (small graphs), "fifo", "random", "reverse", or one of your own, as
            "module:function".
        enforcer: what the servers must order with; "auto" takes what they have, and goes on unordered, with a
            warning, if they have nothing.
        control: control addresses of all tasks by job, ``{"ps": [...], "worker": [...]}``; by default those of
            TF_CONFIG, or TensorFlow's ports plus 1000 (see `tfwave.runtime.control.tf_config`).
        credentials: for the control services; by default the token in TFWAVE_TOKEN, if there is one.
        trace_steps: for how many steps to measure, and then to trace.
        plan: one of `Schedule.plans` of an earlier run, or its file. The function that it fits, for these workers,
            is ordered by it as soon as it is measured; others are traced and planned.
        report_dir: a directory that gets each plan as it comes into force, as ``<function>.plan.json``, a page of
            it as ``<function>.html`` (see `tfwave report`), and for TensorBoard the order as text and a step before
            and after as a picture, as simulated (with ``tfwave[plot]``); None: none.

    Raises:
        EnforcerError: no such strategy, a second time, an unknown policy, or, unless `enforcer` is "auto", servers
            that do not answer or order otherwise.
        PlanError: no such plan, or one without an order.
        EnvironmentUnsupported: this TensorFlow cannot be watched.
    """
    known = None if plan is None else order_of(plan)
    settings = Settings(policy, trace_steps, known, None if report_dir is None else Path(report_dir))
    _check_orderable(strategy)
    schedule, servers = _scheduled(strategy, control, credentials)
    setattr(strategy, _ATTRIBUTE, schedule)
    try:
        _check_enforcers(servers.enforcers(), enforcer)
        schedule.start(settings, settings.events())
    except BaseException as err:
        if enforcer != "auto" or not isinstance(err, EnforcerError):
            delattr(strategy, _ATTRIBUTE)
            raise
        _log.warning("tfwave: training goes on unordered: %s", err)
    return strategy


def schedule_of(strategy: Any) -> Schedule:
    """The schedule of a wrapped strategy: its plans, phases and figures; it can be stopped and started.

    Raises:
        EnforcerError: it is not wrapped.
    """
    schedule: Schedule | None = getattr(strategy, _ATTRIBUTE, None)
    if is_mirrored(strategy):
        raise EnforcerError(f"this {type(strategy).__name__} sends nothing to servers, and has no schedule")
    if schedule is None:
        raise EnforcerError(
            f"this {type(strategy).__name__} has no schedule: tfwave.distribute.wrap(strategy) gives it one"
        )
    return schedule


def _check_orderable(strategy: Any) -> None:
    if not hasattr(strategy, "_is_parameter_server_strategy_v2"):
        raise EnforcerError(
            f"a {type(strategy).__name__} has no parameter servers, which could send in order: give a "
            "tf.distribute.ParameterServerStrategy, or a tf.distribute.MirroredStrategy to tfwave.distribute.waves"
        )
    if hasattr(strategy, _ATTRIBUTE):
        raise EnforcerError("this strategy is ordered already: order it once")


def _scheduled(
    strategy: Any, control: Mapping[str, Sequence[str]] | None, credentials: Credentials | None
) -> tuple[Schedule, Servers]:
    """A schedule that has not begun, and the servers that it is for."""
    spec = cluster_of(strategy)
    servers = Servers(control_addresses(_config(spec, control)), credentials or find_credentials())
    return Schedule(coordinator_of(strategy), servers, job_devices(strategy)), servers


def _config(spec: Mapping[str, Sequence[str]], control: Mapping[str, Sequence[str]] | None) -> TfConfig:
    """The strategy's own cluster; where its control services are is given, or in TF_CONFIG."""
    if control is None and os.environ.get(VARIABLE):
        known = read_tf_config().tfwave.control
    else:
        known = {job: dict(enumerate(addresses)) for job, addresses in (control or {}).items()}
    cluster = {job: dict(enumerate(addresses)) for job, addresses in spec.items()}
    return TfConfig(cluster=cluster, tfwave=TfwaveConfig(control=known))


def _check_enforcers(found: Mapping[str, str], wanted: Enforcer) -> None:
    others = sorted(task for task, enforcer in found.items() if enforcer != wanted)
    if wanted != "auto" and others:
        raise EnforcerError(
            f"{others[0]} orders by the {found[others[0]]}, not the {wanted}: start its server so, or say 'auto'"
        )
