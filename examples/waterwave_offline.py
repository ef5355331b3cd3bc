"""Two jobs' graphs in one, with barriers by which both train in a memory that they did not fit into together."""

import subprocess
import sys
from pathlib import Path

import tfwave

LIMIT = "108MiB"
tfwave.colocate.limit_memory(LIMIT)  # before TensorFlow is imported: it reads its limit then

import tensorflow as tf  # noqa: E402

v1 = tf.compat.v1
STEPS = 5


def training(name: str) -> tf.Graph:
    """A graph with the nodes "loss", "train" and "init"; convolutions for "images", products for "rows"."""
    with tf.Graph().as_default() as graph:
        v1.set_random_seed(1)
        hidden = tf.random.uniform([128, 32, 32, 16] if name == "images" else [32768, 64])
        for layer in range(6):
            width = hidden.shape[-1]
            kernel = v1.get_variable(
                f"kernel{layer}", [3, 3, width, width] if name == "images" else [width] * 2
            )
            bias = v1.get_variable(f"bias{layer}", [width])
            layers = tf.nn.conv2d(hidden, kernel, 1, "SAME") if name == "images" else hidden @ kernel
            hidden = tf.nn.relu(tf.nn.bias_add(layers, bias))
        loss = tf.nn.l2_loss(hidden - 1.0, name="loss")
        v1.train.AdamOptimizer(0.001).minimize(loss, name="train")
        tf.group(v1.global_variables_initializer(), name="init")
    return graph


def train(file: str) -> str:
    """The last losses of the two jobs, both of which make a step in each call."""
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(v1.GraphDef.FromString(Path(file).read_bytes()), name="")
    with v1.Session(graph=graph) as session:
        session.run(["images/init", "rows/init"])
        try:
            runs = [
                session.run(["images/loss:0", "rows/loss:0", "images/train", "rows/train"])
                for _ in range(STEPS)
            ]
        except tf.errors.ResourceExhaustedError:
            return "out of memory"
        return f"losses {runs[-1][0]:.6f} and {runs[-1][1]:.6f}"


def tfwave_command(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "tfwave", *arguments], check=True)


def main() -> None:
    for name in ("images", "rows"):
        graph = training(name)
        tf.io.write_graph(graph, ".", f"{name}.pb", as_text=False)
        with v1.Session(graph=graph) as session:
            session.run("init")
            tfwave.capture_run(session, ["loss:0", "train"], out=name)
    tfwave_command("merge", "images.pb", "rows.pb", "-o", "both.pb")
    tfwave_command("colocate", "images", "rows", "--memory", LIMIT, "-o", "plan.json")
    tfwave_command(
        "rewrite", "both.pb", "--plan", "plan.json", "--passes", "counter_barrier", "-o", "calm.pb"
    )
    for file in ("both.pb", "calm.pb"):
        print(f"{file}: {train(file)}")


if __name__ == "__main__":
    main()
