"""Where a `ParameterServerStrategy` makes its variables: private API of TensorFlow, touched here only."""

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, Protocol

from tfwave.errors import EnforcerError, EnvironmentUnsupported
from tfwave.runtime.native import tensorflow_version
from tfwave.runtime.replaced import Method, replace

_UNNAMED = "Variable"
_CREATE = "_create_variable_round_robin"


class Placer(Protocol):
    """Decides, and learns what was made. Must not raise.

    Names have all their scopes; the second variable of one name is ``name#2``.
    """

    def choose(self, name: str) -> int:
        """The task number of the server for a variable that is about to be made."""
        ...

    def on_variable(self, name: str, server: int, variable: Any) -> None:
        """The variable was made there."""
        ...

    def on_follower(self, name: str, variable: Any, leader: Any) -> None:
        """A variable was made beside another one, where that one is."""
        ...


def cluster_of(strategy: Any) -> Mapping[str, Sequence[str]]:
    """The addresses of all tasks, by job.

    Raises:
        EnforcerError: it is no ParameterServerStrategy.
    """
    if not hasattr(strategy, "_is_parameter_server_strategy_v2"):
        raise EnforcerError(
            f"a {type(strategy).__name__} places no variables on servers: "
            "give a tf.distribute.ParameterServerStrategy"
        )
    spec: Mapping[str, Sequence[str]] = strategy._cluster_resolver.cluster_spec().as_dict()
    return spec


def servers_of(strategy: Any) -> int:
    """How many parameter servers a strategy has.

    Raises:
        EnforcerError: it is no ParameterServerStrategy.
    """
    return len(cluster_of(strategy)["ps"])


@contextmanager
def variables_placed(strategy: Any, placer: Placer) -> Generator[None]:
    """Have a strategy make its variables, and the shards of partitioned ones, where `placer` says.

    TensorFlow takes the servers in turn, by a count of all variables: inside the block the count says the server
    that was chosen. All else is its own, and after the block its turns go on as if nothing had been. Variables that
    must be beside another (slots of an optimizer) stay there.

    Raises:
        EnforcerError: they are made so already: the block before would choose.
        EnvironmentUnsupported: this TensorFlow makes its variables otherwise.
    """
    extended = strategy.extended
    if _CREATE in vars(extended):
        raise EnforcerError("the variables of this strategy are placed already: stop() what `place` returned")
    with ExitStack() as undo:
        try:
            _ = extended._variable_count + 0
            names = _Names()
            replace(undo, extended, _CREATE, _placed(extended, placer, names))
            replace(undo, extended, "_create_variable", _followed(placer, names))
        except AttributeError as err:
            raise EnvironmentUnsupported(
                f"the variables of a strategy of TensorFlow {tensorflow_version()} cannot be placed ({err}): "
                "train without a placement"
            ) from err
        yield


class _Names:
    """Tells variables of one name apart by their turn."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._scope = import_module("tensorflow").get_current_name_scope

    def of(self, kwargs: Mapping[str, Any]) -> str:
        """The name of a variable that is made here and now, with such arguments."""
        scope, own = self._scope(), kwargs.get("name") or _UNNAMED
        name = f"{scope}/{own}" if scope else str(own)
        self._counts[name] += 1
        return name if self._counts[name] == 1 else f"{name}#{self._counts[name]}"


def _placed(extended: Any, placer: Placer, names: _Names) -> Callable[[Method], Method]:
    def make(create: Method) -> Method:
        def create_there(next_creator: Any, **kwargs: Any) -> Any:
            name = names.of(kwargs)
            server = placer.choose(name)
            turn = extended._variable_count
            extended._variable_count = server
            try:
                variable = create(next_creator, **kwargs)
            finally:
                extended._variable_count = turn + 1
            placer.on_variable(name, server, variable)
            return variable

        return create_there

    return make


def _followed(placer: Placer, names: _Names) -> Callable[[Method], Method]:
    def make(create: Method) -> Method:
        def create_and_tell(next_creator: Any, **kwargs: Any) -> Any:
            leader = kwargs.get("colocate_with")
            name = "" if leader is None else names.of(kwargs)
            variable = create(next_creator, **kwargs)
            if leader is not None:
                placer.on_follower(name, variable, leader)
            return variable

        return create_and_tell

    return make
