"""A table of docs/measured.md: under which conditions, which rows of a record, which of their values."""

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
            ":time" they are seconds, with ":seconds" many of them, with ":micro" few, with ":bytes" bytes, with
            ":rate" bits a second, with ":share" shares. Of several with ":" the least and the most are shown.
        mean: of these columns, in points, the mean size and the most is said behind the table.
        forecast: of what the rows gain, shown beside what they did, and by how many points it is off.
    """

    told: str
    rows: str
    columns: tuple[str, ...]
    mean: tuple[str, ...] = ()
    forecast: Forecast | None = None
