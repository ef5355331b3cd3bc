"""What docs/measured.md shows of what was measured on a GPU."""

from tools.bench.view import View

VIEWS: dict[str, tuple[View, ...]] = {
    "gpu-allocator": (
        View(
            "The settings of a GPU's pool as they are obeyed; then the pool's peak against the model's word, `off` "
            "by, and what came of steps in a pool of 2 % more than that word.",
            "rows/*",
            ("key", "limit:bytes", "of_limit:share", "word:bytes", "peak:bytes", "off:share", "held"),
        ),
    ),
    "gpu-capacity": (
        View(
            "The largest batch of one step, and of two waves together, in one pool.",
            "rows/*/ways/*",
            ("model", "mode", "batch"),
        ),
        View(
            "The peak of two waves over that of one step, by the offset of the second, and the model's word on it.",
            "rows/*/offsets/*",
            ("model", "batch_each", "offset", "over_one_step", "predicted_over_one_step", "error:share"),
        ),
        View(
            "Jobs side by side: their batches as a share of what each has alone, at most.",
            "rows/*/modes/*",
            ("jobs", "mode", "share", "batches", "predicted_peak:bytes", "peak:bytes", "losses_equal"),
        ),
    ),
    "gpu-fit": (
        View(
            "A step in a share of its plain peak, plain and fitted; then the largest plain batch of a pool, and so "
            "many times as much made to fit there. `ok`: with the losses of the plain step.",
            "rows/*",
            (
                "key",
                "batch",
                "limit:bytes",
                "promised:bytes",
                "peaks:bytes",
                "peak:bytes",
                "seconds_each:micro",
                "same_losses",
                "outcome",
            ),
        ),
    ),
    "gpu-jobs": (
        View(
            "Steps of all jobs, one after the other, over those in other modes, at the largest share of all modes.",
            "rows/*",
            ("jobs", "share", "batches", "throughput.colocation", "throughput.uncontrolled"),
        ),
    ),
    "gpu-see": (
        View(
            "What works, and how long it took. Of the stash: eight tensors out and back, products of matrices, and "
            "both beside each other; what of the copies was hidden then.",
            "rows/*",
            (
                "key",
                "took_seconds:seconds",
                "seconds.copied:time",
                "seconds.computed:time",
                "seconds.beside:time",
                "hidden:share",
            ),
        ),
    ),
    "gpu-streams": (
        View(
            "A foreground beside a background on one device; `process`: the background is another program.",
            "rows/*",
            ("key", "median:time", "p95:time", "slowdown", "slowdown_p95", "background_steps_a_second"),
        ),
    ),
    "gpu-waves": (
        View(
            "Samples a second of two waves over those of one larger batch in as much memory; the peak of the waves "
            "over the model's word is `off` by.",
            "rows/*",
            (
                "key",
                "batches.gang",
                "batches.auto",
                "offset",
                "throughput",
                "predicted",
                "word:bytes",
                "off:share",
            ),
        ),
    ),
}
