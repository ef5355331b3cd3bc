"""Which settings the bench matrix has, each a command of at most ten minutes: models, kinds, links and clusters."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from tfwave.demo.networks import VGG16_LIKE
from tools.bench.interleaved import wire_seconds
from tools.bench.transfers.table1 import TABLE

IMAGES = {model: row.image for model, row in TABLE.items()} | {
    "BERTLike": 128,
    "DLRMLike": 32,
    VGG16_LIKE: 128,
}
MEBIBYTES = {model: row.mebibytes for model, row in TABLE.items()} | {
    "BERTLike": 77.0,
    "DLRMLike": 9.0,
    VGG16_LIKE: 79.0,
}
"""That a worker pulls; of DLRM's tables, rows only."""
RATES = (0.2e9, 1e9, 4e9, 10e9)
CLUSTERS = ((1, 2), (2, 2))
"""Servers and workers."""
MODES = ("stock", "hook off", "tic", "tac", "search", "reverse", "ack window", "proxy")
STEPS, WARMUP, REPEATS, MORE_REPEATS = 3, 1, 2, 4
FAST = 4e9
"""A rate at which steps are short, and the machine's noise counts for more: more blocks of each way to send."""
MOST_SECONDS = 480.0
"""That the bytes alone may take on the links; the rest of ten minutes is for the start."""


@dataclass(frozen=True)
class Piece:
    """A setting."""

    model: str
    train: bool
    rate: float
    servers: int
    workers: int

    @property
    def command(self) -> list[str]:
        """That measures it."""
        cluster = ["--servers", str(self.servers), "--workers", str(self.workers)]
        train = ["--train"] if self.train else []
        more = ["--repeats", str(self.repeats)] if self.repeats != REPEATS else []
        return ["transfers/matrix.py", self.model, *train, "--rate", f"{self.rate:g}", *cluster, *more]

    @property
    def repeats(self) -> int:
        """Blocks of each mode."""
        return MORE_REPEATS if self.rate >= FAST else REPEATS

    @property
    def least_seconds(self) -> float:
        """What all its steps take, were there nothing but bytes on even links."""
        pulled = MEBIBYTES[self.model] * 2**20 * max(1.0, self.workers / self.servers)
        both_ways = 2 if self.train else 1
        steps = len(MODES) * self.repeats * (STEPS + WARMUP)
        return steps * both_ways * wire_seconds([round(pulled)], self.rate)


def pieces() -> Iterator[Piece]:
    """All that can be measured in their time."""
    for model, train, rate, (servers, workers) in product(IMAGES, (False, True), RATES, CLUSTERS):
        piece = Piece(model, train, rate, servers, workers)
        if piece.least_seconds <= MOST_SECONDS:
            yield piece


def commands() -> Sequence[list[str]]:
    """Those of all pieces."""
    return [piece.command for piece in pieces()]
