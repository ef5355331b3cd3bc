"""What a staged job would do, seen in one process: which rows its batches need, and how long a step takes."""

import time
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from tfwave.embedding.staged import staged, tables_of
from tfwave.errors import CostError
from tfwave.runtime.embedding.alone import own_task, served
from tfwave.runtime.embedding.batches import drawn, prepared
from tfwave.runtime.embedding.steps import Step, StepFunctions
from tfwave.runtime.embedding.table import Table
from tfwave.staging.capture import Capture, CapturedBatch, CapturedTable, Part, packed

_LEAST_BATCHES = 2


def capture(
    step: Step, tables: Mapping[str, Table], dataset: Any, output: str | Path, *, batches: int = 16
) -> Capture:
    """Count the ids of some batches, measure a step on them, and write both for `tfwave embeddings`.

    The tables must be in this process: their steps then take no network, which the forecast adds. It makes real
    steps, which train the tables and the model: do it with ones of their own.

    Args:
        step: as `staged` takes it.
        tables: as many rows and columns, cut as they will be.
        dataset: as `Staged.calls` takes it; it is read once.
        output: a file, written as JSON.
        batches: how many, in turn; a call of more steps is not forecast.

    Raises:
        CostError: a table lies in another process, or the dataset has fewer than two batches.
        TfwaveError: as `staged` and `Staged.calls`; or the file cannot be written.
    """
    _check_here(tables)
    wire = staged(step, tables, steps=1).wire
    read = list(islice(drawn(dataset, tables, wire.layout), batches))
    if len(read) < _LEAST_BATCHES:
        raise CostError(f"the dataset has {len(read)} batches: give at least {_LEAST_BATCHES} to capture")
    train = StepFunctions(step, wire, 0, keeps=False, apart=False).of(1, dataset.element_spec)
    serve = served(wire, dataset.element_spec)
    step_times: list[float] = []
    server_times: list[float] = []
    core_times: list[float] = []
    for call, own in enumerate(read, 1):
        worked = time.process_time()
        inputs = prepared([own], wire.layout)
        arguments = inputs.arguments(dataset.element_spec, call)
        step_times.append(_seconds(lambda arguments=arguments: train(*arguments)))
        core_times.append(time.process_time() - worked)
        ((sets, _),) = inputs.batches
        server_times.append(_seconds(lambda sets=sets: serve(sets)))
    step_seconds = min(step_times[1:])
    found = Capture(
        tables=tuple(_captured_tables(tables)),
        batches=tuple(_counted(own.rows) for own in read),
        dense_bytes=_dense_bytes(train),
        step_seconds=step_seconds,
        server_seconds=min(step_seconds, *server_times[1:]),  # they are a part of it
        core_seconds=min(core_times[1:]),
    )
    found.check()
    found.write(Path(output))
    return found


def _check_here(tables: Mapping[str, Table]) -> None:
    here = own_task()
    for name, table in tables.items():
        for shard in table.shards:
            if "/job:" in shard.device and not shard.device.startswith(here):
                raise CostError(
                    f"table '{name}' lies on {shard.device}, in another process: capture with tables that are made "
                    "in this one, outside a strategy's scope"
                )


def _seconds(run: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def _captured_tables(tables: Mapping[str, Table]) -> list[CapturedTable]:
    found: list[CapturedTable] = []
    for planned, table in zip(tables_of(tables), tables.values(), strict=True):
        shapes = [tuple(map(int, shard.shape)) for shard in table.shards]
        parts = [
            Part(rows=rows, columns=columns, server=server)
            for (rows, columns), server in zip(shapes, planned.servers, strict=True)
        ]
        slots = len(table.optimizer.slots)
        found.append(CapturedTable(name=planned.name, layout=planned.layout, parts=tuple(parts), slots=slots))
    return found


def _dense_bytes(train: Any) -> tuple[int, ...]:
    """Of each trainable variable that traced steps use; rows of tables are reached by handles."""
    variables = train.get_concrete_function().graph.trainable_variables
    return tuple(int(v.shape.num_elements() * v.dtype.size) for v in variables)


def _counted(rows: Mapping[str, Any]) -> CapturedBatch:
    return CapturedBatch(
        ids={name: np.size(own) for name, own in rows.items()},
        rows={name: packed(np.unique(own)) for name, own in rows.items()},
    )
