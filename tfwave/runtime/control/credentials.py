"""Who may control a hook: a token, TLS, or both; one declaration for either end."""

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from tfwave.errors import EnforcerError

TOKEN_VARIABLE = "TFWAVE_TOKEN"  # noqa: S105
MIN_TOKEN = 16
"""A token of fewer characters could be guessed."""
TOKEN_HEADER = "authorization"  # noqa: S105
"""The call metadata in which the token is sent; see `token_header`."""

_GRPC: Any = grpc  # untyped


@dataclass(frozen=True)
class Credentials:
    """What one end of a control service shows to the other, and asks of it.

    1. `token`: a secret that both ends know, sent with each call. It goes over the wire as it is, and so do
       plans: anyone who can listen to the network can read it and use it. Alone, it is for networks that are
       trusted.
    2. `tls_cert`, `tls_key` and `tls_ca`: mutual TLS. Each end shows its certificate and accepts what the
       authority has signed. With a token, both are asked for.
    3. `token`, `tls_cert` and `tls_key`, for the serving end: the token, on an encrypted connection.
    4. `token` and `tls_ca`, for the client's end of case 3.

    A client checks that the server's certificate is for the host that it calls.
    Files are read when a service or client starts, which raises `EnforcerError` if one is not as it should be.

    Attributes:
        token: at least `MIN_TOKEN` printable ASCII characters without spaces.
        tls_cert: this end's certificate, with those between it and the authority's; PEM.
        tls_key: the key of `tls_cert`, not encrypted; PEM.
        tls_ca: certificates of the authorities that the other end's must be signed by; PEM.

    Raises:
        EnforcerError: the token is too short or malformed, or the parts are none of the cases.
    """

    token: str | None = field(default=None, repr=False)
    tls_cert: str | Path | None = None
    tls_key: str | Path | None = None
    tls_ca: str | Path | None = None

    def __post_init__(self) -> None:
        if self.token is not None:
            _check_token(self.token, "the token")
        if (self.tls_cert is None) != (self.tls_key is None):
            given, missing = ("tls_cert", "tls_key") if self.tls_cert else ("tls_key", "tls_cert")
            raise EnforcerError(f"{given} without {missing} is of no use: give both")
        if not (self.token or (self.tls_cert and self.tls_ca)):
            raise EnforcerError(
                "these credentials prove nothing: give a token, or tls_cert, tls_key and tls_ca"
            )

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """What a client sends with each call."""
        return () if self.token is None else ((TOKEN_HEADER, token_header(self.token)),)

    def for_server(self) -> Any:
        """Credentials for gRPC to listen with; None for plain text (case 1).

        Raises:
            EnforcerError: a file cannot be read or is not what it should be, or case 4.
        """
        if self.tls_cert is None or self.tls_key is None:
            if self.tls_ca is not None:
                raise EnforcerError("a service with tls_ca needs a certificate: give tls_cert and tls_key")
            return None
        authorities = None if self.tls_ca is None else _authorities(self.tls_ca)
        certificate, key = _pair(self.tls_cert, self.tls_key)
        return _GRPC.ssl_server_credentials(
            [(key, certificate)], authorities, require_client_auth=authorities is not None
        )

    def for_client(self) -> Any:
        """Credentials for gRPC to call with; None for plain text (case 1).

        Raises:
            EnforcerError: a file cannot be read or is not what it should be, or case 3.
        """
        if self.tls_ca is None:
            if self.tls_cert is not None:
                raise EnforcerError(
                    "a client with tls_cert needs the authority of the server's certificate: give tls_ca"
                )
            return None
        certificate, key = (
            _pair(self.tls_cert, self.tls_key) if self.tls_cert and self.tls_key else (None, None)
        )
        return _GRPC.ssl_channel_credentials(_authorities(self.tls_ca), key, certificate)


def token_header(token: str) -> str:
    """The value of `TOKEN_HEADER` that shows a token."""
    return f"Bearer {token}"


def find_credentials(
    *,
    token_file: Path | None = None,
    tls_cert: Path | None = None,
    tls_key: Path | None = None,
    tls_ca: Path | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Credentials | None:
    """Credentials from files, and the token from the environment variable TFWAVE_TOKEN if no file is given.

    Args:
        token_file: holds the token; white space around it does not count.
        tls_cert: as in `Credentials`.
        tls_key: as in `Credentials`.
        tls_ca: as in `Credentials`.
        environment: where TFWAVE_TOKEN is looked up.

    Returns:
        None if there is neither a token nor a TLS file.

    Raises:
        EnforcerError: the token cannot be read, or as `Credentials`.
    """
    token = _find_token(token_file, environment)
    if token is None and tls_cert is None and tls_key is None and tls_ca is None:
        return None
    return Credentials(token, tls_cert, tls_key, tls_ca)


def _find_token(file: Path | None, environment: Mapping[str, str]) -> str | None:
    if file is not None:
        text, where = _read(file, "token file").decode(errors="replace").strip(), f"the token in '{file}'"
    elif TOKEN_VARIABLE in environment:
        text, where = environment[TOKEN_VARIABLE].strip(), f"the token in {TOKEN_VARIABLE}"
    else:
        return None
    _check_token(text, where)
    return text


def _check_token(token: str, where: str) -> None:
    if len(token) < MIN_TOKEN:
        raise EnforcerError(
            f"{where} has {len(token)} characters: give at least {MIN_TOKEN}, as `openssl rand -hex 32` makes"
        )
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise EnforcerError(f"{where} is malformed: give printable ASCII characters without spaces")


def _pair(certificate: str | Path, key: str | Path) -> tuple[bytes, bytes]:
    read = _read(certificate, "tls_cert"), _read(key, "tls_key")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except ssl.SSLError as err:
        if err.reason == "KEY_VALUES_MISMATCH":
            raise EnforcerError(
                f"tls_key '{key}' is not the key of tls_cert '{certificate}': give the two that belong together"
            ) from err
        raise EnforcerError(
            f"tls_cert '{certificate}' and tls_key '{key}' are not a certificate and its key without a password: "
            "give both in PEM"
        ) from err
    return read


def _authorities(file: str | Path) -> bytes:
    read = _read(file, "tls_ca")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
    except ssl.SSLError as err:
        raise EnforcerError(f"tls_ca '{file}' holds no certificate: give one or more in PEM") from err
    return read


def _read(file: str | Path, what: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as err:
        raise EnforcerError(f"{what} '{file}' cannot be read ({err.strerror}): give a readable file") from err
