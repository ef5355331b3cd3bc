"""A task that sends or receives bytes over TCP, or misbehaves, as told."""

import os
import signal
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tfwave.demo.child import Channel

CHUNK = bytes(1 << 20)


def receive(connection: socket.socket) -> tuple[int, float, float]:
    """(bytes, time of the first, time of the last)."""
    count, first, last = 0, 0.0, 0.0
    with connection:
        while got := len(connection.recv(1 << 16)):
            last = time.monotonic()
            first = first or last
            count += got
    return count, first, last


def listen(channel: Channel, address: str, port: int, connections: int) -> None:
    """Say that it listens; then (bytes, seconds) of all connections together."""
    with socket.create_server((address, port)) as server, ThreadPoolExecutor(connections) as pool:
        channel.say(listening=True)
        jobs = [pool.submit(receive, server.accept()[0]) for _ in range(connections)]
        counts, firsts, lasts = zip(*(job.result() for job in jobs), strict=True)
    channel.say(bytes=sum(counts), seconds=max(lasts) - min(firsts))


def send(targets: list[tuple[str, int]], megabytes: int) -> None:
    def to(target: tuple[str, int]) -> None:
        with socket.create_connection(tuple(target)) as connection:
            for _ in range(megabytes):
                connection.sendall(CHUNK)

    with ThreadPoolExecutor(len(targets)) as pool:
        list(pool.map(to, targets))


def remote_sum(target: str, count: int) -> float:
    """Of ones that the worker at `target` gets from the parameter server."""
    import tensorflow as tf

    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            ones = tf.ones([tf.compat.v1.placeholder_with_default(count, [])])
        with tf.device("/job:worker/task:0"):
            total = tf.reduce_sum(ones)
        with tf.compat.v1.Session(target) as session:
            return float(session.run(total))


def obey(channel: Channel, request: dict[str, Any]) -> None:
    what = request.pop("do")
    if what == "listen":
        listen(channel, **request)
    elif what == "send":
        send(**request)
        channel.say(sent=True)
    elif what == "print":
        sys.stdout.write("noise\n")
        sys.stdout.flush()
        os.write(1, b"more noise\n")
        channel.say(**request)
    elif what == "sleep":
        time.sleep(60)
    elif what == "ignore SIGTERM":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        channel.say()
    elif what == "sum":
        channel.say(sum=remote_sum(**request))
    elif what == "exit":
        sys.stderr.write("one\ntwo\nthree\nthe cause\n")
        sys.stderr.flush()
        os._exit(7)
    elif what == "babble":
        channel._answers.write("[1]\n")
        channel._answers.flush()


def main() -> None:
    channel = Channel()
    for request in channel.requests():
        obey(channel, request)


if __name__ == "__main__":
    main()
