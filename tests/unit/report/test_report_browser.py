"""The page in a real browser: it draws, zooms, searches, and is reached by keys."""

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.unit.cli.test_fit_cli import training
from tests.unit.reduce.test_reduce_report import facts as reduce_page
from tests.unit.reduce.test_reduce_report import record
from tests.unit.report.chromium import Page, chromium, opened
from tests.unit.report.test_report_page import hurtful_inputs
from tests.unit.reports import run_on_disk
from tfwave.bundle.bundle import save_bundle
from tfwave.report.page.fill import write_facts, write_page
from tfwave.report.page.given import read_given

pytestmark = pytest.mark.skipif(
    chromium() is None, reason="no Chromium here: apt install chromium-headless-shell"
)

ZOOM = "(({ start, end }) => [start, end])(drawn[0].zoom)"
LANES = "drawn[0].chart.getOption().yAxis[0].data.length"
BARS = "drawn[0].chart.getOption().series[0].data.length"


def button(name: str, section: str = "timeline") -> str:
    return f"[...document.querySelectorAll('#{section} button')].find((b) => b.textContent === '{name}')"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Generator[Page]:
    with opened(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture(scope="module")
def run_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("run")
    write_page(read_given([run_on_disk(place / "run")]), place / "r.html")
    return place / "r.html"


@pytest.fixture
def page(browser: Page, run_page: Path) -> Generator[Page]:
    """A run, on a wide screen; nothing may be complained about, and nothing loaded but the page."""
    browser.complaints.clear()
    browser.requests.clear()
    browser.open(run_page)
    yield browser
    assert browser.complaints == []
    assert {url for url in browser.requests if not url.startswith("data:")} == {run_page.as_uri()}


def test_each_section_is_drawn(page: Page) -> None:
    drawn = page.value("[...document.querySelectorAll('section:has(canvas)')].map((s) => s.id)")
    assert drawn == ["timeline", "order", "times", "efficiency", "split"]
    labels = page.value("[...document.querySelectorAll('.chart')].map((c) => c.getAttribute('aria-label'))")
    assert len(labels) == 5
    assert all("The table below has the same" in label for label in labels)
    tables = page.value(
        "[...document.querySelectorAll('details')].map((d) => { d.open = true; return d; }).length"
    )
    assert tables == 6
    page.until("document.querySelectorAll('details table').length === 6")


def test_a_page_of_reduces_draws_a_curve_of_each_worker(browser: Page, tmp_path: Path) -> None:
    """In colours of the charts' own, of which no two are alike."""
    browser.complaints.clear()
    write_facts(reduce_page(record(), reduces=3), tmp_path / "r.html")
    browser.open(tmp_path / "r.html")
    assert browser.value("[...document.querySelectorAll('section:has(canvas)')].map((s) => s.id)") == [
        "times"
    ]
    browser.until("document.querySelectorAll('details table').length === 2")
    assert browser.value("drawn[0].chart.getOption().series.map((s) => s.color || '')") == [""] * 3
    assert browser.complaints == []


def test_the_timeline_zooms(page: Page) -> None:
    assert page.value(ZOOM) == [0, 100]
    page.value(f"{button('Nearer')}.click()")
    assert page.value(ZOOM) == [25, 75]
    page.value(f"{button('Later')}.click()")
    assert page.value(ZOOM) == [45, 95]
    page.value(f"{button('All')}.click()")
    page.value("document.querySelector('#timeline .chart').focus()")
    page.press("+", "+")
    assert page.value(ZOOM) == [25, 75]
    page.press("0", "0")
    assert page.value(ZOOM) == [0, 100]
    x, y = page.value(
        "(({ x, y, width }) => [x + width * 0.6, y + 60])(drawn[0].place.getBoundingClientRect())"
    )
    page.wheel(x, y, by=-240, ctrl=True)
    page.until("drawn[0].zoom.end - drawn[0].zoom.start < 100")


def test_before_and_after_are_shown_together_or_alone(page: Page) -> None:
    both = (page.value(LANES), page.value(BARS))
    page.value(f"{button('Nearer')}.click()")
    page.value(f"{button('ordered')}.click()")
    assert (page.value(LANES) * 2, page.value(BARS) * 2) == both
    assert page.value("drawn[0].chart.getOption().yAxis[0].data.every((lane) => lane.startsWith('ordered'))")
    assert page.value(ZOOM) == [25, 75]
    assert page.value(f"{button('ordered')}.getAttribute('aria-pressed')") == "true"
    page.value(f"{button('both')}.click()")
    assert (page.value(LANES), page.value(BARS)) == both


def test_a_bar_tells_tensor_bytes_rank_and_wait(page: Page) -> None:
    told = page.value(
        "(() => { const option = drawn[0].chart.getOption();"
        " const at = facts.timeline.chart.bars.findIndex((b) => facts.timeline.chart.names[b[4]] === 'v3');"
        " return option.tooltip[0].formatter({ dataIndex: at }).textContent; })()"
    )
    for text in ("tensor v3", "bytes 1.9 MiB", "rank 2", "waited 10.20 ms"):
        assert text in told


def test_the_plan_is_searched_and_sorted(page: Page) -> None:
    rows = "[...document.querySelectorAll('#plan tbody tr')].map((r) => r.cells[3].textContent)"
    page.until("document.querySelector('#plan input') !== null")
    assert page.value(rows) == ["v1:0", "v2:0", "v3:0"]
    page.value(f"{button('turn', 'plan')}.click()")
    page.value(f"{button('turn', 'plan')}.click()")
    assert page.value(rows) == ["v3:0", "v2:0", "v1:0"]
    page.value("document.querySelector('#plan input').focus()")
    for key in "V2":
        page.press(key, key)
    assert page.value(rows) == ["v2:0"]
    assert page.value("document.querySelector('#plan .count').textContent") == "1 of 1 rows"


def test_another_step_of_the_order_is_chosen(page: Page) -> None:
    points = (
        "drawn[1].chart.getOption().series.find((s) => s.name === 'unordered' && s.type === 'scatter').data"
    )
    assert page.value(points) == [[0, 2], [1, 1], [2, 0]]
    page.value(
        "(() => { const list = document.querySelectorAll('#order select')[1];"
        " list.value = 1; list.dispatchEvent(new Event('change')); })()"
    )
    assert page.value(points) == [[0, 1], [1, 0], [2, 2]]


def test_keys_reach_everything(page: Page) -> None:
    wanted = page.value(
        "document.querySelectorAll('button, select, input, summary, .chart, .wide[tabindex]').length"
    )
    for _ in range(wanted + 8):
        page.press("Tab")
        page.value("document.activeElement.seen = true")
    missed = page.value(
        "[...document.querySelectorAll('button, select, input, summary, .chart, .wide[tabindex]')]"
        ".filter((e) => !e.seen && !e.hidden && e.offsetParent).map((e) => e.outerHTML.slice(0, 80))"
    )
    assert missed == []


@pytest.mark.parametrize("width", [400, 1280, 1600])
@pytest.mark.parametrize("dark", [False, True])
def test_it_fits_every_screen_light_and_dark(page: Page, run_page: Path, width: int, dark: bool) -> None:
    page.open(run_page, width, dark=dark)
    page.value("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    page.until("drawn.every((c) => Math.abs(c.chart.getWidth() - c.place.clientWidth) < 2)")
    assert page.value("document.documentElement.scrollWidth <= innerWidth")
    red = page.value("Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])")
    assert (red < 64) is dark


def test_a_band_of_memory_tells_its_op_and_life(browser: Page, tmp_path: Path) -> None:
    save_bundle(training(8), tmp_path / "b")
    write_page(read_given([tmp_path / "b"]), tmp_path / "r.html")
    browser.complaints.clear()
    browser.open(tmp_path / "r.html")
    told = "document.querySelector('#memory .told').textContent"
    browser.value("document.querySelector('#memory .chart').scrollIntoView({ block: 'center' })")
    x, y = browser.value(
        "(() => { const found = drawn.at(-1), box = found.place.getBoundingClientRect();"
        " const [x, y] = found.chart.convertToPixel({ gridIndex: 0 }, [0.035, 12]);"
        " return [box.x + x, box.y + y]; })()"
    )
    browser.click(x, y)
    browser.until(f"{told}.includes('made by b; last read by g')")
    browser.value("document.querySelector('#memory details').open = true")
    browser.until("document.querySelector('#memory td button') !== null")
    browser.value("document.querySelector('#memory td button').click()")
    assert "a:0: 8.0 MiB, from 0.01 to 0.07" in browser.value(told)
    assert browser.complaints == []


def test_hurtful_names_do_no_harm(browser: Page, tmp_path: Path) -> None:
    write_page(read_given(hurtful_inputs(tmp_path)), tmp_path / "r.html")
    browser.complaints.clear()
    browser.open(tmp_path / "r.html")
    browser.value("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    browser.until("document.querySelectorAll('#timeline tbody tr').length > 8")
    assert "<img src=x onerror=hurt()>" in browser.value(
        "document.querySelector('#timeline tbody').textContent"
    )
    browser.value("drawn[0].chart.dispatchAction({ type: 'showTip', seriesIndex: 0, dataIndex: 4 })")
    assert browser.value("document.querySelectorAll('img, #sections script, b b').length") == 0
    assert browser.complaints == []
