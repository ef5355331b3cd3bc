"""The dense parts of recommendation models, for benches of embeddings: from rows and dense features to logits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

_HIDDEN = (64, 32)
_CROSSES = 2


@dataclass(frozen=True)
class Dense:
    """A model's variables, and what it makes of embedded rows, each [samples, width], and features [samples, n]."""

    weights: list[Any]
    logits: Callable[[Sequence[Any], Any], Any]


def dlrm(fields: int, width: int, features: int) -> Dense:
    """DLRM-like: layers on all rows and features side by side."""
    weights = _layers(fields * width + features, (*_HIDDEN, 1))
    return Dense(weights, lambda rows, dense: _through(_beside(rows, dense), weights)[:, 0])


def deepfm(fields: int, width: int, features: int) -> Dense:
    """DeepFM-like: the same, and the products of each two rows (a factorization machine)."""
    import tensorflow as tf

    deep = dlrm(fields, width, features)

    def logits(rows: Sequence[Any], dense: Any) -> Any:
        stacked = tf.stack(rows, 1)
        pairs = tf.square(tf.reduce_sum(stacked, 1)) - tf.reduce_sum(tf.square(stacked), 1)
        return deep.logits(rows, dense) + 0.5 * tf.reduce_sum(pairs, 1)

    return Dense(deep.weights, logits)


def dcn(fields: int, width: int, features: int) -> Dense:
    """DCN-like: layers beside crosses, x <- x0 (x w) + b + x, and one on both."""
    import tensorflow as tf

    wide = fields * width + features
    deep = _layers(wide, _HIDDEN)
    crosses = _layers(wide, (1,)) + _layers(wide, (1,), seed=1)
    biases = [tf.Variable(tf.zeros([wide])) for _ in range(_CROSSES)]
    last = _layers(wide + _HIDDEN[-1], (1,))

    def logits(rows: Sequence[Any], dense: Any) -> Any:
        begin = crossed = _beside(rows, dense)
        for weight, bias in zip(crosses, biases, strict=True):
            crossed = begin * (crossed @ weight) + bias + crossed
        both = tf.concat([crossed, tf.nn.relu(_through(begin, deep))], 1)
        return (both @ last[0])[:, 0]

    return Dense([*deep, *crosses, *biases, *last], logits)


MODELS = {"dlrm": dlrm, "deepfm": deepfm, "dcn": dcn}


def _beside(rows: Sequence[Any], dense: Any) -> Any:
    import tensorflow as tf

    return tf.concat([*rows, dense], 1)


def _layers(wide: int, sizes: Sequence[int], seed: int = 0) -> list[Any]:
    import tensorflow as tf

    return [
        tf.Variable(tf.random.stateless_normal([a, b], (2 + seed, k)) * (2 / a) ** 0.5)
        for k, (a, b) in enumerate(pairwise((wide, *sizes)))
    ]


def _through(hidden: Any, weights: Sequence[Any]) -> Any:
    import tensorflow as tf

    hidden = hidden @ weights[0]
    for weight in weights[1:]:
        hidden = tf.nn.relu(hidden) @ weight
    return hidden
