"""What docs/measured.md shows of embeddings and of exchanges among their workers."""

from tools.bench.view import BESIDE_STOCK, LINK, STEPS, Forecast, View

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
        View(
            f"Staged embeddings, 16 steps a call, of 2048 samples of 26 tables, 64 wide. {LINK} `over_wire` is "
            "over the bytes that a step moves each way, each row once, and the model's own variables; `over_floor` "
            "over what no order of a staged step's transfers can pass, by a capture in one process.",
            "modes/*",
            (
                *("settings.model", "settings.servers", "settings.workers", "settings.rate:rate"),
                *("mode", *STEPS, "paired_ratio_to_stock", "over_wire", "over_floor"),
            ),
            forecast=Forecast(
                "forecast_seconds/modes.stock.forecast_seconds",
                "median_seconds/modes.stock.median_seconds",
                "stock",
            ),
        ),
    ),
    "table_size": (
        View(
            "Steps of 8192 ids, whatever rows a table has: Keras 3's `Embedding` with its Adagrad beside a staged "
            "table with ours, in one process, in turn. `peak_bytes` is what a call took at most over what there "
            "was before it.",
            "modes/*",
            (
                *("given.rows", "table_bytes:bytes", "mode", "median_seconds:time", "blocks_seconds:time"),
                "peak_bytes:bytes",
            ),
        ),
    ),
    "eviction": (
        View(
            "Ids, in per cent, that had a row when their batch came, of 100,000 by a power law: means of five "
            "seeds. `usual` is LFU that forgets an id's count with its row, `faster` the score with a decay of "
            ".05, `ceiling` a table that is told the law.",
            "*",
            ("drift", "capacity", "lru", "usual", "lfu", "score", "faster", "ceiling"),
        ),
    ),
    "drift": (
        View(
            "Resident memory of a job's processes while ids drift through a dynamic table: medians of each sixth "
            "of the time.",
            "tasks/*",
            ("given.minutes", "steps", "mode", "sixths_bytes:bytes", "last_over_second"),
        ),
    ),
    "keras_embedding": (
        View(f"A Keras model with a large table, 1 Gbit/s. {LINK}", "modes/*", BESIDE_STOCK),
    ),
}
