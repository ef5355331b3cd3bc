"""A step's nodes in the further waves: copies under names of their own, with variables and keys of their own."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from tfwave.graph.attrs import string_attr
from tfwave.graph.draws import has_fixed_seeds
from tfwave.graph.flow_ops import ENTER_OPS
from tfwave.graph.names import parse_input
from tfwave.graph.ops import OpTable
from tfwave.graph.partition.colocate import CLASS_ATTR, CLASS_PREFIX
from tfwave.graph.step_copies import plain_attrs
from tfwave.proto.tensorflow_pb2 import DT_INT32, NodeDef
from tfwave.waves.rewrite.names import SCOPE, wave_input, wave_name

KEY_INPUT = "instance_key"
KEYS = 2**24
"""By how much the instance keys of collectives differ from wave to wave."""
MOST_WAVES = 64
"""As many as leave the keys of the last within 31 bits."""
_SEEDS = 2**32
"""By how much the second seeds of random ops do."""


@dataclass(frozen=True)
class WaveCopier:
    """Copies nodes of wave 0 to others; `own` has what each wave has for itself, its handles of variables included.

    1. Inputs and colocated nodes are those of the same wave, where each wave has its own.
    2. Its frame is another: two loops of one frame name would be one.
    3. The handle of a variable names another variable.
    4. A random op with fixed seeds draws a sequence of its own: `seed2` is higher by the wave times 2**32.
    5. A collective has an instance key of its own, higher by the wave times 2**24.
    6. What else the op keeps under the node's name, where it has no other, stays under that name, for all waves.
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
        copy = NodeDef(name=wave_name(node.name, wave), op=node.op, device=node.device)
        copy.input.extend(self.input(text, wave) for text in node.input)
        for name, value in plain_attrs(node).items():
            copy.attr[name].CopyFrom(value)
        if CLASS_ATTR in node.attr:
            groups = node.attr[CLASS_ATTR].list.s
            copy.attr[CLASS_ATTR].list.s[:] = [self._group(group, wave) for group in groups]
        if node.op in ENTER_OPS:
            copy.attr["frame_name"].s = wave_name(string_attr(node, "frame_name"), wave).encode()
        elif node.name in self.handles and "shared_name" in node.attr:
            copy.attr["shared_name"].s = wave_name(string_attr(node, "shared_name"), wave).encode()
        elif "shared_name" in node.attr and not string_attr(node, "shared_name"):
            copy.attr["shared_name"].s = node.name.encode()
        elif node.op not in self.custom_ops and has_fixed_seeds(node, self.table):
            copy.attr["seed2"].i = _wrapped(copy.attr["seed2"].i + wave * _SEEDS)
        elif KEY_INPUT in node.attr:
            copy.attr[KEY_INPUT].i += wave * KEYS
        return copy

    def input(self, text: str, wave: int) -> str:
        """Case 1."""
        return wave_input(text, wave) if parse_input(text).node in self.own else text

    def _group(self, group: bytes, wave: int) -> bytes:
        name = group.decode(errors="replace").removeprefix(CLASS_PREFIX)
        return f"{CLASS_PREFIX}{wave_name(name, wave)}".encode() if name in self.own else group

    def _key_position(self, node: NodeDef) -> int | None:
        """Where a collective takes its instance key as a tensor; all args before it are single tensors."""
        names = [arg.name for arg in self.table.signature(node).input_arg]
        return names.index(KEY_INPUT) if KEY_INPUT in names else None

    def _key(self, node: NodeDef, wave: int, key: str) -> Iterator[NodeDef]:
        """Case 5, for a key that is a tensor: what adds to it."""
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
