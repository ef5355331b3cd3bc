"""The pages that are made from the code, or run as it."""

import doctest
import json
import re
from collections.abc import Iterator
from typing import Any

from tests.pages import DOCS, ROOT, text_of
from tfwave.cli.commands import Imported
from tfwave.distribute.figures import Figures
from tfwave.passes.catalogue import catalogue_page
from tfwave.proto import control_pb2
from tfwave.runtime.control.metrics import exposition
from tools.reliability import KEPT, page


def test_the_catalogue_page_is_fresh() -> None:
    assert text_of(DOCS / "passes.md") == catalogue_page(), "run `make docs`"


def test_the_page_on_faults_is_what_the_suite_saw() -> None:
    assert text_of(DOCS / "reliability.md") == page(json.loads(KEPT.read_text())), "run tools/reliability.py"


def test_the_page_on_own_passes_runs() -> None:
    failed, tried = doctest.testfile(
        str(DOCS / "write_a_pass.md"), module_relative=False, optionflags=doctest.IGNORE_EXCEPTION_DETAIL
    )
    assert failed == 0
    assert tried > 10


def test_each_room_says_what_it_is_for_and_stands_on_the_page_on_design() -> None:
    house, page = ROOT / "tfwave", text_of(DOCS / "design.md")
    for room in (path.parent for path in house.rglob("__init__.py")):
        assert text_of(room / "__init__.py").startswith('"""'), room
        assert room == house or room.parent != house or f"`{room.name}`" in page, room


def test_the_page_on_metrics_has_those_of_a_server() -> None:
    served = exposition(control_pb2.Status(), {})
    texts = dict(re.findall(r"# HELP (\w+) (.+)", served))
    kinds = dict(re.findall(r"# TYPE (\w+) (\w+)", served))
    rows = re.findall(r"^\| `(tfwave_\w+)` \| (gauge|counter) \| ([^.|]+\.)", metrics_page(), re.MULTILINE)
    assert rows == [(name, kinds[name], texts[name]) for name in texts]


def test_the_page_on_metrics_has_those_of_an_epoch() -> None:
    keys = Figures(*[0] * len(Figures.__dataclass_fields__)).logs().keys()
    section = metrics_page().split("## In the epoch logs of `ScheduleCallback`")[1].split("\n## ")[0]
    assert set(re.findall(r"`(tfwave_\w+)`", section)) == set(keys)


def test_the_page_on_commands_names_those_without_json() -> None:
    (told,) = re.findall(r"All but (.+?) take `--json`", text_of(DOCS / "reference" / "cli.md"))
    assert set(re.findall(r"`(.+?)`", told)) == {
        name for name, command in all_commands() if not any("--json" in one.opts for one in command.params)
    }


def all_commands() -> Iterator[tuple[str, Any]]:
    """Those below others, too."""
    for name, command in Imported().items():
        below = getattr(command, "commands", {})
        yield from ((f"{name} {own}", one) for own, one in below.items())
        if not below:
            yield name, command


def metrics_page() -> str:
    return text_of(DOCS / "reference" / "metrics.md")
