"""What the elements of a dataset must be."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any, cast

from tfwave.errors import TfwaveError

_PAIR = 2


def check_element(dataset: Any, tables: Sequence[str]) -> None:
    """Refuse a dataset whose elements are not pairs of a dict of ids, a tensor for each table, and a batch.

    Raises:
        TfwaveError: says what the elements are.
    """
    tensorflow: Any = import_module("tensorflow")
    spec: Any = getattr(dataset, "element_spec", None)
    is_pair = isinstance(spec, tuple) and len(cast("tuple[Any, ...]", spec)) == _PAIR
    if not is_pair or not isinstance(spec[0], dict):
        raise TfwaveError(
            f"the dataset has elements {spec}, and must have pairs: a dict with ids for each table, and what "
            "the step gets beside their rows; dataset.map makes them"
        )
    ids = cast("dict[str, Any]", spec[0])
    if ids.keys() != set(tables):
        raise TfwaveError(
            f"the dataset has ids for {', '.join(sorted(ids))}, and the tables are {', '.join(sorted(tables))}: "
            "name them alike"
        )
    for table, kind in ids.items():
        if not isinstance(kind, tensorflow.TensorSpec) or not kind.dtype.is_integer:
            raise TfwaveError(f"the ids for table '{table}' are {kind}, and must be a tensor of integers")
