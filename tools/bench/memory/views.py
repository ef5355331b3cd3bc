"""What docs/measured.md shows of what a step holds in memory."""

from tools.bench.view import POOL, Forecast, View

VIEWS: dict[str, tuple[View, ...]] = {
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
    "fit_promises": (
        View(
            "Verdicts of `tfwave fit` on drawn batches and limits, shares of the plain peak, against steps in a "
            "pool of that size: made to fit, or, where none was said to, with all away that can be. What fitting "
            "adds to a step, as promised and as measured.",
            "each/*",
            ("model", "batch", "share:share", "fits", "outcome", "right", "promised:share", "measured:share"),
        ),
    ),
    "fit_planning": (
        View(
            "CPU seconds in which a step is planned that must fit: the choice of what is away, and all that "
            "`tfwave fit` plans, with what TensorFlow's pool takes in each run that is tried; at a share of the "
            "way from the least that the step can be made to hold to its plain peak. And the price of the choice "
            "over that of what the solver HiGHS finds in 15 s, and over its bound: each the least of two orders.",
            "each/*",
            (
                *("model", "ops", "share:share", "choice_seconds:time", "plan_seconds:time"),
                *("over_solver:number", "over_bound:number"),
            ),
        ),
    ),
    "largest_batch": (
        View(
            "The largest batch, to a hundredth, of which 5 trials of 50 steps ran in a pool of 512 MB: plain, made "
            "to fit by offload and recompute together, without and with places in the pool, or with TensorFlow's "
            "own `tf.recompute_grad` around each block. Grappler and oneDNN are off. Where no time is given, the "
            "machine was not quiet.",
            "",
            ("model", "way", "batch", "trial.peak:bytes", "seconds_each:micro"),
        ),
    ),
    "fitted_beside": (
        View(
            "Steps in a pool of 512 MB, made to fit with their places, in a planned pool, or by their order alone, "
            "in turn with those of another way in a pool as large: plain ones, or the same batch with "
            "`tf.recompute_grad` around each block; 5 times 50 of each. Grappler and oneDNN are off.",
            "",
            (
                *("model", "way", "batch", "beside", "beside_batch", "over_beside", "peak:bytes"),
                *("seconds_each:micro", "beside_seconds_each:micro"),
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
}
