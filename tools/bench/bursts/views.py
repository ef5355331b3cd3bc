"""What docs/measured.md shows of bursts and of trainings in the background."""

from tools.bench.view import View

VIEWS: dict[str, tuple[View, ...]] = {
    "background": tuple(
        View(
            f"A training in the background of {foreground}: that one's slowdown, and the background's progress "
            "over that share of its own which the cores' idle time allows. Of the windows median, least, most.",
            f"{kind}/*",
            ("mode", "slowdown", "slowdown_p95", "idle_alone", "share_of_idle", "used_of_idle"),
        )
        for kind, foreground in {
            "busy": "one that keeps the cores busy",
            "gaps": "one that waits in each step",
            "serial": "one that uses one core",
        }.items()
    ),
    "background_jobs": (
        View(
            "The same by a background among a pool's jobs; `told` by the pool itself. Median, least, most.",
            "kinds/*",
            ("mode", "slowdown", "slowdown_p95", "told", "share_of_idle"),
        ),
    ),
    "burst": (
        View(
            "A step with each layer on all of four devices of one process, beside data parallelism by hand; blocks "
            "take turns, of their ratios the median, the least and the most.",
            "shards",
            (
                "ops.by hand",
                "ops.plan",
                "seconds.by hand:time",
                "seconds.plan:time",
                "plan_over_by_hand",
            ),
        ),
        View(
            "The planner's own time, least CPU seconds, with a limit of each layer.",
            "planning/*",
            ("mode", "8 devices:time", "1024 devices:time"),
        ),
    ),
    "burst_planner": (
        View(
            "Random small models, planned, beside the fastest of all their plans; how many of them are not as they "
            "should be. Where branches meet, `over_limit_summed` counts all that moves to a layer together; the "
            "limit is asked of each edge.",
            "families/*",
            ("family", "models", "not_optimal", "over_limit", "over_limit_summed", "over_capacity"),
        ),
        View(
            "Step times predicted from DeepPool's released A100 tables, batch 32 on 8 GPUs. The released search "
            "passes its limit in some layer; `at_equal_limit` is planned within the limit that it did keep to.",
            "tables/*",
            (
                "model",
                "limit",
                "released.seconds:time",
                "released.worst_layer:number",
                "planned.seconds:time",
                "planned.worst_layer:number",
                "at_equal_limit.seconds:time",
            ),
        ),
    ),
}
