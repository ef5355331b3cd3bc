"""The page and its Markdown: whole, safe, the same each time, small; and the command that writes them."""

import hashlib
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import tfwave.report.page
from tests.bundles import small_bundle
from tests.unit.conftest import Command, refused
from tests.unit.reports import HURTFUL, PULLS, run_on_disk, with_ops
from tfwave.bundle.bundle import save_bundle
from tfwave.plan.io import load_plan, save_plan
from tfwave.plan.placement import Placement
from tfwave.plan.plan import Plan
from tfwave.report.page.fill import CHARTS, SCRIPTS, as_markdown, html, write_page
from tfwave.report.page.gather import gather
from tfwave.report.page.given import read_given
from tfwave.report.page.left import leave_page

PACKAGE = Path(tfwave.report.page.__file__).parent


class Elements(HTMLParser):
    """Each element of a page with its attributes, and the text of those that scripts read."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.cdata_elem == "script":
            self.scripts[-1] += data

    @property
    def facts(self) -> dict:
        return json.loads(self.scripts[0], parse_constant=pytest.fail)


def test_a_training_leaves_its_plan_and_a_page_of_it(tmp_path: Path) -> None:
    plan = Plan(placement=Placement(1, {"v": 0}))
    leave_page(tmp_path / "new" / "report", "f", plan)
    assert load_plan(tmp_path / "new" / "report" / "f.plan.json") == plan
    page = html(gather(read_given([tmp_path / "new" / "report" / "f.plan.json"])))
    assert (tmp_path / "new" / "report" / "f.html").read_text() == page
    assert (tmp_path / "new" / "report" / "f.md").exists()


def test_a_page_that_cannot_be_left_ends_no_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    leave_page(tmp_path / "file", "f", Plan(placement=Placement(1, {"v": 0})))
    assert f"there is no report of f in '{tmp_path / 'file'}'" in caplog.text


def page_of(*paths: Path) -> Elements:
    return Elements(html(gather(read_given(paths))))


def hurtful_inputs(place: Path) -> list[Path]:
    """An op, a variable and a file that try to be markup."""
    save_bundle(with_ops(small_bundle(), [HURTFUL]), place / "b")
    plan = place / "<img src=x onerror=hurt()>.json"
    save_plan(Plan(placement=Placement(1, {HURTFUL: 0})), plan)
    return [place / "b", plan]


def test_the_charts_are_the_ones_that_were_published() -> None:
    """As in the package echarts 6.1.0 of the npm registry, whose licence lies beside it."""
    sums = (PACKAGE / "vendor" / "SHA256SUMS").read_text().splitlines()
    listed = {line[66:]: line[:64] for line in sums}
    files = {file.name for file in (PACKAGE / "vendor").iterdir()} - {"SHA256SUMS"}
    assert listed.keys() == files
    assert Path(CHARTS).name in files
    for name, digest in listed.items():
        assert hashlib.sha256((PACKAGE / "vendor" / name).read_bytes()).hexdigest() == digest
    assert "Apache License" in (PACKAGE / "vendor" / "LICENSE").read_text()


def test_every_template_is_used_and_none_ends_its_script() -> None:
    files = {file.name for file in (PACKAGE / "templates").iterdir()}
    assert files == {*SCRIPTS, "page.html.j2", "page.md.j2", "page.css"}
    for file in [PACKAGE / CHARTS, *(PACKAGE / "templates" / name for name in SCRIPTS)]:
        assert "</script" not in file.read_text().lower()


def test_a_page_is_whole(tmp_path: Path) -> None:
    page = page_of(run_on_disk(tmp_path))
    (policy,) = [a["content"] for _, a in page.found if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    refers = [a[key] for _, a in page.found for key in ("src", "href") if key in a]
    assert refers == ["data:,", "#sections"]
    assert len(page.scripts) == 3
    assert [a["id"] for tag, a in page.found if tag == "section"] == ["settings", *page.facts]
    bars = page.facts["timeline"]["chart"]["bars"]
    assert len(bars) == 2 * 8


def test_names_are_shown_and_nothing_else(tmp_path: Path) -> None:
    tame = page_of(run_on_disk(tmp_path / "run"))
    page = page_of(*hurtful_inputs(tmp_path))
    assert not {tag for tag, _ in page.found} - {tag for tag, _ in tame.found}
    assert not [name for _, a in page.found for name in a if name.startswith("on")]
    assert len(page.scripts) == len(tame.scripts)
    assert HURTFUL in page.facts["timeline"]["chart"]["names"]
    assert HURTFUL in [row[3] for row in page.facts["plan"]["table"]["rows"]]


def test_markdown_shows_names_as_they_are(tmp_path: Path) -> None:
    text = as_markdown(gather(read_given(hurtful_inputs(tmp_path))))
    assert re.search(r"(?<!\\)[<>`]", text) is None
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert any("onerror" in row for row in rows)
    columns = {len(re.findall(r"(?<!\\)\|", row)) - 1 for row in rows if "onerror" in row}
    assert columns == {6}


def test_markdown_has_the_same_facts(tmp_path: Path) -> None:
    facts = gather(read_given([run_on_disk(tmp_path)]))
    text = as_markdown(facts).replace("\\", "")
    for said in [*(a.text for a in facts.answers), *(f"**{f.value}** {f.words}" for f in facts.figures)]:
        assert said in text
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == [
        "What do I set?",
        *(section.title for section in facts.sections),
    ]
    assert "| unordered | 2 | 0 | 4 | 66.7% | 0 | 0 |" in text
    assert "\n\n\n" not in text
    assert "2 of 4 rows; the page has all." in text


def test_the_same_inputs_give_the_same_bytes(tmp_path: Path) -> None:
    """In processes of their own, each with another seed of Python's hashes."""
    run = run_on_disk(tmp_path / "run")
    program = "import sys, pathlib as p, tfwave.report.page.fill as f, tfwave.report.page.given as g\n"
    program += "f.write_page(g.read_given([p.Path(sys.argv[1])]), p.Path(sys.argv[2]))"
    for seed in ("1", "2"):
        command = [sys.executable, "-c", program, str(run), str(tmp_path / f"{seed}.html")]
        subprocess.run(
            command, check=True, timeout=120, env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
        )
    for suffix in ("html", "md"):
        assert (tmp_path / f"1.{suffix}").read_bytes() == (tmp_path / f"2.{suffix}").read_bytes()


def test_five_thousand_ops_before_and_after_are_small(tmp_path: Path) -> None:
    many = with_ops(small_bundle(), [f"model/layer_{i}/some/quite/long/name/MatMul_{i}" for i in range(5000)])
    for name in ("one", "two"):
        save_bundle(many, tmp_path / name)
    write_page(read_given([tmp_path / "one", tmp_path / "two"]), tmp_path / "r.html")
    assert (tmp_path / "r.html").stat().st_size < 3e6
    assert (tmp_path / "r.md").stat().st_size < 1e4


def test_the_command_writes_both_and_says_where(tfwave: Command, tmp_path: Path) -> None:
    run = run_on_disk(tmp_path / "run")
    ran = tfwave("report", run, "-o", tmp_path / "r.html")
    assert (ran.code, ran.err) == (0, "")
    assert f"the page is '{tmp_path / 'r.html'}', the same facts are in '{tmp_path / 'r.md'}'" in ran.out
    assert (tmp_path / "r.html").read_text() == html(gather(read_given([run])))
    assert PULLS not in (tmp_path / "r.md").read_text()


def test_the_command_refuses_in_one_line(tfwave: Command, tmp_path: Path) -> None:
    run = run_on_disk(tmp_path / "run")
    for arguments, says in (
        ((run, "-o", tmp_path / "r.pdf"), "must end in .html or .htm"),
        ((tmp_path / "gone",), "cannot read plan"),
        ((tmp_path,), "is not a run"),
    ):
        refused(tfwave("report", *arguments), says)
    assert tfwave("report").code == 2
    assert "Examples" in tfwave("report", "--help").out


def test_the_command_loads_no_tensorflow() -> None:
    program = "import sys, tfwave.cli.report; print('tensorflow' in sys.modules, 'keras' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "False False"
