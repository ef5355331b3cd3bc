"""Certificates, by the openssl command."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tfwave.runtime.control.credentials import Credentials

_NEW = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True)
class Authority:
    """Signs certificates; its own is `cert`."""

    folder: Path
    name: str

    @property
    def cert(self) -> Path:
        return self.folder / f"{self.name}.pem"

    def signed(self, name: str, hosts: str = "DNS:localhost,IP:127.0.0.1") -> tuple[Path, Path]:
        """The files of a new certificate and its key."""
        _make(
            self.folder,
            name,
            *("-CA", str(self.cert), "-CAkey", str(self.cert.with_suffix(".key"))),
            *("-addext", "basicConstraints=critical,CA:FALSE", "-addext", f"subjectAltName={hosts}"),
        )
        return self.folder / f"{name}.pem", self.folder / f"{name}.key"

    def mutual(self, name: str, token: str | None = None) -> Credentials:
        return Credentials(token, *self.signed(name), self.cert)


def authority(folder: Path, name: str) -> Authority:
    _make(folder, name)
    return Authority(folder, name)


def _make(folder: Path, name: str, *more: str) -> None:
    files = ("-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem"))
    command = [*_NEW, "-days", "2", "-subj", f"/CN={name}", *files, *more]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
