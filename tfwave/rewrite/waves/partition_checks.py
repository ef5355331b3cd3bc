"""Which steps can run by the cycle table."""

from tfwave.errors import PassError
from tfwave.graph.access import KEYED_OPS
from tfwave.graph.item import GraphItem
from tfwave.graph.levels import by_name
from tfwave.graph.reach import in_control_flow
from tfwave.rewrite.resources import ResourceSurvey
from tfwave.rewrite.waves.partitions import Partitions
from tfwave.rewrite.waves.training import Training


def check_partitions(item: GraphItem, training: Training, partitions: Partitions) -> None:
    """Can each device pass from partition to partition?

    Raises:
        PassError: no; names the node and the way out:
            1. there are no weights, or all are on one device;
            2. devices are not all of one kind;
            3. a collective, whose peers may run in another cycle, and would wait for ever;
            4. a function with nodes on the device of a partition: waves share functions;
            5. a branch or a loop of TensorFlow 1 on several partitions.
        GraphError: a function's node asks for what is no device name.
    """
    if not partitions.names:
        raise PassError(
            f"no variable is found that the forward pass to '{training.step.view.names[training.end[0]]}' reads "
            "and a gradient updates: fetch the train op, or name the loss with the option boundary"
        )
    if len(partitions) < 2:
        raise PassError(
            f"all weights are on '{partitions.devices[0]}': place partitions of the model on several devices, or "
            "run waves on one with tick_tock"
        )
    kinds = {name.kind for name in partitions.names}
    if len(kinds) > 1:
        raise PassError(
            f"the weights are on '{partitions.devices[0]}' and on devices of other kinds "
            f"({', '.join(sorted(kinds))}), and each runs every partition: place all on devices of one kind"
        )
    _check_collectives(training)
    _check_functions(item, training, partitions)
    _check_control_flow(training, partitions)


def _check_collectives(training: Training) -> None:
    view = training.step.view
    for node in by_name(view, training.step.order):
        if view.ops[node].startswith(KEYED_OPS):
            raise PassError(
                f"node '{view.names[node]}' ({view.ops[node]}) waits for its peers, which may run in another "
                "cycle: the waves of one process reduce without collectives"
            )


def _check_functions(item: GraphItem, training: Training, partitions: Partitions) -> None:
    view = training.step.view
    survey = ResourceSurvey(item, view)
    for node in by_name(view, training.step.order):
        for leaf in survey.leaves(view.nodes[node]):
            if partitions.asked_by(leaf) is not None:
                raise PassError(
                    f"node '{view.names[node]}' calls '{leaf.name}', which is on '{leaf.device}' in all waves: "
                    "place the call, not what is in it"
                )


def _check_control_flow(training: Training, partitions: Partitions) -> None:
    view, at = training.step.view, partitions.at
    inside = in_control_flow(view)
    for node in by_name(view, at):
        for fanin in view.fanins[node]:
            if fanin in inside and at.get(fanin, at[node]) != at[node]:
                raise PassError(
                    f"node '{view.names[node]}' on '{partitions.devices[at[node]]}' is of a branch or a loop that "
                    f"'{view.names[fanin]}' on '{partitions.devices[at[fanin]]}' is in: keep each on one device, "
                    "or build the graph after tf.compat.v1.enable_control_flow_v2()"
                )
