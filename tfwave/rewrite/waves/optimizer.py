"""What of a training step an optimizer computes, and what is its backward pass.

1. The optimizer's part is what follows from variables that the forward pass does not read (slots, learning rate),
   up to the updates.
2. So is what follows from a weight that is read again behind the forward pass, if it goes to the weight and its
   slots only, by assignments, and takes nothing of the forward pass: the decay of a weight, its constraints. What
   the loss makes of weights, such as a penalty, follows from what the forward pass has read.
3. Where several tensors come to one weight and its slots, all follow from one gradient; what is behind its last
   node belongs to the optimizer: the square of a gradient is not averaged, it is the square of an average. What is
   made of the weight alone, beside gradients, is none.
4. An op that takes nothing but gradients, of whatever weights, belongs to it, too, if all that it gives goes there.
5. So does what makes the numbers of single rows unique, and all that follows from it: a gradient of rows is taken
   as it comes out of the backward pass.
6. The backward pass is what else the updates follow from, and follows from the forward pass.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from tfwave.errors import PassError
from tfwave.graph.levels import by_name
from tfwave.graph.names import TensorName
from tfwave.graph.reach import reached, reached_without
from tfwave.rewrite.resources import Resource
from tfwave.rewrite.waves.origin import Origins
from tfwave.rewrite.waves.parts import StepParts
from tfwave.rewrite.waves.updates import Taken, Update

UNIQUE_OPS = "Unique"
"""What gives each number once, and for each given which of those it is."""


@dataclass(frozen=True)
class OptimizerPart:
    """The optimizer's part of one step."""

    parts: StepParts

    @cached_property
    def nodes(self) -> frozenset[int]:
        """Cases 1 to 5.

        Raises:
            PassError: what comes to a weight follows from several gradients; names it.
        """
        gradients, derived = set(self._givers), list[frozenset[int]]()
        for found, behind in self._behind_gradients(self._givers):
            gradients |= found
            derived.append(behind)
        derived += [self._derived(node, gradients) for node in gradients]
        while True:
            found = self._apart.union(*derived)
            kept = [nodes for nodes in derived if self._users(nodes) <= found | self._ends]
            if len(kept) == len(derived):
                return found
            derived = kept

    @cached_property
    def backward(self) -> frozenset[int]:
        """Case 6."""
        return self.parts.follows - self.nodes

    def takes(self) -> Iterator[Taken]:
        """What the optimizer's part and the updates take."""
        return self._takes(self.nodes)

    def holds_weight(self, update: Update, node: int) -> bool:
        """Is what a node of the backward pass gives made of the updated weight and of a gradient?"""
        for weight in self.parts.weights.intersection(update.variables if node in self.backward else ()):
            passed = self._origins(weight).behind([node])
            taken = {fanin for one in passed for fanin in self.parts.flow.fanins[one]}
            holds = any(self.parts.weight_of.get(fanin) == weight for fanin in taken)
            if holds and any(self.parts.begins(one, weight) for one in passed):
                return True
        return False

    def _takes(self, nodes: Iterable[int]) -> Iterator[Taken]:
        for node in nodes:
            yield from self.parts.tensors.taken(node)
        for update in self.parts.updates:
            yield from self.parts.tensors.taken(update.node, update.positions)

    @cached_property
    def _given(self) -> frozenset[TensorName]:
        """What cases 1, 2 and 5 and the updates take of the rest, but for numbers of rows."""
        taken = [t for t in self._takes(self._apart) if t.source in self.parts.follows - self._apart]
        return frozenset(t.tensor for t in taken if not self.parts.tensors.is_integer(t.tensor))

    @cached_property
    def _givers(self) -> frozenset[int]:
        return frozenset(map(self.parts.tensors.node_of, self._given))

    @cached_property
    def _ends(self) -> frozenset[int]:
        return frozenset(update.node for update in self.parts.updates)

    @cached_property
    def _apart(self) -> frozenset[int]:
        """Cases 1, 2 and 5."""
        parts, reads = self.parts, self.parts.variables.reads
        others = parts.weights | self._applied
        nodes = {node for v, found in reads.items() if v not in others for node in found} | self._unique
        again = [self._assigned(v, node) for v in parts.weights - self._applied for node in reads.get(v, ())]
        return (parts.flow.downstream(nodes - parts.forward) & parts.after).union(*again)

    @cached_property
    def _unique(self) -> frozenset[int]:
        """What makes the numbers of rows unique, behind the forward pass."""
        parts, tensors = self.parts, self.parts.tensors
        places = [(node, tensors.numbers_at(node)) for node in parts.after | self._ends]
        given = {t.source for node, at in places if at is not None for t in tensors.taken(node, [at])}
        walk = reached(lambda node: self._numbers(node) - parts.forward, given - parts.forward)
        return frozenset(node for node in walk if parts.flow.step.view.ops[node].startswith(UNIQUE_OPS))

    def _numbers(self, node: int) -> frozenset[int]:
        """Where the integers come from that a node takes."""
        tensors = self.parts.tensors
        return frozenset(t.source for t in tensors.taken(node) if tensors.is_integer(t.tensor))

    @cached_property
    def _applied(self) -> frozenset[Resource]:
        """What optimizer ops change."""
        return frozenset(v for update in self.parts.updates if update.is_optimizer for v in update.variables)

    def _assigned(self, weight: Resource, read: int) -> frozenset[int]:
        """Case 2, for one read."""
        parts = self.parts
        if read in parts.forward or read not in parts.weight_of:
            return frozenset()
        found = parts.flow.downstream([read]) & parts.after
        taking = [update for node in found for update in self._takers.get(node, ())]
        others = {v for update in taking for v in update.variables} & parts.weights - {weight}
        mixed = any(parts.begins(node, weight) for node in found - {read})
        return frozenset() if others or mixed or any(u.is_optimizer for u in taking) else found

    @cached_property
    def _takers(self) -> Mapping[int, Sequence[Update]]:
        """The updates that take something from a node."""
        found: dict[int, list[Update]] = {}
        for update in self.parts.updates:
            for source in self.parts.sources(update):
                found.setdefault(source, []).append(update)
        return found

    def _behind_gradients(self, given: Collection[int]) -> Iterator[tuple[set[int], frozenset[int]]]:
        """Case 3: the gradients of what of the given comes to one weight, and what is behind them."""
        coming = {weight: self._coming(weight, given) for weight in sorted(self.parts.weights)}
        times = Counter(node for nodes in coming.values() for node in nodes)
        for weight, nodes in coming.items():
            origins = self._origins(weight)
            single = {node for node in nodes if times[node] == 1}
            made = {node: walk for node in single if (walk := origins.made_alone(node)) is not None}
            if made.keys() != single or weight in self._applied:
                for walk in made.values():
                    yield set(), walk
            for joined, last in origins.common(by_name(self.parts.flow.step.view, single - made.keys())):
                if last is None:
                    raise self._several(weight, joined)
                yield {last}, origins.behind(joined, last) - {last}

    def _origins(self, weight: Resource) -> Origins:
        return Origins(self.parts.on_the_way, partial(self.parts.begins, own=weight))

    def _coming(self, weight: Resource, given: Collection[int]) -> frozenset[int]:
        """Those of the given that come to updates of one weight, and of slots that these follow from."""
        fanins, found, variables = self.parts.flow.fanins, set[int](), [weight]
        for variable in variables:
            for update in self._assigning.get(variable, ()):
                sources = self.parts.sources(update)
                inner = reached(lambda node: self._apart.intersection(fanins[node]), sources & self._apart)
                found |= sources.union(*(fanins[node] for node in inner)).intersection(given)
                slots = {self._slot_of[node] for node in inner if node in self._slot_of}
                variables += sorted(slots.difference(variables))
        return frozenset(found)

    @cached_property
    def _assigning(self) -> Mapping[Resource, Sequence[Update]]:
        """The updates that change one variable alone, without an op that says what of it is a gradient."""
        found: dict[Resource, list[Update]] = {}
        for update in self.parts.updates:
            if len(update.variables) == 1 and not update.is_optimizer:
                found.setdefault(update.variables[0], []).append(update)
        return found

    @cached_property
    def _slot_of(self) -> Mapping[int, Resource]:
        """By the nodes that read them: the variables that change and that the forward pass does not read."""
        variables = self.parts.variables
        slots = variables.changed - self.parts.weights
        return {node: slot for slot in slots for node in variables.reads.get(slot, ())}

    def _several(self, weight: Resource, nodes: Iterable[int]) -> PassError:
        view = self.parts.flow.step.view
        names = [view.names[node] for node in by_name(view, nodes)]
        return PassError(
            f"nodes '{names[0]}' and '{names[1]}' both come to updates of '{weight[2]}' and follow from several "
            "gradients: let both follow from one tensor, which waves average, or write a pass of your own"
        )

    def _derived(self, node: int, gradients: Collection[int]) -> frozenset[int]:
        """A node and those behind it, up to other gradients; none if it follows from anything but those."""
        walk = reached_without(lambda one: self._besides(one, gradients), [node], self.parts.begins)
        found = walk or frozenset[int]()
        return found if any(not self.parts.on_the_way(one) <= found for one in found) else frozenset()

    def _besides(self, node: int, gradients: Collection[int]) -> frozenset[int]:
        """What a node takes on the way that is no gradient; one node may give gradients and other tensors."""
        found = self.parts.on_the_way(node)
        mixed = found & self._givers
        others = (
            {t.source for t in self.parts.tensors.taken(node) if t.tensor not in self._given} if mixed else ()
        )
        return found.difference(gradients) | mixed.intersection(others)

    def _users(self, nodes: Iterable[int]) -> set[int]:
        """What takes from these nodes on the way to the updates, those included."""
        on_the_way, fanouts = self.parts.after | self._ends, self.parts.flow.fanouts
        return {user for node in nodes for user in fanouts[node] if user in on_the_way}
