"""Who may control a hook: tokens, certificates, and what is wrong with them."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.controlled import FakeHook
from tests.tls import Authority, authority
from tfwave.errors import EnforcerError
from tfwave.runtime.control.client import ControlClient
from tfwave.runtime.control.credentials import MIN_TOKEN, Credentials, find_credentials
from tfwave.runtime.control.service import serve

TOKEN = "0123456789abcdef"
OTHER = "0123456789abcdeF"


class Files(NamedTuple):
    ours: Authority
    theirs: Authority


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("tls")
    return Files(authority(folder, "ours"), authority(folder, "theirs"))


Given = Callable[[Files], Credentials | None]


def _mutual(files: Files) -> Credentials:
    return files.ours.mutual("mutual")


def _mutual_and_token(files: Files) -> Credentials:
    return files.ours.mutual("both", TOKEN)


def _server_tls_and_token(files: Files) -> Credentials:
    return Credentials(TOKEN, *files.ours.signed("server"))


def _authority_and_token(files: Files) -> Credentials:
    return Credentials(TOKEN, tls_ca=files.ours.cert)


def _token(_: Files) -> Credentials:
    return Credentials(TOKEN)


def _nothing(_: Files) -> None:
    return None


def asked(server: Credentials | None, client: Credentials | None) -> str:
    service = serve(FakeHook(), "127.0.0.1:0", server)
    try:
        with ControlClient(service.address, credentials=client) as control:
            return control.health().enforcer
    finally:
        service.stop()


@pytest.mark.parametrize(
    ("server", "client"),
    [
        (_nothing, _nothing),
        (_nothing, _token),
        (_token, _token),
        (_mutual, _mutual),
        (_mutual, _mutual_and_token),
        (_mutual_and_token, _mutual_and_token),
        (_server_tls_and_token, _authority_and_token),
        (_server_tls_and_token, _mutual_and_token),
    ],
)
def test_those_who_prove_it_are_let_in(server: Given, client: Given, files: Files) -> None:
    assert asked(server(files), client(files)) == "fake"


@pytest.mark.parametrize(
    ("server", "client", "why"),
    [
        (_mutual, _nothing, "no control service answers.*credentials that go with these"),
        (_mutual, _token, "no control service answers"),
        (_mutual, _authority_and_token, "no control service answers"),
        (_mutual, lambda f: Credentials(None, *f.theirs.signed("thief"), f.ours.cert), "no control service"),
        (_mutual, lambda f: f.theirs.mutual("foreign"), "CERTIFICATE_VERIFY_FAILED"),
        (_mutual_and_token, _mutual, "no token was given"),
        (_mutual_and_token, lambda f: f.ours.mutual("insider", OTHER), "the token is wrong"),
        (_server_tls_and_token, lambda f: Credentials(OTHER, tls_ca=f.ours.cert), "the token is wrong"),
        (
            _server_tls_and_token,
            lambda f: Credentials(TOKEN, tls_ca=f.theirs.cert),
            "CERTIFICATE_VERIFY_FAILED",
        ),
        (_server_tls_and_token, _token, "no control service answers"),
        (_token, _mutual_and_token, "no control service answers.*WRONG_VERSION_NUMBER"),
        (
            lambda f: Credentials(TOKEN, *f.ours.signed("elsewhere", "DNS:elsewhere")),
            _authority_and_token,
            "no control service answers.*(Hostname|Peer name)",
        ),
    ],
)
def test_others_are_not(server: Given, client: Given, why: str, files: Files) -> None:
    with pytest.raises(EnforcerError, match=why) as caught:
        asked(server(files), client(files))
    assert "\n" not in str(caught.value)
    assert TOKEN not in str(caught.value)


def test_files_may_be_strings(files: Files) -> None:
    pem = _mutual(files)
    named = Credentials(tls_cert=str(pem.tls_cert), tls_key=str(pem.tls_key), tls_ca=str(pem.tls_ca))
    assert asked(named, named) == "fake"


def test_tls_on_a_unix_socket_is_refused(files: Files, tmp_path: Path) -> None:
    with pytest.raises(EnforcerError, match="takes no TLS"):
        serve(FakeHook(), f"unix:{tmp_path}/control", _mutual(files))
    with pytest.raises(EnforcerError, match="takes no TLS"):
        ControlClient(f"unix:{tmp_path}/control", credentials=_authority_and_token(files))


def test_a_token_does_not_show() -> None:
    assert TOKEN not in repr(Credentials(TOKEN))


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({}, "prove nothing: give a token, or"),
        ({"tls_ca": Path("ca")}, "prove nothing"),
        ({"tls_cert": Path("a"), "tls_key": Path("b")}, "prove nothing"),
        ({"tls_cert": Path("a"), "tls_ca": Path("c")}, "tls_cert without tls_key"),
        ({"tls_key": Path("a"), "token": TOKEN}, "tls_key without tls_cert"),
        ({"token": TOKEN[:15]}, "the token has 15 characters: give at least 16"),
        ({"token": ""}, "the token has 0 characters"),
        ({"token": "0123 4567 89ab cdef"}, "the token is malformed"),
        ({"token": "0123456789abcdef\n"}, "the token is malformed"),
        ({"token": "0123456789abcdeé"}, "the token is malformed"),
    ],
)
def test_parts_that_do_not_add_up(parts: dict[str, Path | str], why: str) -> None:
    with pytest.raises(EnforcerError, match=why):
        Credentials(**parts)  # type: ignore[arg-type]


def test_each_end_needs_its_own_parts(files: Files) -> None:
    with pytest.raises(EnforcerError, match="give tls_cert and tls_key"):
        _authority_and_token(files).for_server()
    with pytest.raises(EnforcerError, match="give tls_ca"):
        _server_tls_and_token(files).for_client()


def test_files_that_are_not_what_they_should_be(files: Files, tmp_path: Path) -> None:
    cert, key = files.ours.signed("good")
    other = files.ours.signed("other")[1]
    locked, missing = tmp_path / "locked.key", tmp_path / "missing.pem"
    lock = ["openssl", "ec", "-in", str(key), "-aes128", "-passout", "pass:secret", "-out", str(locked)]
    subprocess.run(lock, check=True, capture_output=True, timeout=30)
    cases = [
        ((missing, key, files.ours.cert), f"tls_cert '{missing}' cannot be read (No such file or directory)"),
        ((cert, missing, files.ours.cert), f"tls_key '{missing}' cannot be read"),
        ((cert, tmp_path, files.ours.cert), f"tls_key '{tmp_path}' cannot be read (Is a directory)"),
        ((cert, key, missing), f"tls_ca '{missing}' cannot be read"),
        ((cert, other, files.ours.cert), f"tls_key '{other}' is not the key of tls_cert '{cert}'"),
        ((cert, cert, files.ours.cert), f"tls_cert '{cert}' and tls_key '{cert}' are not a certificate and"),
        ((cert, locked, files.ours.cert), "its key without a password"),
        ((cert, key, key), f"tls_ca '{key}' holds no certificate"),
    ]
    for paths, why in cases:
        credentials = Credentials(None, *paths)
        with pytest.raises(EnforcerError, match=re.escape(why)):
            serve(FakeHook(), "127.0.0.1:0", credentials)
        with pytest.raises(EnforcerError, match=re.escape(why)):
            ControlClient("127.0.0.1:1", credentials=credentials)


def test_where_the_token_is_found(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    environment = {"TFWAVE_TOKEN": OTHER}
    assert find_credentials(environment={}) is None
    assert find_credentials(environment=environment) == Credentials(OTHER)
    assert find_credentials(token_file=file, environment=environment) == Credentials(TOKEN)
    ca = tmp_path / "ca"
    assert find_credentials(tls_ca=ca, environment=environment) == Credentials(OTHER, tls_ca=ca)


@pytest.mark.parametrize("length", [0, 5, MIN_TOKEN - 1])
def test_a_token_too_short_is_named_by_its_place(length: int, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("x" * length + "\n")
    with pytest.raises(EnforcerError, match=f"the token in '{file}' has {length} characters"):
        find_credentials(token_file=file, environment={})
    with pytest.raises(EnforcerError, match=f"the token in TFWAVE_TOKEN has {length} characters"):
        find_credentials(environment={"TFWAVE_TOKEN": "x" * length})
    with pytest.raises(EnforcerError, match="token file 'nowhere' cannot be read"):
        find_credentials(token_file=Path("nowhere"), environment={})
