"""Training steps of small models for Sessions, a few MB of memory for each example; the same numbers each time.

A model adds its layers to the default graph, and gives its loss. Images have 32 pixels a side, and texts 64 words.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

IMAGE = 32
WORDS = 64
VOCABULARY = 16_000
CLASSES = 10
LEARNING_RATE = 0.01
MOMENTUM = 0.9


class Network:
    """Layers, whose variables are drawn by their number."""

    def __init__(self, batch: int) -> None:
        import tensorflow as tf

        self.tf: Any = tf
        self.batch = batch
        self._variables = 0

    def images(self) -> Any:
        return self.tf.random.stateless_uniform([self.batch, IMAGE, IMAGE, 3], seed=[7, 1])

    def weights(self, *shape: int) -> Any:
        """He's initialisation."""
        self._variables += 1
        fan_in = 1
        for side in shape[:-1]:
            fan_in *= side
        drawn = self.tf.random.stateless_normal(shape, seed=[self._variables, 3])
        return self._variable(drawn * (2 / fan_in) ** 0.5)

    def conv(self, x: Any, width: int, kernel: int = 1, stride: int = 1, relu: bool = True) -> Any:
        weights = self.weights(kernel, kernel, x.shape[-1], width)
        return self.normed(self.tf.nn.conv2d(x, weights, stride, "SAME"), relu)

    def biased(self, x: Any, width: int) -> Any:
        y = self.tf.nn.conv2d(x, self.weights(3, 3, x.shape[-1], width), 1, "SAME")
        return self.tf.nn.relu(self.tf.nn.bias_add(y, self._zeros(width)))

    def separable(self, x: Any, width: int, kernel: int) -> Any:
        """Depthwise and pointwise convolution, twice."""
        for _ in range(2):
            weights = self.weights(kernel, kernel, x.shape[-1], 1)
            x = self.tf.nn.depthwise_conv2d(self.tf.nn.relu(x), weights, [1, 1, 1, 1], "SAME")
            x = self.conv(x, width, relu=False)
        return x

    def normed(self, x: Any, relu: bool = True) -> Any:
        """Batch norm."""
        scale, offset = self._ones(x.shape[-1]), self._zeros(x.shape[-1])
        y = self.tf.raw_ops.FusedBatchNormV3(
            x=x, scale=scale, offset=offset, mean=[], variance=[], is_training=True
        ).y
        return self.tf.nn.relu(y) if relu else y

    def layer_norm(self, x: Any) -> Any:
        mean, variance = self.tf.nn.moments(x, [-1], keepdims=True)
        scale, offset = self._ones(x.shape[-1]), self._zeros(x.shape[-1])
        return self.tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-6)

    def block(self, layers: Callable[[Any], Any], x: Any) -> Any:
        """A part of the model that users would recompute as one."""
        return layers(x)

    def dense(self, x: Any, units: int) -> Any:
        return self.tf.matmul(x, self.weights(x.shape[-1], units)) + self._zeros(units)

    def classified(self, x: Any) -> Any:
        """The loss of a classifier on top."""
        labels = self.tf.range(self.batch) % CLASSES
        losses = self.tf.nn.sparse_softmax_cross_entropy_with_logits(labels, self.dense(x, CLASSES))
        return self.tf.reduce_mean(losses)

    def _ones(self, size: int) -> Any:
        return self._variable(self.tf.ones([size]))

    def _zeros(self, size: int) -> Any:
        return self._variable(self.tf.zeros([size]))

    def _variable(self, first: Any) -> Any:
        return self.tf.compat.v1.Variable(first, use_resource=True)


def resnet(net: Network) -> Any:
    """Bottleneck blocks in three stages."""
    x = net.conv(net.images(), 64, 3)
    for stage, blocks in enumerate((3, 4, 3)):
        width = 16 << stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            x = net.block(partial(_bottleneck, net, width=width, stride=stride, project=not block), x)
    return net.classified(net.tf.reduce_mean(x, [1, 2]))


def _bottleneck(net: Network, x: Any, width: int, stride: int, project: bool) -> Any:
    shortcut = net.conv(x, 4 * width, 1, stride, relu=False) if project else x
    y = net.conv(net.conv(x, width), width, 3, stride)
    return net.tf.nn.relu(net.conv(y, 4 * width, relu=False) + shortcut)


def inception(net: Network) -> Any:
    """Blocks of four branches."""
    x = net.conv(net.images(), 32, 3)
    for stage, blocks in enumerate((3, 3, 2)):
        width = 16 << stage
        for _ in range(blocks):
            x = net.block(partial(_branches, net, width=width), x)
        x = net.tf.nn.max_pool2d(x, 3, 2, "SAME")
    return net.classified(net.tf.reduce_mean(x, [1, 2]))


def _branches(net: Network, x: Any, width: int) -> Any:
    pooled = net.tf.nn.avg_pool2d(x, 3, 1, "SAME")
    branches = [
        net.conv(x, width),
        net.conv(net.conv(x, width), width, 3),
        net.conv(net.conv(net.conv(x, width), width, 3), width, 3),
        net.conv(pooled, width),
    ]
    return net.tf.concat(branches, -1)


def nasnet(net: Network) -> Any:
    """NASNet-A's normal cells, each fed by the two before it."""
    pairs = (((1, 5), (0, 3)), ((0, 5), (0, 3)), ((1, 0), (0, 0)), ((0, 0), (0, 0)), ((1, 3), (1, 0)))
    before = now = net.conv(net.images(), 16, 3, 2)
    for stage, cells in enumerate((3, 3)):
        width = 12 << stage
        for _ in range(cells):
            fitted = [net.conv(net.tf.nn.relu(x), width, relu=False) for x in (before, now)]
            parts = [fitted[0]]
            for pair in pairs:
                halves = [
                    net.separable(fitted[source], width, kernel)
                    if kernel
                    else net.tf.nn.avg_pool2d(fitted[source], 3, 1, "SAME")
                    for source, kernel in pair
                ]
                parts.append(halves[0] + halves[1])
            before, now = now, net.tf.concat(parts, -1)
        before, now = (net.tf.nn.max_pool2d(x, 2, 2, "SAME") for x in (before, now))
    return net.classified(net.tf.reduce_mean(net.tf.nn.relu(now), [1, 2]))


def bert(net: Network) -> Any:
    """Four encoder layers, and an embedding."""
    return _encoder(net, _same_words(net), lambda weights: weights)


def dense_bert(net: Network) -> Any:
    """The same, whose embedding has a dense gradient."""
    return _encoder(net, _same_words(net), lambda weights: net.tf.reshape(weights, weights.shape))


def drawn_bert(net: Network) -> Any:
    """The first, with new words in each step and each wave, as of a text: other rows of its table in each."""
    words = net.tf.random.uniform([net.batch, WORDS], maxval=VOCABULARY, dtype="int32", seed=7)
    return _encoder(net, words, lambda weights: weights)


def _same_words(net: Network) -> Any:
    return net.tf.random.stateless_uniform([net.batch, WORDS], seed=[7, 2], maxval=VOCABULARY, dtype="int32")


def _encoder(net: Network, words: Any, embedding: Callable[[Any], Any]) -> Any:
    width, heads = 128, 4
    table = embedding(net.weights(VOCABULARY, width))
    x = net.layer_norm(net.tf.gather(table, words) + net.weights(WORDS, width))
    x = net.tf.reshape(x, [-1, width])

    def by_head(y: Any) -> Any:
        y = net.tf.reshape(y, [net.batch, WORDS, heads, width // heads])
        return net.tf.transpose(y, [0, 2, 1, 3])

    def layer(x: Any) -> Any:
        q, k, v = (by_head(net.dense(x, width)) for _ in range(3))
        scores = net.tf.matmul(q, k, transpose_b=True) * (width // heads) ** -0.5
        mixed = net.tf.transpose(net.tf.matmul(net.tf.nn.softmax(scores), v), [0, 2, 1, 3])
        x = net.layer_norm(x + net.dense(net.tf.reshape(mixed, [-1, width]), width))
        hidden = net.tf.nn.gelu(net.dense(x, 4 * width), approximate=True)
        return net.layer_norm(x + net.dense(hidden, width))

    for _ in range(4):
        x = net.block(layer, x)
    return net.classified(net.tf.reduce_mean(net.tf.reshape(x, [net.batch, WORDS, width]), 1))


def vgg(net: Network) -> Any:
    """Plain convolutions with biases, and two dense layers, which have most of the variables."""
    x = net.images()
    for width, depth in ((32, 2), (64, 2), (128, 3)):
        x = net.block(partial(_stage, net, width=width, depth=depth), x)
    x = net.tf.nn.relu(net.dense(net.tf.reshape(x, [net.batch, -1]), 512))
    return net.classified(net.tf.nn.relu(net.dense(x, 512)))


def _stage(net: Network, x: Any, width: int, depth: int) -> Any:
    for _ in range(depth):
        x = net.biased(x, width)
    return net.tf.nn.max_pool2d(x, 2, 2, "SAME")


def lstm(net: Network) -> Any:
    """One layer over a long text, unrolled: small ops that wait for each other, most of them for one core."""
    words, width = 160, 32
    inputs = net.tf.random.stateless_normal([words, net.batch, width], seed=[7, 2])
    kernel, state = net.weights(2 * width, 4 * width), net.tf.zeros([net.batch, width])
    output = state
    for word in net.tf.unstack(inputs):
        gates = net.tf.matmul(net.tf.concat([word, output], 1), kernel)
        i, f, o, g = net.tf.split(gates, 4, 1)
        state = net.tf.sigmoid(f) * state + net.tf.sigmoid(i) * net.tf.tanh(g)
        output = net.tf.sigmoid(o) * net.tf.tanh(state)
    return net.classified(output)


def unet(net: Network) -> Any:
    """Three levels down and up again; each level's result waits for its way up."""
    x, waiting = net.images(), list[Any]()
    for width in (16, 32, 64):
        x = net.block(partial(_two, net, width=width), x)
        waiting.append(x)
        x = net.tf.nn.max_pool2d(x, 2, 2, "SAME")
    x = net.conv(x, 128, 3)
    for before in reversed(waiting):
        side, width = before.shape[1:3], before.shape[-1]
        x = net.conv(net.tf.image.resize(x, side, "nearest"), width, 3)
        x = net.conv(net.tf.concat([before, x], -1), width, 3)
    return net.classified(net.tf.reduce_mean(x, [1, 2]))


def _two(net: Network, x: Any, width: int) -> Any:
    return net.conv(net.conv(x, width, 3), width, 3)


MODELS: dict[str, Callable[[Network], Any]] = {
    "resnet": resnet,
    "inception": inception,
    "nasnet": nasnet,
    "bert": bert,
    "dense_bert": dense_bert,
    "drawn_bert": drawn_bert,
    "vgg": vgg,
    "lstm": lstm,
    "unet": unet,
}
LOSS, TRAIN, RESET = "loss", "train", "reset"
"""The names of a step's loss, and of the nodes that train, and give all variables their first values."""


HALVED = "halved:"
"""Before a model's name: its batch in two halves, one after the other, with one update by both."""


def build(model: str, batch: int) -> Any:
    """The graph of a training step."""
    import tensorflow as tf

    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default():
        optimizer = v1.train.MomentumOptimizer(LEARNING_RATE, MOMENTUM)
        if model.startswith(HALVED):
            tf.identity(_halved(MODELS[model.removeprefix(HALVED)], batch, optimizer), name=LOSS)
        else:
            loss = tf.identity(MODELS[model](Network(batch)), name=LOSS)
            optimizer.minimize(loss, name=TRAIN)
        tf.group(v1.global_variables_initializer(), name=RESET)
    return graph


class Making(Network):
    """Layers that keep their variables, in the order in which these were made."""

    def __init__(self, batch: int) -> None:
        super().__init__(batch)
        self.made: list[Any] = []

    def _variable(self, first: Any) -> Any:
        self.made.append(self.tf.Variable(first))
        return self.made[-1]


class MadeBefore(Network):
    """Layers with the variables that were made for another network."""

    def __init__(self, batch: int, variables: Sequence[Any]) -> None:
        super().__init__(batch)
        self._made = variables
        self._next = 0

    def _variable(self, first: Any) -> Any:
        del first
        self._next += 1
        return self._made[self._next - 1]


class Recomputed(MadeBefore):
    """Layers whose blocks are computed a second time by `tf.recompute_grad`, as by hand."""

    def block(self, layers: Callable[[Any], Any], x: Any) -> Any:
        begin = self._next

        def again(x: Any) -> Any:
            self._next = begin
            return layers(x)

        return self.tf.recompute_grad(again)(x)


def _halved(model: Callable[[Network], Any], batch: int, optimizer: Any) -> Any:
    """The second half begins when the gradients of the first are there."""
    import tensorflow as tf

    loss = model(Network(batch // 2))
    variables = tf.compat.v1.trainable_variables()
    first = [tf.convert_to_tensor(each) for each in tf.gradients(loss, variables)]
    with tf.control_dependencies(first):
        other = model(MadeBefore(batch // 2, variables))
        second = [tf.convert_to_tensor(each) for each in tf.gradients(other, variables)]
    mean = [(one + two) / 2 for one, two in zip(first, second, strict=True)]
    optimizer.apply_gradients(zip(mean, variables, strict=True), name=TRAIN)
    return (loss + other) / 2
