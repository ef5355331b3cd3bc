"""The scratch that ops ask for, from what they were given."""

from tests.memory_steps import Step, bundle_of, graph
from tfwave.bundle.bundle import Bundle
from tfwave.bundle.memory.captured import captured_steps
from tfwave.bundle.memory.scratch import asked_scratch
from tfwave.proto.tensorflow_pb2 import DT_FLOAT, DT_HALF

SIDES = {"x": (4, 4), "y": (4, 4), "z": (2, 8)}
GIVEN = {
    "of_x": (700, 400),
    "of_y": (900, 800),
    "of_z": (500, 600),
    "half_of_x": (600, 500),
    "other_of_x": (900, 900),
}
"""In two steps; the last has an op of its own."""


def traced() -> Bundle:
    kinds = {name: "Other" if name.startswith("other") else "Conv" for name in GIVEN}
    made = graph(
        *((name, "Const", []) for name in SIDES),
        *((name, op, [name[-1]]) for name, op in kinds.items()),
    )
    for node in made.node:
        node.attr["T"].type = DT_HALF if node.name.startswith("half") else DT_FLOAT
        node.attr["_class"].s = node.name.encode()
    steps = [Step(), Step()]
    for number, step in enumerate(steps):
        for place, name in enumerate(SIDES):
            step.run(name, place, (64, place))
        for place, (name, given) in enumerate(GIVEN.items()):
            step.run(name, 10 * (place + 1), (64, 10 + place), allocated=[64, given[number]], freed=[])
        for event in step.stats.dev_stats[0].node_stats:
            shape = event.output[0].tensor_description.shape
            for side in SIDES.get(event.node_name, (4, 4)):
                shape.dim.add(size=side)
    return bundle_of([made], *(step.stats for step in steps))


def test_it_is_the_least_of_all_steps_and_of_all_ops_alike() -> None:
    """Alike are those of one kind and attributes, that read tensors of the same shape, whatever their names."""
    bundle = traced()
    assert asked_scratch(bundle, captured_steps(bundle)) == {
        "of_x": 400,
        "of_y": 400,
        "of_z": 500,
        "half_of_x": 500,
        "other_of_x": 900,
    }


def test_what_reads_a_tensor_of_unknown_shape_is_like_no_other() -> None:
    bundle = traced()
    for stats in bundle.steps:
        events = stats.dev_stats[0].node_stats
        for lost in "x", "y":
            del events[[event.node_name for event in events].index(lost)]
    asked = asked_scratch(bundle, captured_steps(bundle))
    assert (asked["of_x"], asked["of_y"]) == (400, 800)


def test_what_is_in_no_graph_is_like_no_other() -> None:
    bundle = traced()
    for node in bundle.graphs[0].node:
        node.device = "/job:other"
    asked = asked_scratch(bundle, captured_steps(bundle))
    assert asked == {name: min(given) for name, given in GIVEN.items()}
