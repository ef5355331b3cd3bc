"""How an op gets at what outlives a step: what makes it, whose it is, what reads and what changes it.

The signatures of ops tell most of it: what takes or gives a handle, works on a reference, is stateful, has a shared
name. What they do not tell is listed here, and nowhere else.
"""

from tfwave.graph.attrs import string_attr
from tfwave.graph.ops import OpTable
from tfwave.proto.tensorflow_pb2 import DT_RESOURCE, DT_VARIANT, NodeDef, OpDef

Resource = tuple[str, str, str]
"""(what it is, mostly the op that makes its handle; container; name)."""

PROCESS: Resource = ("", "", "")
"""All that is found without a handle: Python, files, the clock, what is staged."""

HANDLE_OP = "VarHandleOp"
REFERENCE_OPS = frozenset({"Variable", "VariableV2"})
"""Ops that make a variable and give a reference to it."""
VARIABLE_OPS = frozenset({HANDLE_OP, *REFERENCE_OPS})
"""Ops that stand for a variable, whose type and shape they declare."""
FED_OPS = frozenset({"Placeholder", "_Arg"})
"""Ops that pass on what comes from outside, such as handles in the graph of a traced function."""
HANDLE_OPS = frozenset({HANDLE_OP, *FED_OPS})
"""Ops that give the handle of a variable."""
READING_OPS = frozenset(
    {
        *(
            "ReadVariableOp",
            "_ReadVariablesOp",
            "ReadVariableXlaSplitND",
            "VarIsInitializedOp",
            "VariableShape",
        ),
        *("ResourceGather", "ResourceGatherNd", "IteratorGetDevice"),
        *("LookupTableFindV2", "LookupTableSizeV2", "LookupTableExportV2"),
        *("QueueSizeV2", "QueueIsClosedV2", "ResourceAccumulatorNumAccumulated"),
    }
)
"""All other ops that take a handle are taken to change what is behind it."""
STATELESS_OPS = frozenset(
    {
        *("Assert", "CheckNumerics", "CheckNumericsV2", "GuaranteeConst", "DeepCopy", "Empty", "DeviceIndex"),
        *("NonDeterministicInts", "StatelessRandomGetAlg", "IsTensorFloat32Enabled", "GraphDefVersion"),
        *("TensorDataset", "TensorSliceDataset", "RangeDataset", "DtypeWithDefaultOp"),
    }
)
"""Ops that are registered as stateful and leave nothing behind."""
REPEATABLE_OPS = STATELESS_OPS - {"NonDeterministicInts"}
"""Those of them that give the same when they run again."""
FILE_READING_OPS = frozenset({"ReadFile", "MatchingFiles", "GenerateVocabRemapping"})
"""Ops that are not registered as stateful, and read files."""
KEEPING_OPS = frozenset({"RecordInput"})
"""Ops whose kernel keeps to itself where it is, beside random ones."""
IN_PLACE_OPS = frozenset({"InplaceAdd", "InplaceSub", "InplaceUpdate"})
"""Ops that change the tensor that they take where it lies: also that of a variable, which a read does not copy."""

ASSIGN_OPS = frozenset({"Assign", "AssignVariableOp"})
"""Ops that make what they are given the value of a variable."""
_CHANGING = ("Assign", "Resource")
"""How the names of ops begin that change a variable, beside some that read one."""

KEYED_OPS = ("Collective", "_Collective", "Nccl", "_Nccl")
"""How the names of ops begin that meet their peers by a key."""

_HANDLES_OP = "_VarHandlesOp"
_FRESH_OPS = frozenset({"StackV2", "TensorArrayV3", "TensorArrayGradV3", "TensorArrayGradWithShape"})
_FRESH = ("Anonymous", "Dummy")
ANONYMOUS = "cd2c89b7-88b7-44c8-ad83-06c2a9158347"
"""The name of a variable that is made anew at each run of its VarHandleOp, and freed with what refers to it."""
_KINDS = ("HashTable", "Iterator", "Queue", "Reader", "StatsAggregator", "ThreadPool")
"""TensorFlow finds these by name alone, whichever op of the kind asks: the first that runs makes it for all."""
_HOME = "localhost"
"""How TensorFlow calls the container that has no name."""


def resource_of(node: NodeDef) -> Resource:
    """What a node's handle stands for; two nodes that give the same share it.

    1. The name is that of the node, where it says none; but a VarHandleOp without a name has the name "".
    2. Tables, queues, iterators and the like are shared by all ops of their kind.
    """
    name, container = string_attr(node, "shared_name"), _container(string_attr(node, "container"))
    kind = next((kind for kind in _KINDS if kind in node.op), node.op)
    return kind, container, name if node.op == HANDLE_OP else name or node.name


def _container(name: str) -> str:
    return "" if name == _HOME else name


def variables_named(node: NodeDef) -> list[Resource]:
    """The variables that a node finds by name; one for most, several for ``_VarHandlesOp``."""
    if node.op == HANDLE_OP:
        return [resource_of(node)]
    if node.op != _HANDLES_OP:
        return []
    names = [[text.decode() for text in node.attr[key].list.s] for key in ("containers", "shared_names")]
    return [(HANDLE_OP, _container(container), name) for container, name in zip(*names, strict=True)]


def changes_variable(op: str) -> bool:
    """Does an op assign to a variable, or update it?"""
    return op.startswith(_CHANGING) and op not in READING_OPS


def makes_handle(node: NodeDef, table: OpTable) -> bool:
    """Does a node give the handle of something that outlives a step?

    Raises:
        GraphError: an unknown op.
    """
    signature = table.signature(node)
    if node.op in FED_OPS:
        return table.output_types(node) == [DT_RESOURCE]
    return shares_by_name(signature) and gives_handle(signature) and not is_anonymous(node)


def is_fresh(node: NodeDef) -> bool:
    """Does a node give a handle that is made anew in each step?"""
    return is_anonymous(node) or node.op in _FRESH_OPS or node.op.startswith(_FRESH)


def is_anonymous(node: NodeDef) -> bool:
    """Does a VarHandleOp make a variable of its own at each run?"""
    return string_attr(node, "shared_name") == ANONYMOUS


def shares_by_name(signature: OpDef) -> bool:
    """Does an op keep something under a name, which another node may have, too?"""
    return any(attr.name == "shared_name" for attr in signature.attr)


def gives_handle(signature: OpDef) -> bool:
    """Does an op give the handle of a resource?"""
    return any(arg.type == DT_RESOURCE for arg in signature.output_arg)


def takes_handle(signature: OpDef) -> bool:
    """Does an op always take the handle of a resource?"""
    return any(arg.type == DT_RESOURCE for arg in signature.input_arg)


def is_source(signature: OpDef) -> bool:
    """Does an op give nothing but a variant, such as a dataset of what is in files?"""
    return {arg.type for arg in signature.output_arg} == {DT_VARIANT}


def works_on_reference(signature: OpDef) -> bool:
    """Does an op take or give a reference, by which a variable can be changed under its reader?"""
    return any(arg.is_ref for arg in (*signature.input_arg, *signature.output_arg))


def is_random(signature: OpDef) -> bool:
    """Does the kernel of an op draw numbers by itself, from seeds that are its attributes?"""
    return {"seed", "seed2"} <= {attr.name for attr in signature.attr} and not gives_handle(signature)
