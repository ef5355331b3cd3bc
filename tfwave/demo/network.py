"""The network of a demo: hosts on one machine, each with a network card of a given rate."""

import math
import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from tfwave.demo import namespaces
from tfwave.errors import EnforcerError, EnvironmentUnsupported
from tfwave.runtime.ports import reserved_ports
from tfwave.runtime.termination import exit_on_sigterm

LOOPBACK = "127.0.0.1"
MAX_HOSTS = 250

_FIRST_PORT = 20000  # below those that the kernel gives to outgoing connections
_HOST = re.compile(r"[a-z0-9]{1,32}")
_SWITCH = "the-switch"  # no host can be called so
_TRIAL = (("a", "b"), 1e6)


class Network(ABC):
    """Hosts that reach each other at a given rate; a context manager: exists between enter and exit.

    In between SIGTERM ends this process as `sys.exit` does, where it would end it: nothing of the network stays.
    """

    description: str
    """What keeps the rate, in words."""
    pacing_bytes_per_second: float
    """What each hooked server must be configured to keep; 0: the network itself keeps the rate."""

    def __init__(self, hosts: Sequence[str], bits_per_second: float) -> None:
        """Describe the network.

        Args:
            hosts: a name for each, of lower-case letters and digits.
            bits_per_second: the rate of each host's network card, in each direction.

        Raises:
            EnforcerError: a name or the rate is unusable.
        """
        _check(hosts, bits_per_second)
        self.hosts = tuple(hosts)
        self.bits_per_second = bits_per_second
        self._held = ExitStack()

    @abstractmethod
    def address(self, host: str) -> str:
        """The IPv4 address at which the other hosts reach it."""

    @abstractmethod
    def command_prefix(self, host: str) -> list[str]:
        """What to put before a command line so that it runs on the host; keeps the process id."""

    @abstractmethod
    def free_ports(self, host: str, count: int) -> list[int]:
        """TCP ports on which nothing listens on the host; none is given twice."""

    def free_addresses(self, hosts: Sequence[str]) -> list[str]:
        """``host:port`` of such a port on each of these hosts."""
        return [f"{self.address(host)}:{self.free_ports(host, 1)[0]}" for host in hosts]

    def __enter__(self) -> Self:
        self._held.enter_context(exit_on_sigterm())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def _index(self, host: str) -> int:
        if host not in self.hosts:
            raise EnforcerError(f"no host '{host}' in this network: it has {', '.join(self.hosts)}")
        return self.hosts.index(host)


class NamespaceNetwork(Network):
    """A network namespace for each host, all wired to one switch; the kernel keeps the rate.

    The rate counts Ethernet headers: TCP carries 95 % of it as payload.
    """

    description = "network namespaces + tc tbf"
    pacing_bytes_per_second = 0.0

    def __init__(self, hosts: Sequence[str], bits_per_second: float) -> None:
        super().__init__(hosts, bits_per_second)
        self._prefix = namespaces.unique_prefix()
        self._next_port = dict.fromkeys(self.hosts, _FIRST_PORT)

    @classmethod
    def available(cls) -> str | None:
        """None if this machine can do it, found by trying; else why not."""
        if os.geteuid() != 0:
            return "not root"
        for tool in ("ip", "tc"):
            if shutil.which(tool) is None:
                return f"no command '{tool}'"
        try:
            with cls(*_TRIAL):
                return None
        except EnvironmentUnsupported as err:
            return str(err)

    def address(self, host: str) -> str:
        return f"10.83.0.{self._index(host) + 1}"

    def command_prefix(self, host: str) -> list[str]:
        return ["ip", "netns", "exec", self._namespace(host)]

    def free_ports(self, host: str, count: int) -> list[int]:
        self._index(host)
        first = self._next_port[host]
        self._next_port[host] += count
        return list(range(first, first + count))

    def __enter__(self) -> Self:
        """Build it, after removing what dead processes left.

        Raises:
            EnvironmentUnsupported: this machine cannot; `available` says so beforehand.
        """
        super().__enter__()
        with self._held as held:
            held.callback(self._remove)
            self._build()
            self._held = held.pop_all()
        return self

    def _build(self) -> None:
        namespaces.sweep(self._prefix)
        switch = self._prefix + _SWITCH
        namespaces.add(switch)
        namespaces.add_bridge(switch)
        for number, host in enumerate(self.hosts):
            namespaces.add(self._namespace(host))
            where = f"{self.address(host)}/24"
            namespaces.join(self._namespace(host), switch, f"port{number}", where, self.bits_per_second)

    def _remove(self) -> None:
        names = [*map(self._namespace, self.hosts), self._prefix + _SWITCH]
        try:
            namespaces.delete(names)
        except (KeyboardInterrupt, SystemExit):
            namespaces.delete(names)
            raise

    def _namespace(self, host: str) -> str:
        self._index(host)
        return self._prefix + host


class LoopbackNetwork(Network):
    """All hosts are this machine; the hooks of the servers keep the rate, if they are told to."""

    def __init__(self, hosts: Sequence[str], bits_per_second: float, why: str = "not asked for") -> None:
        """As any network; `why` says why it is not of namespaces."""
        super().__init__(hosts, bits_per_second)
        self.description = f"hook's token bucket (no network namespaces: {why})"
        self.pacing_bytes_per_second = bits_per_second / 8

    def address(self, host: str) -> str:
        self._index(host)
        return LOOPBACK

    def command_prefix(self, host: str) -> list[str]:
        self._index(host)
        return []

    def free_ports(self, host: str, count: int) -> list[int]:
        self._index(host)
        return self._held.enter_context(reserved_ports(count))


def open_network(hosts: Sequence[str], bits_per_second: float) -> Network:
    """The best network that this machine can have, to be entered; its `description` says which.

    Args:
        hosts: a name for each, of lower-case letters and digits.
        bits_per_second: the rate of each host's network card, in each direction.

    Raises:
        EnforcerError: a name or the rate is unusable.
    """
    why_not = NamespaceNetwork.available()
    if why_not is None:
        return NamespaceNetwork(hosts, bits_per_second)
    return LoopbackNetwork(hosts, bits_per_second, why_not)


def _check(hosts: Sequence[str], bits_per_second: float) -> None:
    if not 1 <= len(hosts) <= MAX_HOSTS or len(set(hosts)) != len(hosts):
        raise EnforcerError(f"{len(hosts)} hosts make no network: give 1 to {MAX_HOSTS} different names")
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise EnforcerError(f"host name '{host}' is refused: use up to 32 lower-case letters and digits")
    if not (math.isfinite(bits_per_second) and bits_per_second >= 1000):
        raise EnforcerError(f"link rate {bits_per_second} bit/s is refused: give at least 1000")
