"""What docs/measured.md shows of the order of transfers."""

from tools.bench.view import BESIDE_STOCK, LINK, STEPS, Forecast, View

VIEWS: dict[str, tuple[View, ...]] = {
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
    "enforcers": (
        View(
            f"VGG-16-like inference, batch 4, 1 Gbit/s. {LINK}",
            "modes/*",
            ("mode", *STEPS, "over_wire", "paired_ratio_to_hook", "inverted_share:share"),
        ),
    ),
    "inference": (View(f"VGG-16-like inference, one worker, 1 Gbit/s. {LINK}", "modes/*", BESIDE_STOCK),),
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
            f"Training, K steps in one call against one each. {LINK} `over_bound` is over the flow shop's bound. "
            "The forecast is of one step's capture, as `advise_overlap` gives it; *forecast error* that of the "
            "step that is simulated behind the rewrite, for its plan, of a capture of its own.",
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
                "forecast.error:share",
            ),
            mean=("forecast.error",),
            forecast=Forecast("advice.gain", "advice.measured_gain"),
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
    "table1": (
        View(
            "Models of TicTac's Table 1, each worker's batch by its share of the paper's cores; E and straggler "
            f"are the most of a step. {LINK}",
            "modes/*",
            (
                "settings.model",
                "settings.train",
                "settings.workers",
                "settings.rate:rate",
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
                "settings.rate:rate",
                "settings.traced",
                "explained",
                "explained_normalized",
            ),
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
