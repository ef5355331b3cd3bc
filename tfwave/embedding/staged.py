"""A training loop whose steps overlap: rows of the next batch are pulled while this one computes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tfwave.errors import TfwaveError
from tfwave.plan.embeddings import COLUMNS, ROWS, WHOLE, Embeddings, EmbeddingTable, RowPriorities
from tfwave.plan.given import GivenPlan, section_of
from tfwave.runtime.embedding.batches import Drawn, drawn, prepared
from tfwave.runtime.embedding.rows import Layout, Shard
from tfwave.runtime.embedding.steps import Step, StepFunctions
from tfwave.runtime.embedding.table import Table
from tfwave.runtime.embedding.wire import Wire


@dataclass(frozen=True)
class Call:
    """What to schedule next, once: ``coordinator.schedule(call.function, args=call.args)``.

    Run again, as the coordinator does when its worker is lost, it updates no row that it has updated before.

    Attributes:
        function: a `tf.function`; it returns a tuple, for each batch what the step returned.
        args: its arguments: the batches, and its number, by which servers know it again.
        steps: how many batches these are.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    steps: int


class Staged:
    """The functions of a step, one for each number of batches; see `staged`."""

    def __init__(  # noqa: PLR0913, PLR0917
        self,
        step: Step,
        tables: Mapping[str, Table],
        staleness: int,
        steps: int,
        hot_bytes: int,
        priorities: RowPriorities,
    ) -> None:
        """Nothing is traced before the first call."""
        shards = _shards(tables)
        self._hot_bytes, self._made = hot_bytes, 0
        self._tables, self._layout, self._steps = tables, Layout(shards), steps
        self.wire = Wire(tables, self._layout)
        apart = priorities.pushes_apart
        self._functions = StepFunctions(step, self.wire, staleness, keeps=hot_bytes > 0, apart=apart)

    def calls(self, dataset: Any) -> Iterator[Call]:
        """Each batch of a dataset once, in order, some in each call; the last call has what is left.

        The chief reads the dataset and prepares a call's row sets while the workers run those before it.

        Args:
            dataset: a `tf.data.Dataset` of pairs: a dict with an integer tensor of ids for each table, of any
                shape, and what the step gets beside their rows.

        Raises:
            TfwaveError: elements of another kind, or an id that is no row of its table.
            Exception: what the dataset raises. The batches before it come in a call of their own, first.
        """
        read = drawn(dataset, self._tables, self._layout)
        more = True
        while more:
            batches: list[Drawn] = []
            failure: Exception | None = None
            try:
                for batch in islice(read, self._steps):
                    batches.append(batch)
            except Exception as err:  # raised again, behind the batches that came before it
                failure = err
            if batches:
                yield self._call(batches, dataset.element_spec)
            if failure:
                raise failure
            more = len(batches) == self._steps

    def _call(self, batches: Sequence[Drawn], spec: Any) -> Call:
        self._made += 1
        args = prepared(batches, self._layout, self._hot_bytes).arguments(spec, self._made)
        return Call(self._functions.of(len(batches), spec), args, len(batches))


def _shards(tables: Mapping[str, Table]) -> list[Shard]:
    kinds = list(dict.fromkeys(table.optimizer for table in tables.values()))
    return [
        Shard(
            name,
            shard.device,
            *map(int, shard.shape),
            part=k if table.by_columns else 0,
            kind=kinds.index(table.optimizer),
            slots=len(table.optimizer.slots),
        )
        for name, table in tables.items()
        for k, shard in enumerate(table.shards)
    ]


def tables_of(tables: Mapping[str, Table]) -> tuple[EmbeddingTable, ...]:
    """The tables as plans have them; servers are numbered in the order of their names."""
    servers = sorted({shard.device for table in tables.values() for shard in table.shards})
    found: list[EmbeddingTable] = []
    for name, table in tables.items():
        parts = tuple(servers.index(shard.device) for shard in table.shards)
        cut = COLUMNS if table.by_columns else ROWS
        found.append(EmbeddingTable(name, table.rows, table.width, cut if len(parts) > 1 else WHOLE, parts))
    return tuple(found)


def staged(  # noqa: PLR0913
    step: Step,
    tables: Mapping[str, Table],
    *,
    staleness: int | None = None,
    steps: int | None = None,
    hot_bytes: int | None = None,
    plan: GivenPlan | None = None,
) -> Staged:
    """Let the steps of a custom loop overlap: while one computes, the servers send the rows of the next.

    The step gets rows instead of ids, and gives their gradients back; all else of it, as the update of dense
    variables, is its own::

        def step(embedded, batch):
            with tf.GradientTape() as tape:
                tape.watch(embedded)
                loss = ...
            rows, dense = tape.gradient(loss, (embedded, model.trainable_variables))
            optimizer.apply(dense, model.trainable_variables)
            return loss, rows

        train = tfwave.embedding.staged(step, {"users": users, "items": items})
        for call in train.calls(dataset):
            losses = coordinator.schedule(call.function, args=call.args)
        coordinator.join()

    1. Each row travels once, however often a batch has its id, and what a batch needs of a server comes in one
       tensor, for all tables; so do the gradients, summed over ids.
    2. With `staleness=0` results are those of one step after the other, bit for bit: rows that the next batch reads
       too are updated first, and sent then; those that neither of the two batches before reads are sent before.
    3. With `staleness=k` all rows of a batch are sent while the k-th batch before it computes, and so lack the
       updates of k batches; none of those before the call, with which its first batches begin.
    4. A call begins and ends with the tables up to date. Evaluate, save and restore between calls, behind
       ``coordinator.join()``: no row is under way then. A checkpoint behind n batches goes on with
       ``dataset.skip(n)``.
    5. The coordinator keeps all calls that are scheduled, with their batches: join it every hundred calls or so
       where a dataset is long, else the chief's memory grows as far as it is ahead.
    6. With `hot_bytes` a row that several batches of a call have travels to the worker once in it: with its slots,
       to be kept until the call ends. Each step updates its copy there, and the row on its server by the same
       gradient, so that nothing is lost with the copy, and with `staleness=0` bits are the same. Kept are the rows
       that most of the call's batches have, as many as fit: the share m_G / (m_G + m_H) of sec. 6.1.3, with m_G
       bytes on a worker and m_H on the servers. These own all rows: what other workers do to a kept one is seen in
       the next call.

    With several workers the steps of each are as said, and those of others come in between, as asynchronous
    training has it.

    How many steps, how old and how many bytes is for a `plan` to say, if there is one: `tfwave embeddings` makes it
    from what `capture` saw, and says before the run whether it gains. It is obeyed in the order of the transfers,
    too, and refused for other tables.

    Args:
        step: takes a dict with the rows of each table's ids, float32 of shape [*ids.shape, width], and what the
            dataset has beside the ids; returns anything in tensors, and a dict of the gradients of these rows. It
            is traced without AutoGraph, and reads and changes the tables in no other way.
        tables: by the names that the dataset's ids have.
        staleness: by how many updates rows may be old; fewer than `steps`. Without it: 0.
        steps: how many in one call. The rows of its first batch travel while nothing computes. Without it: 8.
        hot_bytes: on a worker, for rows that it keeps during a call. Without it: 0.
        plan: a plan, or its file, with a section `embeddings`; instead of these three.

    Raises:
        TfwaveError: such a staleness is not possible, no step, no table or one on workers, or a variable in two.
        PlanError: the plan cannot be read, stages no steps, or is for other tables; names the first.
    """
    given = {"staleness": staleness, "steps": steps, "hot_bytes": hot_bytes}
    _check_tables(tables)
    if plan is not None:
        own = _planned(plan, given, tables)
        return Staged(step, tables, own.staleness, own.steps, own.hot_bytes, own.priorities)
    staleness, steps, hot_bytes = staleness or 0, 8 if steps is None else steps, hot_bytes or 0
    if steps < 1:
        raise TfwaveError(f"a call cannot make {steps} steps: give at least 1")
    if not 0 <= staleness < steps:
        raise TfwaveError(
            f"rows of a call of {steps} steps can be 0 to {steps - 1} updates old, not {staleness}: "
            "give it more steps"
        )
    if hot_bytes < 0:
        raise TfwaveError(f"a worker cannot keep {hot_bytes} bytes of rows: give at least 0")
    return Staged(step, tables, staleness, steps, hot_bytes, RowPriorities())


def _planned(plan: GivenPlan, given: Mapping[str, int | None], tables: Mapping[str, Table]) -> Embeddings:
    """The section of a plan, if it is for these tables and nothing is given beside it."""
    beside = [name for name, value in given.items() if value is not None]
    if beside:
        raise TfwaveError(f"the plan says {beside[0]}: leave it out, or give no plan")
    section = section_of(plan, Embeddings)
    section.check_tables(tables_of(tables))
    return section


def _check_tables(tables: Mapping[str, Table]) -> None:
    if not tables:
        raise TfwaveError(
            "there is no table: give at least one, by the name that its ids have in the dataset"
        )
    seen: dict[int, str] = {}
    for name, table in tables.items():
        if not isinstance(table, Table):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TfwaveError(
                f"'{name}' is of type {type(table).__name__}, and no table: give it as Table(variable, ...)"
            )
        if table.where == "workers":
            raise TfwaveError(f"table '{name}' is on workers: pull and push its rows in a step of your own")
        for shard in table.shards:
            other = seen.setdefault(id(shard), name)
            if other != name:
                raise TfwaveError(
                    f"tables '{other}' and '{name}' have the same variable: put the ids of both into one tensor, "
                    "for one table"
                )
