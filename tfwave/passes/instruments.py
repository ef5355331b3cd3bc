"""Instruments: what can watch a pipeline at work."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tfwave.files import write_whole
from tfwave.graph.edits import ControlEdgeAdded, InputRedirected, NodeAdded, NodeRemoved
from tfwave.passes.pipeline import Stage


@dataclass(frozen=True)
class StageSummary:
    """What one pass did: counts of edits, and op counts that changed (after minus before), sorted by op."""

    graph_pass: str
    seconds: float
    edits: int
    nodes_added: int
    nodes_removed: int
    control_edges_added: int
    inputs_redirected: int
    op_differences: tuple[tuple[str, int], ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Recorder:
    """Times each pass and counts what it did."""

    stages: list[StageSummary] = field(default_factory=list[StageSummary])

    def __call__(self, stage: Stage) -> None:
        """Take down a stage."""
        kinds = Counter(type(edit) for edit in stage.result.edits)
        self.stages.append(
            StageSummary(
                str(stage.graph_pass),
                stage.seconds,
                len(stage.result.edits),
                kinds[NodeAdded],
                kinds[NodeRemoved],
                kinds[ControlEdgeAdded],
                kinds[InputRedirected],
                _op_differences(stage),
                stage.result.remarks,
            )
        )


@dataclass(frozen=True)
class Dumper:
    """Writes the graph of each stage to `directory`, numbered: ``00_input.pb``, ``01_ack_window.pb``, ..."""

    directory: Path

    def __call__(self, stage: Stage) -> None:
        """Write a stage.

        Raises:
            TfwaveError: the directory cannot be written.
        """
        if stage.number == 1:
            self._write("00_input.pb", stage.before.graph.SerializeToString(deterministic=True))
        name = str(stage.graph_pass).partition("{")[0]
        graph = stage.result.item.graph
        self._write(f"{stage.number:02}_{name}.pb", graph.SerializeToString(deterministic=True))

    def _write(self, name: str, data: bytes) -> None:
        write_whole(self.directory / name, data)


def _op_differences(stage: Stage) -> tuple[tuple[str, int], ...]:
    if not stage.result.changed:
        return ()
    before = Counter(node.op for node in stage.before.graph.node)
    after = Counter(node.op for node in stage.result.item.graph.node)
    return tuple((op, after[op] - before[op]) for op in sorted(before | after) if after[op] != before[op])
