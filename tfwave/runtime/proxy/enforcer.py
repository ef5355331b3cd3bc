"""The proxy of one server: its plan, its settings, what it counted and what it handed off."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from tfwave.errors import EnforcerError
from tfwave.plan.plan import Plan, plans_by_function
from tfwave.proto import control_pb2
from tfwave.runtime.native import tensorflow_version
from tfwave.runtime.proxy.log import HandOffLog
from tfwave.runtime.proxy.observer import Observer
from tfwave.runtime.proxy.outbox import Outbox
from tfwave.runtime.proxy.pacer import Pacer
from tfwave.runtime.proxy.relay import Parts, Relay
from tfwave.runtime.proxy.sequencer import Sequencer
from tfwave.runtime.proxy.table import PlanTable
from tfwave.runtime.settings import check_settings

_GRPC: Any = grpc  # untyped
_THREADS = 16  # each only takes a request's bytes in, so that they cannot wait for each other
_MOST = (1 << 31) - 1
_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
)
_SERVER_OPTIONS = (
    *_OPTIONS,
    ("grpc.so_reuseport", 0),
    ("grpc.server.max_pending_requests", _MOST),  # a step asks for all its tensors at once
    ("grpc.server.max_pending_requests_hard_limit", _MOST),
)
_GRACE_SECONDS = 1.0


class Proxy:
    """A transparent gRPC proxy in front of a TensorFlow server, which answers `RecvTensor` in a plan's order.

    The server is asked at once; it is its response that waits for its turn. The same interface as
    `tfwave.runtime.hook.Hook`, but one a server, not one a process.
    """

    def __init__(self, listen: str) -> None:
        """Take the address; clients wait there until `serve`.

        Args:
            listen: ``host:port`` (0: the system chooses).

        Raises:
            EnforcerError: the address is malformed or in use.
        """
        self._log = HandOffLog()
        self._sequencer = Sequencer(self._log)
        self._pacer = Pacer()
        self._outbox = Outbox()
        self._backend: Any = None
        self._threads = ThreadPoolExecutor(_THREADS, "tfwave-proxy")
        self._server = _GRPC.server(self._threads, options=_SERVER_OPTIONS)
        self._has_begun = False
        try:
            port = self._server.add_insecure_port(listen)
        except RuntimeError:
            port = 0
        if port == 0:
            raise EnforcerError(
                f"the proxy cannot listen at '{listen}': give a free host:port, or end the process behind it"
            )
        self.address = f"{listen.rpartition(':')[0]}:{port}"
        """Where clients reach it: ``host:port`` with the true port."""

    @classmethod
    def start(cls, listen: str, target: str) -> "Proxy":
        """Serve at `listen` what the server at `target` (``host:port``) serves.

        Raises:
            EnforcerError: the address is malformed or in use.
        """
        proxy = cls(listen)
        proxy.serve(target)
        return proxy

    def serve(self, target: str) -> None:
        """Pass on to the server at `target` all that comes."""
        self._backend = _GRPC.insecure_channel(target, options=_OPTIONS)
        parts = Parts(self._backend, Observer(self._sequencer), self._sequencer, self._pacer, self._outbox)
        self._server.add_generic_rpc_handlers((Relay(parts),))
        self._begin()

    def install(self, plans: Plan | Mapping[str, Plan]) -> None:
        """Enforce plans from the next step on; what earlier ones hold is let go.

        Channels that go by priority pass as they come, and are counted as unplanned: when bytes have left the
        server is not seen from here.

        Args:
            plans: one plan for all graphs, or one for each function, by TensorFlow's name of it
                (``__inference_step_64``). The plan of "" is for Sessions and for all functions that
                have none of their own; without it those pass unordered.

        Raises:
            PlanError: neither.
        """
        self._sequencer.install(PlanTable(plans_by_function(plans)))

    def remove(self) -> None:
        """Forget the plans; what is held is let go."""
        self._sequencer.install(None)

    def configure(
        self,
        enabled: bool | None = None,
        deadline_seconds: float | None = None,
        bytes_per_second: float | None = None,
        hooked_tasks: Sequence[str] | None = None,
    ) -> None:
        """Change settings; None leaves one as it is.

        Args:
            enabled: False lets tensors pass as they come, still logged.
            deadline_seconds: longest time without a hand-off before a step goes out unordered; above 0.
            bytes_per_second: rate at which tensors leave the proxy; 0: not limited.
            hooked_tasks: a setting of hooks, without effect here: the proxy sees all functions anyway.

        Raises:
            EnforcerError: a value out of range; nothing is changed.
        """
        del hooked_tasks
        check_settings(deadline_seconds, bytes_per_second)
        if deadline_seconds is not None:
            self._sequencer.set_deadline(deadline_seconds)
        if bytes_per_second is not None:
            self._pacer.set_rate(bytes_per_second)
        if enabled is not None:
            self._sequencer.set_enabled(enabled)

    def status(self) -> control_pb2.Status:
        """Settings and counters, now."""
        counters = self._sequencer.counters()
        counters.log_dropped = self._log.dropped
        return control_pb2.Status(
            enforcer="proxy",
            tensorflow_version=tensorflow_version(),
            installed=self._sequencer.installed,
            enabled=self._sequencer.enabled,
            deadline_seconds=self._sequencer.deadline_seconds,
            bytes_per_second=self._pacer.rate,
            counters=counters,
        )

    def hand_offs(self, cursor: int = 0) -> control_pb2.HandOffs:
        """Hand-offs under the plans last installed, from `cursor` on (0, or the last `next_cursor`)."""
        return self._log.read(cursor)

    def stop(self) -> None:
        """Let go all that is held, end the calls under way after a second, and leave the address."""
        self._sequencer.close()
        self._pacer.close()
        self._begin()  # gRPC leaves the address only of a server that has begun
        self._server.stop(_GRACE_SECONDS).wait()
        self._threads.shutdown()
        self._outbox.close()
        if self._backend is not None:
            self._backend.close()

    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._server.start()
