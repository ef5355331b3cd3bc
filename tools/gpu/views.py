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
}
