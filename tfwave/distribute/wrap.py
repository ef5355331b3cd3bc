"""The first way in: one line around a strategy."""

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

from tfwave.distribute.schedule import Schedule
from tfwave.distribute.servers import Servers
from tfwave.distribute.settings import Settings
from tfwave.distribute.waves import give_waves, is_mirrored
from tfwave.errors import EnforcerError
from tfwave.runtime.control.credentials import Credentials, find_credentials
from tfwave.runtime.control.tf_config import (
    VARIABLE,
    TfConfig,
    TfwaveConfig,
    control_addresses,
    read_tf_config,
)
from tfwave.runtime.coordinator import coordinator_of
from tfwave.runtime.waves.options import Offset, WaveOptions

Enforcer = Literal["auto", "hook", "proxy"]
Average = Literal["wave", "batch"]

_ATTRIBUTE = "_tfwave_schedule"
_log = logging.getLogger("tfwave")
_Strategy = TypeVar("_Strategy")


def wrap(  # noqa: PLR0913
    strategy: _Strategy,
    policy: str = "tac",
    enforcer: Enforcer = "auto",
    *,
    control: Mapping[str, Sequence[str]] | None = None,
    credentials: Credentials | None = None,
    trace_steps: int = 5,
    waves: int = 1,
    average: Average = "wave",
    offset: Offset = 0.0,
) -> _Strategy:
    """Have a `ParameterServerStrategy` move its tensors in the right order, or a `MirroredStrategy` train in waves.

    The same strategy is returned, so all that takes one takes this one; what its `ClusterCoordinator` schedules
    is watched. Each traced function runs its first steps as always, is then measured and traced for `trace_steps`
    steps of each worker, planned, and ordered on all parameter servers (TicTac sections 4 and 5); one whose steps
    overlap (see `overlap`) in both directions, on the workers too. A function that is traced anew has a plan of
    its own. An order that is not kept, or that makes steps slower each time that it
    is compared, is taken back with a warning.

    All parameter servers and workers must be tfwave servers (`python -m tfwave.server`, or `tfwave.Server`). Wrap
    before the first step: a worker cannot order a function that it has run before.

    A `MirroredStrategy` is given `waves`, and nothing else but what they average and their offset; then
    `tfwave.distribute.in_waves` takes the training step.

    Args:
        strategy: a `tf.distribute.ParameterServerStrategy`, or a `tf.distribute.MirroredStrategy`.
        policy: "tac", "tic", "fifo", "random" or "reverse".
        enforcer: what the servers must order with; "auto" takes what they have, and goes on unordered, with a
            warning, if they have nothing.
        control: control addresses of all tasks by job, ``{"ps": [...], "worker": [...]}``; by default those of
            TF_CONFIG, or TensorFlow's ports plus 1000 (see `tfwave.runtime.control.tf_config`).
        credentials: for the control services; by default the token in TFWAVE_TOKEN, if there is one.
        trace_steps: for how many steps to measure, and then to trace.
        waves: how many batches a call of a `MirroredStrategy` trains, up to 64.
        average: of gradients, "wave" (Wavelet's Eq. 1) or "batch" (as one large batch); see `in_waves`.
        offset: the share of a wave's backward pass, 0 to 1, after which the next wave begins; "auto" is the least
            with which two waves of one replica fit into the CPU's pool (`tfwave.colocate.limit_memory`).

    Raises:
        EnforcerError: no such strategy, a second time, an option that is for the other kind of strategy, an unknown
            policy, or, unless `enforcer` is "auto", servers that do not answer or order otherwise; or an offset of
            "auto" without a limited pool, or for several replicas.
        PassError: waves, average or offset out of range, or an offset of "auto" for other than two waves.
        EnvironmentUnsupported: this TensorFlow cannot be watched.
    """
    if is_mirrored(strategy):
        options = WaveOptions(waves, average, offset)
        _check_unset(
            "orders what parameter servers send, and a MirroredStrategy has none",
            policy=policy == "tac",
            enforcer=enforcer == "auto",
            control=control is None,
            credentials=credentials is None,
            trace_steps=trace_steps == 5,
        )
        give_waves(strategy, options)
        return strategy
    _check_unset(
        "is for the waves of a MirroredStrategy",
        waves=waves == 1,
        average=average == "wave",
        offset=offset == 0,
    )
    _order(strategy, Settings(policy, trace_steps), enforcer, control, credentials)
    return strategy


def _check_unset(why: str, **unset: bool) -> None:
    """Refuse options that are set, which are for another strategy."""
    for option, is_unset in unset.items():
        if not is_unset:
            raise EnforcerError(f"the option {option} {why}: leave it out")


def _order(
    given: Any,
    settings: Settings,
    enforcer: Enforcer,
    control: Mapping[str, Sequence[str]] | None,
    credentials: Credentials | None,
) -> None:
    """Give a `ParameterServerStrategy` its schedule."""
    if not hasattr(given, "_is_parameter_server_strategy_v2"):
        raise EnforcerError(
            f"a {type(given).__name__} cannot be wrapped: give a tf.distribute.ParameterServerStrategy, "
            "or a tf.distribute.MirroredStrategy with waves=2"
        )
    if hasattr(given, _ATTRIBUTE):
        raise EnforcerError("this strategy is wrapped already: wrap it once")
    spec = given._cluster_resolver.cluster_spec().as_dict()
    servers = Servers(control_addresses(_config(spec, control)), credentials or find_credentials())
    schedule = Schedule(coordinator_of(given), servers, len(spec["worker"]))
    setattr(given, _ATTRIBUTE, schedule)
    try:
        _check_enforcers(servers.enforcers(), enforcer)
        schedule.start(settings)
    except EnforcerError as err:
        if enforcer != "auto":
            delattr(given, _ATTRIBUTE)
            raise
        _log.warning("tfwave: training goes on unordered: %s", err)


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
