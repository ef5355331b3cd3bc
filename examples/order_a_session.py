"""Order the parameter transfers of a v1 session: capture, plan, install, and see that the order was kept."""

import tempfile
from pathlib import Path

import tensorflow as tf

import tfwave
from tfwave.report.conformance import HandOff, conformance

v1 = tf.compat.v1
SERVER, WORKER = "/job:ps/task:0", "/job:worker/task:0"


def free_ports(count: int) -> list[int]:
    import socket

    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def build(layers: int) -> tf.Tensor:
    """Parameters on the server, layers on the worker."""
    with tf.device(SERVER):
        weights = [v1.get_variable(f"w{i}", [256, 256], use_resource=True) for i in range(layers)]
    with tf.device(WORKER):
        x = tf.random.stateless_uniform([32, 256], seed=[1, 2])
        for w in weights:
            x = tf.nn.relu(tf.matmul(x, w))
        return tf.reduce_sum(x)


def main() -> None:
    ps, worker = free_ports(2)
    cluster = {"ps": [f"127.0.0.1:{ps}"], "worker": [f"127.0.0.1:{worker}"]}
    server = tfwave.Server(cluster, "ps", 0)  # sends in the plan's order; the only line a job needs to change
    client = tf.distribute.Server(cluster, job_name="worker", task_index=0)
    with tf.Graph().as_default(), tempfile.TemporaryDirectory() as directory:
        output = build(layers=16)
        session = v1.Session(client.target)
        session.run(v1.global_variables_initializer())
        bundle = tfwave.capture_run(session, output, out=Path(directory, "bundle"))
        plan = tfwave.plan_bundle(bundle, "tac")
        with tfwave.ControlClient(server.control_address) as control:
            control.install(plan)
            for _ in range(10):
                session.run(output)
            log = control.hand_offs().hand_offs
    kept = conformance(HandOff(h.step, str(h.channel), h.rank, "ORDERED") for h in log)
    print(f"{kept.exact_steps} of {kept.steps} steps kept the order of {len(plan.transfers)} transfers")
    assert kept.exact


if __name__ == "__main__":
    main()
