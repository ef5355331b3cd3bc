"""What passes make of real graphs: each golden tells, of one graph, what each pipeline adds and takes away.

Of the rewritten graph's canonical text here stand its digest, and the nodes that differ: as they were, as they are.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.golden.commands import run
from tests.golden.kept import item_of
from tfwave import GraphItem, Plan, TfwaveError, load_plan, parse_pipeline
from tfwave.graph.text import canonical_text

_PASSES = (
    "cut",
    "split_variables{max_bytes=512}",
    "cross_step{steps=3}",
    "split_variables{max_bytes=512},cross_step{steps=2}",
    "tick_tock",
    'tick_tock{waves=3,average="batch",offset=0.5}',
    "tick_tock_partitions",
    "tick_tock,strip",
    "recv_priority,ack_window{window=2}",
    "cut,recv_priority,control_edges",
)
"""Of each graph; what a pass refuses is told as well."""
_FEWER = {
    "resnet50_step": (
        "split_variables,cross_step{steps=2}",
        "tick_tock",
        "recv_priority,ack_window{window=2}",
    )
}
"""Of graphs that are so large that each pipeline takes seconds."""
_MOST_LINES = 100
"""Of a pipeline: the digest stands for the rest."""
_LONGEST_TITLE = 100
_BLOCK = re.compile(r"^(?! )", re.MULTILINE)


def rewrites(name: str) -> str:
    """What all pipelines make of one graph, which must lie in the current directory with all other inputs."""
    item = item_of(name, Path())
    before = _blocks(canonical_text(item.graph))
    pipelines = _FEWER.get(name) or (*_PASSES, *_barriers(item))
    plan = _plan(name)
    return "\n".join(_section(text, item, before, plan) for text in pipelines)


def _plan(name: str) -> Plan | None:
    """TIC's, where there is anything to order."""
    file = Path(f"{name}.plan.json")
    run(f"plan {name}.pb --policy tic -o {file}")
    return load_plan(file) if file.exists() else None


def _section(text: str, item: GraphItem, before: Sequence[str], plan: Plan | None) -> str:
    title = f"== {text if len(text) <= _LONGEST_TITLE else text[:_LONGEST_TITLE] + '...'}\n"
    try:
        result = parse_pipeline(text, plan if "recv_priority" in text else None)(item)
    except TfwaveError as error:
        return f"{title}refused: {error}\n"
    return title + "".join(f"{line}\n" for line in _told(result.item, result.edits, result.remarks, before))


def _told(
    item: GraphItem, edits: Sequence[object], remarks: Sequence[str], before: Sequence[str]
) -> Iterator[str]:
    text = canonical_text(item.graph)
    yield f"{len(edits)} edits, {len(item.graph.node)} nodes, sha256 {hashlib.sha256(text.encode()).hexdigest()}"
    yield f"feeds {', '.join(item.feeds)}"
    yield f"fetches {', '.join(item.fetches)}"
    yield from (f"remark: {remark}" for remark in remarks)
    changed = list(_changed(before, _blocks(text)))
    yield from changed[:_MOST_LINES]
    if len(changed) > _MOST_LINES:
        yield f"... and {len(changed) - _MOST_LINES} more lines"


def _blocks(text: str) -> list[str]:
    """Of each node, function or part: its line and those below it that are indented."""
    return [block for block in _BLOCK.split(text) if block]


def _changed(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """The blocks that are gone after a "-", those that are new after a "+", in the order of their text."""
    old, new = set(before), set(after)
    for block in sorted(old ^ new):
        sign = "-" if block in old else "+"
        yield from (f"{sign} {line}" for line in block.splitlines())


def _barriers(item: GraphItem) -> Iterator[str]:
    """Pipelines: the step's nodes in three groups in the order of the file, in which inputs come first."""
    needed = _upstream(item)
    names = [node.name for node in item.graph.node if node.name in needed]
    third = -(-len(names) // 3)
    groups = json.dumps([names[i : i + third] for i in range(0, len(names), third)])
    yield f"counter_barrier{{groups={groups}}}"
    yield f'counter_barrier{{job="one",groups={groups}}}'


def _upstream(item: GraphItem) -> set[str]:
    inputs = {node.name: [_node(text) for text in node.input] for node in item.graph.node}
    found: set[str] = set()
    left = [_node(fetch) for fetch in item.fetches]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += inputs[name]
    return found


def _node(text: str) -> str:
    return text.removeprefix("^").partition(":")[0]
