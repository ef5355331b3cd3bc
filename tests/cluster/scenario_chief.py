"""The chief of a test cluster: connects, then runs the scenarios of a module that its standard input names.

The first line is the cluster: {"ps": [...], "worker": [...], "chief": [...]}
"""

import json
import sys
import traceback
from importlib import import_module

from tests.cluster.speaker import say


def ask(question: str) -> None:
    """Go on when the test answers."""
    say({"question": question})
    sys.stdin.readline()


def main() -> None:
    import tensorflow as tf

    scenarios = import_module(sys.argv[1])
    spec = tf.train.ClusterSpec(json.loads(sys.stdin.readline()))
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        spec, task_type="chief", task_id=0, rpc_layer="grpc"
    )
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    say({"answer": "ready"})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            say({"answer": getattr(scenarios, request.pop("scenario"))(strategy, **request)})
        except Exception:
            say({"error": traceback.format_exc()})


if __name__ == "__main__":
    main()
