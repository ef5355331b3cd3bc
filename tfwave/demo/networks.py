"""What `tf_keras.applications` lacks: models like VGG-16, BERT and DLRM, and those of TicTac's Table 1."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

VGG16_LIKE = "VGG16Like"
"""VGG-16's convolutions, strided instead of pooled, with a head of 512, 512 and 1000: 79 MB at 128 pixels."""

VGG16_CONVOLUTIONS = (
    *((64, 1), (64, 2), (128, 1), (128, 2), (256, 1), (256, 1), (256, 2)),
    *((512, 1), (512, 1), (512, 2), (512, 1), (512, 1), (512, 2)),
)
"""Filters and stride."""

_Branches = Sequence[Sequence[tuple[int, int] | str]]
"""Of an Inception block, each a row of convolutions (filters, kernel) and of pools, by name."""

_V1_BLOCKS = (
    *((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64), 3),
    *((192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64)),
    *((112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128), 2),
    *((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)),
)
"""Filters of the branches of a block, or the side of a pool between blocks."""

_V2_BLOCKS = (
    *((64, 64, 64, 64, 96, 32), (64, 64, 96, 64, 96, 64), (128, 160, 64, 96)),
    *((224, 64, 96, 96, 128, 128), (192, 96, 128, 96, 128, 128), (160, 128, 160, 128, 160, 96)),
    *((96, 128, 192, 160, 192, 96), (128, 192, 192, 256)),
    *((352, 192, 320, 160, 224, 128), (352, 192, 320, 192, 224, 128)),
)
"""The same; of four, with a stride of 2."""


def _vgg16_like(keras: Any, image: int, classes: int) -> Any:
    layers = keras.layers
    convolutions = [
        layers.Conv2D(filters, 3, strides=stride, padding="same", activation="relu")
        for filters, stride in VGG16_CONVOLUTIONS
    ]
    head = [layers.Flatten(), *(layers.Dense(units, activation="relu") for units in (512, 512, 1000))]
    return keras.Sequential([keras.Input((image, image, 3)), *convolutions, *head])


def _alexnet_v2(keras: Any, image: int, classes: int) -> Any:
    """224 pixels: its head is a convolution over 5 x 5."""
    conv, pool = partial(keras.layers.Conv2D, activation="relu"), partial(keras.layers.MaxPooling2D, 3, 2)
    return keras.Sequential(
        [
            keras.Input((image, image, 3)),
            *(conv(64, 11, strides=4), pool(), conv(192, 5, padding="same"), pool()),
            *(conv(filters, 3, padding="same") for filters in (384, 384, 256)),
            *(pool(), conv(4096, 5), conv(4096, 1), keras.layers.Conv2D(classes, 1)),
            keras.layers.GlobalAveragePooling2D(),
        ]
    )


class _Layers:
    """Convolutions with batch norm that has an offset only, and blocks of branches."""

    def __init__(self, keras: Any) -> None:
        self.layers: Any = keras.layers

    def conv(self, x: Any, filters: int, kernel: int, stride: int = 1) -> Any:
        make = self.layers.Conv2D(filters, kernel, strides=stride, padding="same", use_bias=False)
        return self.normed(make(x))

    def separable(self, x: Any, filters: int, kernel: int, stride: int) -> Any:
        many = {"strides": stride, "padding": "same", "use_bias": False, "depth_multiplier": 8}
        return self.normed(self.layers.SeparableConv2D(filters, kernel, **many)(x))

    def normed(self, x: Any) -> Any:
        return self.layers.ReLU()(self.layers.BatchNormalization(scale=False)(x))

    def pool(self, x: Any, kind: str = "Max", side: int = 3, stride: int = 2) -> Any:
        return getattr(self.layers, f"{kind}Pooling2D")(side, stride, padding="same")(x)

    def block(self, x: Any, branches: _Branches, stride: int = 1) -> Any:
        """Side by side; a stride is that of each branch's last layer."""
        ends: list[Any] = []
        for branch in branches:
            top = x
            for place, layer in enumerate(branch):
                by = stride if place == len(branch) - 1 else 1
                top = self.pool(top, layer, 3, by) if isinstance(layer, str) else self.conv(top, *layer, by)
            ends.append(top)
        return self.layers.Concatenate()(ends)

    def classified(self, x: Any, classes: int) -> Any:
        return self.layers.Dense(classes)(self.layers.GlobalAveragePooling2D()(x))


def _inception_v1(keras: Any, image: int, classes: int) -> Any:
    make, images = _Layers(keras), keras.Input((image, image, 3))
    x = make.pool(make.conv(images, 64, 7, 2))
    x = make.pool(make.conv(make.conv(x, 64, 1), 192, 3))
    for block in _V1_BLOCKS:
        x = make.pool(x, side=block) if isinstance(block, int) else make.block(x, _v1_branches(*block))
    return keras.Model(images, make.classified(x, classes))


def _v1_branches(*of: int) -> _Branches:
    one, *two, three, four, pooled = of
    return [(one, 1)], [(two[0], 1), (two[1], 3)], [(three, 1), (four, 3)], ["Max", (pooled, 1)]


def _inception_v2(keras: Any, image: int, classes: int) -> Any:
    make, images = _Layers(keras), keras.Input((image, image, 3))
    x = make.pool(make.separable(images, 64, 7, 2))
    x = make.pool(make.conv(make.conv(x, 64, 1), 192, 3))
    for place, block in enumerate(_V2_BLOCKS):
        kind = "Max" if place == len(_V2_BLOCKS) - 1 else "Average"
        x = make.block(x, *_v2_branches(block, kind))
    return keras.Model(images, make.classified(x, classes))


def _v2_branches(of: Sequence[int], kind: str) -> tuple[_Branches, int]:
    """With the stride."""
    if len(of) == 4:
        first, then, double, twice = of
        return ([(first, 1), (then, 3)], [(double, 1), (twice, 3), (twice, 3)], ["Max"]), 2
    one, first, then, double, twice, pooled = of
    rows = [(one, 1)], [(first, 1), (then, 3)], [(double, 1), (twice, 3), (twice, 3)], [kind, (pooled, 1)]
    return rows, 1


_PATCH, _WIDTH, _HEADS, _ENCODERS = 16, 512, 8, 6
_TABLES, _ROWS, _COLUMNS, _DENSE = 8, 50_000, 32, 13


def _bert_like(keras: Any, image: int, classes: int) -> Any:
    """Encoders as BERT's over patches of an image, in the place of words: 76 MB."""
    layers, images = keras.layers, keras.Input((image, image, 3))
    x = layers.Conv2D(_WIDTH, _PATCH, strides=_PATCH)(images)
    x = layers.LayerNormalization()(layers.Reshape((-1, _WIDTH))(x))
    for _ in range(_ENCODERS):
        mixed = layers.MultiHeadAttention(_HEADS, _WIDTH // _HEADS)(x, x)
        x = layers.LayerNormalization()(layers.Add()([x, mixed]))
        hidden = layers.Dense(_WIDTH)(layers.Dense(4 * _WIDTH, activation="gelu")(x))
        x = layers.LayerNormalization()(layers.Add()([x, hidden]))
    return keras.Model(images, layers.Dense(classes)(layers.GlobalAveragePooling1D()(x)))


def _taken(layers: Any, begin: int, end: int, times: int = 1) -> Any:
    """Some of an example's numbers."""

    def taken(x: Any) -> Any:
        return x[:, begin:end] * times

    return layers.Lambda(taken)


def _dlrm_like(keras: Any, image: int, classes: int) -> Any:
    """Embeddings as DLRM's, whose rows an image's first numbers choose, and dense layers before and behind them."""
    layers, images = keras.layers, keras.Input((image, image, 3))
    numbers = layers.Flatten()(images)
    known = _taken(layers, 0, _DENSE)(numbers)
    for units in (512, 256, _COLUMNS):
        known = layers.Dense(units, activation="relu")(known)
    rows = [known]
    for place in range(_DENSE, _DENSE + _TABLES):
        chosen = _taken(layers, place, place + 1, _ROWS)(numbers)
        rows.append(layers.Flatten()(layers.Embedding(_ROWS, _COLUMNS)(chosen)))
    stacked = layers.Reshape((1 + _TABLES, _COLUMNS))(layers.Concatenate()(rows))
    paired = layers.Flatten()(layers.Dot(2)([stacked, stacked]))
    x = layers.Concatenate()([known, paired])
    for units in (1024, 1024, 512):
        x = layers.Dense(units, activation="relu")(x)
    return keras.Model(images, layers.Dense(classes)(x))


NETWORKS: Mapping[str, Callable[[Any, int, int], Any]] = {
    VGG16_LIKE: _vgg16_like,
    "AlexNetV2": _alexnet_v2,
    "InceptionV1": _inception_v1,
    "InceptionV2": _inception_v2,
    "BERTLike": _bert_like,
    "DLRMLike": _dlrm_like,
}
"""By name: what makes one with tf_keras, for images of a side and so many classes."""
