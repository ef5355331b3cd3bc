"""Run benchmarks, and keep what they say with the machine that they ran on, in tools/bench/results/.

tools/bench/record.py                      what needs no network: the simulator, search, waves, and barriers
tools/bench/record.py overlap strategy     training on rate-limited links: root, and a quiet machine
tools/bench/record.py tick_tock            two waves in a limited pool: an hour, and a quiet machine for throughput
tools/bench/record.py colocation           two jobs in a limited pool: hours, and a quiet machine for throughput
tools/bench/record.py overlap --only sync  those of its runs whose commands hold a word; the others stay as they are
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
TWO_EACH = ["--workers", "2", "--servers", "2"]
LONGER = ["--measured", "24"]
"""A block's first steps find asynchronous workers in phase."""
TWICE = ["--repeats", "2"]
FAST = ["--rate", "4e9", "--measured", "16", "--repeats", "4"]
"""Steps are short there, and the machine's noise counts for more."""
THRICE = ["--repeats", "3"]
RECORDS: dict[str, list[list[str]]] = {
    "simulator": [["simulator.py", "--json"]],
    "search": [["search.py", "--json"]],
    "waves": [["waves.py", "--json"]],
    "barrier": [["barrier.py", "--step", "resnet", "bert", "lstm"]],
    "policies": [
        ["policies.py", *THRICE],
        ["policies.py", "--servers", "2", *THRICE],
        ["policies.py", "--model", "ResNet50", "--image", "64", *THRICE],
        ["policies.py", "--model", "InceptionV3", "--rate", "4e9", *THRICE],
    ],
    "overlap": [
        ["overlap.py", "--steps", "8", "--steps", "16"],
        ["overlap.py", "--first-matrix", "--steps", "4"],
        ["overlap.py", *FAST],
        ["overlap.py", "--workers", "2", *LONGER, *TWICE],
        ["overlap.py", *TWO_EACH, "--sync", *TWICE],
        *(
            ["overlap.py", *model, *setting]
            for model in (["--model", "ResNet50"], ["--model", "InceptionV3", "--image", "75"])
            for setting in (TWICE, FAST, [*TWO_EACH, *LONGER, *TWICE], [*TWO_EACH, "--sync", *TWICE])
        ),
    ],
    "strategy": [
        ["strategy.py", "--steps", "8", "--steps", "16"],
        ["strategy.py", "--first-matrix", "--steps", "4"],
    ],
    "colocation": [
        *(
            ["colocation.py", "--parts", "capacity", "--limit", limit, "--modes", *modes]
            for limit in ("512", "1024")
            for modes in (["sequential", "colocation"], ["uncontrolled", "waterwave_s", "algorithm_1"])
        ),
        ["colocation.py", "--parts", "fit", "--limit", "1024", *TWICE],
        ["colocation.py", "--parts", "throughput", "--limit", "512"],
        ["colocation.py", "--parts", "throughput", "--limit", "64", "--pairs", "lstm+lstm", "--steps", "40"],
    ],
    "tick_tock": [
        ["tick_tock.py", "--parts", "offset", "auto"],
        *(
            ["tick_tock.py", "--parts", part, *models]
            for part in ("capacity", "throughput")
            for models in (
                ["--models", "resnet", "dense_bert", "drawn_bert"],
                ["--models", "vgg", "--limit", "256"],
            )
        ),
    ],
}
WITHOUT_NETWORK = ("simulator", "search", "waves", "barrier")


def machine() -> dict[str, object]:
    """What a figure depends on besides the code."""
    cpu = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": cpu.partition(":")[2].strip() or platform.machine(),
        "cores": os.cpu_count(),
        "memory_bytes": memory,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "tensorflow": version("tensorflow-cpu"),
        "load_at_start": os.getloadavg(),
    }


def record(name: str, only: str) -> Path:
    """Run the commands of a record that hold `only`, and put what they say into its file, one by one."""
    path = HERE / "results" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    found: dict[str, object] = {}
    if path.exists():
        found = {run["command"]: run for run in json.loads(path.read_text())["runs"]}
    commands = [" ".join(command) for command in RECORDS[name]]
    for command, parts in zip(commands, RECORDS[name], strict=True):
        if only not in command:
            continue
        print(command, file=sys.stderr)
        at = machine()
        done = subprocess.run(
            [sys.executable, str(HERE / parts[0]), *parts[1:]], stdout=subprocess.PIPE, check=True, text=True
        )
        found[command] = {"command": command, "machine": at, "result": json.loads(done.stdout)}
        runs = [found[c] for c in commands if c in found]
        path.write_text(json.dumps({"runs": runs}, indent=1) + "\n")
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(RECORDS)}")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the runs whose commands hold it")
    arguments = parser.parse_args()
    chosen = arguments.names or WITHOUT_NETWORK
    unknown = sorted(set(chosen) - RECORDS.keys())
    if unknown:
        parser.error(f"there is no record '{unknown[0]}': choose of {', '.join(RECORDS)}")
    for name in chosen:
        print(record(name, arguments.only))
