"""The chief of a strategy's job, as a task of `wrapped.py`.

Asked {"do": "start", "cluster": {job: [address]}, "control": {job: [address]} or null, "enforcer": str,
"model": str, "image": int, "batch": int, "train": bool}, it builds the model under a ParameterServerStrategy,
wrapped where `control` is given, and runs steps until they are ordered. Then, as often as asked:
{"do": "run", "steps": n} answers {"seconds": [of each step], "losses": [of each, as hex], "first": its number};
{"do": "figures"} answers what the schedule says.
"""

import logging
import os
import time
from typing import Any

from tfwave.demo.child import Channel
from tools.bench.obeying import strategy_of

MODULE = "tools.bench.transfers.wrapped_chief"
ORDERED_SECONDS = 120.0


class Chief:
    """A job that runs one step at a time."""

    def __init__(self, request: dict[str, Any]) -> None:
        import tensorflow as tf

        from tfwave.distribute import schedule_of, wrap

        strategy = strategy_of(request["cluster"])
        if request["control"]:
            wrap(strategy, enforcer=request["enforcer"], control=request["control"])
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        self._step = _step(strategy, **{key: request[key] for key in ("model", "image", "batch", "train")})
        self._steps = 0
        self.run(3)
        self.schedule = schedule_of(strategy) if request["control"] else None
        end = time.monotonic() + ORDERED_SECONDS
        while self.schedule and set(self.schedule.phases.values()) != {"ordered"}:
            if time.monotonic() > end:
                raise TimeoutError(f"not ordered: {self.schedule.phases}")
            self.run(1)

    def run(self, steps: int) -> dict[str, Any]:
        seconds: list[float] = []
        losses: list[str] = []
        for _ in range(steps):
            begin = time.perf_counter()
            loss = self._coordinator.schedule(self._step)
            self._coordinator.join()
            seconds.append(time.perf_counter() - begin)
            losses.append(float(loss.fetch()).hex())
        first, self._steps = self._steps, self._steps + steps
        return {"seconds": seconds, "losses": losses, "first": first}

    def figures(self) -> dict[str, Any]:
        assert self.schedule
        return {"phases": self.schedule.phases, **self.schedule.figures().logs()}


def _step(strategy: Any, model: str, image: int, batch: int, train: bool) -> Any:
    import tensorflow as tf

    from tfwave.demo.model import network_maker

    tf.keras.utils.set_random_seed(1)
    with strategy.scope():
        network = network_maker(model)(image)
    images = tf.random.stateless_uniform([batch, image, image, 3], seed=(1, 7))

    def replica() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(network(images, training=train)))
        if train:
            variables = network.trainable_variables
            for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
                variable.assign_sub(0.01 * gradient)
        return loss

    return tf.function(lambda: strategy.run(replica))


def main() -> None:
    logging.basicConfig()
    channel = Channel()
    requests = channel.requests()
    chief = Chief(next(requests))
    channel.say(ready=True)
    for request in requests:
        channel.say(**(chief.figures() if request["do"] == "figures" else chief.run(request["steps"])))
    os._exit(0)


if __name__ == "__main__":
    main()
