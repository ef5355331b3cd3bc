"""What docs/measured.md shows of each record: under which conditions, which rows, which of their values."""

from dataclasses import dataclass

STEPS = ("median_seconds:time", "stdev_seconds:time", "blocks_seconds:time")
BESIDE_STOCK = ("mode", *STEPS, "over_wire", "paired_ratio_to_stock")
LINK = "Links of network namespaces and `tc tbf`; modes in turn, block by block."
POOL = "A limited CPU pool, each trial in processes of its own."


@dataclass(frozen=True)
class Forecast:
    """Which share of a step's time rows were foretold to save on the same step of another mode, and which they did.

    Each is a key of `View.columns`, in which "{mode}" is the row's mode; or two with "/" between them, of which the
    ratio is what is left of the time: seconds of the row over the other's, or nothing over a gain in throughput.

    Attributes:
        gain: foretold. Where it is not recorded, the row says nothing.
        measured: in the same run.
        baseline: the mode on which others gain, so that its own rows say nothing.
    """

    gain: str
    measured: str
    baseline: str = ""


@dataclass(frozen=True)
class View:
    """A table of a record.

    Attributes:
        told: the conditions, as sentences.
        rows: where the rows are in a result: names of keys, "*" for each part, joined by "/". The name of the last
            part "*" is the value `mode` of a row, that of the one before it `around`.
        columns: keys of values, joined by "." where they are nested; those around a row count as its own. With
            ":time" they are seconds, with ":seconds" many of them, with ":bytes" bytes, with ":rate" bits a second,
            with ":share" shares. Of several with ":" the least and the most are shown.
        mean: of these columns, in points, the mean size and the most is said behind the table.
        forecast: of what the rows gain, shown beside what they did, and by how many points it is off.
    """

    told: str
    rows: str
    columns: tuple[str, ...]
    mean: tuple[str, ...] = ()
    forecast: Forecast | None = None


VIEWS: dict[str, tuple[View, ...]] = {
    "all_to_all": (
        View(
            f"Splits of 16 MiB a rank that all ranks exchange, without a rate on loopback. {LINK}",
            "modes/*",
            ("given.ranks", "given.rate:rate", "mode", *STEPS, "over_wire"),
        ),
        View(
            "One rank comes late: how much longer the others then take for exchanges among themselves, and how "
            "long the exchange that waits for it takes from when it has come.",
            "late/*",
            (
                "given.ranks",
                "given.rate:rate",
                "mode",
                "among_cost_seconds:time",
                "among_costs_seconds:time",
                "after_seconds:time",
            ),
        ),
    ),
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
    "barrier": (
        View(
            "A step of three models with barriers that always open, in one process.",
            "steps/*",
            (
                "model",
                "barriers_a_step",
                "seconds.plain:time",
                "seconds.plain_again:time",
                "seconds.no_ops:time",
                "seconds.barriers:time",
            ),
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
    "colocation": (
        View(
            f"The largest batches of pairs of models, as a share of those that running in turn allows. {POOL}",
            "of_ceiling/*/*",
            ("around", "mode", "mean", "least", "pairs"),
        ),
        View(
            "Samples a second at the largest batches, over running in turn.",
            "throughput/*",
            ("pair", "limit:bytes", "batches", "throughput", "throughput_of_processes:number"),
        ),
    ),
    "demo": (
        View(
            f"ResNet-50 inference, one server and two workers, 1 Gbit/s. {LINK}",
            "figures/*",
            ("mode", "steps", *STEPS[:2], "efficiency_median", "efficiency", "straggler_median:share"),
            forecast=Forecast(
                "predicted.gain", "median_seconds/figures.unordered.median_seconds", "unordered"
            ),
        ),
        View("How much of a traced step's time its E tells (R2).", "", ("explained",)),
        View(
            "Its hand-offs against the plan.",
            "conformance/*",
            ("mode", "steps", "exact_steps", "inversions", "inversion_share:share", "released"),
        ),
    ),
    "embedding": (
        View(f"Staged embeddings, one server. {LINK}", "modes/*", ("settings.rate:rate", *BESIDE_STOCK)),
    ),
    "enforcers": (
        View(
            f"VGG-16-like inference, batch 4, 1 Gbit/s. {LINK}",
            "modes/*",
            ("mode", *STEPS, "over_wire", "paired_ratio_to_hook", "inverted_share:share"),
        ),
    ),
    "inference": (View(f"VGG-16-like inference, one worker, 1 Gbit/s. {LINK}", "modes/*", BESIDE_STOCK),),
    "keras_embedding": (
        View(f"A Keras model with a large table, 1 Gbit/s. {LINK}", "modes/*", BESIDE_STOCK),
    ),
    "keras_fit": (View(f"`tfwave.keras.fit`, 1 Gbit/s. {LINK}", "modes/*", BESIDE_STOCK),),
    "matrix": (
        View(
            f"All ways to send, each beside its forecast, which a capture gave. {LINK} A step takes at least "
            "`link` by its bytes, and `carried` by how fast gRPC was seen to carry them; `binds` says which of "
            "that, the cores and the floors of an order is the most.",
            "modes/*",
            (
                "settings.model",
                "settings.train",
                "settings.rate:rate",
                "settings.servers",
                "settings.workers",
                *BESIDE_STOCK,
                "link_seconds:time",
                "carried_seconds:time",
                "binds",
                "forecast_seconds:time",
                "error:share",
            ),
            mean=("error",),
            forecast=Forecast(
                "forecast_seconds/modes.stock.forecast_seconds",
                "median_seconds/modes.stock.median_seconds",
                "stock",
            ),
        ),
    ),
    "merged": (
        View(
            f"Peaks of two jobs in one graph, with and without barriers; 0 where it ran out. {POOL}",
            "trials/*/*",
            ("around", "peak:bytes", "exact"),
        ),
    ),
    "model_parallel": (
        View(
            "A model in two parts on two devices of one process: as it is, in a pipeline of so many micro-batches, "
            "and in two waves.",
            "modes/*",
            ("mode", "samples_per_second", "over_plain", "peak_bytes:bytes", "blocks_seconds:time"),
        ),
    ),
    "overlap": (
        View(
            f"Training, one step a call, ordered against stock. {LINK}",
            "one_step_a_call/modes/*",
            (
                "settings.model",
                "settings.rate:rate",
                "settings.servers",
                "settings.workers",
                "settings.sync",
                *BESIDE_STOCK,
            ),
            forecast=Forecast("forecast.gain", "forecast.measured_gain", "stock"),
        ),
        View(
            f"Training, K steps in one call against one each. {LINK} `over_bound` is over the flow shop's bound.",
            "results/*",
            (
                "settings.model",
                "settings.rate:rate",
                "settings.servers",
                "settings.workers",
                "settings.sync",
                "chosen.steps",
                "modes.stock.median_seconds:time",
                "modes.overlapped.median_seconds:time",
                "throughput",
                "over_bound",
            ),
            forecast=Forecast("forecast.gain", "forecast.measured_gain"),
        ),
    ),
    "placement": (
        View(
            "A training step from a planned pool, losses bit-equal.",
            "*",
            (
                "model",
                "batch",
                "served.live_peak:bytes",
                "pool_over_live_peak",
                "served.share:share",
                "median_ms.unplanned",
                "median_ms.planned",
            ),
        ),
    ),
    "policies": (
        View(
            f"Forecast steps against measured ones, inference under several orders. {LINK}",
            "modes/*",
            (
                "settings.model",
                "settings.rate:rate",
                "settings.servers",
                "mode",
                "forecast_seconds:time",
                "median_seconds:time",
                "stdev_seconds:time",
                "error:share",
            ),
            mean=("error",),
            forecast=Forecast(
                "forecast_seconds/modes.unordered.forecast_seconds",
                "median_seconds/modes.unordered.median_seconds",
                "unordered",
            ),
        ),
    ),
    "reduce": (
        View(
            f"Arrays reduced among hosts; the mode is their bytes. {LINK}",
            "sizes/*",
            (
                "given.hosts",
                "given.rate:rate",
                "mode",
                "bound_seconds:time",
                "median_seconds_of_blocks.tfwave:time",
                "median_seconds_of_blocks.tensorflow:time",
                "processor_seconds_of_blocks.tfwave:time",
                "processor_seconds_of_blocks.tensorflow:time",
            ),
        ),
    ),
    "search": (
        View(
            "Simulated makespans over the optimum, which is known for these graphs.",
            "known optimum/*",
            ("graphs", "random mean", "tic mean", "tac mean", "search mean", "worst search"),
        ),
    ),
    "simulator": (
        View("The simulator's speed.", "speed/*", ("case", "events", "seconds", "events_per_second")),
    ),
    "strategy": (
        View(
            f"The same under a `ParameterServerStrategy`, 1 Gbit/s. {LINK}",
            "results/*",
            (
                "settings.first_matrix",
                "steps",
                "modes.stock.median_seconds:time",
                "modes.overlapped.median_seconds:time",
                "throughput",
                "over_bound",
            ),
        ),
    ),
    "split": (
        View(
            "Waterwave's split size: the largest batches of two jobs of a model by Algorithm 1, with groups of so "
            f"many MiB, as a share of a job's alone, and of those that running in turn allows. {POOL}",
            "capacity/*",
            ("pair", "mode", "share:share", "of_ceiling:share", "predicted_share:share", "losses_equal"),
        ),
    ),
    "stream": (
        View(
            "Twelve trainings of a search, all asked for at once, to the end of the last and of the mean one; "
            "their losses are bit-equal to those alone. Gains are in times as fast as one after the other. "
            f"{POOL}",
            "ways/*",
            (
                "limit_bytes:bytes",
                "mode",
                "makespan_seconds:seconds",
                "mean_completion_seconds:seconds",
                "makespan_gain",
                "completion_gain",
                "peak:bytes",
                "alone",
            ),
        ),
    ),
    "table1": (
        View(
            "Models of TicTac's Table 1, each worker's batch by its share of the paper's cores; E and straggler "
            f"are the most of a step. {LINK}",
            "modes/*",
            (
                "settings.model",
                "settings.train",
                "settings.workers",
                "mode",
                "mean_seconds:time",
                "images_per_second",
                "gain:share",
                "efficiency",
                "straggler:share",
                "exact",
            ),
            forecast=Forecast(
                "predicted.{mode}.gain", "mean_seconds/modes.unordered.mean_seconds", "unordered"
            ),
        ),
        View(
            "How much of a traced step's time its E tells (R2), and of that time over its own L; where order "
            "matters, most.",
            "",
            (
                "settings.model",
                "settings.train",
                "settings.workers",
                "settings.traced",
                "explained",
                "explained_normalized",
            ),
        ),
    ),
    "tick_tock": (
        View(
            f"The largest batch of each way to train, over that of one step at a time. {POOL}",
            "capacity/*",
            ("model", "way", "limit:bytes", "batch", "over_gang", "successes", "repeats"),
        ),
        View(
            "Samples a second in the same memory.",
            "throughput/*",
            (
                "model",
                "limit:bytes",
                "batches.gang",
                "batches.auto",
                "throughput",
                "ratios:number",
                "predicted",
            ),
            forecast=Forecast("/predicted", "/throughput"),
        ),
    ),
    "waves": (
        View(
            "A simulation from profiles, not a measurement: speed-ups beside those that the paper prints.",
            "data parallel/*",
            ("model", "devices", "speed-up", "printed"),
        ),
        View(
            "The same for models on several devices.",
            "model parallel/*",
            ("model", "devices", "speed-up", "pipeline, at most", "pipeline, with launches", "printed"),
        ),
    ),
    "wrapped": (
        View(
            "Jobs under a stock and a wrapped `ParameterServerStrategy`, one server and one worker, at 1 Gbit/s "
            "and where neither the link nor the order of transfers counts; the proxy beside the hook for many "
            f"small tensors. {LINK}",
            "",
            (
                "settings.model",
                "settings.train",
                "settings.rate:rate",
                "settings.enforcer",
                "modes.stock.median_seconds:time",
                "modes.wrapped.median_seconds:time",
                "modes.wrapped.paired_ratio_to_stock",
                "schedule.tfwave_inversions",
                "losses_equal",
            ),
        ),
    ),
}
