"""The proxy's sequencer is tested by the cases of the native one: docs/adr/the_proxys_sequencer.md."""

import re
from pathlib import Path

HERE = Path(__file__).parent
NATIVE = HERE.parent / "native" / "sequencer_test.cc"
NATIVE_ONLY = {"bad_plans_are_refused", "arrivals_are_numbered_and_kept"}
"""The proxy takes plans that were checked before, and sees no arrivals."""


def test_each_case_of_the_native_sequencer_is_one_of_the_proxys() -> None:
    native = re.findall(r"^void ([A-Z]\w+)\(\) \{", NATIVE.read_text(), re.MULTILINE)
    mirrored = re.findall(r"^def test_(\w+)\(", (HERE / "test_proxy_sequencer.py").read_text(), re.MULTILINE)
    cases = {_plain(re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()) for name in native}
    assert len(cases) > 12
    assert cases - {_plain(name) for name in mirrored} == NATIVE_ONLY


def _plain(name: str) -> str:
    return name.removeprefix("a_")
