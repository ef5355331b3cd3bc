"""Run benchmarks, and keep what they say with the machine that they ran on, in tools/bench/results/.

tools/bench/record.py                      without a network: simulator, search, waves, barriers, merged, placement
tools/bench/record.py overlap strategy     training on rate-limited links: root, and a quiet machine
tools/bench/record.py keras_fit            a Keras model on a rate-limited link: ten minutes, root, and quiet
tools/bench/record.py keras_embedding      a Keras model with a large table on such a link: minutes, root
tools/bench/record.py embedding            staged embeddings on such a link: minutes, root, and quiet
tools/bench/record.py eviction embedding_auc  rows that are evicted, and old ones: minutes each, on any machine
tools/bench/record.py drift table_size     memory of a dynamic table, for half an hour, root; large ones: minutes
tools/bench/record.py reduce               reduces on such links, beside TensorFlow's: minutes, and root
tools/bench/record.py all_to_all           splits exchanged on such links and loopback: minutes, root, and quiet
tools/bench/record.py reduced_steps        gradients that are reduced while others are computed: minutes, and root
tools/bench/record.py reduce_soak          members of reduces that are killed: minutes
tools/bench/record.py stragglers --missing time to a loss beside stragglers: hours, and a quiet machine
tools/bench/record.py tick_tock            two waves in a limited pool: an hour, and a quiet machine for throughput
tools/bench/record.py colocation split     two jobs in a limited pool: hours, and a quiet machine for throughput
tools/bench/record.py stream               twelve trainings in one memory: ten minutes, and a quiet machine
tools/bench/record.py model_parallel       waves and a pipeline on the cores: minutes, and a quiet machine
tools/bench/record.py burst                shards beside data parallelism by hand: a minute, and a quiet machine
tools/bench/record.py burst_planner        burst plans beside all that there are: minutes, on any machine
tools/bench/record.py background           a training on what others leave: minutes, and a quiet machine
tools/bench/record.py background_jobs      the same as a job of a pool: minutes, and a quiet machine
tools/bench/record.py largest_batch        the largest batches in a 512 MB pool, made to fit: hours, and quiet
tools/bench/record.py fitted_beside        fitted batches in that pool beside others: two hours, and quiet
tools/bench/record.py fit_promises         verdicts of tfwave fit against what runs: an hour, and quiet
tools/bench/record.py fit_planning         seconds to plan a step that must fit: ten minutes, and quiet
tools/bench/record.py demo inference       and enforcers, wrapped: links as above, minutes each
tools/bench/record.py table1               the models of TicTac's Table 1 on such links: three hours
tools/bench/record.py overlap --only sync  those of its runs whose commands hold a word; the others stay as they are
tools/bench/record.py matrix --missing     all ways to send, of many models, links and clusters: ten minutes each
tools/bench/record.py table1 --missing     those without a result

What was stopped goes on behind the last run that ended, when it is called with the same names and options again.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tfwave.runtime.native import ensure_built, tensorflow_version
from tools.bench.memory.colocation_modes import MODES, SEQUENTIAL, SPLIT
from tools.bench.memory.fitted_modes import MODELS as FITTED_MODELS
from tools.bench.memory.fitted_modes import WAYS
from tools.bench.session import Session
from tools.bench.transfers.matrix_pieces import commands as matrix_commands
from tools.bench.transfers.table1 import TABLE

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
TWO_EACH = ["--workers", "2", "--servers", "2"]
LONGER = ["--measured", "24"]
"""A block's first steps find asynchronous workers in phase."""
TWICE = ["--repeats", "2"]
FAST = ["--rate", "4e9", "--measured", "16", "--repeats", "4"]
"""Steps are short there, and the machine's noise counts for more."""
THRICE = ["--repeats", "3"]
NO_BOTTLENECK = ["--rate", "40e9", "--image", "64"]
SHORT_STEPS = [*NO_BOTTLENECK, "--batch", "4", "--model", "MobileNetV2", "--steps", "60", "--repeats", "8"]
EXPLAINED = ["--workers", "1", "--traced", "25", "--repeats", "4"]
"""One worker, whose steps its orders tell apart."""
HALF = ["--rate", "5e8"]
"""Where the link binds a training, too."""
SAME_PAIRS = ("resnet+resnet", "bert+bert", "inception+inception", "nasnet+nasnet")
FEWER = ["--steps", "2", "--traced", "2"]
"""Where a step takes twenty seconds, all of it on the wire."""
BESIDE = (
    ("bert", "placed", "408", "plain=68"),
    ("resnet", "placed", "216", "plain=72"),
    ("vgg", "placed", "960", "plain=640"),
    ("lstm", "placed", "40", "plain=40"),
    ("resnet", "placed", "152", "recompute_grad=152"),
    ("bert", "placed", "328", "recompute_grad=328"),
    ("resnet", "order", "72", "plain=72"),
    ("vgg", "order", "640", "plain=640"),
    ("bert", "order", "68", "plain=68"),
    ("inception", "order", "56", "plain=56"),
    ("unet", "order", "240", "plain=240"),
    ("lstm", "order", "2400", "plain=2400"),
)
"""Fitted batches, and what their steps take turns with: plain ones, or those of the largest batch so.

Made to fit by all that there is; or by the order alone, near the largest plain batch.
"""
KILOBYTE_TO_64_MEGABYTES = [str(1 << power) for power in (10, 14, 18, 20, 22, 24, 26)]
RECORDS: dict[str, Sequence[list[str]]] = {
    "demo": [["-m", "tfwave", "demo", "--json"]],
    "reduce": [
        *(["reduces/reduce.py", "--hosts", hosts, "--repeats", "4"] for hosts in ("2", "4", "8")),
        *(
            [
                "reduces/reduce.py",
                "--hosts",
                hosts,
                "--rate",
                rate,
                *TWICE,
                "--bytes",
                *KILOBYTE_TO_64_MEGABYTES,
            ]
            for rate in ("1e9", "10e9")
            for hosts in ("4", "8")
        ),
    ],
    "all_to_all": [
        ["embeddings/all_to_all.py", "--ranks", ranks, "--rate", rate]
        for rate in ("1e9", "0")
        for ranks in ("2", "4")
    ],
    "reduced_steps": [
        ["reduces/reduced_steps.py"],
        ["reduces/reduced_steps.py", "--batch", "256"],
        ["reduces/reduced_steps.py", "--hosts", "4", "--batch", "128"],
    ],
    "reduce_soak": [["reduces/reduce_soak.py"], ["reduces/reduce_soak.py", "--probes", "all", "--seed", "2"]],
    "stragglers": [
        ["reduces/stragglers.py", "--model", model, "--workers", workers, "--delays", delays, "--seed", seed]
        for seed in "12345"
        for model in ("conv", "lstm")
        for workers in ("4", "8")
        for delays in ("none", "some", "groups")
    ],
    "inference": [["transfers/inference.py", "--steps", "6"]],
    "enforcers": [["transfers/enforcers.py", "--json", "--batch", "4"]],
    "wrapped": [
        ["transfers/wrapped.py", "--steps", "6"],
        ["transfers/wrapped.py", *NO_BOTTLENECK, "--train", "--steps", "30", "--repeats", "5"],
        ["transfers/wrapped.py", *SHORT_STEPS],
        ["transfers/wrapped.py", *SHORT_STEPS, "--enforcer", "proxy"],
    ],
    "table1": [
        *(["transfers/table1.py", model] for model in TABLE),
        *(["transfers/table1.py", model, "--train", *(FEWER if "VGG" in model else [])] for model in TABLE),
        *(["transfers/table1.py", model, *EXPLAINED] for model in ("InceptionV2", "ResNet50")),
        *(["transfers/table1.py", "InceptionV2", "--train", *EXPLAINED, *rate] for rate in ([], HALF)),
    ],
    "split": [
        [
            *("memory/colocation.py", "--parts", "capacity", "--limit", "512", "--pairs", pair),
            *("--modes", SEQUENTIAL, *(mode for mode in MODES if mode.startswith(SPLIT)), *THRICE),
        ]
        for pair in SAME_PAIRS
    ],
    "simulator": [["transfers/simulator.py", "--json"]],
    "search": [["transfers/search.py", "--json"]],
    "waves": [["memory/waves.py", "--json"]],
    "model_parallel": [["memory/model_parallel.py"]],
    "barrier": [["memory/barrier.py", "--step", "resnet", "bert", "lstm"]],
    "policies": [
        ["transfers/policies.py", *THRICE],
        ["transfers/policies.py", "--servers", "2", *THRICE],
        ["transfers/policies.py", "--model", "ResNet50", "--image", "64", *THRICE],
        ["transfers/policies.py", "--model", "InceptionV3", "--rate", "4e9", *THRICE],
    ],
    "overlap": [
        ["transfers/overlap.py", "--steps", "8", "--steps", "16"],
        ["transfers/overlap.py", "--first-matrix", "--steps", "4"],
        ["transfers/overlap.py", *FAST],
        ["transfers/overlap.py", "--workers", "2", *LONGER, *TWICE],
        ["transfers/overlap.py", *TWO_EACH, "--sync", *TWICE],
        *(
            ["transfers/overlap.py", *model, *setting]
            for model in (["--model", "ResNet50"], ["--model", "InceptionV3", "--image", "75"])
            for setting in (TWICE, FAST, [*TWO_EACH, *LONGER, *TWICE], [*TWO_EACH, "--sync", *TWICE])
        ),
    ],
    "strategy": [
        ["transfers/strategy.py", "--steps", "8", "--steps", "16"],
        ["transfers/strategy.py", "--first-matrix", "--steps", "4"],
    ],
    "colocation": [
        *(
            ["memory/colocation.py", "--parts", "capacity", "--limit", limit, "--modes", *modes]
            for limit in ("512", "1024")
            for modes in (["sequential", "colocation"], ["uncontrolled", "waterwave_s", "algorithm_1"])
        ),
        ["memory/colocation.py", "--parts", "fit", "--limit", "1024", *TWICE],
        ["memory/colocation.py", "--parts", "throughput", "--limit", "512"],
        [
            "memory/colocation.py",
            "--parts",
            "throughput",
            "--limit",
            "64",
            "--pairs",
            "lstm+lstm",
            "--steps",
            "40",
        ],
    ],
    "burst_planner": [["bursts/burst_planner.py"]],
    "stream": [["memory/stream.py"]],
    "matrix": matrix_commands(),
    "burst": [["bursts/burst.py", "--repeats", "9"]],
    "background": [["bursts/background.py"], ["bursts/background.py", "--faults"]],
    "background_jobs": [
        ["bursts/background_jobs.py"],
        ["bursts/background_jobs.py", "--unlimited"],
    ],
    "keras_fit": [["transfers/keras_fit.py"]],
    "keras_embedding": [["embeddings/keras_embedding.py"]],
    "embedding": [
        [
            *("embeddings/embedding.py", "--model", model, "--servers", servers),
            *("--workers", workers, "--rate", rate),
        ]
        for rate in ("1e9", "0.3e9", "10e9")
        for workers in "12"
        for servers in "12"
        for model in ("dlrm", "deepfm", "dcn")
    ],
    "table_size": [
        ["embeddings/table_size.py", "--rows", rows] for rows in ("200000", "3200000", "10000000")
    ],
    "drift": [["embeddings/drift.py"]],
    "embedding_auc": [["embeddings/embedding_auc.py", "--json"]],
    "eviction": [["embeddings/eviction.py", "--json"]],
    "placement": [["memory/placement.py"]],
    "largest_batch": [
        [
            *("memory/largest_batch.py", "--model", model, "--way", way, "--pool", "512"),
            *("--repeats", "5", "--steps", "50", "--out", "."),
        ]
        for model in FITTED_MODELS
        for way in WAYS
    ],
    "fitted_beside": [
        [
            *("memory/largest_batch.py", "--model", model, "--way", way, "--pool", "512"),
            *("--batch", batch, "--beside", beside, "--repeats", "5", "--steps", "50", "--out", "."),
        ]
        for model, way, batch, beside in BESIDE
    ],
    "fit_promises": [
        ["memory/fit_promises.py", "--model", model, *placement, "--out", "."]
        for placement in ([], ["--placement"])
        for model in FITTED_MODELS
    ],
    "fit_planning": [
        *[["memory/fit_planning.py", "--model", model, "--out", "."] for model in FITTED_MODELS],
        ["memory/fit_planning.py", "--ops", "20000", "--out", "."],
    ],
    "merged": [["memory/merged.py", "--limit", "216MiB", "--job", "resnet=16", "--job", "bert=24", "--json"]],
    "tick_tock": [
        ["memory/tick_tock.py", "--parts", "offset", "auto"],
        *(
            ["memory/tick_tock.py", "--parts", part, *models]
            for part in ("capacity", "throughput")
            for models in (
                ["--models", "resnet", "dense_bert"],
                ["--models", "drawn_bert"],
                ["--models", "vgg", "--limit", "256"],
            )
        ),
    ],
}
WITHOUT_NETWORK = ("simulator", "search", "waves", "barrier", "merged", "placement")


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
        "tensorflow": tensorflow_version(),
        "load_at_start": os.getloadavg(),
    }


def chosen_runs(names: Sequence[str], only: str, missing: bool) -> dict[str, tuple[str, list[str]]]:
    """By command its record and words: of those that hold `only`, or with `missing` have no result yet."""
    return {
        command: (name, parts)
        for name in names
        for command, parts in commands(name).items()
        if only in command and not (missing and command in recorded(name))
    }


def commands(name: str) -> dict[str, list[str]]:
    """The words of each command of a record, by command."""
    return {" ".join(parts): parts for parts in RECORDS[name]}


def recorded(name: str) -> dict[str, dict[str, Any]]:
    """What is kept of a record, by command."""
    path = RESULTS / f"{name}.json"
    return {run["command"]: run for run in json.loads(path.read_text())["runs"]} if path.exists() else {}


def record(names: Sequence[str], only: str, missing: bool) -> None:
    """Run what is chosen, one by one, and put what each says into the file of its record."""
    ensure_built()  # compiling takes minutes, and what is run has deadlines
    runs = chosen_runs(names, only, missing)
    known = {c: run["seconds"] for name in names for c, run in recorded(name).items() if "seconds" in run}
    session = Session(RESULTS / "unfinished", list(runs), known)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), auto_refresh=False) as bar:
        task = bar.add_task(_left(session), total=len(runs), completed=len(session.done))
        for command in session.left():
            bar.console.print(command, highlight=False, soft_wrap=True)
            begin, at = time.monotonic(), machine()
            name, parts = runs[command]
            result = json.loads(said(parts))
            seconds = time.monotonic() - begin
            keep(name, {"command": command, "machine": at, "seconds": seconds, "result": result})
            session.finish(command, seconds)
            bar.update(task, description=_left(session), completed=len(session.done), refresh=True)


def _left(session: Session) -> str:
    seconds = session.seconds_left()
    return "" if seconds is None else f"about {timedelta(seconds=round(seconds))} left"


def keep(name: str, run: dict[str, Any]) -> None:
    """Put a run into the file of its record, in the place of the same one; other runs stay as they are."""
    found = recorded(name) | {run["command"]: run}
    runs = [found[command] for command in commands(name) if command in found]
    (RESULTS / f"{name}.json").write_text(json.dumps({"runs": runs}, indent=1) + "\n")


def said(parts: Sequence[str]) -> str:
    """By a script beside this one, or a module; what it writes beside that, it writes into a scratch directory."""
    script = parts if parts[0] == "-m" else [str(HERE / parts[0]), *parts[1:]]
    environment = os.environ | {"PYTHONPATH": str(HERE.parents[1])}
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run(
            [sys.executable, *script],
            stdout=subprocess.PIPE,
            check=True,
            text=True,
            cwd=scratch,
            env=environment,
        )
    return done.stdout


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(RECORDS)}")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the runs whose commands hold it")
    parser.add_argument("--missing", action="store_true", help="only the runs that have no result yet")
    arguments = parser.parse_args()
    chosen = arguments.names or WITHOUT_NETWORK
    unknown = sorted(set(chosen) - RECORDS.keys())
    if unknown:
        parser.error(f"there is no record '{unknown[0]}': choose of {', '.join(RECORDS)}")
    record(chosen, arguments.only, arguments.missing)
