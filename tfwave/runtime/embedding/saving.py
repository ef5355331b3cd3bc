"""Tables that lie on workers, put together in one checkpoint of plain variables."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from tfwave.errors import TfwaveError
from tfwave.runtime.all_to_all import Exchange, wait_for_all
from tfwave.runtime.embedding.dynamic import in_checkpoints
from tfwave.runtime.embedding.table import Table

_SAVE_SECONDS = 3600.0
"""Writing large parts may take so long, and joining them where that copies. A death is heard of at once."""
_KEY = "{}/{}/.ATTRIBUTES/VARIABLE_VALUE"
"""Of an attribute of an attribute of a `tf.train.Checkpoint`."""


def save_tables(group: Exchange, path: str, tables: Mapping[str, Table]) -> None:
    """As `tfwave.embedding.Workers.save`."""
    tensorflow: Any = import_module("tensorflow")
    parts = [f"{path}.part{rank}" for rank in range(group.ranks)]
    own = {name: _named(name, table).held() for name, table in tables.items()}
    modules = {name: _of_all(group, name, table) for name, table in tables.items()}
    if group.rank == 0:
        tensorflow.train.Checkpoint(**modules).write(parts[0])
    else:
        held = {_KEY.format(name, what): one for name, some in own.items() for what, one in some.items()}
        tensorflow.raw_ops.SaveV2(
            prefix=parts[group.rank],
            tensor_names=list(held),
            shape_and_slices=[place for _, place in held.values()],
            tensors=[variable.read_value_no_copy() for variable, _ in held.values()],
        )
    wait_for_all(group, "written", _SAVE_SECONDS)
    if group.rank == 0:
        tensorflow.raw_ops.MergeV2Checkpoints(
            checkpoint_prefixes=parts, destination_prefix=path, delete_old_dirs=False
        )
    wait_for_all(group, "saved", _SAVE_SECONDS)


def _of_all(group: Exchange, name: str, table: Table) -> Any:
    """The table's module; of a dynamic one, with what all workers know of ids."""
    if not table.whose:
        return table.module
    module: Any = import_module("tensorflow").Module()
    for held in table.held():
        setattr(module, held, getattr(table.module, held))
    known = table.whose.dumps_of_all(group, name)
    module.ids = in_checkpoints(lambda: known, table.whose.loads)
    return module


def _named(name: str, table: Table) -> Table:
    if not name.isidentifier():
        raise TfwaveError(
            f"the table '{name}' cannot be an attribute of a checkpoint: give it an identifier's name"
        )
    return table
