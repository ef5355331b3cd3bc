from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Plan(_message.Message):
    __slots__ = ("version", "policy", "fingerprint", "costs", "predicted", "orders", "op_counts", "node_digests")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    COSTS_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_FIELD_NUMBER: _ClassVar[int]
    ORDERS_FIELD_NUMBER: _ClassVar[int]
    OP_COUNTS_FIELD_NUMBER: _ClassVar[int]
    NODE_DIGESTS_FIELD_NUMBER: _ClassVar[int]
    version: int
    policy: str
    fingerprint: str
    costs: Costs
    predicted: Predicted
    orders: _containers.RepeatedCompositeFieldContainer[Order]
    op_counts: _containers.RepeatedCompositeFieldContainer[OpCount]
    node_digests: bytes
    def __init__(self, version: _Optional[int] = ..., policy: _Optional[str] = ..., fingerprint: _Optional[str] = ..., costs: _Optional[_Union[Costs, _Mapping]] = ..., predicted: _Optional[_Union[Predicted, _Mapping]] = ..., orders: _Optional[_Iterable[_Union[Order, _Mapping]]] = ..., op_counts: _Optional[_Iterable[_Union[OpCount, _Mapping]]] = ..., node_digests: _Optional[bytes] = ...) -> None: ...

class Costs(_message.Message):
    __slots__ = ("ops", "transfers", "detail")
    OPS_FIELD_NUMBER: _ClassVar[int]
    TRANSFERS_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    ops: str
    transfers: str
    detail: str
    def __init__(self, ops: _Optional[str] = ..., transfers: _Optional[str] = ..., detail: _Optional[str] = ...) -> None: ...

class Predicted(_message.Message):
    __slots__ = ("upper_seconds", "lower_seconds", "makespan_seconds", "efficiency", "speedup", "unordered_seconds", "bound_seconds", "bound", "gain_low", "gain", "gain_high", "verdict")
    UPPER_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LOWER_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MAKESPAN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    EFFICIENCY_FIELD_NUMBER: _ClassVar[int]
    SPEEDUP_FIELD_NUMBER: _ClassVar[int]
    UNORDERED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    BOUND_SECONDS_FIELD_NUMBER: _ClassVar[int]
    BOUND_FIELD_NUMBER: _ClassVar[int]
    GAIN_LOW_FIELD_NUMBER: _ClassVar[int]
    GAIN_FIELD_NUMBER: _ClassVar[int]
    GAIN_HIGH_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    upper_seconds: float
    lower_seconds: float
    makespan_seconds: float
    efficiency: float
    speedup: float
    unordered_seconds: float
    bound_seconds: float
    bound: str
    gain_low: float
    gain: float
    gain_high: float
    verdict: str
    def __init__(self, upper_seconds: _Optional[float] = ..., lower_seconds: _Optional[float] = ..., makespan_seconds: _Optional[float] = ..., efficiency: _Optional[float] = ..., speedup: _Optional[float] = ..., unordered_seconds: _Optional[float] = ..., bound_seconds: _Optional[float] = ..., bound: _Optional[str] = ..., gain_low: _Optional[float] = ..., gain: _Optional[float] = ..., gain_high: _Optional[float] = ..., verdict: _Optional[str] = ...) -> None: ...

class Order(_message.Message):
    __slots__ = ("source_device", "destination_device", "transfers", "discipline", "window_bytes")
    SOURCE_DEVICE_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_DEVICE_FIELD_NUMBER: _ClassVar[int]
    TRANSFERS_FIELD_NUMBER: _ClassVar[int]
    DISCIPLINE_FIELD_NUMBER: _ClassVar[int]
    WINDOW_BYTES_FIELD_NUMBER: _ClassVar[int]
    source_device: str
    destination_device: str
    transfers: _containers.RepeatedCompositeFieldContainer[PlannedTransfer]
    discipline: str
    window_bytes: int
    def __init__(self, source_device: _Optional[str] = ..., destination_device: _Optional[str] = ..., transfers: _Optional[_Iterable[_Union[PlannedTransfer, _Mapping]]] = ..., discipline: _Optional[str] = ..., window_bytes: _Optional[int] = ...) -> None: ...

class PlannedTransfer(_message.Message):
    __slots__ = ("key", "node", "rank", "priority", "bytes", "edge")
    KEY_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    EDGE_FIELD_NUMBER: _ClassVar[int]
    key: str
    node: str
    rank: int
    priority: float
    bytes: int
    edge: str
    def __init__(self, key: _Optional[str] = ..., node: _Optional[str] = ..., rank: _Optional[int] = ..., priority: _Optional[float] = ..., bytes: _Optional[int] = ..., edge: _Optional[str] = ...) -> None: ...

class OpCount(_message.Message):
    __slots__ = ("op", "count")
    OP_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    op: str
    count: int
    def __init__(self, op: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...
