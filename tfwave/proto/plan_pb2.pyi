from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Plan(_message.Message):
    __slots__ = ("version", "policy", "fingerprint", "costs", "predicted", "orders", "op_counts", "node_digests", "groups", "waves", "placement", "memory", "embeddings", "layers")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    COSTS_FIELD_NUMBER: _ClassVar[int]
    PREDICTED_FIELD_NUMBER: _ClassVar[int]
    ORDERS_FIELD_NUMBER: _ClassVar[int]
    OP_COUNTS_FIELD_NUMBER: _ClassVar[int]
    NODE_DIGESTS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    WAVES_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    EMBEDDINGS_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    version: int
    policy: str
    fingerprint: str
    costs: Costs
    predicted: Predicted
    orders: _containers.RepeatedCompositeFieldContainer[Order]
    op_counts: _containers.RepeatedCompositeFieldContainer[OpCount]
    node_digests: bytes
    groups: Groups
    waves: Waves
    placement: Placement
    memory: Memory
    embeddings: Embeddings
    layers: Layers
    def __init__(self, version: _Optional[int] = ..., policy: _Optional[str] = ..., fingerprint: _Optional[str] = ..., costs: _Optional[_Union[Costs, _Mapping]] = ..., predicted: _Optional[_Union[Predicted, _Mapping]] = ..., orders: _Optional[_Iterable[_Union[Order, _Mapping]]] = ..., op_counts: _Optional[_Iterable[_Union[OpCount, _Mapping]]] = ..., node_digests: _Optional[bytes] = ..., groups: _Optional[_Union[Groups, _Mapping]] = ..., waves: _Optional[_Union[Waves, _Mapping]] = ..., placement: _Optional[_Union[Placement, _Mapping]] = ..., memory: _Optional[_Union[Memory, _Mapping]] = ..., embeddings: _Optional[_Union[Embeddings, _Mapping]] = ..., layers: _Optional[_Union[Layers, _Mapping]] = ...) -> None: ...

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
    __slots__ = ("upper_seconds", "lower_seconds", "makespan_seconds", "efficiency", "speedup", "unordered_seconds", "bound_seconds", "bound", "gain_low", "gain", "gain_high", "verdict", "ack_window_seconds", "proxy_seconds")
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
    ACK_WINDOW_SECONDS_FIELD_NUMBER: _ClassVar[int]
    PROXY_SECONDS_FIELD_NUMBER: _ClassVar[int]
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
    ack_window_seconds: float
    proxy_seconds: float
    def __init__(self, upper_seconds: _Optional[float] = ..., lower_seconds: _Optional[float] = ..., makespan_seconds: _Optional[float] = ..., efficiency: _Optional[float] = ..., speedup: _Optional[float] = ..., unordered_seconds: _Optional[float] = ..., bound_seconds: _Optional[float] = ..., bound: _Optional[str] = ..., gain_low: _Optional[float] = ..., gain: _Optional[float] = ..., gain_high: _Optional[float] = ..., verdict: _Optional[str] = ..., ack_window_seconds: _Optional[float] = ..., proxy_seconds: _Optional[float] = ...) -> None: ...

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

class GraphPrint(_message.Message):
    __slots__ = ("fingerprint", "op_counts", "node_digests")
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    OP_COUNTS_FIELD_NUMBER: _ClassVar[int]
    NODE_DIGESTS_FIELD_NUMBER: _ClassVar[int]
    fingerprint: str
    op_counts: _containers.RepeatedCompositeFieldContainer[OpCount]
    node_digests: bytes
    def __init__(self, fingerprint: _Optional[str] = ..., op_counts: _Optional[_Iterable[_Union[OpCount, _Mapping]]] = ..., node_digests: _Optional[bytes] = ...) -> None: ...

class Groups(_message.Message):
    __slots__ = ("limit_bytes", "jobs", "slots", "peak_bytes", "seconds", "in_turn_seconds")
    LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    PEAK_BYTES_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    IN_TURN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    limit_bytes: int
    jobs: _containers.RepeatedCompositeFieldContainer[PlannedJob]
    slots: _containers.RepeatedCompositeFieldContainer[Slot]
    peak_bytes: int
    seconds: float
    in_turn_seconds: float
    def __init__(self, limit_bytes: _Optional[int] = ..., jobs: _Optional[_Iterable[_Union[PlannedJob, _Mapping]]] = ..., slots: _Optional[_Iterable[_Union[Slot, _Mapping]]] = ..., peak_bytes: _Optional[int] = ..., seconds: _Optional[float] = ..., in_turn_seconds: _Optional[float] = ...) -> None: ...

class PlannedJob(_message.Message):
    __slots__ = ("name", "graph", "resident_bytes", "compute_share", "slowed_at_most", "groups", "own")
    NAME_FIELD_NUMBER: _ClassVar[int]
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    RESIDENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_SHARE_FIELD_NUMBER: _ClassVar[int]
    SLOWED_AT_MOST_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    OWN_FIELD_NUMBER: _ClassVar[int]
    name: str
    graph: GraphPrint
    resident_bytes: int
    compute_share: float
    slowed_at_most: float
    groups: _containers.RepeatedCompositeFieldContainer[NodeGroup]
    own: OwnStep
    def __init__(self, name: _Optional[str] = ..., graph: _Optional[_Union[GraphPrint, _Mapping]] = ..., resident_bytes: _Optional[int] = ..., compute_share: _Optional[float] = ..., slowed_at_most: _Optional[float] = ..., groups: _Optional[_Iterable[_Union[NodeGroup, _Mapping]]] = ..., own: _Optional[_Union[OwnStep, _Mapping]] = ...) -> None: ...

class OwnStep(_message.Message):
    __slots__ = ("graph", "fetches")
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    FETCHES_FIELD_NUMBER: _ClassVar[int]
    graph: GraphPrint
    fetches: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, graph: _Optional[_Union[GraphPrint, _Mapping]] = ..., fetches: _Optional[_Iterable[str]] = ...) -> None: ...

class NodeGroup(_message.Message):
    __slots__ = ("ops", "first_level", "last_level", "net_bytes", "transient_bytes", "piece_bytes", "seconds")
    OPS_FIELD_NUMBER: _ClassVar[int]
    FIRST_LEVEL_FIELD_NUMBER: _ClassVar[int]
    LAST_LEVEL_FIELD_NUMBER: _ClassVar[int]
    NET_BYTES_FIELD_NUMBER: _ClassVar[int]
    TRANSIENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    PIECE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    ops: _containers.RepeatedScalarFieldContainer[str]
    first_level: int
    last_level: int
    net_bytes: int
    transient_bytes: int
    piece_bytes: int
    seconds: float
    def __init__(self, ops: _Optional[_Iterable[str]] = ..., first_level: _Optional[int] = ..., last_level: _Optional[int] = ..., net_bytes: _Optional[int] = ..., transient_bytes: _Optional[int] = ..., piece_bytes: _Optional[int] = ..., seconds: _Optional[float] = ...) -> None: ...

class Slot(_message.Message):
    __slots__ = ("turns",)
    TURNS_FIELD_NUMBER: _ClassVar[int]
    turns: _containers.RepeatedCompositeFieldContainer[Turn]
    def __init__(self, turns: _Optional[_Iterable[_Union[Turn, _Mapping]]] = ...) -> None: ...

class Turn(_message.Message):
    __slots__ = ("job", "group")
    JOB_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    job: str
    group: int
    def __init__(self, job: _Optional[str] = ..., group: _Optional[int] = ...) -> None: ...

class Waves(_message.Message):
    __slots__ = ("graph", "count", "offset", "limit_bytes", "needed_bytes", "speedup", "speedup_low", "speedup_high", "verdict")
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    NEEDED_BYTES_FIELD_NUMBER: _ClassVar[int]
    SPEEDUP_FIELD_NUMBER: _ClassVar[int]
    SPEEDUP_LOW_FIELD_NUMBER: _ClassVar[int]
    SPEEDUP_HIGH_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    graph: GraphPrint
    count: int
    offset: float
    limit_bytes: int
    needed_bytes: int
    speedup: float
    speedup_low: float
    speedup_high: float
    verdict: str
    def __init__(self, graph: _Optional[_Union[GraphPrint, _Mapping]] = ..., count: _Optional[int] = ..., offset: _Optional[float] = ..., limit_bytes: _Optional[int] = ..., needed_bytes: _Optional[int] = ..., speedup: _Optional[float] = ..., speedup_low: _Optional[float] = ..., speedup_high: _Optional[float] = ..., verdict: _Optional[str] = ...) -> None: ...

class Placement(_message.Message):
    __slots__ = ("servers", "variables", "bytes", "bound_bytes")
    class VariablesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    BOUND_BYTES_FIELD_NUMBER: _ClassVar[int]
    servers: int
    variables: _containers.ScalarMap[str, int]
    bytes: _containers.RepeatedScalarFieldContainer[int]
    bound_bytes: int
    def __init__(self, servers: _Optional[int] = ..., variables: _Optional[_Mapping[str, int]] = ..., bytes: _Optional[_Iterable[int]] = ..., bound_bytes: _Optional[int] = ...) -> None: ...

class Memory(_message.Message):
    __slots__ = ("graph", "limit_bytes", "policy", "order", "tensors", "peak_bytes", "seconds", "plain_seconds", "least_bytes", "chained", "places", "region_bytes", "beside", "apart", "swapped")
    GRAPH_FIELD_NUMBER: _ClassVar[int]
    LIMIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    PEAK_BYTES_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    PLAIN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LEAST_BYTES_FIELD_NUMBER: _ClassVar[int]
    CHAINED_FIELD_NUMBER: _ClassVar[int]
    PLACES_FIELD_NUMBER: _ClassVar[int]
    REGION_BYTES_FIELD_NUMBER: _ClassVar[int]
    BESIDE_FIELD_NUMBER: _ClassVar[int]
    APART_FIELD_NUMBER: _ClassVar[int]
    SWAPPED_FIELD_NUMBER: _ClassVar[int]
    graph: GraphPrint
    limit_bytes: int
    policy: str
    order: _containers.RepeatedScalarFieldContainer[str]
    tensors: _containers.RepeatedCompositeFieldContainer[AwayTensor]
    peak_bytes: int
    seconds: float
    plain_seconds: float
    least_bytes: int
    chained: _containers.RepeatedScalarFieldContainer[str]
    places: _containers.RepeatedCompositeFieldContainer[Place]
    region_bytes: int
    beside: _containers.RepeatedScalarFieldContainer[int]
    apart: _containers.RepeatedScalarFieldContainer[str]
    swapped: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, graph: _Optional[_Union[GraphPrint, _Mapping]] = ..., limit_bytes: _Optional[int] = ..., policy: _Optional[str] = ..., order: _Optional[_Iterable[str]] = ..., tensors: _Optional[_Iterable[_Union[AwayTensor, _Mapping]]] = ..., peak_bytes: _Optional[int] = ..., seconds: _Optional[float] = ..., plain_seconds: _Optional[float] = ..., least_bytes: _Optional[int] = ..., chained: _Optional[_Iterable[str]] = ..., places: _Optional[_Iterable[_Union[Place, _Mapping]]] = ..., region_bytes: _Optional[int] = ..., beside: _Optional[_Iterable[int]] = ..., apart: _Optional[_Iterable[str]] = ..., swapped: _Optional[_Iterable[str]] = ...) -> None: ...

class Place(_message.Message):
    __slots__ = ("op", "offset", "bytes", "is_scratch")
    OP_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    IS_SCRATCH_FIELD_NUMBER: _ClassVar[int]
    op: str
    offset: int
    bytes: int
    is_scratch: bool
    def __init__(self, op: _Optional[str] = ..., offset: _Optional[int] = ..., bytes: _Optional[int] = ..., is_scratch: bool = ...) -> None: ...

class AwayTensor(_message.Message):
    __slots__ = ("names", "bytes", "method", "after", "gone", "back", "wanted", "again")
    NAMES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    GONE_FIELD_NUMBER: _ClassVar[int]
    BACK_FIELD_NUMBER: _ClassVar[int]
    WANTED_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    bytes: int
    method: str
    after: str
    gone: str
    back: str
    wanted: str
    again: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, names: _Optional[_Iterable[str]] = ..., bytes: _Optional[int] = ..., method: _Optional[str] = ..., after: _Optional[str] = ..., gone: _Optional[str] = ..., back: _Optional[str] = ..., wanted: _Optional[str] = ..., again: _Optional[_Iterable[str]] = ...) -> None: ...

class Layers(_message.Message):
    __slots__ = ("devices", "batch", "limit", "limit_of", "layers", "seconds", "bound_seconds", "one_device_seconds", "device_seconds", "data_parallel_seconds")
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_OF_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    BOUND_SECONDS_FIELD_NUMBER: _ClassVar[int]
    ONE_DEVICE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    DEVICE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    DATA_PARALLEL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    devices: int
    batch: int
    limit: float
    limit_of: str
    layers: _containers.RepeatedCompositeFieldContainer[LayerDevices]
    seconds: float
    bound_seconds: float
    one_device_seconds: float
    device_seconds: float
    data_parallel_seconds: float
    def __init__(self, devices: _Optional[int] = ..., batch: _Optional[int] = ..., limit: _Optional[float] = ..., limit_of: _Optional[str] = ..., layers: _Optional[_Iterable[_Union[LayerDevices, _Mapping]]] = ..., seconds: _Optional[float] = ..., bound_seconds: _Optional[float] = ..., one_device_seconds: _Optional[float] = ..., device_seconds: _Optional[float] = ..., data_parallel_seconds: _Optional[float] = ...) -> None: ...

class LayerDevices(_message.Message):
    __slots__ = ("name", "first", "count")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    name: str
    first: int
    count: int
    def __init__(self, name: _Optional[str] = ..., first: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class Embeddings(_message.Message):
    __slots__ = ("tables", "steps", "staleness", "hot_bytes", "table_bytes", "priorities", "seconds", "stock_seconds", "unique_seconds", "bound_seconds", "verdict")
    TABLES_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    STALENESS_FIELD_NUMBER: _ClassVar[int]
    HOT_BYTES_FIELD_NUMBER: _ClassVar[int]
    TABLE_BYTES_FIELD_NUMBER: _ClassVar[int]
    PRIORITIES_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    STOCK_SECONDS_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    BOUND_SECONDS_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    tables: _containers.RepeatedCompositeFieldContainer[EmbeddingTable]
    steps: int
    staleness: int
    hot_bytes: int
    table_bytes: int
    priorities: RowPriorities
    seconds: float
    stock_seconds: float
    unique_seconds: float
    bound_seconds: float
    verdict: str
    def __init__(self, tables: _Optional[_Iterable[_Union[EmbeddingTable, _Mapping]]] = ..., steps: _Optional[int] = ..., staleness: _Optional[int] = ..., hot_bytes: _Optional[int] = ..., table_bytes: _Optional[int] = ..., priorities: _Optional[_Union[RowPriorities, _Mapping]] = ..., seconds: _Optional[float] = ..., stock_seconds: _Optional[float] = ..., unique_seconds: _Optional[float] = ..., bound_seconds: _Optional[float] = ..., verdict: _Optional[str] = ...) -> None: ...

class EmbeddingTable(_message.Message):
    __slots__ = ("name", "rows", "columns", "layout", "servers")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    rows: int
    columns: int
    layout: str
    servers: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, name: _Optional[str] = ..., rows: _Optional[int] = ..., columns: _Optional[int] = ..., layout: _Optional[str] = ..., servers: _Optional[_Iterable[int]] = ...) -> None: ...

class RowPriorities(_message.Message):
    __slots__ = ("repeated_push", "repeated_pull", "cold_pull", "cold_push")
    REPEATED_PUSH_FIELD_NUMBER: _ClassVar[int]
    REPEATED_PULL_FIELD_NUMBER: _ClassVar[int]
    COLD_PULL_FIELD_NUMBER: _ClassVar[int]
    COLD_PUSH_FIELD_NUMBER: _ClassVar[int]
    repeated_push: int
    repeated_pull: int
    cold_pull: int
    cold_push: int
    def __init__(self, repeated_push: _Optional[int] = ..., repeated_pull: _Optional[int] = ..., cold_pull: _Optional[int] = ..., cold_push: _Optional[int] = ...) -> None: ...
