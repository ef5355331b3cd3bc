"""The plan: its transfers to search, and of each section what one has to set."""

from tfwave.graph.names import short_channel
from tfwave.plan.memory import METHODS
from tfwave.plan.plan import Plan
from tfwave.report.page.facts import Section, Table
from tfwave.sizes import in_words, in_words_if_known, milliseconds

_MOST_IN_SUMMARY = 10


def plan_section(plan: Plan | None) -> Section | None:
    """All that the plan names, one row each; None where it names nothing."""
    rows = [] if plan is None else _rows(plan)
    if not rows:
        return None
    columns = ["section", "where", "turn", "name", "size", "detail"]
    return Section(
        "plan",
        "The plan",
        f"{len(rows):,} rows: what leaves, lies or runs where, in its turn.",
        {},
        Table(columns, rows),
        Table(columns, rows[:_MOST_IN_SUMMARY]),
    )


def settings(plan: Plan | None) -> Table:
    """Of each section of the plan: what it says, and what puts it into force."""
    rows: list[tuple[str, str, str]] = []
    if plan is not None:
        rows += [*_order_settings(plan), *_memory_settings(plan), *_other_settings(plan)]
    return Table(["what", "set", "by"], rows)


def _rows(plan: Plan) -> list[tuple[str | int, ...]]:
    return [
        *_transfers(plan),
        *_groups(plan),
        *_variables(plan),
        *_away(plan),
        *_layers(plan),
        *_tables(plan),
    ]


def _order_settings(plan: Plan) -> list[tuple[str, str, str]]:
    if not plan.has_order:
        return []
    windows = sorted({order.window_bytes for order in plan.orders if order.window_bytes})
    disciplines = ", ".join(sorted({str(order.discipline) for order in plan.orders}))
    by = f"by {disciplines}" + "".join(f", window {in_words(size)}" for size in windows)
    said = f"policy {plan.policy}, {len(plan.transfers):,} transfers on {len(plan.orders)} channels, {by}"
    how = 'tfwave.distribute.wrap(strategy, plan="plan.json"), or tfwave.ControlClient(address).install(plan)'
    return [("order of transfers", said, how)]


def _memory_settings(plan: Plan) -> list[tuple[str, str, str]]:
    memory = plan.memory
    if memory is None:
        return []
    away = [f"{len(found)} tensors by {method}" for method in METHODS if (found := memory.away(method))]
    said = (
        f"limit {in_words(memory.limit_bytes)}; away: {', '.join(away) or 'nothing'}; peak "
        f"{in_words(memory.peak_bytes)}, {milliseconds(memory.seconds)} a step "
        f"({milliseconds(memory.plain_seconds)} as it is)"
    )
    ways = {
        "the pass fit_memory, or tfwave.fit_memory": bool(memory.chained) or not memory.places,
        "tfwave.colocate.planned_pool": bool(memory.places),
    }
    return [
        ("memory of a step", said, "; in a pool of ".join(way for way, is_taken in ways.items() if is_taken))
    ]


def _other_settings(plan: Plan) -> list[tuple[str, str, str]]:
    rows: list[tuple[str, str, str]] = []
    if plan.waves:
        how = (
            f"{plan.waves.count} waves, offset {plan.waves.offset:g}" if plan.waves.count > 1 else "no waves"
        )
        said = f"{how}, in {in_words(plan.waves.limit_bytes)}"
        rows.append(("waves", said, "tfwave.keras.TickTockCallback(plan=...), or the pass tick_tock"))
    if plan.groups:
        names = ", ".join(planned.job.name for planned in plan.groups.jobs)
        how = "in turn" if plan.groups.is_in_turn else f"side by side in {len(plan.groups.slots)} slots"
        said = f"{names} in {in_words(plan.groups.limit_bytes)}, {how}"
        rows.append(("jobs in one memory", said, "tfwave.colocate.run(jobs, plan=...)"))
    if plan.placement:
        said = f"{len(plan.placement.variables)} variables on {plan.placement.servers} servers"
        rows.append(("placement", said, "tfwave.distribute.place, or tfwave.balance.ServerChooser"))
    if plan.layers:
        said = f"{len(plan.layers.layers)} layers on {plan.layers.devices} devices, batch {plan.layers.batch}"
        rows.append(("layers", said, "tfwave.keras.BurstCallback, or tfwave.keras.burst"))
    if plan.embeddings:
        staged, age = plan.embeddings, plan.embeddings.staleness
        how = f"rows {age} old" if age else "exact"
        kept = f"{in_words(staged.hot_bytes)} kept"
        said = f"{len(staged.tables)} tables, {staged.steps} steps a call, {how}, {kept}"
        rows.append(("embeddings", said, "tfwave.embedding.staged(plan=...)"))
    return rows


def _transfers(plan: Plan) -> list[tuple[str | int, ...]]:
    return [
        (
            "order",
            short_channel(str(order.channel)),
            t.rank,
            f"{t.key.node}:{t.key.port}",
            in_words_if_known(t.bytes),
            f"priority {t.priority:g}",
        )
        for order in plan.orders
        for t in order.transfers
    ]


def _groups(plan: Plan) -> list[tuple[str | int, ...]]:
    groups = {planned.job.name: planned.job.groups for planned in plan.groups.jobs} if plan.groups else {}
    turns = [
        (number, turn)
        for number, slot in enumerate(plan.groups.slots if plan.groups else ())
        for turn in slot
    ]
    return [
        ("jobs", turn.job, number, f"group {turn.group}", in_words(own.transient), f"{len(own.ops)} ops")
        for number, turn in turns
        for own in [groups[turn.job][turn.group]]
    ]


def _variables(plan: Plan) -> list[tuple[str | int, ...]]:
    placed = sorted(plan.placement.variables.items()) if plan.placement else []
    return [("placement", f"server {server}", "", name, "", "") for name, server in placed]


def _away(plan: Plan) -> list[tuple[str | int, ...]]:
    return [
        (
            "memory",
            t.method,
            number,
            t.names[0],
            in_words(t.bytes),
            f"away after {t.after}, back before {t.back}, for {t.wanted}",
        )
        for number, t in enumerate(plan.memory.tensors if plan.memory else ())
    ]


def _layers(plan: Plan) -> list[tuple[str | int, ...]]:
    return [
        ("layers", f"devices {layer.first} to {layer.first + layer.count - 1}", turn, layer.name, "", "")
        for turn, layer in enumerate(plan.layers.layers if plan.layers else ())
    ]


def _tables(plan: Plan) -> list[tuple[str | int, ...]]:
    return [
        (
            "embeddings",
            f"servers {', '.join(map(str, table.servers))}",
            "",
            table.name,
            f"{table.rows:,} x {table.columns}",
            table.layout,
        )
        for table in (plan.embeddings.tables if plan.embeddings else ())
    ]
