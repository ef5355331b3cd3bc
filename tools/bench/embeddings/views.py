"""What docs/measured.md shows of embeddings and of exchanges among their workers."""

from tools.bench.view import BESIDE_STOCK, LINK, STEPS, View

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
    "embedding": (
        View(f"Staged embeddings, one server. {LINK}", "modes/*", ("settings.rate:rate", *BESIDE_STOCK)),
    ),
    "keras_embedding": (
        View(f"A Keras model with a large table, 1 Gbit/s. {LINK}", "modes/*", BESIDE_STOCK),
    ),
}
