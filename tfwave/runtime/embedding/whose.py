"""Whose the rows of a dynamic table on workers are, in checkpoints: what each of them knows, put together."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from io import BytesIO
from itertools import pairwise
from typing import Any, cast

import numpy as np

from tfwave.errors import TfwaveError
from tfwave.kept.residents import Residents
from tfwave.runtime.all_to_all import Exchange

_LAYOUT = "layout"


@dataclass(frozen=True)
class Whose:
    """What one worker knows of the ids that are its own.

    Attributes:
        residents: these ids.
        rank: the worker's.
        layout: where each worker's rows begin in the table, and where the last one's end.
    """

    residents: Residents
    rank: int
    layout: tuple[int, ...]

    def dumps(self) -> bytes:
        """What this worker knows, alone."""
        return self._together({self.rank: self.residents.dumps()})

    def dumps_of_all(self, group: Exchange, name: str) -> bytes:
        """What all know, on worker 0: all call it, of the table of this name.

        Raises:
            tf.errors.AbortedError: the group has ended.
        """
        tensorflow: Any = import_module("tensorflow")
        own = np.frombuffer(self.residents.dumps(), np.uint8)
        counts = [len(own), *[0] * (group.ranks - 1)]
        came = group.exchange(
            tensorflow.constant(own), tensorflow.constant(counts, tensorflow.int64), f"tfwave/ids of {name}"
        )
        return self._together({rank: state.numpy().tobytes() for rank, state in enumerate(came)})

    def loads(self, written: bytes) -> None:
        """Take over what this worker knew then.

        Raises:
            TfwaveError: other workers, or workers of other rows, wrote it, or another one alone.
        """
        with np.load(BytesIO(written)) as held:
            layout = tuple(map(int, held.get(_LAYOUT, ())))
            if layout != self.layout:
                raise TfwaveError(
                    f"the checkpoint is of a dynamic table with {_said(layout)}, and this one has "
                    f"{_said(self.layout)}: ids are a worker's own, so go on with as many, of as many rows each"
                )
            if str(self.rank) not in held:
                raise TfwaveError(
                    f"the checkpoint lacks the ids of worker {self.rank}: write it by Workers.save"
                )
            self.residents.loads(held[str(self.rank)].tobytes())

    def _together(self, states: Mapping[int, bytes]) -> bytes:
        written, save = BytesIO(), cast("Any", np.savez)
        each = {str(rank): np.frombuffer(state, np.uint8) for rank, state in states.items()}
        save(written, **{_LAYOUT: np.array(self.layout)}, **each)
        return written.getvalue()


def _said(layout: tuple[int, ...]) -> str:
    heights = [end - begin for begin, end in pairwise(layout)]
    return f"{' and '.join(map(str, heights))} rows on its workers" if heights else "its rows on servers"
