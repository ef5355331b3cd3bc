"""What docs/measured.md shows of reduces."""

from tools.bench.view import LINK, View

VIEWS: dict[str, tuple[View, ...]] = {
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
    "reduced_steps": (
        View(
            'Steps of a Keras 3 model of dense layers on hosts with `PartialReduce("all")`: gradients reduced in '
            "buckets while others are computed, reduced as one piece, and steps without reduces; medians of "
            f"blocks. The bound is the longer of the wire and the step alone. {LINK}",
            "",
            (
                "given.hosts",
                "given.batch",
                "wire_seconds:time",
                "bound_seconds:time",
                "median_seconds_of_blocks.buckets:time",
                "median_seconds_of_blocks.whole:time",
                "median_seconds_of_blocks.alone:time",
                "sooner_than_whole",
            ),
        ),
    ),
    "stragglers": (
        View(
            "A tf_keras model on several workers; a step begins with 20 ms and a delay: none, U(0, 50) ms (some), "
            "or in half of the workers U(50, 100) ms (groups). Stock is `MultiWorkerMirroredStrategy`; all and rna "
            "are `PartialReduce` with all workers and with two probes; apart, no worker hears of another. Seconds "
            "to the target loss, steps of all workers a second, and what came of 30 s.",
            "modes/*",
            (
                "given.model",
                "given.workers",
                "given.delays",
                "given.seed",
                "mode",
                "seconds_to_target:seconds",
                "steps_per_second",
                "last_loss",
                "last_accuracy",
            ),
        ),
        View(
            "How many times sooner it is at that loss than the others, and its share of the steps apart.",
            "",
            (
                "given.model",
                "given.workers",
                "given.delays",
                "given.seed",
                "gains.sooner_than_stock",
                "gains.sooner_than_all",
                "gains.share_of_steps_apart",
            ),
        ),
    ),
}
