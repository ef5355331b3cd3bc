"""The servers of a strategy's variables: chosen by a placement, and known for the next one."""

from collections.abc import Mapping, Set
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import ref

from tfwave.balance.chooser import ServerChooser
from tfwave.balance.holdings import Held, Holdings
from tfwave.balance.result import Balance
from tfwave.balance.solve import balance
from tfwave.balance.variable import Variable
from tfwave.balance.variables import placeable
from tfwave.capture.function import cut_function
from tfwave.graph.transfer import find_transfers
from tfwave.plan.given import GivenPlan, section_of
from tfwave.plan.io import save_plan
from tfwave.plan.placement import Placement
from tfwave.plan.plan import Plan
from tfwave.runtime.job_devices import JobDevices, job_devices
from tfwave.runtime.variables import servers_of, variables_placed


def place(strategy: Any, plan: GivenPlan | None = None) -> "Placed":
    """Have a `ParameterServerStrategy` make its variables where a plan says, from now on.

    Call it before the variables are made. What its placement does not name, and without one every variable, goes
    to the server that holds the fewest bytes so far, where TensorFlow takes the servers in turn. A job that started
    so can tell a better placement for its next start::

        placed = tfwave.distribute.place(strategy)
        ...  # make the model, and next time place(strategy, "plan.json")
        placed.save("plan.json")

    Names in checkpoints are none of servers: a job goes on from one with any placement.

    Args:
        strategy: a `tf.distribute.ParameterServerStrategy`.
        plan: one with a placement, as `tfwave balance` writes it, or the name of its file.

    Raises:
        PlanError: no such plan, one without a placement, or for another number of servers.
        EnforcerError: no such strategy, or one that is placed already: see `Placed.stop`.
        EnvironmentUnsupported: this TensorFlow makes its variables otherwise.
    """
    there = servers_of(strategy)
    chosen = Placement(there) if plan is None else section_of(plan, Placement)
    chosen.check_servers(there)
    placed = Placed(chosen, job_devices(strategy))
    placed.start(strategy)
    return placed


@dataclass(frozen=True)
class _Made:
    """A variable that was made; `leader` is the name of the one that it must be beside."""

    held: Held
    server: int
    variable: "ref[Any]"


class Placed:
    """The variables that a strategy made since it was placed, in turn. A `Placer`."""

    def __init__(self, placement: Placement, job: JobDevices) -> None:
        """With where variables are to go, and what the job has."""
        self._job = job
        self._servers = placement.servers
        self._chooser = ServerChooser(placement)
        self._made: list[_Made] = []
        self._undo = ExitStack()

    @property
    def placement(self) -> Placement:
        """As the variables are."""
        return Placement(self._servers, {m.held.name: m.server for m in self._made})

    def balance(self, concrete: Any = None) -> Balance:
        """A placement for the next start, with what it should give.

        By what a traced function of the job (a `ConcreteFunction`) pulls, and when it needs that. Without one:
        as if a step pulled every variable whole, in the order in which they were made.

        Raises:
            GraphError: the function cannot be cut offline, or two variables have one name.
        """
        return balance(self._whole() if concrete is None else self._pulled(concrete), self._servers)

    def save(self, path: Path | str, concrete: Any = None) -> None:
        """Write the placement that `balance` gives, as a plan.

        Raises:
            TfwaveError: as `balance`, or the place cannot be written.
        """
        save_plan(Plan(placement=self.balance(concrete).placement), path)

    def start(self, strategy: Any) -> None:
        """Begin to place.

        Raises:
            EnforcerError: another one does, or this.
            EnvironmentUnsupported: this TensorFlow makes its variables otherwise.
        """
        self._undo.enter_context(variables_placed(strategy, self))

    def stop(self) -> None:
        """Let TensorFlow place what is made from now on."""
        self._undo.close()

    def choose(self, name: str) -> int:
        """See `Placer`; so are the next two."""
        return self._chooser.choose(name)

    def on_variable(self, name: str, server: int, variable: Any) -> None:
        self._add(Held(name, _bytes_of(variable)), server, variable)

    def on_follower(self, name: str, variable: Any, leader: Any) -> None:
        beside = next((m for m in self._made if m.variable() is leader), None)
        if beside is not None:
            self._add(Held(name, _bytes_of(variable), beside.held.name), beside.server, variable)

    def _add(self, held: Held, server: int, variable: Any) -> None:
        self._chooser.add(server, held.resident_bytes)
        self._made.append(_Made(held, server, ref(variable)))

    def _whole(self) -> list[Variable]:
        leading = [m for m in self._made if m.held.leader is None]
        return [self._variable(m, m.held.resident_bytes, rank, set()) for rank, m in enumerate(leading)]

    def _pulled(self, concrete: Any) -> list[Variable]:
        """The variables of the function, and those that it does not use."""
        function = cut_function(concrete, self._job)
        holdings = Holdings(function.view, known=self._captured(concrete))
        found = placeable(holdings, find_transfers(function.view).data, None)
        known = {name for variable in found for name in variable.names}
        others = (m for m in self._made if m.held.leader is None and m.held.name not in known)
        return [*found, *(self._variable(m, 0, float(len(function.view)), known) for m in others)]

    def _captured(self, concrete: Any) -> Mapping[str, Held]:
        """What the nodes of a function's graph are that hand over its variables."""
        handles = {id(v.handle): m.held for m in self._made if (v := m.variable()) is not None}
        captures = ((str(inner.op.name), id(outer)) for outer, inner in concrete.graph.captures)
        return {name: handles[handle] for name, handle in captures if handle in handles}

    def _variable(self, made: _Made, moved: int, need: float, known: Set[str]) -> Variable:
        """With its followers, but for those that are `known` elsewhere."""
        own = made.held
        followers = [m.held for m in self._made if m.held.leader == own.name and m.held.name not in known]
        resident = own.resident_bytes + sum(f.resident_bytes for f in followers)
        names = tuple(f.name for f in followers)
        return Variable(own.name, moved, need, resident, server=made.server, followers=names)


def _bytes_of(variable: Any) -> int:
    return int(variable.shape.num_elements() or 0) * int(variable.dtype.size)
