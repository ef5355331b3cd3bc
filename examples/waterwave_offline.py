"""Three jobs' graphs in one, with barriers by which they train in a memory that they did not fit into together."""

import subprocess
import sys
from pathlib import Path

import tfwave

LIMIT = "132MiB"
tfwave.colocate.limit_memory(LIMIT)  # before TensorFlow is imported: it reads its limit then

import tensorflow as tf  # noqa: E402

v1 = tf.compat.v1
JOBS = ("images", "rows", "rows-2")
COMMANDS = f"""merge images.pb rows.pb rows.pb -o both.pb
colocate images rows rows --memory {LIMIT} -o plan.json
rewrite both.pb --plan plan.json --passes counter_barrier -o calm.pb"""


def training(name: str) -> tf.Graph:
    """A graph with the nodes "loss", "train" and "init"; convolutions for "images", products for "rows"."""
    with tf.Graph().as_default() as graph:
        v1.set_random_seed(1)
        hidden = tf.random.uniform([128, 32, 32, 16] if name == "images" else [32768, 64])
        for layer in range(6):
            shape = [3, 3, 16, 16] if name == "images" else [64, 64]
            kernel = v1.get_variable(f"kernel{layer}", shape)
            bias = v1.get_variable(f"bias{layer}", shape[-1:])
            layers = tf.nn.conv2d(hidden, kernel, 1, "SAME") if name == "images" else hidden @ kernel
            hidden = tf.nn.relu(tf.nn.bias_add(layers, bias))
        loss = tf.nn.l2_loss(hidden - 1.0, name="loss")
        v1.train.AdamOptimizer(0.001).minimize(loss, name="train")
        tf.group(v1.global_variables_initializer(), name="init")
    return graph


def train(file: str) -> str:
    """The last losses of the jobs, all of which make a step in each call."""
    with tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
        tf.graph_util.import_graph_def(v1.GraphDef.FromString(Path(file).read_bytes()), name="")
        session.run([f"{job}/init" for job in JOBS])
        try:
            for _ in range(3):
                losses, _ = session.run([[f"{job}/loss:0" for job in JOBS], [f"{job}/train" for job in JOBS]])
        except tf.errors.ResourceExhaustedError:
            return "out of memory"
        return "losses " + ", ".join(f"{loss:.2f}" for loss in losses)


if __name__ == "__main__":
    for name in ("images", "rows"):
        tf.io.write_graph(graph := training(name), ".", f"{name}.pb", as_text=False)
        with v1.Session(graph=graph) as session:
            session.run("init")
            tfwave.capture_run(session, ["loss:0", "train"], out=name, steps=2, warmup=1)
    for command in COMMANDS.splitlines():
        subprocess.run([sys.executable, "-m", "tfwave", *command.split()], check=True)
    for file in ("both.pb", "calm.pb"):
        print(f"{file}: {train(file)}")
