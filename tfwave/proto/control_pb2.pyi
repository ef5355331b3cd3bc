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
    __slots__ = ("plan", "settings")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    plan: _plan_pb2.Plan
    settings: Settings
    def __init__(self, plan: _Optional[_Union[_plan_pb2.Plan, _Mapping]] = ..., settings: _Optional[_Union[Settings, _Mapping]] = ...) -> None: ...

class Settings(_message.Message):
    __slots__ = ("enabled", "deadline_seconds", "bytes_per_second")
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    BYTES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    enabled: bool
    deadline_seconds: float
    bytes_per_second: float
    def __init__(self, enabled: bool = ..., deadline_seconds: _Optional[float] = ..., bytes_per_second: _Optional[float] = ...) -> None: ...

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
    __slots__ = ("source_device", "destination_device")
    SOURCE_DEVICE_FIELD_NUMBER: _ClassVar[int]
    DESTINATION_DEVICE_FIELD_NUMBER: _ClassVar[int]
    source_device: str
    destination_device: str
    def __init__(self, source_device: _Optional[str] = ..., destination_device: _Optional[str] = ...) -> None: ...

class HandOff(_message.Message):
    __slots__ = ("time_nanos", "step", "channel", "rank", "bytes", "reason")
    TIME_NANOS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    time_nanos: int
    step: int
    channel: int
    rank: int
    bytes: int
    reason: Reason
    def __init__(self, time_nanos: _Optional[int] = ..., step: _Optional[int] = ..., channel: _Optional[int] = ..., rank: _Optional[int] = ..., bytes: _Optional[int] = ..., reason: _Optional[_Union[Reason, str]] = ...) -> None: ...
