"""Several steps in one traced function, in which rows of the next batch travel while this one computes."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

from tfwave.errors import TfwaveError
from tfwave.runtime.embedding.gradients import of_rows
from tfwave.runtime.embedding.inputs import fetched, handle_specs
from tfwave.runtime.embedding.ledger import Push
from tfwave.runtime.embedding.packed import unpacked
from tfwave.runtime.embedding.rows import EARLY, FIRST, LATE, NEW, REST
from tfwave.runtime.embedding.wire import Asked, Pulled, Sums, Wire
from tfwave.runtime.unroll import check_draws, names_of

Step = Callable[[dict[str, Any], Any], tuple[Any, Mapping[str, Any]]]


class StepFunctions:
    """A step as `tf.function`s of one or more batches.

    Each takes what `Prepared.arguments` gives, and returns a tuple of what the step returned of each batch.
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
            numbers = tensorflow.TensorSpec([], "int64"), tensorflow.TensorSpec([None], "int32")
            signature = [(handle_specs(spec),) * count, *numbers]

            def steps(handles: Sequence[Sequence[Any]], call: Any, kept_rows: Any) -> tuple[Any, ...]:
                return self._steps(_Batches(self._wire, spec, handles), call, kept_rows)

            self._functions[key] = tensorflow.function(steps, input_signature=signature, autograph=False)
        return self._functions[key]

    def _steps(self, batches: "_Batches", call: Any, kept_rows: Any) -> tuple[Any, ...]:
        """Automatic control dependencies have accesses to a variable happen in the order of these lines, but for
        those by free handles; else nothing waits but a batch that comes when its turn is near.
        """
        tensorflow: Any = import_module("tensorflow")
        free, pushes = self._wire.free_handles(), self._wire.ledger.pushes(call)
        kept = self._wire.kept(kept_rows) if self._keeps else []
        ahead = max(1, self._staleness)
        here = batches.fetched(slice(ahead + 1))
        pulled = [own.pull(*self._all) for own, _ in here[:ahead]]
        results: list[Any] = []
        for k in range(len(batches)):
            own, batch = here[k]
            pulled += [self._ahead(then, pulled[k], free) for then, _ in here[k + ahead :]]
            own.keep(pulled[k], kept)
            embedded, rows = own.look_up(pulled[k], kept)
            here += batches.fetched(slice(k + ahead + 1, k + ahead + 2), behind=rows)
            optimizers = self._wire.optimizers()
            with names_of(k):
                result, gradients = self._step(embedded, batch)
            sums = own.summed(_checked(gradients, embedded), rows, optimizers)
            own.update(sums, kept)
            first, rest = pushes(2 * k + 1), pushes(2 * k + 2)
            if self._staleness or k + 1 == len(batches):
                own.push(sums, FIRST, REST, once=rest)
            else:
                then = here[k + 1][0]
                pulled[k + 1] |= _handed_over(own, sums, then, (first, rest), apart=self._apart)
            results.append(result)
        if len(batches) > 1:
            check_draws(tensorflow.compat.v1.get_default_graph())
        return tuple(results)

    def _ahead(self, asked: Asked, pulled: Pulled, free: Sequence[Sequence[Any]]) -> Pulled:
        """What is sent while a step computes, whose rows are `pulled`: exact rows behind these, beside updates."""
        if self._staleness:
            return asked.pull(*self._all)
        return asked.pull_beside(*self._early, handles=free, behind=pulled)


class _Batches:
    """Those of a call, as they come: what each asks of the tables, and what the step gets beside rows."""

    def __init__(self, wire: Wire, spec: Any, handles: Sequence[Sequence[Any]]) -> None:
        self._wire, self._spec, self._handles = wire, spec, handles

    def __len__(self) -> int:
        return len(self._handles)

    def fetched(self, chosen: slice, behind: Sequence[Any] = ()) -> list[tuple[Asked, Any]]:
        """Some of them, as far as there are: what they take leaves the chief when ops of the worker are done."""
        return [self._fetched(own, behind) for own in self._handles[chosen]]

    def _fetched(self, handles: Sequence[Any], behind: Sequence[Any]) -> tuple[Asked, Any]:
        vector, batch = fetched(handles, self._spec, behind)
        return self._wire.asked(unpacked(self._wire.layout, self._spec[0], vector)), batch


def _handed_over(
    asked: Asked, sums: Sums, behind: Asked, pushes: tuple[Push, Push], *, apart: bool
) -> Pulled:
    """Update what the next batch reads too, and have it sent; if `apart`, the rest leaves when that has come."""
    first, rest = pushes
    if not apart:
        asked.push(sums, FIRST, REST, once=rest)
        return behind.pull(LATE)
    come = asked.push(sums, FIRST, once=first)
    late = behind.pull(LATE)
    asked.push(sums, REST, once=rest, behind=come)
    return late


def _checked(gradients: Mapping[str, Any], embedded: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(gradients, dict) or gradients.keys() != embedded.keys():
        raise TfwaveError(
            f"the step must return its result and a dict of gradients by table, of {', '.join(embedded)}: "
            "tape.gradient(loss, embedded)"
        )
    return {table: of_rows(gradients[table], rows, table) for table, rows in embedded.items()}
