"""A setting of the bench matrix: every way to send, in turn, each beside its forecast and what binds the step.

Three clusters run the same job on networks of their own, of the same rate: stock servers, servers with the hook,
and servers behind proxies. `tic`, `tac`, `search` and `reverse` are orders that the hook keeps; `ack window` and
`proxy` keep that of `tac`, and are forecast with what they cost. A training gets `overlap` besides, measured as
`overlap.py` does, against stock servers of its own. `error` is by how much a forecast is off, as a share of the
median step. Steps are timed as whole calls, with a training's pushes and updates; a block's first is not counted.
All three have the same weights, and the outputs of an inference are compared between all ways.

    tools/bench/transfers/matrix.py BERTLike --rate 1e9
    tools/bench/transfers/matrix.py ResNet50 --train --rate 4e9 --servers 2 --workers 2
"""

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tfwave.bundle.bundle import Bundle, load_bundle
from tfwave.bundle.costs import bundle_network
from tfwave.demo.cluster import STEP_SECONDS, DemoCluster, DemoJob, demo_cluster
from tfwave.demo.model import Replicas
from tfwave.errors import TfwaveError
from tfwave.graph.names import home_of
from tfwave.plan.io import save_plan
from tfwave.plan.plan import Plan
from tfwave.planner.captured import plan_bundle
from tfwave.planner.forecast import Forecast, forecast
from tools.bench.interleaved import Blocks, figures, run_interleaved, wire_seconds
from tools.bench.transfers import enforcers_task, overlap
from tools.bench.transfers.enforcers import Bench, Mode
from tools.bench.transfers.matrix_pieces import CLUSTERS, IMAGES, MODES, REPEATS, STEPS, WARMUP

BASELINE = "stock"
POLICIES = ("tic", "tac", "search", "reverse")
KEPT = "tac"
"""The order of the ways that are no policy."""
ACK_WINDOW = "recv_priority,ack_window"
NEAR = 1.1
"""Of two times that are less apart the one is taken for the other."""
CHECKED_STEPS = 8
CAPTURE_WARMUP = 6
"""The first steps of a process keep its cores busy for up to a fifth longer than later ones."""


@dataclass(frozen=True)
class Binding:
    """What a step takes at the least, in seconds, by what it waits for.

    Attributes:
        link: the bytes alone, on the busiest card.
        carried: the busiest link or card, by what transfers were seen to take: gRPC's own work is in it.
        cores: those of this machine, were none ever idle.
        floor: no order can take less; its argument is `floor_name`.
    """

    link: float
    carried: float
    cores: float
    floor: float
    floor_name: str

    @property
    def name(self) -> str:
        """What binds: "link", "gRPC", "cores", or the argument of a floor that is above all of them."""
        if self.floor > NEAR * max(self.link, self.carried, self.cores):
            return self.floor_name
        if self.cores > max(self.link, self.carried):
            return "cores"
        return "link" if self.carried <= NEAR * self.link else "gRPC"


def measure(arguments: argparse.Namespace) -> dict[str, object]:
    replicas = Replicas(arguments.model, IMAGES[arguments.model], arguments.batch, train=arguments.train)
    job = DemoJob(arguments.servers, arguments.workers, arguments.rate, replicas)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp")))
        clusters = {
            name: _start(stack, directory / name, replace(job, enforcer=enforcer))
            for name, enforcer in (("stock", None), ("hook", "hook"), ("proxy", "proxy"))
        }
        bundle = _captured(clusters["hook"], directory)
        plans = {policy: plan_bundle(bundle, policy) for policy in POLICIES}
        save_plan(plans[KEPT], directory / "plan.pb")
        seen = Measured(clusters, plans, directory)
        blocks = run_interleaved(
            {mode: lambda m=mode: seen.block(m, arguments.steps) for mode in MODES}, arguments.repeats
        )
        network = bundle_network(bundle)
        found = forecast(bundle.view, bundle.transfers.data, network, plans[KEPT].orders)
        binding = bound_by(found, link_seconds(bundle, arguments.rate), network.machine_seconds)
        told: dict[str, object] = {
            "settings": vars(arguments),
            "load": os.getloadavg(),
            "network": clusters["hook"].network.description,
            "transfers": len(bundle.transfers.data),
            "outputs_equal": None if arguments.train else len(seen.digests) == 1,
            "refused": seen.refused,
        }
    rows = against(
        {mode: of_mode for mode, of_mode in blocks.items() if mode not in seen.refused}, plans, binding
    )
    return told | {"modes": rows | (_overlapped(arguments, replicas, binding) if arguments.train else {})}


@dataclass
class Measured:
    """Clusters under measurement, and what came out of them."""

    clusters: Mapping[str, DemoCluster]
    plans: Mapping[str, Plan]
    directory: Path
    digests: set[str] = field(default_factory=set[str])
    refused: dict[str, str] = field(default_factory=dict[str, str])

    def block(self, mode: str, steps: int) -> list[float]:
        """Seconds of each step; none where the job cannot be run so."""
        cluster = self.clusters[mode if mode in self.clusters else "hook"]
        try:
            self._switch(mode, cluster)
        except TfwaveError as error:
            self.refused[mode] = str(error)
            return []
        answer = cluster.ask((WARMUP + steps) * STEP_SECONDS, do="run", steps=WARMUP + steps)
        self.digests.add(answer["digest"])
        return answer["calls"][WARMUP:]

    def _switch(self, mode: str, cluster: DemoCluster) -> None:
        if mode == BASELINE:
            return
        cluster.install(self.plans.get(mode, self.plans[KEPT]))
        if mode == "proxy":
            cluster.order(True)
            return
        rewriting = Bench(cluster, self.directory, self.plans[KEPT])
        rewriting.switch(Mode(mode in POLICIES, ACK_WINDOW if mode == "ack window" else ""))


def bound_by(found: Forecast, link: float, cores: float) -> Binding:
    """What a forecast says of the least that a step takes."""
    best = found.bounds.best
    return Binding(link, found.wire_seconds, cores, best.seconds, best.name)


def link_seconds(bundle: Bundle, rate: float) -> float:
    """What the bytes alone take on the busiest card, in its busier direction."""
    cards: Counter[tuple[str, str]] = Counter()
    for transfer in bundle.transfers.data:
        source, destination = (
            home_of(end) for end in (transfer.channel.source, transfer.channel.destination)
        )
        if source != destination:
            cards["out of", source] += transfer.bytes
            cards["into", destination] += transfer.bytes
    return wire_seconds([max(cards.values())], rate)


def against(blocks: Blocks, plans: Mapping[str, Plan], binding: Binding) -> dict[str, dict[str, object]]:
    """The figures of each way to send, beside what was forecast and what binds."""
    kept = plans[KEPT].predicted
    forecasts = {policy: plan.predicted.ordered_seconds for policy, plan in plans.items()}
    forecasts |= dict.fromkeys((BASELINE, "hook off"), kept.unordered_seconds)
    forecasts |= {"ack window": kept.ack_window_seconds, "proxy": kept.proxy_seconds}
    return {
        mode: row | beside(row["median_seconds"], forecasts[mode], binding)
        for mode, row in figures(blocks, BASELINE, binding.link).items()
    }


def beside(median: Any, seconds: float, binding: Binding) -> dict[str, object]:
    """A forecast, and what binds."""
    return {
        "over_wire": median / binding.link,
        "forecast_seconds": seconds,
        "error": seconds / median - 1,
        "link_seconds": binding.link,
        "carried_seconds": binding.carried,
        "binds": binding.name,
    }


def _overlapped(
    arguments: argparse.Namespace, replicas: Replicas, binding: Binding
) -> dict[str, dict[str, object]]:
    """As `overlap.py` measures it, synchronous; nothing where one step a call is advised."""
    given = argparse.Namespace(
        **{
            key: getattr(arguments, key)
            for key in ("rate", "model", "batch", "servers", "workers", "repeats")
        },
        **{"image": replicas.image, "first_matrix": False, "sync": True, "steps": None, "block_bytes": None},
        **{"check": CHECKED_STEPS, "measured": arguments.steps},
    )
    found: Any = overlap.measure(given)
    if not found["results"]:
        return {}
    (row,) = found["results"]
    own = row["modes"]["overlapped"]
    said = {"steps_a_call": row["chosen"]["steps"], "bit_equal": row["equal_losses_and_weights"]}
    return {"overlap": own | said | beside(own["median_seconds"], row["forecast"]["seconds"], binding)}


def _captured(cluster: DemoCluster, directory: Path) -> Bundle:
    cluster.capture(directory / "bundle", steps=5, warmup=CAPTURE_WARMUP)
    return load_bundle(directory / "bundle")


def _start(stack: ExitStack, directory: Path, job: DemoJob) -> DemoCluster:
    directory.mkdir()
    return stack.enter_context(demo_cluster(job, directory, enforcers_task.MODULE))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    servers, workers = CLUSTERS[0]
    add = parser.add_argument
    add("model", choices=list(IMAGES), metavar="MODEL", help=f"of {', '.join(IMAGES)}")
    add("--train", action="store_true", help="replicas in step, SGD; else inference")
    add("--rate", type=float, default=1e9, help="bits per second of each host")
    add("--servers", type=int, default=servers)
    add("--workers", type=int, default=workers)
    add("--batch", type=int, default=4, help="of each worker")
    add("--steps", type=int, default=STEPS, help="of a block, besides the first")
    add("--repeats", type=int, default=REPEATS, help="blocks of each mode")
    return parser


if __name__ == "__main__":
    print(json.dumps(measure(_parser().parse_args()), indent=1))
