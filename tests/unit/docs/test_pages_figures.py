"""The pages' figures against tools/bench/results, where they are kept."""

import json
import re
from typing import Any

import pytest

from tests.pages import DOCS, ROOT, all_guides, text_of
from tools.bench.record import RECORDS

BENCH = ROOT / "tools" / "bench"
NAMED = sorted(set(re.findall(r"tools/bench/results/(\w+)\.json", all_guides())))
PROGRAMS = sorted(
    name
    for name in set(re.findall(r"tools/bench/([\w/]+)\.py", all_guides()))
    if "__main__" in text_of(BENCH / f"{name}.py")
)


@pytest.mark.parametrize("name", NAMED)
def test_results_that_a_page_names_are_there_and_can_be_made_again(name: str) -> None:
    assert {run["command"] for run in recorded(name)} <= {" ".join(command) for command in RECORDS[name]}


@pytest.mark.parametrize("program", PROGRAMS)
def test_benches_that_a_page_names_have_a_record(program: str) -> None:
    assert any(command[0] == f"{program}.py" for commands in RECORDS.values() for command in commands)


def test_pages_name_results() -> None:
    assert len(NAMED) > 8
    assert len(PROGRAMS) >= 8


def test_the_demo_of_the_pages_is_the_recorded_one() -> None:
    """Write these lines into the pages when the demo was recorded anew: all into its own, some into the README."""
    (run,) = recorded("demo")
    lines = [f"    {line}" for line in demo(run["result"])]
    assert "\n".join(lines) in text_of(DOCS / "tutorial" / "demo.md")
    shown = [line for line in text_of(ROOT / "README.md").splitlines() if line in lines]
    assert [line.split()[0] for line in shown] == ["steps;", "mode", "unordered", "ordered", "ordered"]


def test_what_a_wrapped_strategy_gave_is_what_was_recorded() -> None:
    """The first three runs: a link that binds, one that does not, and small tensors."""
    link, free, small = (run["result"]["modes"] for run in recorded("wrapped")[:3])
    shares = [of["wrapped"]["paired_ratio_to_stock"] for of in (free, small)]
    stock = [median(of["stock"]) for of in (link, free, small)]
    steps = [of["wrapped"]["steps"] for of in (link, free, small)]
    page = words("strategy")
    for told in (
        f"on a 1 Gbit/s link took {median(link['wrapped'])} ms a step wrapped, {stock[0]} ms with a stock strategy",
        f"took {shares[0]:.2f} of the stock one's time (VGG-16-like training, {stock[1]} ms a step)",
        f"{shares[1]:.2f} with 260 small tensors in {stock[2]} ms a step",
        f"{steps[0]}, {steps[1]} and {steps[2]} steps a mode",
    ):
        assert told in page


@pytest.mark.parametrize(
    ("page", "name", "stock", "calls"),
    [
        ("strategy", "strategy", "a stock strategy", "with 8 overlapped steps a call and {} ms with 16"),
        (
            "session",
            "overlap",
            "one step a call on stock servers",
            "with 8 and {} ms with 16 that overlap in blocks of 1 MiB",
        ),
    ],
)
def test_what_steps_that_overlap_gave_is_what_was_recorded(
    page: str, name: str, stock: str, calls: str
) -> None:
    eight, sixteen = recorded(name)[0]["result"]["results"]
    took = [median(of["modes"]["overlapped"]) for of in (eight, sixteen)]
    least = [f"{of['bound_seconds'] * 1e3:.0f}" for of in (eight, sixteen)]
    times = [f"{of['throughput']:.2f}" for of in (eight, sixteen)]
    took_stock = median(eight["modes"]["stock"])
    told = (
        f"took {took_stock} ms a step with {stock}, {took[0]} ms {calls.format(took[1])}, where {least[0]} and "
        f"{least[1]} ms are the least that the wire allows: {times[0]} and {times[1]} times the throughput, losses "
        "and weights bit-equal"
    )
    assert told in words(page)


def test_what_the_readme_says_it_gave_is_what_was_recorded() -> None:
    (eight, sixteen), keras = recorded("strategy")[0]["result"]["results"], modes_of("keras_fit")
    tables, largest = modes_of("embedding"), [run["result"] for run in recorded("largest_batch")]
    plain, fitted = (
        next(found for found in largest if (found["model"], found["way"]) == ("resnet", way))
        for way in ("plain", "both")
    )
    straggling = [run["result"] for run in recorded("stragglers")]
    sooner = [
        found["gains"]["sooner_than_stock"]
        for found in straggling
        if (found["given"]["workers"], found["given"]["delays"]) == (8, "groups")
    ]
    readme = text_of(ROOT / "README.md")
    for told in (
        f"{median(eight['modes']['stock'])} ms a step | {median(sixteen['modes']['overlapped'])} ms |",
        f"{median(keras['stock'])} ms a step | {median(keras['overlapped'])} ms |",
        f"{median(tables['stock'])} ms a step | {median(tables['staged'])} ms |",
        f"| {plain['batch']} | {fitted['batch']}, at {fitted['seconds_each'] / plain['seconds_each']:.2f} x",
        f"{min(sooner):.1f} to {max(sooner):.1f} times sooner",
    ):
        assert told in readme


def modes_of(name: str) -> dict[str, Any]:
    """Of the first run."""
    return recorded(name)[0]["result"]["modes"]


def words(page: str) -> str:
    """A tutorial's, with single spaces between them."""
    return " ".join(text_of(DOCS / "tutorial" / f"{page}.md").split())


def median(mode: dict[str, Any]) -> str:
    """Milliseconds of a step."""
    return f"{mode['median_seconds'] * 1e3:.0f}"


def recorded(name: str) -> list[dict[str, Any]]:
    return json.loads((BENCH / "results" / f"{name}.json").read_text())["runs"]


def short(seconds: float) -> str:
    return f"{seconds * 1e3:.{2 if seconds < 1 else 0}f} ms"


def demo(result: dict[str, Any]) -> list[str]:
    """What `tfwave demo` prints of a result, in narrower tables."""
    handed, figures, predicted = result["conformance"], result["figures"], result["predicted"]
    rows = [f"  {'mode':10}{'steps':>7}{'exact':>8}{'inversions':>13}{'share of pairs':>17}"]
    rows += [
        f"  {mode:10}{c['steps']:>7}{c['exact_steps']:>8}{c['inversions']:>13}{c['inversion_share']:>17.1%}"
        for mode, c in handed.items()
    ]
    head = f"  {'mode':10}{'steps':>7}{'median':>13}{'std dev':>12}{'E':>8}{'most':>8}{'straggler':>12}{'most':>8}"
    steps = [
        f"  {mode:10}{f['steps']:>7}{short(f['median_seconds']):>13}{short(f['stdev_seconds']):>12}"
        f"{f['efficiency_median']:>8.3f}{f['efficiency']:>8.3f}{f['straggler_median']:>12.1%}{f['straggler']:>8.1%}"
        for mode, f in figures.items()
    ]
    gain = figures["unordered"]["median_seconds"] / figures["ordered"]["median_seconds"]
    traced = sum(f["traced"] for f in figures.values())
    equal = "bit-equal" if result["outputs_equal"] else "DIFFER"
    return [
        *("hand-offs against the plan", *rows, "steps; E and straggler: the median and the most of a step"),
        *(head, *steps),
        f"E tells {result['explained']:.0%} of how step times vary (R2, {traced} traced ones)",
        f"ordered runs at {gain:.2f} x the unordered throughput (the plan saw room for "
        f"{1 + predicted['speedup']:.2f} x); outputs {equal}",
        f"predicted before the run: {predicted['makespan_seconds'] * 1e3:.2f} ms ordered, "
        f"never under {predicted['lower_seconds'] * 1e3:.2f} ms",
    ]
