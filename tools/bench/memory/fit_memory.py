"""A step that is made to fit, beside the plain one: what its plan promised, what the pool gave, and what it costs.

Each row is a model and a share of its plain peak; at 1 nothing is away, so that the row tells what the order alone
costs, by the control `edges` that it adds to its `ops`. Both steps run in processes of their own with a large pool,
their steps interleaved: seconds are the medians of the steps, and of the pairs' ratio. Grappler and oneDNN are off.
Rows with a result in --out stay as they are.

    tools/bench/memory/fit_memory.py --model resnet=32 --model bert=16 --share 1 --share 0.6 --out fit_memory
"""

import argparse
import json
import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

from tfwave.bundle.bundle import load_bundle
from tfwave.offload.captured import captured_step
from tfwave.offload.fit import Fits
from tfwave.offload.section import memory_section
from tfwave.plan.fingerprint import graph_print
from tfwave.plan.memory import METHODS
from tfwave.proto.tensorflow_pb2 import GraphDef
from tools.bench.memory.fitted_task import MODULE
from tools.bench.memory.limited import STEP_SECONDS, Pools, open_pools, run_steps
from tools.bench.memory.programs import fitted_program, step_program


def main(arguments: Sequence[str]) -> None:
    """Print a line of JSON for each row."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", action="append", required=True, metavar="NAME=BATCH")
    parser.add_argument("--share", action="append", type=float, required=True)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    with open_pools(given.out) as found:
        for model in given.model:
            name, batch = model.split("=")
            for share in given.share:
                file = given.out / f"{name}-{batch}-{share}.json"
                if not file.exists():
                    file.write_text(json.dumps(row(found, name, int(batch), share, given.steps)))
                print(file.read_text(), flush=True)


def row(found: Pools, model: str, batch: int, share: float, steps: int) -> dict[str, Any]:
    """Of a model at a batch, fitted into this share of its peak."""
    profile = found.profile(model, batch)
    captured = captured_step(load_bundle(profile / "bundle"))
    told: dict[str, Any] = {"model": model, "batch": batch, "share": share, "captured": captured.found.peak}
    limit = round(share * captured.found.peak) if share < 1 else 2 * captured.found.peak
    fits = Fits(captured.step)
    fit = fits.within(limit)
    if fit is None:
        return told | {"fits": False, "least": fits.least_limit}
    memory = memory_section(fit, graph_print(captured.view), limit, limit)
    graph = found.graph(model, batch)
    plain_program, fitted = step_program(graph, MODULE), fitted_program(graph, memory)
    with (
        found.running(found.large, plain_program) as one,
        found.running(found.large, fitted) as other,
    ):
        pairs = [(run_steps(one, 1), run_steps(other, 1)) for _ in range(steps)]
        copies = {do: other.request({"do": do}, STEP_SECONDS) for do in ("moved", "traced")}
    seconds = [(plain["seconds"][0], made["seconds"][0]) for plain, made in pairs[2:]]
    return told | {
        "fits": True,
        "promised": memory.peak_bytes,
        "ops": len(captured.step.ops),
        "edges": _control_edges(fitted.graph) - _control_edges(graph),
        "away": {method: len(memory.away(method)) for method in METHODS},
        "away_bytes": {method: sum(one.bytes for one in memory.away(method)) for method in METHODS},
        "copies": copies,
        "peaks": [pairs[-1][0]["peak"], pairs[-1][1]["peak"]],
        "seconds": [statistics.median(one) for one in zip(*seconds, strict=True)],
        "ratio": statistics.median(made / plain for plain, made in seconds),
        "same_losses": all(plain["losses"] == made["losses"] for plain, made in pairs),
    }


def _control_edges(graph: GraphDef) -> int:
    return sum(text.startswith("^") for node in graph.node for text in node.input)


if __name__ == "__main__":
    main(sys.argv[1:])
