"""A server of one task that runs a pass in its Grappler until its standard input closes."""

import sys

import tensorflow as tf

from tests.numerics.runtime.gates import Gates
from tfwave.runtime.live.grappler import in_grappler

server = tf.distribute.Server.create_local_server()
with in_grappler(Gates()):
    sys.stdout.write(f"TARGET {server.target}\n")
    sys.stdout.flush()
    sys.stdin.read()
