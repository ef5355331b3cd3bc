"""TensorFlow's C interface for Grappler plugins, spoken with ctypes: it needs no compiler.

The structures are those of tensorflow/c/experimental/grappler/grappler.h in the wheel.
"""

import ctypes
import importlib
import operator
from collections.abc import Callable, Generator
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_size_t, c_void_p
from pathlib import Path
from typing import Any

from tfwave.errors import EnvironmentUnsupported
from tfwave.graph.item import GraphItem
from tfwave.proto.tensorflow_pb2 import GraphDef
from tfwave.runtime import native

OTHER_WAYS = "use tfwave.runtime.live.install on the function or graph, or rewrite the graph offline"

_INTERFACE = (0, 0, 1)
_INIT = "_ZN10tensorflow8grappler15InitGraphPluginEPFvP30TP_OptimizerRegistrationParamsP10TSL_StatusE"
_ABORTED = 10
"""To Grappler: "nothing was done". It keeps the graph that it has, unparsed."""
_FAILED_PRECONDITION = 9
_OK = (0, 1)
"""The one word of an absl::Status that is OK: 0 in TensorFlow 2.19, 1 after it; neither ever means a failure."""


class _Configs(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("ext", c_void_p), ("toggles", c_int * 19)]


class _Optimizer(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        *((name, c_void_p) for name in ("ext", "create", "optimize", "destroy")),
    ]


class _Params(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("ext", c_void_p),
        ("version", c_int32 * 3),
        ("device_type", c_char_p),
        ("configs", POINTER(_Configs)),
        ("optimizer", POINTER(_Optimizer)),
    ]


class _Buffer(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("length", c_size_t), ("data_deallocator", c_void_p)]


class _Status(ctypes.Structure):
    """An absl::Status as C++ returns it, in the caller's memory; larger than two words, ctypes does so too."""

    _fields_ = [("word", c_size_t), ("unused", c_size_t * 2)]


_INIT_CALLBACK = ctypes.CFUNCTYPE(None, POINTER(_Params), c_void_p)
_OPTIMIZE_CALLBACK = ctypes.CFUNCTYPE(None, c_void_p, POINTER(_Buffer), c_void_p, POINTER(_Buffer), c_void_p)
# TF_OFFSET_OF_END: without the padding at the end.
_SIZES = (_Params.optimizer.offset + 8, _Configs.toggles.offset + 19 * 4, _Optimizer.destroy.offset + 8)


class PluginCall:
    """One graph that Grappler asks about; to be used during the call only."""

    def __init__(self, c: "_CInterface", graph: Any, item: int) -> None:
        """Wrap the arguments of the C callback."""
        self._c = c
        self._graph = graph
        self._item = item

    def item(self) -> GraphItem:
        """The graph, placed on devices; of its functions only the signatures. Feeds are among the preserved."""
        graph = GraphDef.FromString(ctypes.string_at(self._graph.data, self._graph.length))
        there = {node.name for node in graph.node}
        kept = frozenset(self._names("NodesToPreserve")) & there
        return GraphItem(graph, fetches=self._names("FetchNodes"), preserve=kept)

    def _names(self, what: str) -> tuple[str, ...]:
        count, size = c_int(), c_size_t()
        with self._c.status() as status:
            self._c.ask[f"{what}ListSize"](self._item, byref(count), byref(size), status)
            starts, lengths = (c_void_p * count.value)(), (c_size_t * count.value)()
            storage = ctypes.create_string_buffer(size.value)
            self._c.ask[f"{what}List"](self._item, starts, lengths, count, storage, size, status)
        spans = zip(starts, lengths, strict=True)
        return tuple(ctypes.string_at(start, length).decode() for start, length in spans if start)


Optimize = Callable[[PluginCall], bytes | None]
"""It answers with the GraphDef to go on with; None: the one that is there."""


class Plugin:
    """A Grappler optimizer that answers with `optimize`, for as long as the process lives.

    All of TensorFlow's own optimizers stay configured as they are. A process may have one plugin per device
    type: TensorFlow ends the process at the second.

    Raises:
        EnvironmentUnsupported: TensorFlow has no such interface, or another one, or other plugins are installed.
    """

    def __init__(self, optimize: Optimize, device_type: str = "CPU") -> None:
        """Register with TensorFlow, which keeps pointers to what this object holds."""
        self._c = _CInterface()
        self._answer = optimize
        self._device_type = device_type.encode()
        self._optimize = _OPTIMIZE_CALLBACK(self._on_graph)
        self._init = _INIT_CALLBACK(self._on_init)
        self._found: tuple[Any, ...] = ()
        if self._c.init(self._init).word not in _OK:
            raise EnvironmentUnsupported(
                f"TensorFlow's interface for Grappler plugins is {self._found}, not {(*_INTERFACE, *_SIZES)}: "
                f"{OTHER_WAYS}"
            )

    def _on_init(self, params: Any, status: int) -> None:
        given = params.contents
        configs, optimizer = given.configs.contents, given.optimizer.contents
        sizes = (given.struct_size, configs.struct_size, optimizer.struct_size)
        self._found = (*given.version, *sizes)
        if tuple(given.version) != _INTERFACE or any(map(operator.lt, sizes, _SIZES)):  # they may grow
            self._c.set_status(status, _FAILED_PRECONDITION, b"another interface")
            return
        given.device_type = self._device_type
        optimizer.optimize = ctypes.cast(self._optimize, c_void_p).value

    def _on_graph(self, _: Any, graph: Any, item: int, out: Any, status: int) -> None:
        # First, as an exception ends here: ctypes lets none into C++.
        self._c.set_status(status, _ABORTED, b"nothing to do")
        answer = self._answer(PluginCall(self._c, graph.contents, item))
        if answer is not None:
            self._c.fill(out.contents, answer)
            self._c.set_status(status, 0, b"")


class _CInterface:
    """The C functions of the libraries that TensorFlow has loaded."""

    def __init__(self) -> None:
        native.tensorflow_version()
        tensorflow: Any = importlib.import_module("tensorflow")
        folder = Path(tensorflow.sysconfig.get_lib())
        refuse_other_plugins(folder)
        try:
            library = ctypes.CDLL(str(folder / "libtensorflow_cc.so.2"))
            core = ctypes.CDLL(str(folder / "libtensorflow_framework.so.2"))
            self.init = _declared(library, _INIT, [_INIT_CALLBACK], _Status)
            self.ask = {name: _declared(library, f"TF_Get{name}", types) for name, types in _ASK.items()}
            self.set_status = _declared(core, "TF_SetStatus", [c_void_p, c_int, c_char_p])
            self._new_status = _declared(core, "TF_NewStatus", [], c_void_p)
            self._delete_status = _declared(core, "TF_DeleteStatus", [c_void_p])
            self._new = _declared(core, "TF_NewBufferFromString", [c_char_p, c_size_t], POINTER(_Buffer))
            self._delete = _declared(core, "TF_DeleteBuffer", [POINTER(_Buffer)])
        except (OSError, AttributeError) as err:
            raise EnvironmentUnsupported(
                f"this TensorFlow takes no Grappler plugin from Python ({err}): {OTHER_WAYS}"
            ) from err

    @contextmanager
    def status(self) -> Generator[int]:
        """A TF_Status of one's own."""
        status = self._new_status()
        try:
            yield status
        finally:
            self._delete_status(status)

    def fill(self, out: Any, data: bytes) -> None:
        """Give `out` a copy of `data` in TensorFlow's own memory, which TensorFlow frees."""
        copy = self._new(data, len(data))
        out.data, out.length = copy.contents.data, copy.contents.length
        out.data_deallocator = copy.contents.data_deallocator
        copy.contents.data_deallocator = None
        self._delete(copy)


_SIZE_TYPES = [c_void_p, POINTER(c_int), POINTER(c_size_t), c_void_p]
_LIST_TYPES = [c_void_p, POINTER(c_void_p), POINTER(c_size_t), c_int, c_void_p, c_size_t, c_void_p]
_ASK = {
    "FetchNodesListSize": _SIZE_TYPES,
    "FetchNodesList": _LIST_TYPES,
    "NodesToPreserveListSize": _SIZE_TYPES,
    "NodesToPreserveList": _LIST_TYPES,
}


def _declared(library: ctypes.CDLL, name: str, types: list[Any], result: Any = None) -> Any:
    function = getattr(library, name)
    function.argtypes, function.restype = types, result
    return function


def refuse_other_plugins(folder: Path) -> None:
    """Stop where TensorFlow has loaded plugins: whether one serves Grappler already cannot be asked.

    Raises:
        EnvironmentUnsupported: there are some.
    """
    found = sorted((folder.parent / "tensorflow-plugins").glob("*.so"))
    if found:
        raise EnvironmentUnsupported(
            f"{found[0]} is installed: a second Grappler plugin could end the process; {OTHER_WAYS}"
        )
