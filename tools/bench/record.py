"""Run benchmarks, and keep what they say with the machine that they ran on, in tools/bench/results/.

tools/bench/record.py                      what needs no network: the simulator, bounds, orders and search
tools/bench/record.py overlap strategy     training on rate-limited links: root, and a quiet machine
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
RECORDS: dict[str, list[list[str]]] = {
    "simulator": [["simulator.py", "--json"]],
    "search": [["search.py", "--json"]],
    "policies": [
        ["policies.py"],
        ["policies.py", "--servers", "2"],
        ["policies.py", "--model", "ResNet50", "--image", "64"],
        ["policies.py", "--model", "InceptionV3", "--rate", "4e9"],
    ],
    "overlap": [
        ["overlap.py", "--steps", "8", "--steps", "16"],
        ["overlap.py", "--first-matrix", "--steps", "4"],
        ["overlap.py", "--rate", "4e9"],
        ["overlap.py", "--workers", "2"],
        ["overlap.py", "--workers", "2", "--servers", "2", "--sync"],
        *(
            ["overlap.py", *model, *setting]
            for model in (["--model", "ResNet50"], ["--model", "InceptionV3", "--image", "75"])
            for setting in ([], ["--rate", "4e9"], TWO_EACH, [*TWO_EACH, "--sync"])
        ),
    ],
    "strategy": [
        ["strategy.py", "--steps", "8", "--steps", "16"],
        ["strategy.py", "--first-matrix", "--steps", "4"],
    ],
}
WITHOUT_NETWORK = ("simulator", "search")


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


def record(name: str) -> Path:
    """Run the commands of a record, and write its file."""
    document: dict[str, object] = {"machine": machine(), "runs": []}
    runs: list[object] = []
    for command in RECORDS[name]:
        print(" ".join(command), file=sys.stderr)
        done = subprocess.run(
            [sys.executable, str(HERE / command[0]), *command[1:]],
            stdout=subprocess.PIPE,
            check=True,
            text=True,
        )
        runs.append({"command": " ".join(command), "result": json.loads(done.stdout)})
    document["runs"] = runs
    path = HERE / "results" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(RECORDS)}")
    chosen = parser.parse_args().names or WITHOUT_NETWORK
    unknown = sorted(set(chosen) - RECORDS.keys())
    if unknown:
        parser.error(f"there is no record '{unknown[0]}': choose of {', '.join(RECORDS)}")
    for name in chosen:
        print(record(name))
