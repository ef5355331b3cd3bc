from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Piece(_message.Message):
    __slots__ = ("visitor", "data")
    VISITOR_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    visitor: Visitor
    data: bytes
    def __init__(self, visitor: _Optional[_Union[Visitor, _Mapping]] = ..., data: _Optional[bytes] = ...) -> None: ...

class Visitor(_message.Message):
    __slots__ = ("rank", "layout", "dtype", "size", "version", "left")
    RANK_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    rank: int
    layout: str
    dtype: str
    size: int
    version: int
    left: int
    def __init__(self, rank: _Optional[int] = ..., layout: _Optional[str] = ..., dtype: _Optional[str] = ..., size: _Optional[int] = ..., version: _Optional[int] = ..., left: _Optional[int] = ...) -> None: ...

class Report(_message.Message):
    __slots__ = ("hello", "held", "drained", "has_state", "step_seconds", "attempt", "done", "gave", "halted", "trouble", "full", "visit")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    DRAINED_FIELD_NUMBER: _ClassVar[int]
    HAS_STATE_FIELD_NUMBER: _ClassVar[int]
    STEP_SECONDS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    GAVE_FIELD_NUMBER: _ClassVar[int]
    HALTED_FIELD_NUMBER: _ClassVar[int]
    TROUBLE_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    VISIT_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    held: int
    drained: bool
    has_state: bool
    step_seconds: float
    attempt: int
    done: bool
    gave: int
    halted: bool
    trouble: str
    full: bool
    visit: int
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., held: _Optional[int] = ..., drained: bool = ..., has_state: bool = ..., step_seconds: _Optional[float] = ..., attempt: _Optional[int] = ..., done: bool = ..., gave: _Optional[int] = ..., halted: bool = ..., trouble: _Optional[str] = ..., full: bool = ..., visit: _Optional[int] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("rank", "workers", "address", "layout", "probes", "deadline_seconds", "patience_seconds", "ticks", "key")
    RANK_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    PROBES_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PATIENCE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    TICKS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    rank: int
    workers: int
    address: str
    layout: str
    probes: int
    deadline_seconds: float
    patience_seconds: float
    ticks: bool
    key: bytes
    def __init__(self, rank: _Optional[int] = ..., workers: _Optional[int] = ..., address: _Optional[str] = ..., layout: _Optional[str] = ..., probes: _Optional[int] = ..., deadline_seconds: _Optional[float] = ..., patience_seconds: _Optional[float] = ..., ticks: bool = ..., key: _Optional[bytes] = ...) -> None: ...

class Order(_message.Message):
    __slots__ = ("welcome", "form", "go", "halt", "verdict", "give", "end")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    FORM_FIELD_NUMBER: _ClassVar[int]
    GO_FIELD_NUMBER: _ClassVar[int]
    HALT_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    GIVE_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    form: Form
    go: Go
    halt: Halt
    verdict: Verdict
    give: Give
    end: End
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., form: _Optional[_Union[Form, _Mapping]] = ..., go: _Optional[_Union[Go, _Mapping]] = ..., halt: _Optional[_Union[Halt, _Mapping]] = ..., verdict: _Optional[_Union[Verdict, _Mapping]] = ..., give: _Optional[_Union[Give, _Mapping]] = ..., end: _Optional[_Union[End, _Mapping]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("version", "state_key")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STATE_KEY_FIELD_NUMBER: _ClassVar[int]
    version: int
    state_key: bytes
    def __init__(self, version: _Optional[int] = ..., state_key: _Optional[bytes] = ...) -> None: ...

class Form(_message.Message):
    __slots__ = ("key", "index", "members", "next")
    KEY_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    index: int
    members: int
    next: str
    def __init__(self, key: _Optional[bytes] = ..., index: _Optional[int] = ..., members: _Optional[int] = ..., next: _Optional[str] = ...) -> None: ...

class Go(_message.Message):
    __slots__ = ("attempt", "version", "bringer")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    BRINGER_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    version: int
    bringer: int
    def __init__(self, attempt: _Optional[int] = ..., version: _Optional[int] = ..., bringer: _Optional[int] = ...) -> None: ...

class Halt(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Verdict(_message.Message):
    __slots__ = ("attempt", "commit", "ahead", "joined", "ticks")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    AHEAD_FIELD_NUMBER: _ClassVar[int]
    JOINED_FIELD_NUMBER: _ClassVar[int]
    TICKS_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    commit: bool
    ahead: int
    joined: float
    ticks: _containers.RepeatedCompositeFieldContainer[Tick]
    def __init__(self, attempt: _Optional[int] = ..., commit: bool = ..., ahead: _Optional[int] = ..., joined: _Optional[float] = ..., ticks: _Optional[_Iterable[_Union[Tick, _Mapping]]] = ...) -> None: ...

class Tick(_message.Message):
    __slots__ = ("rank", "gave", "waited_seconds", "step_seconds")
    RANK_FIELD_NUMBER: _ClassVar[int]
    GAVE_FIELD_NUMBER: _ClassVar[int]
    WAITED_SECONDS_FIELD_NUMBER: _ClassVar[int]
    STEP_SECONDS_FIELD_NUMBER: _ClassVar[int]
    rank: int
    gave: int
    waited_seconds: float
    step_seconds: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, rank: _Optional[int] = ..., gave: _Optional[int] = ..., waited_seconds: _Optional[float] = ..., step_seconds: _Optional[_Iterable[float]] = ...) -> None: ...

class Give(_message.Message):
    __slots__ = ("address", "key", "version")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    address: str
    key: bytes
    version: int
    def __init__(self, address: _Optional[str] = ..., key: _Optional[bytes] = ..., version: _Optional[int] = ...) -> None: ...

class End(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...
