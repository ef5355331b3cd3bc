"""A TensorFlow server that sends in a plan's order, and can be told which."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfwave.errors import EnforcerError
from tfwave.runtime.control import serve
from tfwave.runtime.hook import Hook

PROTOCOL = "grpc+tfwave"
DEFAULT_CONTROL = "127.0.0.1:0"


class Server:
    """A `tf.distribute.Server` with a hook, and the control service of that hook.

    Clients reach it as any TensorFlow server, at `target`; plans reach it at `control_address`.
    """

    def __init__(
        self,
        cluster: Mapping[str, Sequence[str] | Mapping[int, str]],
        job_name: str,
        task_index: int,
        *,
        port: int | None = None,
        control: str = DEFAULT_CONTROL,
    ) -> None:
        """Start serving.

        Args:
            cluster: host:port of each task, by job name, as `tf.train.ClusterSpec` takes it.
            job_name: the job of this task.
            task_index: its number in that job.
            port: where to listen, if not at the port that the cluster names.
            control: where the control service listens; see `tfwave.runtime.control.serve`.

        Raises:
            EnvironmentUnsupported: no supported TensorFlow, or no compiler.
            EnforcerError: a port is in use, or the library cannot be built.
        """
        self._attach(control, lambda hook: _start(cluster, job_name, task_index, port))

    @classmethod
    def wrap(cls, server: Any, *, control: str = DEFAULT_CONTROL) -> "Server":
        """Hook a `tf.distribute.Server` that already runs.

        Raises:
            EnvironmentUnsupported, EnforcerError: as the constructor, or not a server.
        """

        def hooked(hook: Hook) -> Any:
            hook.wrap(server)
            return server

        wrapped = cls.__new__(cls)
        wrapped._attach(control, hooked)
        return wrapped

    def _attach(self, control: str, start: Callable[[Hook], Any]) -> None:
        """The control service comes first: a TensorFlow server, once started, cannot be ended."""
        self.hook = Hook()
        self._control = serve(self.hook, control)
        try:
            self._server = start(self.hook)
        except Exception:
            self._control.stop()
            raise
        self.target: str = _text(self._server.target)
        self.control_address = self._control.address

    def join(self) -> None:
        """Wait for the TensorFlow server to end: for ever, as it cannot be ended but with its process."""
        self._server.join()

    def stop(self) -> None:
        """Remove the plan (of all servers in this process), end the control service; TensorFlow goes on."""
        self.hook.remove()
        self._control.stop()


def _start(
    cluster: Mapping[str, Sequence[str] | Mapping[int, str]], job_name: str, task_index: int, port: int | None
) -> Any:
    tensorflow: Any = __import__("tensorflow")
    definition = tensorflow.train.ServerDef(
        cluster=tensorflow.train.ClusterSpec(dict(cluster)).as_cluster_def(),
        job_name=job_name,
        task_index=task_index,
        protocol=PROTOCOL,
    )
    if port is not None:
        definition.port = port
    try:
        return tensorflow.distribute.Server(definition)
    except tensorflow.errors.OpError as err:
        where = _bind_address(definition)
        raise EnforcerError(
            f"no TensorFlow server starts at {where} ({_first_line(err)}): is the port in use?"
        ) from err


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
