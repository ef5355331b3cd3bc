"""What this process runs and receives while it is traced, summed up for the control service."""

import statistics
from collections import defaultdict
from collections.abc import Iterable
from threading import Timer

from tfwave.graph.names import Channel
from tfwave.proto import control_pb2
from tfwave.runtime.hook import Arrival, Hook
from tfwave.runtime.trace.profiler import Profiler
from tfwave.runtime.trace.xplane import Trace, WireRun, read_trace

TRACE_SECONDS = 120.0
"""A trace that nobody stops ends by itself after this time."""


class Tracer:
    """Traces the TensorFlow server of this process: op times from the profiler, arrivals from the hook.

    Without a hook the arrivals are the profiler's too, which does not tell their bytes.
    """

    def __init__(self, target: str, hook: Hook | None) -> None:
        """For the server at `target`."""
        self._profiler = Profiler(target)
        self._hook = hook
        self._cursor = 0
        self._end: Timer | None = None
        """Of what the hook logs; the profiler knows when to end."""

    def start(self) -> None:
        """Begin; what was noted before is forgotten, also what nobody has stopped and is over.

        Raises:
            EnforcerError: the server is being traced already.
        """
        self._profiler.start(TRACE_SECONDS)
        self._cancel_end()
        if self._hook is not None:
            self._hook.log_arrivals(True)
            self._cursor = self._hook.arrivals(self._cursor).next_cursor
            self._end = Timer(TRACE_SECONDS, self._hook.log_arrivals, (False,))
            self._end.daemon = True
            self._end.start()

    def stop(self) -> control_pb2.Trace:
        """End, and sum up.

        Raises:
            EnforcerError: no trace was begun.
        """
        self._cancel_end()
        if self._hook is not None:
            self._hook.log_arrivals(False)
        trace = read_trace(self._profiler.stop())
        answer = control_pb2.Trace(functions=trace.functions)
        _add_ops(answer, trace)
        if self._hook is None:
            _add_arrivals(answer, map(_arrival, trace.receives))
        else:
            found = self._hook.arrivals(self._cursor)
            answer.dropped = found.dropped
            _add_arrivals(answer, found.arrivals)
        return answer

    def _cancel_end(self) -> None:
        """Else it might end the next trace."""
        if self._end is not None:
            self._end.cancel()
            self._end.join()


def _add_ops(answer: control_pb2.Trace, trace: Trace) -> None:
    runs: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for run in trace.ops:
        function = trace.functions.get(run.step)
        if function is not None:
            runs[function, run.node, run.op].append(run.seconds)
    for (function, node, op), seconds in sorted(runs.items()):
        answer.ops.add(
            function=function,
            node=node,
            op=op,
            count=len(seconds),
            min_seconds=min(seconds),
            median_seconds=statistics.median(seconds),
        )


def _arrival(run: WireRun) -> Arrival:
    requested, arrived = round(run.start_seconds * 1e9), round(run.end_seconds * 1e9)
    return Arrival(run.step, run.channel, run.edge, 0, requested, arrived)


def _add_arrivals(answer: control_pb2.Trace, arrivals: Iterable[Arrival]) -> None:
    numbers: dict[Channel, int] = {}
    for arrival in arrivals:
        answer.arrivals.add(
            step=arrival.step,
            channel=numbers.setdefault(arrival.channel, len(numbers)),
            edge=arrival.edge,
            bytes=arrival.bytes,
            requested_nanos=arrival.requested_nanos,
            arrived_nanos=arrival.arrived_nanos,
        )
    for channel in numbers:
        answer.channels.add(source_device=channel.source, destination_device=channel.destination)
