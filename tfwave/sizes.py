"""Sizes of memory and times, as people write and read them; all else has bytes and seconds."""

import math
import re

from tfwave.errors import PlanError, excerpt

_SIZE = re.compile(r"(?P<count>\d+(?:\.\d+)?)\s*(?P<unit>[kmgt]?i?b?)", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
MIB = 2**20
_KIB = 2**10
_MOST = 2**63 - 1


def in_words(size: float) -> str:
    """Bytes in MiB (2**20), less than that in KiB (2**10) or bytes; a whole number as one: 512 MiB."""
    count = round(size)
    if abs(count) < _KIB:
        return f"{count} bytes"
    unit, name = (MIB, "MiB") if abs(count) >= MIB else (_KIB, "KiB")
    return f"{count / unit:,.{1 if count % unit else 0}f} {name}"


def limit_in_words(size: float) -> str:
    """A limit that is to be given, as `in_words`, but never less than so many bytes."""
    count = math.ceil(size)
    unit = next((unit for unit in (MIB, _KIB) if count >= unit), 1)
    return in_words(math.ceil(count * 10 / unit) * unit / 10 if count % unit else count)


def in_words_if_known(size: float) -> str:
    """As `in_words`; 0 bytes are "unknown", as a graph that was not captured does not tell."""
    return in_words(size) if size else "unknown"


def milliseconds(seconds: float) -> str:
    """Seconds in words, in units of 10^-3."""
    return f"{seconds * 1e3:.2f} ms"


def parse_size(text: str | int) -> int:
    """Bytes: a number, or one with a unit such as ``512MiB`` (2**20 bytes each) or ``1.5GB`` (10**9).

    Raises:
        PlanError: neither, or not above 0, or more than plans can say (2**63 - 1).
    """
    match = _SIZE.fullmatch(str(text).strip())
    if match is None:
        raise _refusal(text)
    unit = match["unit"].lower().rstrip("b")
    base = 1024 if unit.endswith("i") else 1000
    size = float(match["count"]) * base ** _POWERS[unit.rstrip("i")]
    if unit == "i" or size > _MOST or round(size) < 1:
        raise _refusal(text)
    return round(size)


def _refusal(text: str | int) -> PlanError:
    return PlanError(
        f"{excerpt(str(text))!r} is no size of a memory: give bytes, or a number with a unit, as 512MiB or 2GB"
    )
