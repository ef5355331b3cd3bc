"""What a traced function of a strategy's job sends between its tasks, without running it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tfwave.graph.names import TransferKey, task_of
from tfwave.graph.partition.cut import cut
from tfwave.graph.partition.frames import looped
from tfwave.graph.transfer import Transfer, find_transfers
from tfwave.graph.view import GraphView
from tfwave.order.deps import upstream_transfers
from tfwave.runtime.job_devices import JobDevices
from tfwave.runtime.live.replay import traced_item

_WAITING_SHARE = 0.3


@dataclass(frozen=True)
class FunctionGraph:
    """One traced function, cut as the worker that runs it will cut it.

    `name` is TensorFlow's own of the trace, another one for each input signature; `worker` the device that runs it;
    `transfers` are all tensors that cross tasks, in both directions, to and from all devices of the worker's task,
    but for the `looped` ones: what travels in a while loop does so anew in each iteration, and nothing orders that.
    """

    name: str
    worker: str
    view: GraphView
    transfers: tuple[Transfer, ...]
    looped: tuple[Transfer, ...] = ()

    @property
    def task(self) -> str:
        """That of `worker`."""
        return task_of(self.worker)

    @property
    def pulls(self) -> tuple[Transfer, ...]:
        """What arrives at the worker."""
        return tuple(t for t in self.transfers if task_of(t.channel.destination) == self.task)

    @property
    def pushes(self) -> tuple[Transfer, ...]:
        """What the worker sends."""
        return tuple(t for t in self.transfers if task_of(t.channel.source) == self.task)

    @cached_property
    def free(self) -> frozenset[TransferKey]:
        """The transfers that wait for no other."""
        return frozenset(key for key, others in self._waits.items() if not others)

    @property
    def overlaps(self) -> bool:
        """Whether it holds steps that overlap: many pulls wait for others, by way of the updates in between.

        Of two steps those of the second do, half of all; a single step may read again what it has updated, such as
        a counter.
        """
        mask = sum(
            1 << i for i, t in enumerate(self.transfers) if task_of(t.channel.destination) == self.task
        )
        waiting = [t for t in self.pulls if self._waits[t.key] & mask]
        return len(waiting) > _WAITING_SHARE * len(self.pulls)

    @cached_property
    def _waits(self) -> Mapping[TransferKey, int]:
        """The other transfers that each waits for; bit i stands for ``transfers[i]``."""
        upstream = upstream_transfers(self.view, self.transfers)
        return {t.key: upstream[t.recv] & ~(1 << i) for i, t in enumerate(self.transfers)}


def cut_function(concrete: Any, job: JobDevices) -> FunctionGraph:
    """Cut a `ConcreteFunction` as TensorFlow does where the first worker of a job runs it.

    Raises:
        GraphError: the function cannot be cut offline; names the node.
    """
    partitions = cut(traced_item(concrete.graph), devices=job.devices, default=job.runner, soft=job.soft)
    view = GraphView.of(*partitions)
    in_loops = frozenset[str]().union(*map(looped, partitions))
    found = find_transfers(view).data
    return FunctionGraph(
        function_name(concrete),
        job.runner,
        view,
        transfers=tuple(t for t in found if t.node not in in_loops),
        looped=tuple(t for t in found if t.node in in_loops),
    )


def function_name(concrete: Any) -> str:
    """The name under which TensorFlow registers a trace, such as ``__inference_step_64``."""
    name: Any = concrete.function_def.signature.name
    return name.decode() if isinstance(name, bytes) else str(name)
