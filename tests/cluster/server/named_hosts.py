"""Hosts with names, each a network namespace: programs on them find each other as on a cluster."""

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.speaker import ENVIRONMENT
from tfwave.demo.network import NamespaceNetwork

_BITS_PER_SECOND = 1e9
_WITH_NAMES = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"']

Process = subprocess.Popen[str]


@dataclass(frozen=True)
class Hosts:
    """The hosts of a network, by name."""

    network: NamespaceNetwork
    aliases: Mapping[str, str]
    table: Path

    def address(self, name: str) -> str:
        return self.network.address(self.aliases[name])

    def start(self, name: str, command: Sequence[str], variables: Mapping[str, str], out: Path) -> Process:
        """Run a command on a host in `out`'s directory; what it says goes to `out`."""
        namespace = self.network.command_prefix(self.aliases[name])[-1]
        with out.open("a") as file:
            return subprocess.Popen(
                ["nsenter", f"--net=/run/netns/{namespace}", *_WITH_NAMES, str(self.table), *command],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                text=True,
                cwd=out.parent,
                env={**os.environ, **ENVIRONMENT, **variables},
            )


@contextlib.contextmanager
def named_hosts(names: Sequence[str], directory: Path) -> Iterator[Hosts]:
    """Build them; each knows all names. Needs root: see `NamespaceNetwork.available`."""
    aliases = {name: f"host{number}" for number, name in enumerate(names)}
    with NamespaceNetwork(list(aliases.values()), _BITS_PER_SECOND) as network:
        table = directory / "hosts"
        lines = [f"{network.address(alias)} {name}" for name, alias in aliases.items()]
        table.write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        yield Hosts(network, aliases, table)
