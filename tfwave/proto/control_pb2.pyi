from tfwave.proto import plan_pb2 as _plan_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ORDERED: _ClassVar[Reason]
    RELEASED: _ClassVar[Reason]
    LATE: _ClassVar[Reason]
    OFF: _ClassVar[Reason]
ORDERED: Reason
RELEASED: Reason
LATE: Reason
OFF: Reason

class InstallRequest(_message.Message):
    __slots__ = ("plan", "settings", "plans", "lease_seconds")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    PLANS_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    plan: _plan_pb2.Plan
    settings: Settings
    plans: _containers.RepeatedCompositeFieldContainer[FunctionPlan]
    lease_seconds: float
    def __init__(self, plan: _Optional[_Union[_plan_pb2.Plan, _Mapping]] = ..., settings: _Optional[_Union[Settings, _Mapping]] = ..., plans: _Optional[_Iterable[_Union[FunctionPlan, _Mapping]]] = ..., lease_seconds: _Optional[float] = ...) -> None: ...

class FunctionPlan(_message.Message):
    __slots__ = ("function", "plan")
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    function: str
    plan: _plan_pb2.Plan
    def __init__(self, function: _Optional[str] = ..., plan: _Optional[_Union[_plan_pb2.Plan, _Mapping]] = ...) -> None: ...

class Settings(_message.Message):
    __slots__ = ("enabled", "deadline_seconds", "bytes_per_second", "hooked_tasks")
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    HOOKED_TASKS_FIELD_NUMBER: _ClassVar[int]
    enabled: bool
    deadline_seconds: float
    bytes_per_second: float
    hooked_tasks: HookedTasks
    def __init__(self, enabled: bool = ..., deadline_seconds: _Optional[float] = ..., bytes_per_second: _Optional[float] = ..., hooked_tasks: _Optional[_Union[HookedTasks, _Mapping]] = ...) -> None: ...

class HookedTasks(_message.Message):
    __slots__ = ("tasks",)
    TASKS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tasks: _Optional[_Iterable[str]] = ...) -> None: ...

class RemoveRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class HealthRequest(_message.Message):
    __slots__ = ("settings",)
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    settings: Settings
    def __init__(self, settings: _Optional[_Union[Settings, _Mapping]] = ...) -> None: ...

class Status(_message.Message):
    __slots__ = ("enforcer", "tensorflow_version", "installed", "enabled", "deadline_seconds", "bytes_per_second", "counters")
    ENFORCER_FIELD_NUMBER: _ClassVar[int]
    TENSORFLOW_VERSION_FIELD_NUMBER: _ClassVar[int]
    INSTALLED_FIELD_NUMBER: _ClassVar[int]
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    enforcer: str
    tensorflow_version: str
    installed: bool
    enabled: bool
    deadline_seconds: float
    bytes_per_second: float
    counters: Counters
    def __init__(self, enforcer: _Optional[str] = ..., tensorflow_version: _Optional[str] = ..., installed: bool = ..., enabled: bool = ..., deadline_seconds: _Optional[float] = ..., bytes_per_second: _Optional[float] = ..., counters: _Optional[_Union[Counters, _Mapping]] = ...) -> None: ...

class Counters(_message.Message):
    __slots__ = ("live_steps", "held", "ordered", "released", "late", "unplanned", "deadlines", "log_dropped")
    LIVE_STEPS_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    ORDERED_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    LATE_FIELD_NUMBER: _ClassVar[int]
    UNPLANNED_FIELD_NUMBER: _ClassVar[int]
    DEADLINES_FIELD_NUMBER: _ClassVar[int]
    LOG_DROPPED_FIELD_NUMBER: _ClassVar[int]
    live_steps: int
    held: int
    ordered: int
    released: int
    late: int
    unplanned: int
    deadlines: int
    log_dropped: int
    def __init__(self, live_steps: _Optional[int] = ..., held: _Optional[int] = ..., ordered: _Optional[int] = ..., released: _Optional[int] = ..., late: _Optional[int] = ..., unplanned: _Optional[int] = ..., deadlines: _Optional[int] = ..., log_dropped: _Optional[int] = ...) -> None: ...

class ConformanceRequest(_message.Message):
    __slots__ = ("cursor",)
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    cursor: int
    def __init__(self, cursor: _Optional[int] = ...) -> None: ...

class HandOffs(_message.Message):
    __slots__ = ("next_cursor", "dropped", "channels", "hand_offs")
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    HAND_OFFS_FIELD_NUMBER: _ClassVar[int]
    next_cursor: int
    dropped: int
    channels: _containers.RepeatedCompositeFieldContainer[Channel]
    hand_offs: _containers.RepeatedCompositeFieldContainer[HandOff]
    def __init__(self, next_cursor: _Optional[int] = ..., dropped: _Optional[int] = ..., channels: _Optional[_Iterable[_Union[Channel, _Mapping]]] = ..., hand_offs: _Optional[_Iterable[_Union[HandOff, _Mapping]]] = ...) -> None: ...

class Channel(_message.Message):
    __slots__ = ("source_device", "destination_device", "function", "discipline")
    SOURCE_DEVICE_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_DEVICE_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    DISCIPLINE_FIELD_NUMBER: _ClassVar[int]
    source_device: str
    destination_device: str
    function: str
    discipline: str
    def __init__(self, source_device: _Optional[str] = ..., destination_device: _Optional[str] = ..., function: _Optional[str] = ..., discipline: _Optional[str] = ...) -> None: ...

class HandOff(_message.Message):
    __slots__ = ("time_nanos", "step", "channel", "rank", "bytes", "reason", "ready_nanos")
    TIME_NANOS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    READY_NANOS_FIELD_NUMBER: _ClassVar[int]
    time_nanos: int
    step: int
    channel: int
    rank: int
    bytes: int
    reason: Reason
    ready_nanos: int
    def __init__(self, time_nanos: _Optional[int] = ..., step: _Optional[int] = ..., channel: _Optional[int] = ..., rank: _Optional[int] = ..., bytes: _Optional[int] = ..., reason: _Optional[_Union[Reason, str]] = ..., ready_nanos: _Optional[int] = ...) -> None: ...

class StartTraceRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StopTraceRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Trace(_message.Message):
    __slots__ = ("functions", "ops", "channels", "arrivals", "dropped")
    class FunctionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: str
        def __init__(self, key: _Optional[int] = ..., value: _Optional[str] = ...) -> None: ...
    FUNCTIONS_FIELD_NUMBER: _ClassVar[int]
    OPS_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    ARRIVALS_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    functions: _containers.ScalarMap[int, str]
    ops: _containers.RepeatedCompositeFieldContainer[OpSamples]
    channels: _containers.RepeatedCompositeFieldContainer[Channel]
    arrivals: _containers.RepeatedCompositeFieldContainer[Arrival]
    dropped: int
    def __init__(self, functions: _Optional[_Mapping[int, str]] = ..., ops: _Optional[_Iterable[_Union[OpSamples, _Mapping]]] = ..., channels: _Optional[_Iterable[_Union[Channel, _Mapping]]] = ..., arrivals: _Optional[_Iterable[_Union[Arrival, _Mapping]]] = ..., dropped: _Optional[int] = ...) -> None: ...

class OpSamples(_message.Message):
    __slots__ = ("node", "op", "count", "min_seconds", "median_seconds", "function")
    NODE_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    MIN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MEDIAN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    node: str
    op: str
    count: int
    min_seconds: float
    median_seconds: float
    function: str
    def __init__(self, node: _Optional[str] = ..., op: _Optional[str] = ..., count: _Optional[int] = ..., min_seconds: _Optional[float] = ..., median_seconds: _Optional[float] = ..., function: _Optional[str] = ...) -> None: ...

class Arrival(_message.Message):
    __slots__ = ("step", "channel", "edge", "bytes", "requested_nanos", "arrived_nanos")
    STEP_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    EDGE_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_NANOS_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_NANOS_FIELD_NUMBER: _ClassVar[int]
    step: int
    channel: int
    edge: str
    bytes: int
    requested_nanos: int
    arrived_nanos: int
    def __init__(self, step: _Optional[int] = ..., channel: _Optional[int] = ..., edge: _Optional[str] = ..., bytes: _Optional[int] = ..., requested_nanos: _Optional[int] = ..., arrived_nanos: _Optional[int] = ...) -> None: ...
