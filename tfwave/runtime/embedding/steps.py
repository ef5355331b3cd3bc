"""Several steps in one traced function, in which rows of the next batch travel while this one computes."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from tfwave.errors import TfwaveError
from tfwave.runtime.embedding.gradients import of_rows
from tfwave.runtime.embedding.kept import KeptRows
from tfwave.runtime.embedding.packed import unpacked
from tfwave.runtime.embedding.rows import EARLY, FIRST, LATE, NEW, REST, RowSets
from tfwave.runtime.embedding.wire import Asked, Pulled, Sums, Wire
from tfwave.runtime.unroll import check_draws, names_of

Step = Callable[[dict[str, Any], Any], tuple[Any, Mapping[str, Any]]]


class StepFunctions:
    """A step as `tf.function`s of one or more batches.

    Each takes for each batch the pair of its row sets, packed, and what the step gets of it, and returns a tuple of
    what the step returned.
    """

    def __init__(self, step: Step, wire: Wire, staleness: int, *, keeps: bool, apart: bool) -> None:
        """`step` takes embedded rows by table, and a batch; it returns its result, and gradients by table.

        `keeps` says whether the row sets have rows that are kept; `apart`, whether the gradients of rows that the
        next batch reads too leave before the others.
        """
        self._step, self._wire, self._staleness = step, wire, staleness
        self._keeps, self._apart = keeps, apart
        new = (NEW,) if keeps else ()
        self._early, self._all = (EARLY, *new), (EARLY, LATE, *new)
        self._functions: dict[tuple[int, str], Any] = {}

    def of(self, count: int, spec: Any) -> Any:
        """The function of so many batches of a dataset.

        Raises:
            TfwaveError, GraphError: when it is traced: the step's gradients do not fit; its random ops draw the
                same numbers in all steps.
        """
        tensorflow: Any = import_module("tensorflow")
        key = (count, repr(spec))
        if key not in self._functions:
            ids, batch = spec
            signature = [((tensorflow.TensorSpec([None], "int32"), batch),) * count]

            def steps(batches: Sequence[tuple[Any, Any]]) -> tuple[Any, ...]:
                return self._steps([(unpacked(self._wire.layout, ids, sets), own) for sets, own in batches])

            self._functions[key] = tensorflow.function(steps, input_signature=signature, autograph=False)
        return self._functions[key]

    def _steps(self, batches: Sequence[tuple[RowSets, Any]]) -> tuple[Any, ...]:
        """Automatic control dependencies have accesses to a variable happen in the order of these lines, but for
        those by free handles; nothing else waits.
        """
        tensorflow: Any = import_module("tensorflow")
        free = self._wire.free_handles()
        asked = [self._wire.asked(sets) for sets, _ in batches]
        kept = self._room([sets for sets, _ in batches]) if self._keeps else []
        ahead = max(1, self._staleness)
        pulled = [own.pull(*self._all) for own in asked[:ahead]]
        results: list[Any] = []
        for k, (own, (_, batch)) in enumerate(zip(asked, batches, strict=True)):
            pulled += [self._ahead(then, pulled[k], free) for then in asked[k + ahead : k + ahead + 1]]
            own.keep(pulled[k], kept)
            embedded, rows = own.look_up(pulled[k], kept)
            optimizers = self._wire.optimizers()
            with names_of(k):
                result, gradients = self._step(embedded, batch)
            sums = own.summed(_checked(gradients, embedded), rows, optimizers)
            own.update(sums, kept)
            if self._staleness or k + 1 == len(batches):
                own.push(sums, FIRST, REST)
            else:
                pulled[k + 1] |= _handed_over(own, sums, asked[k + 1], apart=self._apart)
            results.append(result)
        if len(batches) > 1:
            check_draws(tensorflow.compat.v1.get_default_graph())
        return tuple(results)

    def _ahead(self, asked: Asked, pulled: Pulled, free: Sequence[Sequence[Any]]) -> Pulled:
        """What is sent while a step computes, whose rows are `pulled`: exact rows behind these, beside updates."""
        if self._staleness:
            return asked.pull(*self._all)
        return asked.pull_beside(*self._early, handles=free, behind=pulled)

    def _room(self, sets: Sequence[Any]) -> list[KeptRows]:
        """For the rows that a call keeps, each of which is new once."""
        tensorflow: Any = import_module("tensorflow")
        fresh = zip(*(own.fresh for own in sets), strict=True)
        return self._wire.kept([tensorflow.add_n([tensorflow.size(some) for some in own]) for own in fresh])


def _handed_over(asked: Asked, sums: Sums, behind: Asked, *, apart: bool) -> Pulled:
    """Update what the next batch reads too, and have it sent; if `apart`, the rest leaves when that has come."""
    if not apart:
        asked.push(sums, FIRST, REST)
        return behind.pull(LATE)
    first = asked.push(sums, FIRST)
    late = behind.pull(LATE)
    asked.push(sums, REST, behind=first)
    return late


def _checked(gradients: Mapping[str, Any], embedded: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(gradients, dict) or gradients.keys() != embedded.keys():
        raise TfwaveError(
            f"the step must return its result and a dict of gradients by table, of {', '.join(embedded)}: "
            "tape.gradient(loss, embedded)"
        )
    return {table: of_rows(gradients[table], rows, table) for table, rows in embedded.items()}
