"""Sizes of memory, as people write and read them."""

import pytest

from tfwave.errors import PlanError
from tfwave.sizes import in_words, limit_in_words, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512MiB", 512 << 20),
        ("1.5GB", 1_500_000_000),
        ("2 kib", 2048),
        (100, 100),
        ("7", 7),
        ("1T", 10**12),
        ("3b", 3),
    ],
)
def test_sizes_are_read(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "MB", "-1", "1 mebi", "0", "0.1", "2i", "1e3", "5 5", "9" * 400, "10000000TB"]
)
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(PlanError, match="or a number with a unit"):
        parse_size(text)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1 KiB"),
        (1025, "1.0 KiB"),
        (2**20 - 1, "1,024.0 KiB"),
        (2**20, "1 MiB"),
        (2_500_000, "2.4 MiB"),
        (512 * 2**20, "512 MiB"),
        (3 * 2**30 + 1, "3,072.0 MiB"),
        (-5000, "-4.9 KiB"),
        (99.6, "100 bytes"),
    ],
)
def test_sizes_are_shown_in_binary_units(size: float, text: str) -> None:
    assert in_words(size) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (100, "100 bytes"),
        (1025, "1.1 KiB"),
        (22_571_000, "21.6 MiB"),
        (512 * 2**20, "512 MiB"),
        (2**20 + 1, "1.1 MiB"),
    ],
)
def test_a_limit_is_shown_so_that_it_is_enough(size: int, text: str) -> None:
    assert limit_in_words(size) == text


@pytest.mark.parametrize("text", ["512MiB", "3 MiB", "7KiB"])
def test_a_whole_size_is_shown_as_it_was_given(text: str) -> None:
    assert in_words(parse_size(text)).replace(" ", "") == text.replace(" ", "")
