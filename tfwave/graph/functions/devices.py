"""Device names, as far as a call hands its own on to the nodes of the function's body."""

import re

_PART = re.compile(
    r"/(job):(\*|[A-Za-z]\w*)(?=/|$)"
    r"|/(replica|task):(\*|\d+)"
    r"|/device:(\*|[A-Za-z]\w*)(?::(\*|\d+))?"
    r"|/(cpu|CPU|gpu|GPU):(\*|\d+)",
    re.ASCII,
)
_ORDER = ("job", "replica", "task", "device", "index")


def filled_in(device: str, caller: str) -> str:
    """The device of a body's node, with the caller's parts where the node's own name leaves them open.

    A name that TensorFlow cannot read stays as it is.
    """
    if not device:
        return caller
    own, others = _parse(device), _parse(caller)
    if own is None or others is None:
        return device
    return _text(others | own)


def is_tpu(device: str) -> bool:
    """Whether a name says that the device is a TPU."""
    parts = _parse(device)
    return parts is not None and parts.get("device") == "TPU"


def _parse(name: str) -> dict[str, str] | None:
    """The parts that a name gives; a part given as ``*`` is open."""
    parts: dict[str, str] = {}
    end = 0
    while end < len(name) and name != "/":
        match = _PART.match(name, end)
        if match is None:
            return None
        job, job_name, number_of, number, kind, index, legacy, legacy_index = match.groups()
        if job:
            parts[job] = job_name
        elif number_of:
            parts[number_of] = number
        else:
            parts |= {"device": kind or legacy.upper(), "index": index or legacy_index or "*"}
        end = match.end()
    return {part: value for part, value in parts.items() if value != "*"}


def _text(parts: dict[str, str]) -> str:
    text = "".join([f"/{part}:{parts[part]}" for part in _ORDER[:-1] if part in parts])
    return f"{text}:{parts.get('index', '*')}" if "device" in parts else text
