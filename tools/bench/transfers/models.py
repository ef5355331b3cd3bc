"""Wide models as graphs with costs from their shapes; no TensorFlow.

Inception, NASNet, a transformer and DLRM; and two of several towers: image and text side by side, and a mixture of
experts with several tasks.

An op costs its flops over the worker's speed, but at least `LEAST_SECONDS`; a transfer costs what the link does.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from tfwave.cost.analytic import LinkModel
from tfwave.cost.model import CostSource
from tfwave.cost.table import Costs
from tfwave.graph.view import GraphView
from tfwave.proto.tensorflow_pb2 import GraphDef

WORKER = "/job:worker/replica:0/task:0/device:CPU:0"
BATCH = 32
FLOPS_PER_SECOND = 5e11
LEAST_SECONDS = 5e-6
LINK = LinkModel(latency_seconds=5e-5, bytes_per_second=1.25e9)
MODELLED = CostSource("estimated", "estimated")


def server(number: int) -> str:
    """The device of a parameter server."""
    return f"/job:ps/replica:0/task:{number}/device:CPU:0"


@dataclass
class Model:
    """A worker's graph in the making: a forward op per layer, and a backward op per forward op.

    Parameters are dealt to `servers` in turn.
    """

    servers: int = 1
    training: bool = False
    graph: GraphDef = field(default_factory=GraphDef)
    ops: dict[str, float] = field(default_factory=dict)
    transfers: dict[str, float] = field(default_factory=dict)
    _inputs: dict[str, list[str]] = field(default_factory=dict)
    _scope: str = ""

    def within(self, scope: str, layers: Callable[["Model"], None]) -> None:
        """Add layers whose names start with a scope."""
        outer, self._scope = self._scope, f"{self._scope}{scope}/"
        layers(self)
        self._scope = outer

    def parameter(self, name: str, count: int) -> str:
        """Pull `count` floats."""
        name = self._scope + name
        source = server(len(self.transfers) % self.servers)
        node = self.graph.node.add(name=f"recv_{name}", op="_Recv", device=WORKER)
        for key, value in (("send_device", source), ("recv_device", WORKER), ("tensor_name", name)):
            node.attr[key].s = value.encode()
        self.transfers[node.name] = LINK.seconds(4 * count)
        return node.name

    def op(self, name: str, inputs: list[str], flops: float = 0.0) -> str:
        """Compute."""
        name = self._scope + name
        self.graph.node.add(name=name, op="AddN", device=WORKER, input=inputs)
        self.ops[name] = max(flops / FLOPS_PER_SECOND, LEAST_SECONDS)
        self._inputs[name] = inputs
        return name

    def finish(self) -> tuple[GraphView, Costs]:
        """Add the backward ops, of twice the cost, in training; index the graph."""
        if self.training:
            self._add_backward()
        view = GraphView.of(self.graph)
        return view, Costs.named(view, self.ops, self.transfers, MODELLED)

    def _add_backward(self) -> None:
        forward = list(self._inputs)
        readers: dict[str, list[str]] = {name: [] for name in forward}
        for name in forward:
            for source in self._inputs[name]:
                if source in readers:
                    readers[source].append(name)
        for name in reversed(forward):
            gradients = [f"grad_{reader}" for reader in readers[name]] or [forward[-1]]
            parameters = [i for i in self._inputs[name] if i in self.transfers]
            self.op(f"grad_{name}", [*gradients, name, *parameters], 0.0)
            self.ops[f"grad_{name}"] = 2 * self.ops[name]


def conv(model: Model, name: str, source: list[str], kernel: tuple[int, int, int, int], size: int) -> str:
    """Convolution (width, height, depth before and after), batch norm and relu over `size` x `size`."""
    weights = prod(kernel)
    filtered = model.op(
        f"{name}/conv", [*source, model.parameter(f"{name}/kernel", weights)], 2 * weights * size**2 * BATCH
    )
    return _normed(model, name, filtered, kernel[-1], size**2 * BATCH)


def _normed(model: Model, name: str, source: str, channels: int, positions: int) -> str:
    scales = [model.parameter(f"{name}/{part}", channels) for part in ("gamma", "beta", "mean", "variance")]
    normed = model.op(f"{name}/norm", [source, *scales], 4 * channels * positions)
    return model.op(f"{name}/relu", [normed], channels * positions)


def inception(model: Model) -> None:
    """Inception v3: a stem, three kinds of blocks with four branches each, and a classifier."""
    top, depth = [model.op("image", [])], 3
    for i, (width, size, kernel) in enumerate(
        ((32, 149, 3), (32, 147, 3), (64, 147, 3), (80, 73, 1), (192, 71, 3))
    ):
        top = [conv(model, f"stem{i}", top, (kernel, kernel, depth, width), size)]
        depth = width
    for i, pool in enumerate((32, 64, 64)):
        branches = (
            ((64, 1, 1),),
            ((48, 1, 1), (64, 5, 5)),
            ((64, 1, 1), (96, 3, 3), (96, 3, 3)),
            ((pool, 1, 1),),
        )
        top, depth = _branches(model, f"a{i}", (top, depth), 35, branches)
    top, depth = _branches(
        model, "b", (top, depth), 17, (((384, 3, 3),), ((64, 1, 1), (96, 3, 3), (96, 3, 3)))
    )
    for i, width in enumerate((128, 160, 160, 192)):
        twice = ((width, 1, 1), (width, 7, 1), (width, 1, 7), (width, 7, 1), (192, 1, 7))
        branches = (((192, 1, 1),), ((width, 1, 1), (width, 1, 7), (192, 7, 1)), twice, ((192, 1, 1),))
        top, depth = _branches(model, f"c{i}", (top, depth), 17, branches)
    reduce = (((192, 1, 1), (320, 3, 3)), ((192, 1, 1), (192, 1, 7), (192, 7, 1), (192, 3, 3)))
    top, depth = _branches(model, "d", (top, depth), 8, reduce)
    for i in range(2):
        branches = (
            ((320, 1, 1),),
            ((384, 1, 1), (384, 1, 3)),
            ((384, 1, 1), (384, 3, 1)),
            ((448, 1, 1), (384, 3, 3), (384, 1, 3)),
            ((192, 1, 1),),
        )
        top, depth = _branches(model, f"e{i}", (top, depth), 8, branches)
    dense(model, "classifier", top, (depth, 1000), 32)


def _branches(
    model: Model,
    name: str,
    source: tuple[list[str], int],
    size: int,
    branches: tuple[tuple[tuple[int, int, int], ...], ...],
) -> tuple[list[str], int]:
    """Each branch a row of convolutions (width, height and width of the kernel); then all side by side."""
    ends: list[str] = []
    for b, branch in enumerate(branches):
        top, below = source
        for i, (width, *kernel) in enumerate(branch):
            top = [conv(model, f"{name}/{b}/{i}", top, (kernel[0], kernel[1], below, width), size)]
            below = width
        ends += top
    total = sum(branch[-1][0] for branch in branches)
    return [model.op(f"{name}/concat", ends, total * size**2 * BATCH)], total


def nasnet(model: Model) -> None:
    """NASNet-A: cells of five pairs of separable convolutions, each cell fed by the two before it."""
    before = now = conv(model, "stem", [model.op("image", [])], (3, 3, 3, 32), 112)
    depth = 32
    for stage, (width, size) in enumerate(((44, 28), (88, 14), (176, 7))):
        for cell in range(5):
            name = f"s{stage}/c{cell}"
            fitted = [
                conv(model, f"{name}/fit{i}", [source], (1, 1, depth, width), size)
                for i, source in enumerate((before, now))
            ]
            before, now = now, _cell(model, name, fitted, width, size)
            depth = 6 * width
    dense(model, "classifier", [now], (depth, 1000), 32)


def _cell(model: Model, name: str, fitted: list[str], width: int, size: int) -> str:
    pairs = (((1, 5), (0, 3)), ((0, 5), (0, 3)), ((1, 0), (0, 0)), ((0, 0), (0, 0)), ((1, 3), (1, 0)))
    parts: list[str] = []
    for p, pair in enumerate(pairs):
        halves = [
            _separable(model, f"{name}/{p}/{i}", fitted[source], (kernel, width), size)
            if kernel
            else model.op(f"{name}/{p}/{i}/pool", [fitted[source]], 9 * width * size**2 * BATCH)
            for i, (source, kernel) in enumerate(pair)
        ]
        parts.append(model.op(f"{name}/{p}/add", halves, width * size**2 * BATCH))
    return model.op(f"{name}/concat", [fitted[0], *parts], 6 * width * size**2 * BATCH)


def _separable(model: Model, name: str, source: str, shape: tuple[int, int], size: int) -> str:
    """Depthwise and pointwise convolution with batch norm, twice; the kernel's width and the map's depth."""
    kernel, width = shape
    for i in range(2):
        depthwise = model.parameter(f"{name}/{i}/depthwise", kernel**2 * width)
        spread = model.op(f"{name}/{i}/spread", [source, depthwise], 2 * kernel**2 * width * size**2 * BATCH)
        source = conv(model, f"{name}/{i}", [spread], (1, 1, width, width), size)
    return source


def dense(model: Model, name: str, source: list[str], sides: tuple[int, int], rows: int) -> str:
    """A matrix product and a bias."""
    inputs, outputs = sides
    weights = model.parameter(f"{name}/kernel", inputs * outputs)
    product = model.op(f"{name}/matmul", [*source, weights], 2 * inputs * outputs * rows)
    bias = model.parameter(f"{name}/bias", outputs)
    return model.op(f"{name}/add", [product, bias], outputs * rows)


def transformer(model: Model) -> None:
    """A BERT-like encoder: 12 layers of width 768 over 8 sequences of 128 tokens."""
    width, rows = 768, 8 * 128
    tables = [model.parameter(f"embed/{name}", rows * width // 8) for name in ("tokens", "positions")]
    top = _layer_norm(model, "embed", model.op("embed/sum", tables, rows * width), width, rows)
    for i in range(12):
        q, k, v = (dense(model, f"l{i}/{part}", [top], (width, width), rows) for part in "qkv")
        scores = model.op(f"l{i}/scores", [q, k], 2 * rows * 128 * width)
        mixed = model.op(f"l{i}/mixed", [scores, v], 2 * rows * 128 * width)
        out = dense(model, f"l{i}/out", [mixed], (width, width), rows)
        top = _layer_norm(model, f"l{i}/a", model.op(f"l{i}/a/sum", [top, out], rows * width), width, rows)
        hidden = dense(model, f"l{i}/up", [top], (width, 4 * width), rows)
        down = dense(model, f"l{i}/down", [hidden], (4 * width, width), rows)
        top = _layer_norm(model, f"l{i}/b", model.op(f"l{i}/b/sum", [top, down], rows * width), width, rows)
    dense(model, "classifier", [top], (width, 2), 8)


def _layer_norm(model: Model, name: str, source: str, width: int, rows: int) -> str:
    scales = [model.parameter(f"{name}/{part}", width) for part in ("gamma", "beta")]
    return model.op(f"{name}/norm", [source, *scales], 8 * width * rows)


def dlrm(model: Model) -> None:
    """26 looked-up embeddings, a bottom and a top perceptron, and the products of all pairs between them."""
    batch, width = 512, 64
    top = [model.op("dense_features", [])]
    for i, (inputs, outputs) in enumerate(((13, 512), (512, 256), (256, width))):
        top = [dense(model, f"bottom{i}", top, (inputs, outputs), batch)]
    bags: list[str] = []
    for i in range(26):
        rows = model.parameter(f"table{i}/rows", batch * width // (1 + i % 5))
        bags.append(model.op(f"table{i}/sum", [rows], batch * width * (1 + i % 7)))
    top = [model.op("interaction", [*top, *bags], 2 * batch * 27 * 27 * width)]
    for i, (inputs, outputs) in enumerate(((415, 1024), (1024, 1024), (1024, 512), (512, 256), (256, 1))):
        top = [dense(model, f"top{i}", top, (inputs, outputs), batch)]


def two_towers(model: Model) -> None:
    """An image and a text tower that meet in a loss."""
    model.within("image", inception)
    model.within("text", transformer)
    model.op("loss", ["image/classifier/add", "text/classifier/add"], 1e6)


def mixture(model: Model) -> None:
    """26 embeddings, 8 experts of three layers each, and 4 tasks with a gate and a tower."""
    rows, width = 512, 26 * 64
    sums = [
        model.op(
            f"table{i}/sum",
            [model.parameter(f"table{i}/rows", rows * 64 // (1 + i % 5))],
            rows * 64 * (1 + i % 7),
        )
        for i in range(26)
    ]
    features = model.op("features", sums, rows * width)
    experts: list[str] = []
    for e in range(8):
        top, below = [features], width
        for i, above in enumerate((256 + 64 * e, 128, 64)):
            top, below = [dense(model, f"expert{e}/{i}", top, (below, above), rows)], above
        experts += top
    tasks: list[str] = []
    for t in range(4):
        gate = dense(model, f"task{t}/gate", [features], (width, 8), rows)
        mixed = model.op(f"task{t}/mixed", [gate, *experts], 2 * 8 * 64 * rows)
        hidden = dense(model, f"task{t}/hidden", [mixed], (64, 256 * (t + 1)), rows)
        tasks.append(dense(model, f"task{t}/out", [hidden], (256 * (t + 1), 1), rows))
    model.op("loss", tasks, 1e4)


MODELS: dict[str, Callable[[Model], None]] = {
    "Inception": inception,
    "NASNet": nasnet,
    "transformer": transformer,
    "DLRM": dlrm,
    "two towers": two_towers,
    "mixture": mixture,
}


def build(name: str, *, servers: int, training: bool) -> tuple[GraphView, Costs]:
    """One of `MODELS`, its parameters on so many servers."""
    model = Model(servers, training)
    MODELS[name](model)
    return model.finish()
