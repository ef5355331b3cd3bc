"""A plan, shown to people, section by section."""

import itertools
from collections import Counter
from collections.abc import Sequence

from tfwave.cli.output import console, milliseconds, print_table, short_device
from tfwave.cost.uniform import is_timed
from tfwave.plan.embeddings import COLUMNS, WHOLE, Embeddings
from tfwave.plan.groups import Groups
from tfwave.plan.layers import OF_JOB, Layers
from tfwave.plan.memory import METHODS, Memory
from tfwave.plan.placement import Placement
from tfwave.plan.plan import Plan, Predicted
from tfwave.plan.waves import Waves
from tfwave.sizes import in_words, in_words_if_known, limit_in_words

_SHOWN_TRANSFERS = 20
_SHOWN_TENSORS = 12
_UNTIMED = (
    "what to expect is not known: without times each transfer counts as one, and each op as nothing; a capture "
    "bundle has them, or give --costs FILE"
)


def print_plan(plan: Plan) -> None:
    """All of its sections; of each what it promises first."""
    if plan.has_order:
        print_order(plan)
    if plan.groups is not None:
        _print_groups(plan.groups)
    if plan.waves is not None:
        _print_waves(plan.waves)
    if plan.placement is not None:
        _print_placement(plan.placement)
    if plan.memory is not None:
        print_memory(plan.memory)
    if plan.layers is not None:
        print_layers(plan.layers)
    if plan.embeddings is not None:
        print_embeddings(plan.embeddings)


def print_order(plan: Plan) -> None:
    """What the order promises, then the most urgent transfers of each channel."""
    costs = plan.costs
    detail = f" ({costs.detail})" if costs.detail else ""
    console.print(
        f"policy {plan.policy}; costs: ops {costs.ops}, transfers {costs.transfers}{detail}", soft_wrap=True
    )
    if is_timed(costs):
        _print_predicted(plan.predicted)
    else:
        console.print(_UNTIMED, soft_wrap=True)
    for order in plan.orders:
        channel = order.channel
        ends = f"{short_device(channel.source)} -> {short_device(channel.destination)}"
        title = f"{ends}: {len(order.transfers)} transfers"
        rows = [
            (t.rank, f"{t.priority:g}", in_words_if_known(t.bytes), f"{t.key.node}:{t.key.port}")
            for t in order.transfers[:_SHOWN_TRANSFERS]
        ]
        print_table(title, ["rank", "priority", "size", "tensor"], rows, words=["tensor"])
        if len(order.transfers) > _SHOWN_TRANSFERS:
            console.print(f"... and {len(order.transfers) - _SHOWN_TRANSFERS} more (all with --json or -o)")


def _print_predicted(predicted: Predicted) -> None:
    console.print(
        f"predicted: makespan {milliseconds(predicted.makespan_seconds)}, "
        f"U {milliseconds(predicted.upper_seconds)}, L {milliseconds(predicted.lower_seconds)}, "
        f"E {predicted.efficiency:.3f}, S {predicted.speedup:.3f}\n"
        f"step: {milliseconds(predicted.unordered_seconds)} unordered, "
        f"{milliseconds(predicted.ordered_seconds)} ordered, {predicted.gap:.1%} above the best bound "
        f"({predicted.bound}, {milliseconds(predicted.bound_seconds)})",
        soft_wrap=True,
    )
    console.print(predicted.verdict, style="bold", soft_wrap=True)
    if predicted.ack_window_seconds:
        console.print(
            f"where no hook keeps the order: {milliseconds(predicted.ack_window_seconds)} by acknowledgements "
            f"(ack_window), {milliseconds(predicted.proxy_seconds)} by proxies",
            soft_wrap=True,
        )


def _print_groups(groups: Groups) -> None:
    print_table(
        f"jobs in {in_words(groups.limit_bytes)}",
        ["job", "resident", "peak", "time", "groups"],
        [
            (job.name, in_words(job.resident), in_words(job.peak), milliseconds(job.seconds), len(job.groups))
            for job in (planned.job for planned in groups.jobs)
        ],
    )
    how = "in turn" if groups.is_in_turn else f"side by side, slots: {len(groups.slots)}"
    console.print(
        f"{how}; predicted: peak {in_words(groups.peak_bytes)}, {milliseconds(groups.seconds)} for a step of each, "
        f"{milliseconds(groups.in_turn_seconds)} in turn",
        soft_wrap=True,
    )


def _print_waves(waves: Waves) -> None:
    console.print(
        f"{waves.count} waves, each from {waves.offset:.0%} of the backward pass of the one before on; predicted: "
        f"room for {in_words(waves.needed_bytes)} needed, of {in_words(waves.limit_bytes)}",
        soft_wrap=True,
    )
    if waves.verdict:
        console.print(waves.verdict, soft_wrap=True)


def _print_placement(placement: Placement) -> None:
    held = Counter(placement.variables.values())
    print_table(
        f"variables on {placement.servers} servers",
        ["task", "variables", "pulled and pushed"],
        [
            (server, held[server], in_words(placement.bytes[server]) if placement.bytes else "unknown")
            for server in range(placement.servers)
        ],
    )
    if placement.bound_bytes:
        console.print(f"no placement gives the busiest less than {in_words(placement.bound_bytes)}")


def print_memory(memory: Memory) -> None:
    """What the step promises, then the largest tensors that are away."""
    away = [f"{len(found)} by {method}" for method in METHODS if (found := memory.away(method))]
    console.print(
        f"a step of {len(memory.order)} ops in {in_words(memory.limit_bytes)}, policy {memory.policy}; away: "
        f"{', '.join(away) or 'nothing'}; predicted: peak {in_words(memory.peak_bytes)}, "
        f"{milliseconds(memory.seconds)} a step, {milliseconds(memory.plain_seconds)} as it is; fits from "
        f"{limit_in_words(memory.least_bytes)} on",
        soft_wrap=True,
    )
    if memory.places:
        console.print(
            f"lies in {len(memory.places)} places of a region of {in_words(memory.region_bytes)}, in a pool of "
            "tfwave.colocate.planned_pool",
            soft_wrap=True,
        )
    rows = [
        (t.names[0], in_words(t.bytes), t.method, t.after, t.back, t.wanted)
        for t in sorted(memory.tensors, key=lambda t: (-t.bytes, t.names))[:_SHOWN_TENSORS]
    ]
    if rows:
        columns = ["tensor", "size", "by", "away after", "back before", "wanted by"]
        print_table("tensors that are away", columns, rows, words=columns[2:])
    if len(memory.tensors) > _SHOWN_TENSORS:
        console.print(f"... and {len(memory.tensors) - _SHOWN_TENSORS} more (all with --json or -o)")


def print_layers(layers: Layers) -> None:
    """What the step promises, then the layers; those in a row that have the same devices together."""
    limit = (
        f"at most {layers.limit:g} x for {'all' if layers.limit_of == OF_JOB else 'each'}"
        if layers.limit
        else "no limit"
    )
    console.print(
        f"{len(layers.layers)} layers on {layers.devices} devices, batch {layers.batch}; predicted: "
        f"{milliseconds(layers.seconds)} a step, {milliseconds(layers.one_device_seconds)} on one device, "
        f"{milliseconds(layers.data_parallel_seconds)} with each layer on all; device-seconds "
        f"{layers.amplification:.2f} x those on one device ({limit}); {layers.gap:.1%} above the bound",
        soft_wrap=True,
    )
    rows: list[tuple[str, str, str, int]] = []
    for (first, count), found in itertools.groupby(
        layers.layers, key=lambda layer: (layer.first, layer.count)
    ):
        names = [layer.name for layer in found]
        devices = str(first) if count == 1 else f"{first} to {first + count - 1}"
        rows.append((names[0], names[-1], devices, count))
    print_table("layers", ["from", "to", "devices", "count"], rows, words=["to", "devices"])


def print_embeddings(embeddings: Embeddings) -> None:
    """What staged steps promise, then the largest tables."""
    age = f"rows {embeddings.staleness} updates old" if embeddings.staleness else "exact"
    pushes = (
        "repeated rows' gradients first" if embeddings.priorities.pushes_apart else "all gradients together"
    )
    console.print(
        f"{embeddings.steps} steps a call, {age}, {pushes}; {in_words(embeddings.hot_bytes)} of rows kept on a "
        f"worker (alpha {embeddings.alpha:.2%}); predicted: {milliseconds(embeddings.seconds)} a step, "
        f"{milliseconds(embeddings.unique_seconds)} with each row once, {milliseconds(embeddings.stock_seconds)} "
        f"with each id looked up; the floor is {milliseconds(embeddings.bound_seconds)}",
        soft_wrap=True,
    )
    if embeddings.verdict:
        console.print(embeddings.verdict, soft_wrap=True)
    rows = [
        (t.name, t.rows, t.columns, t.layout if t.layout == WHOLE else f"by {t.layout}", _numbers(t.servers))
        for t in sorted(embeddings.tables, key=lambda t: (-t.rows * t.columns, t.name))[:_SHOWN_TENSORS]
    ]
    print_table(
        "embedding tables", ["table", "rows", COLUMNS, "lies", "servers"], rows, words=["lies", "servers"]
    )
    if len(embeddings.tables) > _SHOWN_TENSORS:
        console.print(f"... and {len(embeddings.tables) - _SHOWN_TENSORS} more (all with --json or -o)")


def _numbers(servers: Sequence[int]) -> str:
    return ", ".join(map(str, servers))
