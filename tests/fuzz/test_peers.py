"""Whatever peers say, and whatever files of measurements hold: it works, or it is refused with a reason."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from google.protobuf import text_format
from google.protobuf.message import Message

from tests.fuzz.documents import check_capture, check_documents
from tests.fuzz.invariants import memory_limit
from tests.fuzz.orders import any_orders, check_bytes, check_orders
from tests.fuzz.peers import (
    KEY,
    Target,
    any_address,
    check_address,
    check_answers,
    check_control,
    check_hand_offs,
    check_members,
    check_reduces,
    check_trace,
    control_target,
)
from tests.fuzz.requests import any_tensor_request, check_calls, check_tensor_request
from tfwave.proto.control_pb2 import HandOffs, Trace
from tfwave.proto.reduce_pb2 import Hello, Order, Report

CRASHERS = Path(__file__).parent / "crashers"

_M = TypeVar("_M", bound=Message)


def kept(kind: str) -> pytest.MarkDecorator:
    """What broke it once."""
    files = sorted((CRASHERS / kind).iterdir())
    return pytest.mark.parametrize("file", files, ids=lambda file: file.stem)


def read(file: Path, kind: type[_M]) -> _M:
    return text_format.Parse(file.read_text(), kind())


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    with control_target() as target:
        yield target


def test_any_control_message(target: Target) -> None:
    for seed in range(150):
        check_control(random.Random(seed), target)


def test_any_answer_of_a_control_service() -> None:
    for seed in range(300):
        check_answers(random.Random(seed))


def test_any_members_of_a_reduce() -> None:
    for seed in range(300):
        check_reduces(random.Random(seed))


def test_any_orders_to_a_member() -> None:
    for seed in range(25):
        check_orders(any_orders(random.Random(seed)))


def test_any_bytes_of_a_link() -> None:
    for seed in range(300):
        check_bytes(random.Random(seed))


def test_any_address_of_a_member() -> None:
    for seed in range(60):
        check_address(any_address(random.Random(seed)))


def test_any_rendezvous_key() -> None:
    for seed in range(2000):
        check_tensor_request(any_tensor_request(random.Random(seed)))


def test_any_calls_to_a_proxy() -> None:
    for seed in range(40):
        check_calls(random.Random(seed))


def test_any_measurements(tmp_path: Path) -> None:
    for seed in range(300):
        check_documents(random.Random(seed), tmp_path)


@kept("hand_offs")
def test_hand_offs_that_broke_it_once(file: Path) -> None:
    check_hand_offs(read(file, HandOffs))


@kept("traces")
def test_traces_that_broke_it_once(file: Path) -> None:
    check_trace(read(file, Trace))


@kept("reports")
def test_members_that_broke_it_once(file: Path) -> None:
    """The first says hello, and each says what it has to say."""
    reports = [text_format.Parse(text, Report()) for text in file.read_text().split("\n---\n")]
    hellos = [report.hello for report in reports if report.HasField("hello")]
    said = [(len(hellos) - 1, report) for report in reports if not report.HasField("hello")]
    for hello in hellos:
        hello.key = KEY
    check_members([Hello.FromString(hello.SerializeToString()) for hello in hellos], [*said])


@kept("orders")
def test_orders_that_broke_it_once(file: Path) -> None:
    check_orders([text_format.Parse(text, Order()) for text in file.read_text().split("\n---\n")])


@kept("captures")
def test_captures_that_broke_it_once(file: Path) -> None:
    with memory_limit():
        check_capture(file)


@kept("addresses")
def test_addresses_that_broke_it_once(file: Path) -> None:
    check_address(file.read_text().removesuffix("\n"))
