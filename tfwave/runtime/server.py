"""A TensorFlow server that sends in a plan's order, and can be told which."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast, get_args

from tfwave.errors import EnforcerError, EnvironmentUnsupported
from tfwave.runtime.compiler import find_compiler
from tfwave.runtime.control.client import check_reach
from tfwave.runtime.control.credentials import Credentials
from tfwave.runtime.control.limits import DEFAULT_LIMITS, ControlLimits
from tfwave.runtime.control.metrics import serve_metrics
from tfwave.runtime.control.service import Controlled, serve
from tfwave.runtime.hook import Hook
from tfwave.runtime.native import find_built
from tfwave.runtime.proxy.behind import BehindProxy
from tfwave.runtime.trace.tracer import Tracer

PROTOCOL = "grpc+tfwave"
DEFAULT_CONTROL = "127.0.0.1:0"

_log = logging.getLogger("tfwave")


Enforcer = Literal["auto", "hook", "proxy"]


class _Starting(Protocol):
    """A TensorFlow server that is to start, and what orders what it sends; that is there before."""

    @property
    def enforcer(self) -> Controlled: ...
    def start(self) -> Any: ...
    def abandon(self) -> None: ...


class _Hooked:
    def __init__(self, make: Callable[[Hook], Any]) -> None:
        self.enforcer = Hook()
        self._make = make

    def start(self) -> Any:
        return self._make(self.enforcer)

    def abandon(self) -> None:
        """There is nothing to leave."""


@dataclass(frozen=True)
class _Ends:
    """Where others reach what is beside TensorFlow's own server."""

    control: str
    credentials: Credentials | None
    limits: ControlLimits
    metrics: str | None


class Server:
    """A `tf.distribute.Server` that sends in order, and its control service.

    What orders is the native hook or, where no compiler is, a proxy in front of the server (`enforcer`). Clients
    reach it as any TensorFlow server, at `target`; plans reach it at `control_address`; Prometheus reads
    ``http://metrics_address/metrics``, if asked for.
    """

    def __init__(  # noqa: PLR0913
        self,
        cluster: Mapping[str, Sequence[str] | Mapping[int, str]],
        job_name: str,
        task_index: int,
        *,
        port: int | None = None,
        enforcer: Enforcer = "auto",
        control: str = DEFAULT_CONTROL,
        credentials: Credentials | None = None,
        limits: ControlLimits = DEFAULT_LIMITS,
        metrics: str | None = None,
        config: Any = None,
    ) -> None:
        """Start serving.

        Args:
            cluster: host:port of each task, by job name, as `tf.train.ClusterSpec` takes it; or such a one.
            job_name: the job of this task.
            task_index: its number in that job.
            port: where to listen, if not at the port that the cluster names.
            enforcer: "hook" (the native library, see `tfwave.runtime.native`), "proxy" (costs about a millisecond a
                tensor), or "auto": the proxy only where neither such a library is nor a compiler that builds one.
            control: where the control service listens; see `tfwave.runtime.control.service.serve`.
            credentials: what must be proved to it; needed beyond loopback. TensorFlow's own port knows none.
            limits: what callers of it may set.
            metrics: where to serve Prometheus metrics (see `serve_metrics`); None: not.
            config: a `tf.compat.v1.ConfigProto`, as `tf.distribute.Server` takes it: what devices the server has.

        Raises:
            EnvironmentUnsupported: no supported TensorFlow, or the hook is wanted and can neither be found nor
                built.
            EnforcerError: no such enforcer, a port is in use, an address or credential is not as it should be, or
                the library cannot be built.
        """
        ends = _Ends(control, credentials, limits, metrics)
        _check_enforcer(enforcer)
        check_reach(control, credentials)
        definition = _definition(cluster, job_name, task_index, port)
        if config is not None:
            definition.default_session_config.CopyFrom(config)
        self._attach(_starting(definition, enforcer), ends, (job_name, task_index))

    @classmethod
    def wrap(
        cls,
        server: Any,
        *,
        control: str = DEFAULT_CONTROL,
        credentials: Credentials | None = None,
        limits: ControlLimits = DEFAULT_LIMITS,
        metrics: str | None = None,
    ) -> "Server":
        """Hook a `tf.distribute.Server` that already runs.

        Raises:
            EnvironmentUnsupported, EnforcerError: as the constructor, or not a server.
        """

        def hooked(hook: Hook) -> Any:
            hook.wrap(server)
            return server

        check_reach(control, credentials)
        wrapped = cls.__new__(cls)
        wrapped._attach(_Hooked(hooked), _Ends(control, credentials, limits, metrics), _task_of(server))
        return wrapped

    def _attach(self, starting: _Starting, ends: _Ends, task: tuple[str, int]) -> None:
        """What can be stopped comes first: a TensorFlow server, once started, cannot be ended."""
        self.enforcer = starting.enforcer
        self.metrics_address: str | None = None
        with ExitStack() as started:
            started.callback(starting.abandon)
            services = started.enter_context(ExitStack())
            control = serve(self.enforcer, ends.control, ends.credentials, ends.limits)
            services.callback(control.stop)
            if ends.metrics is not None:
                labels = {"job": task[0], "task": str(task[1])}
                metrics = serve_metrics(self.enforcer.status, ends.metrics, labels)
                services.callback(metrics.stop)
                self.metrics_address = metrics.address
            self._server = starting.start()
            self._services = services.pop_all()
            started.pop_all()
        self.target: str = getattr(starting, "target", None) or _text(self._server.target)
        self.control_address = control.address
        hook = self.enforcer if isinstance(self.enforcer, Hook) else None
        control.trace_with(Tracer(self.target, hook))

    def join(self) -> None:
        """Wait for the TensorFlow server to end: for ever, as it cannot be ended but with its process."""
        self._server.join()

    def stop(self) -> None:
        """End control and metrics, and remove the plan (of all servers in this process); TensorFlow goes on."""
        self._services.close()
        self.enforcer.remove()  # whatever came in by then


def _check_enforcer(enforcer: str) -> None:
    known = get_args(Enforcer)
    if enforcer not in known:
        raise EnforcerError(f"there is no enforcer '{enforcer}': give one of {', '.join(known)}")


def _starting(definition: Any, enforcer: Enforcer) -> _Starting:
    if enforcer == "proxy" or (enforcer == "auto" and not _can_hook()):
        return BehindProxy(definition)
    return _Hooked(lambda hook: _start(definition))  # its protocol brings the hook


def _can_hook() -> bool:
    try:
        if find_built() is None:
            find_compiler()
    except EnvironmentUnsupported as err:
        _log.warning("tfwave: ordering by a proxy, which is slower than the hook: %s", err)
        return False
    return True


def _definition(cluster: Any, job_name: str, task_index: int, port: int | None) -> Any:
    tensorflow: Any = __import__("tensorflow")
    given: Any = dict(cast("Mapping[str, Any]", cluster)) if isinstance(cluster, Mapping) else cluster
    definition = tensorflow.train.ServerDef(
        cluster=tensorflow.train.ClusterSpec(given).as_cluster_def(),
        job_name=job_name,
        task_index=task_index,
        protocol=PROTOCOL,
    )
    if port is not None:
        definition.port = port
    return definition


def _start(definition: Any) -> Any:
    tensorflow: Any = __import__("tensorflow")
    try:
        return tensorflow.distribute.Server(definition)
    except tensorflow.errors.OpError as err:
        where = _bind_address(definition)
        raise EnforcerError(
            f"no TensorFlow server starts at {where} ({_first_line(err)}): is the port in use?"
        ) from err


def _task_of(server: Any) -> tuple[str, int]:
    """Job and number; what is no server is refused where it is hooked."""
    definition = getattr(server, "server_def", None)
    return (definition.job_name, definition.task_index) if definition is not None else ("", 0)


def _bind_address(definition: Any) -> str:
    tasks = {job.name: job.tasks for job in definition.cluster.job}.get(definition.job_name, {})
    listed = (
        str(tasks[definition.task_index]) if definition.task_index in tasks else "a task the cluster lacks"
    )
    return f"port {definition.port}" if definition.port else listed


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
