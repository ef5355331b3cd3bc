"""Run a function whose graph the native library cannot mark; says what it gave, and how many nodes were in the way.

Usage: python -m tests.numerics.runtime.broken_graphs LIBRARY-OF-broken_graphs.cc
"""

import ctypes
import json
import sys

import tensorflow as tf

from tfwave.runtime.hook import Hook


def main() -> None:
    Hook().configure(hooked_tasks=["/job:localhost/replica:0/task:0"])
    tf.load_library(sys.argv[1])
    doubled = tf.function(lambda x: x * 2.0)
    result = float(doubled(tf.constant(3.0)))
    sys.stdout.write(json.dumps([result, ctypes.CDLL(sys.argv[1]).planted_nodes()]) + "\n")


if __name__ == "__main__":
    main()
