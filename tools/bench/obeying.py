"""How the chief of a bench obeys the program that started it, and what it trains under."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfwave.demo.child import Channel


def obey(make: Callable[[dict[str, Any]], Any]) -> None:
    """Make the chief by the first request, then call the method that each says under "do", until input is closed.

    Does not return: TensorFlow's threads end with their process only.
    """
    channel = Channel()
    requests = channel.requests()
    chief = make(next(requests))
    channel.say(ready=True)
    for request in requests:
        channel.say(**getattr(chief, request.pop("do"))(**request))
    os._exit(0)


def strategy_of(cluster: Mapping[str, Sequence[str]], **options: Any) -> Any:
    """A `ParameterServerStrategy` of the cluster's chief; by job the addresses of the tasks."""
    import tensorflow as tf

    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster), task_type="chief", task_id=0, rpc_layer="grpc"
    )
    return tf.distribute.ParameterServerStrategy(resolver, **options)
