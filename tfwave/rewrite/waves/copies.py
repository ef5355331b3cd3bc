"""A step's nodes in the further waves: copies under names of their own, with variables and keys of their own."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tfwave.graph.attrs import string_attr
from tfwave.graph.ops import OpTable
from tfwave.proto.tensorflow_pb2 import DT_INT32, NodeDef
from tfwave.rewrite.steps.copies import copy_as
from tfwave.rewrite.steps.draws import has_fixed_seeds
from tfwave.rewrite.waves.names import SCOPE, wave_name

KEY_INPUT = "instance_key"
KEYS = 2**24
"""The instance keys of collectives differ by so much from wave to wave."""
_SEEDS = 2**32
"""The second seeds of random ops differ by so much."""


@dataclass(frozen=True)
class WaveCopier:
    """Copies nodes of wave 0 to others; `own` has what each wave has for itself, its handles of variables included.

    Beside what `copy_as` does:

    1. The handle of a variable names another variable.
    2. A random op with fixed seeds draws a sequence of its own: `seed2` is higher by the wave times 2**32.
    3. A collective has an instance key of its own, higher by the wave times 2**24.
    """

    table: OpTable
    own: Collection[str]
    handles: Collection[str]
    custom_ops: Collection[str]

    def copies(self, node: NodeDef, wave: int) -> Iterator[NodeDef]:
        """A node in another wave, and what computes its instance key, if it has one."""
        copy = self.copy(node, wave)
        keyed = None if node.op in self.custom_ops else self._key_position(node)
        if keyed is not None:
            yield from self._key(node, wave, copy.input[keyed])
            copy.input[keyed] = _key_name(node, wave)
        yield copy

    def copy(self, node: NodeDef, wave: int) -> NodeDef:
        """A node in another wave, its instance key aside."""
        copy = copy_as(node, lambda name: wave_name(name, wave), self.own)
        if node.name in self.handles and "shared_name" in node.attr:
            copy.attr["shared_name"].s = wave_name(string_attr(node, "shared_name"), wave).encode()
        elif node.op not in self.custom_ops and has_fixed_seeds(node, self.table):
            copy.attr["seed2"].i = _wrapped(copy.attr["seed2"].i + wave * _SEEDS)
        elif KEY_INPUT in node.attr:
            copy.attr[KEY_INPUT].i += wave * KEYS
        return copy

    def _key_position(self, node: NodeDef) -> int | None:
        """Where a collective takes its instance key as a tensor; all args before it are single tensors."""
        names = [arg.name for arg in self.table.signature(node).input_arg]
        return names.index(KEY_INPUT) if KEY_INPUT in names else None

    def _key(self, node: NodeDef, wave: int, key: str) -> Iterator[NodeDef]:
        """Case 3, for a key that is a tensor: what adds to it."""
        more = NodeDef(name=f"{_key_name(node, wave)}/more", op="Const", device=node.device)
        more.attr["dtype"].type = more.attr["value"].tensor.dtype = DT_INT32
        more.attr["value"].tensor.tensor_shape.SetInParent()
        more.attr["value"].tensor.int_val.append(wave * KEYS)
        added = NodeDef(name=_key_name(node, wave), op="AddV2", device=node.device)
        added.input.extend((key, more.name))
        added.attr["T"].type = DT_INT32
        yield more
        yield added


def _key_name(node: NodeDef, wave: int) -> str:
    return f"{SCOPE}/keys/{wave}/{node.name}"


def _wrapped(seed: int) -> int:
    """A seed as a signed 64-bit integer."""
    return (seed + 2**63) % 2**64 - 2**63
