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
}
