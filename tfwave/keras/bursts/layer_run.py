"""One layer on its shards: each runs, forward and backward, on its own device."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tfwave.burst.shards import bounds
from tfwave.errors import TfwaveError
from tfwave.keras.bursts.moments import Moments, moments_of
from tfwave.keras.bursts.placed import assigned, on_device, spread
from tfwave.keras.bursts.sharded import Part, Place

_DRAWING = ("Dropout", "GaussianDropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D")
"""Layers of Keras that multiply what they read with random numbers."""
_SUMMED = ("L1", "L2", "L1L2")
"""Regularisers of Keras that are sums over what they are given."""


@dataclass(frozen=True)
class LayerRun:
    """A layer, or another operation, and how the model calls it.

    Attributes:
        op: the layer.
        call: takes a tensor of each of what the layer reads; as Keras calls the layer, with all else filled in.
        place: its devices.
        batch: samples of all shards together.
    """

    op: Any
    call: Callable[[Sequence[Any]], Any]
    place: Place
    batch: int

    def run(self, taken: Sequence[Sequence[Part]]) -> list[list[Part]]:
        """The parts of each of the layer's outputs, of the parts of each of what it reads.

        1. A batch normalisation takes the moments of the whole batch.
        2. Dropout draws for the whole batch on each device, and uses its own samples' part.
        3. Weights are read where they lie, once; moving averages and states of seeds are changed once.
        4. Losses that the layer adds are those of the whole batch.
        5. All ops have the layer's name in theirs.

        Raises:
            TfwaveError: the layer cannot be split so; names it.
        """
        tensorflow: Any = __import__("tensorflow")
        with tensorflow.name_scope(self.op.name):  # 5
            moments, taken = self._moments(taken)
            weights = self._weights()
            shards = [
                self._shard(shard, [column[shard] for column in taken], weights[shard], moments)
                for shard in range(len(self.place))
            ]
            self._change(shards[0].changes)  # 3
        self._add_losses([shard.losses for shard in shards])  # 4
        return [list(parts) for parts in zip(*(shard.outputs for shard in shards), strict=True)]

    @property
    def _is_split(self) -> bool:
        return len(self.place) > 1

    def _is_one_of(self, kinds: Sequence[str]) -> bool:
        layers: Any = __import__("keras").layers
        return self._is_split and type(self.op) in [getattr(layers, kind) for kind in kinds]

    def _moments(self, taken: Sequence[Sequence[Part]]) -> tuple[Moments | None, Sequence[Sequence[Part]]]:
        """Case 1."""
        if not (self._is_one_of(["BatchNormalization"]) and self.op.trainable):
            return None, taken
        moments, read = moments_of(self.op, taken[0], self.place)
        return moments, [read, *taken[1:]]

    def _weights(self) -> list[list[Any]]:
        """Case 3: the weights of each shard's device, those that are trained and then all others."""
        tensorflow: Any = __import__("tensorflow")
        columns: list[list[Any]] = []
        for variable in _variables(self.op):
            home = variable._value.device
            with tensorflow.device(home):
                value = tensorflow.convert_to_tensor(variable._value)
            columns.append(spread(value, home, self.place))
        return [[column[shard] for column in columns] for shard in range(len(self.place))]

    def _shard(
        self, shard: int, parts: Sequence[Part], weights: Sequence[Any], moments: Moments | None
    ) -> "_Made":
        given: Sequence[Any] = () if moments is None else moments.of_shards[shard]
        made: list[_Made] = []

        def on_shard(tensors: list[Any]) -> list[Any]:
            values, rest = tensors[: len(weights)], tensors[len(weights) :]
            read = [part.with_mask(tensor) for part, tensor in zip(parts, rest, strict=False)]
            made[:] = [self._call(shard, values, read, rest[len(parts) :])]
            return [*(part.tensor for part in made[0].outputs), *made[0].losses]

        tensors: list[Any] = [*weights, *(part.tensor for part in parts), *given]
        flat = on_device(self.place[shard], on_shard, tensors)
        outputs = [Part(tensor, part.mask) for tensor, part in zip(flat, made[0].outputs, strict=False)]
        self._check(shard, outputs, made[0])
        return _Made(outputs, flat[len(outputs) :], made[0].changes)

    def _call(self, shard: int, weights: list[Any], read: list[Any], moments: list[Any]) -> "_Made":
        keras: Any = __import__("keras")
        variables = _variables(self.op)
        mapping = list(zip(variables, weights, strict=True))
        scope = keras.StatelessScope(mapping, collect_losses=True, initialize_variables=False)
        changed = _changed_in(scope)
        with scope:
            if moments:
                with Moments.given(self.op, moments):
                    outputs = self.call(read)
            else:
                outputs = self._dropped(shard, read) if self._is_one_of(_DRAWING) else self.call(read)
        changes = [(variable, scope.state_mapping[id(variable)]) for variable in changed.values()]
        flat = keras.tree.flatten(outputs)
        parts = [Part(tensor, getattr(tensor, "_keras_mask", None)) for tensor in flat]
        return _Made(parts, list(scope.losses), changes)

    def _dropped(self, shard: int, read: list[Any]) -> Any:
        """Case 2."""
        tensorflow: Any = __import__("tensorflow")
        (values,) = read
        begin, end = bounds(self.batch, len(self.place))[shard : shard + 2]
        whole = tensorflow.concat([[self.batch], tensorflow.shape(values)[1:]], 0)
        drawn = self.call([tensorflow.ones(whole, values.dtype)])
        kept = tensorflow.cast(values, drawn.dtype) * drawn[begin:end]
        return Part(values, getattr(values, "_keras_mask", None)).with_mask(kept)

    def _check(self, shard: int, outputs: Sequence[Part], made: "_Made") -> None:
        if not self._is_split:
            return
        begin, end = bounds(self.batch, len(self.place))[shard : shard + 2]
        for part in outputs:
            shape = part.tensor.shape
            if shape.rank == 0 or shape[0] != end - begin:
                self._refuse(
                    f"gives a tensor of the shape {tuple(shape)} for {end - begin} samples, and its first axis "
                    "must be theirs"
                )
        if made.changes and not self._is_one_of(("BatchNormalization", *_DRAWING)):
            paths = ", ".join(variable.path for variable, _ in made.changes)
            self._refuse(f"changes {paths}, and each of its devices would by other samples")
        known = type(getattr(self.op, "activity_regularizer", None)).__name__ in _SUMMED
        if made.losses and not (known and len(made.losses) == len(outputs)):
            self._refuse("adds a loss, which may be no sum over samples")

    def _refuse(self, why: str) -> None:
        raise TfwaveError(
            f"layer '{self.op.name}' {why}: it cannot run on {len(self.place)} devices; give it one in the plan"
        )

    def _change(self, changes: Sequence[tuple[Any, Any]]) -> None:
        tensorflow: Any = __import__("tensorflow")
        for variable, value in changes:
            with tensorflow.device(variable._value.device):
                variable.assign(value)

    def _add_losses(self, losses: Sequence[Sequence[Any]]) -> None:
        """Case 4: what is a mean over a shard's samples weighs as many as it has."""
        shares = [1.0] * len(self.place)
        if _has_means():
            limits = bounds(self.batch, len(self.place))
            shares = [(end - begin) / self.batch for begin, end in pairwise(limits)]
        for parts in zip(*losses, strict=True):
            whole = parts[0]
            if self._is_split:
                whole = sum(part * share for part, share in zip(parts, shares, strict=True))
            self.op.add_loss(whole)


def _has_means() -> bool:
    """Whether this Keras has means over samples as the losses of activities; before 3.14 they are sums."""
    keras: Any = __import__("keras")
    major, minor, *_ = keras.__version__.split(".")
    return (int(major), int(minor)) >= (3, 14)


@dataclass(frozen=True)
class _Made:
    """What a shard gives: outputs, losses, and new values of variables."""

    outputs: list[Part]
    losses: list[Any]
    changes: list[tuple[Any, Any]]


def _changed_in(scope: Any) -> dict[int, Any]:
    """Gets the variables that are assigned in a scope, by identity: those of others, as Keras's generator, too.

    A layer that reads one behind that has the gradient that it has outside of scopes.
    """
    changed: dict[int, Any] = {}
    stock = scope.add_update

    def add_update(update: tuple[Any, Any]) -> None:
        variable, value = update
        changed[id(variable)] = variable
        before = scope.get_current_value(variable) if variable.trainable else None
        stock((variable, assigned(before, value)))

    scope.add_update = add_update
    return changed


def _variables(op: Any) -> list[Any]:
    return [*getattr(op, "trainable_variables", []), *getattr(op, "non_trainable_variables", [])]
