"""The proxy's sequencer, log, pacer and outbox under real threads: the cases of sequencer_test.cc."""

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.plans import plan_by_hand
from tests.waiting import wait_until
from tfwave.graph.names import Channel
from tfwave.proto import control_pb2
from tfwave.runtime.proxy.log import HandOffLog
from tfwave.runtime.proxy.outbox import Outbox
from tfwave.runtime.proxy.pacer import Pacer
from tfwave.runtime.proxy.recent import RecentMap
from tfwave.runtime.proxy.sends import GraphEdge, SendingGraph
from tfwave.runtime.proxy.sequencer import Sequencer
from tfwave.runtime.proxy.step import Arrival
from tfwave.runtime.proxy.table import GraphOrder, Place, PlannedChannel, PlanTable

SIZE = 20
ORDERED, RELEASED, LATE, OFF = range(4)


def channel(number: int) -> Channel:
    return Channel("ps", f"w{number}")


def edge(i: int) -> str:
    return f"edge_{i}_v{i}"


def plans(channels: int, size: int = SIZE) -> PlanTable:
    edges = [edge(i) for i in range(size)]
    return PlanTable({"": plan_by_hand({channel(c): edges for c in range(channels)})})


def every_nth(n: int, channels: int, function: str = "") -> SendingGraph:
    edges: list[GraphEdge] = []
    for c in range(channels):
        edges += [GraphEdge(channel(c), edge(i)) for i in range(0, SIZE, n)]
        edges.append(GraphEdge(channel(c), "edge_77_v1", orderable=False))
    return SendingGraph(tuple(edges), function)


def at(step: int, i: int, *, c: int = 0, size: int = 8, dead: bool = False) -> Arrival:
    return Arrival(step, channel(c), edge(i), size, dead)


def nothing() -> None:
    pass


@pytest.fixture
def log() -> HandOffLog:
    return HandOffLog()


@pytest.fixture
def sequencer(log: HandOffLog) -> Iterator[Sequencer]:
    made = Sequencer(log)
    yield made
    made.close()


def test_what_goes_by_priority_passes_unplanned(sequencer: Sequencer, log: HandOffLog) -> None:
    edges = [edge(i) for i in range(SIZE)]
    both = {"": plan_by_hand({channel(0): edges}, window_bytes=8), "f": plan_by_hand({channel(0): edges})}
    table = PlanTable(both)
    assert table.channels == (PlannedChannel(channel(0), "f"),)
    assert table.speaks_of(channel(0))
    sequencer.install(table)
    graphs = [sequencer.add_graph(every_nth(1, 1, function)) for function in ("", "f")]
    for step, graph in enumerate(graphs):
        sequencer.start_step(step, graph)
        sequencer.arrive(at(step, 1), nothing)
    counters = sequencer.counters()
    assert (counters.unplanned, counters.held) == (1, 1)
    (named,) = log.read(0).channels
    assert named.discipline == "counter"


def reasons(log: HandOffLog) -> list[int]:
    return [hand_off.reason for hand_off in log.read(0).hand_offs]


def test_orders_under_many_threads(sequencer: Sequencer, log: HandOffLog) -> None:
    """Many steps of two graphs, each arrival and each start in some thread at some time."""
    steps, channels = 100, 3
    sequencer.install(plans(channels))
    graphs = [sequencer.add_graph(every_nth(n, channels)) for n in (1, 3)]
    order: dict[tuple[int, int], list[int]] = defaultdict(list)
    mu = threading.Lock()

    def arrive(step: int, c: int, i: int) -> None:
        def go() -> None:
            with mu:
                order[step, c].append(i)

        sequencer.arrive(at(step, i, c=c), go)

    work: list[Callable[[], None]] = []
    for step in range(1, steps + 1):
        work.append(lambda step=step: sequencer.start_step(step, graphs[step % 2]))
        for c in range(channels):
            work += [lambda step=step, c=c, i=i: arrive(step, c, i) for i in range(0, SIZE, (1, 3)[step % 2])]
    random.Random(1).shuffle(work)
    with ThreadPoolExecutor(8) as pool:
        for job in [pool.submit(task) for task in work]:
            job.result(timeout=30)
    assert len(order) == steps * channels
    assert all(ranks == list(range(0, SIZE, (1, 3)[step % 2])) for (step, _), ranks in order.items())
    counters = sequencer.counters()
    assert counters == control_pb2.Counters(ordered=steps // 2 * channels * 27)
    assert reasons(log) == [ORDERED] * counters.ordered


def test_a_deadline_releases_in_rank_order_and_the_rest_is_late(
    sequencer: Sequencer, log: HandOffLog
) -> None:
    sequencer.set_deadline(0.1)
    sequencer.install(plans(1))
    order: list[int] = []
    for i in range(SIZE - 1, 0, -1):
        sequencer.arrive(at(1, i), lambda i=i: order.append(i))
    assert sequencer.counters().held == SIZE - 1
    wait_until(lambda: sequencer.counters().released == SIZE - 1)
    sequencer.arrive(at(1, 0), lambda: order.append(0))
    assert order == [*range(1, SIZE), 0]
    assert sequencer.counters() == control_pb2.Counters(released=SIZE - 1, deadlines=1, late=1)
    assert reasons(log) == [RELEASED] * (SIZE - 1) + [LATE]


def test_what_waits_for_its_start_is_released_channel_by_channel(sequencer: Sequencer) -> None:
    sequencer.set_deadline(0.1)
    sequencer.install(plans(2))
    sequencer.add_graph(every_nth(1, 2))
    order: list[tuple[int, int]] = []
    for c, i in [(1, 4), (0, 7), (1, 2), (0, 3)]:
        sequencer.arrive(at(1, i, c=c), lambda c=c, i=i: order.append((c, i)))
    wait_until(lambda: len(order) == 4)
    assert order == [(0, 3), (0, 7), (1, 2), (1, 4)]


def test_a_step_with_nothing_held_ends_uncounted(sequencer: Sequencer) -> None:
    sequencer.set_deadline(0.05)
    sequencer.install(plans(1))
    sequencer.start_step(1, sequencer.add_graph(every_nth(1, 1)))
    assert sequencer.counters().live_steps == 1
    wait_until(lambda: sequencer.counters().live_steps == 0)
    assert sequencer.counters().deadlines == 0


def test_the_clock_wakes_after_a_rest(sequencer: Sequencer) -> None:
    sequencer.set_deadline(0.02)
    sequencer.install(plans(1))
    for step in range(3):
        sequencer.arrive(at(step, 1), nothing)
        wait_until(lambda: sequencer.counters().live_steps == 0)
        time.sleep(0.1)
    assert sequencer.counters() == control_pb2.Counters(released=3, deadlines=3)


def test_callbacks_may_call_back(sequencer: Sequencer) -> None:
    """A callback that brings the next transfer, and one that ends the step under its own feet."""
    sequencer.install(plans(1))
    done: list[int] = []

    def chain(i: int) -> None:
        done.append(i)
        if i + 1 < SIZE:
            sequencer.arrive(at(1, i + 1), lambda: chain(i + 1))

    sequencer.arrive(at(1, 0), lambda: chain(0))
    assert done == list(range(SIZE))
    assert sequencer.counters().live_steps == 0
    released: list[int] = []
    for i in range(2, 5):
        sequencer.arrive(at(2, i), lambda i=i: released.append(i))
    sequencer.arrive(at(2, 0), lambda: sequencer.release(2))
    assert released == [2, 3, 4]
    assert sequencer.counters().live_steps == 0


def test_off_remove_and_replace_let_go(sequencer: Sequencer, log: HandOffLog) -> None:
    gone: list[int] = []

    def hold(step: int) -> None:
        for i in range(1, 4):
            sequencer.arrive(at(step, i), lambda i=i: gone.append(i))

    sequencer.install(plans(1))
    hold(1)
    sequencer.install(plans(1))
    assert len(gone) == 3
    hold(2)
    sequencer.set_enabled(False)
    assert len(gone) == 6
    assert reasons(log) == [RELEASED] * 3
    hold(3)
    assert reasons(log) == [RELEASED] * 3 + [OFF] * 3
    sequencer.set_enabled(True)
    assert len(gone) == 9
    sequencer.arrive(at(3, 0), lambda: gone.append(0))  # its step began while the proxy was off
    assert len(gone) == 10
    assert sequencer.counters().late == 1
    hold(4)
    sequencer.install(None)
    assert len(gone) == 13
    hold(5)
    assert len(gone) == 16
    assert sequencer.counters().live_steps == 0


def test_a_step_that_begins_without_plans_or_off_is_not_counted(sequencer: Sequencer) -> None:
    gone: list[int] = []
    graph = sequencer.add_graph(every_nth(1, 1))
    sequencer.start_step(1, graph)
    sequencer.install(plans(1))
    sequencer.set_enabled(False)
    sequencer.start_step(2, graph)
    sequencer.set_enabled(True)
    for step in (1, 2):
        sequencer.arrive(at(step, 5), lambda: gone.append(5))
    assert gone == [5, 5]
    assert sequencer.counters() == control_pb2.Counters(late=2)


def test_empty_and_unknown_transfers_pass(sequencer: Sequencer) -> None:
    sequencer.install(plans(1))
    gone: list[int] = []
    for arrival in (
        at(1, 5, size=0),
        Arrival(1, channel(0), "edge_5_other", 8),
        Arrival(1, Channel("ps", "elsewhere"), edge(5), 8),
    ):
        sequencer.arrive(arrival, lambda: gone.append(1))
    assert len(gone) == 3
    assert sequencer.counters() == control_pb2.Counters(unplanned=1)


def test_dead_and_empty_tensors_of_a_known_graph_have_their_turn(sequencer: Sequencer) -> None:
    sequencer.install(plans(1))
    sequencer.start_step(1, sequencer.add_graph(every_nth(5, 1)))
    gone: list[int] = []
    for i, size, dead in [(15, 8, False), (10, 0, True), (5, 0, False)]:
        sequencer.arrive(at(1, i, size=size, dead=dead), lambda i=i: gone.append(i))
    assert gone == []
    sequencer.arrive(Arrival(1, channel(0), "edge_77_v1", 0), lambda: gone.append(77))
    assert gone == [77]
    sequencer.arrive(at(1, 0), lambda: gone.append(0))
    assert gone == [77, 0, 5, 10, 15]
    assert sequencer.counters() == control_pb2.Counters(ordered=4)


def test_a_partial_run_begins_its_step_once(sequencer: Sequencer) -> None:
    sequencer.install(plans(1))
    graph = sequencer.add_graph(every_nth(10, 1))
    gone: list[int] = []
    sequencer.start_step(1, graph)
    sequencer.arrive(at(1, 0), lambda: gone.append(0))
    sequencer.start_step(1, graph)
    sequencer.arrive(at(1, 10), lambda: gone.append(10))
    sequencer.start_step(1, graph)
    assert gone == [0, 10]
    assert sequencer.counters() == control_pb2.Counters(ordered=2)
    sequencer.arrive(at(1, 10), lambda: gone.append(10))
    assert sequencer.counters() == control_pb2.Counters(ordered=2, late=1)


def test_a_dropped_graph_orders_nothing(sequencer: Sequencer) -> None:
    sequencer.install(plans(1))
    graph = sequencer.add_graph(every_nth(3, 1))
    sequencer.drop_graph(graph)
    sequencer.start_step(1, graph)
    assert sequencer.counters().live_steps == 0
    sequencer.arrive(at(1, 0), nothing)  # no graph has it any more: the whole plan counts
    assert sequencer.counters() == control_pb2.Counters(live_steps=1, ordered=1)


def test_a_dead_tensor_of_an_unknown_graph_has_a_turn_if_the_plan_names_it(sequencer: Sequencer) -> None:
    sequencer.install(plans(1))
    gone: list[int] = []
    sequencer.arrive(at(1, 1, size=0, dead=True), lambda: gone.append(1))
    sequencer.arrive(Arrival(1, channel(0), "edge_77_v2", 0, dead=True), lambda: gone.append(77))
    assert gone == [77]
    sequencer.arrive(at(1, 0), lambda: gone.append(0))
    assert gone == [77, 0, 1]


def test_the_deadline_counts_from_the_last_hand_off(sequencer: Sequencer) -> None:
    sequencer.set_deadline(0.4)
    sequencer.install(plans(1))
    for i in range(8):
        sequencer.arrive(at(1, i), nothing)
        time.sleep(0.1)
    assert sequencer.counters() == control_pb2.Counters(live_steps=1, ordered=8)
    wait_until(lambda: sequencer.counters().live_steps == 0)


def test_a_new_deadline_holds_for_what_waits(sequencer: Sequencer) -> None:
    sequencer.set_deadline(1000)
    sequencer.install(plans(1))
    sequencer.arrive(at(1, 1), nothing)
    time.sleep(0.05)  # the clock waits for the old one
    sequencer.set_deadline(0.05)
    wait_until(lambda: sequencer.counters().released == 1)


def test_a_map_forgets_what_came_first() -> None:
    recent: RecentMap[int, list[int]] = RecentMap(2, list)
    for key in (1, 2, 1, 3):
        recent.at(key).append(key)
    assert [recent.find(key) for key in (1, 2, 3)] == [None, [2], [3]]


def test_each_function_follows_its_own_plan(sequencer: Sequencer, log: HandOffLog) -> None:
    forward, backward = [edge(0), edge(5)], [edge(5), edge(0)]
    sequencer.install(
        PlanTable({"": plan_by_hand({channel(0): forward}), "f": plan_by_hand({channel(0): backward})})
    )
    for step, function, expected in [(1, "f", [5, 0]), (2, "g", [0, 5]), (3, "", [0, 5])]:
        sequencer.start_step(step, sequencer.add_graph(every_nth(5, 1, function)))
        gone: list[int] = []
        for i in expected[::-1]:
            sequencer.arrive(at(step, i), lambda i=i, gone=gone: gone.append(i))
        assert gone == expected
    answer = log.read(0)
    assert [c.function for c in answer.channels] == ["", "f"]
    assert [(h.channel, h.rank) for h in answer.hand_offs] == [(1, 0), (1, 1)] + [(0, 0), (0, 1)] * 2


def test_other_edge_ids_are_found_by_source() -> None:
    pair = Channel("a", "b")
    table = PlanTable({"": plan_by_hand({pair: ["edge_1_x", "edge_2_x", "edge_3_y"]})})
    assert [table.rank_of(0, f"edge_{name}") for name in ("2_x", "9_x", "9_y")] == [1, None, 2]
    edges = [GraphEdge(pair, "edge_9_y"), GraphEdge(pair, "edge_2_x"), GraphEdge(pair, "edge_8_y", False)]
    order = GraphOrder(table, "", edges)
    assert order.place_of(pair, "edge_9_y") == Place(0, 2, 1)
    assert order.place_of(pair, "edge_2_x") == Place(0, 1, 0)
    assert order.has(pair, "edge_8_y")
    assert order.place_of(pair, "edge_8_y") is None
    assert not order.has(pair, "edge_7_y")


def test_of_several_edges_with_one_source_only_the_exact_one_is_ordered() -> None:
    pair = Channel("a", "b")
    table = PlanTable({"": plan_by_hand({pair: ["edge_1_x", "edge_3_y"]})})
    order = GraphOrder(
        table, "", [GraphEdge(pair, e) for e in ("edge_5_x", "edge_1_x", "edge_4_y", "edge_5_y")]
    )
    assert order.place_of(pair, "edge_1_x") == Place(0, 0, 0)
    assert [order.place_of(pair, e) for e in ("edge_5_x", "edge_4_y", "edge_5_y")] == [None] * 3
    assert order.sizes == {0: 1}


def hand_off(step: int) -> control_pb2.HandOff:
    return control_pb2.HandOff(step=step)


def test_the_ring_counts_what_it_loses() -> None:
    log = HandOffLog(8)
    log.begin_plans(1, [PlannedChannel(channel(0), "")])
    for i in range(20):
        log.append(hand_off(i), 1)
    answer = log.read(2)
    assert (len(answer.hand_offs), answer.next_cursor, answer.dropped, log.dropped) == (8, 20, 10, 12)
    assert [h.step for h in answer.hand_offs] == list(range(12, 20))
    assert not log.read(20).hand_offs
    log.append(hand_off(20), 1)
    assert [h.step for h in log.read(20).hand_offs] == [20]
    assert log.dropped == 12  # what was overwritten now had been read
    log.begin_plans(2, [])
    log.append(hand_off(99), 1)
    assert log.read(0) == control_pb2.HandOffs(next_cursor=21)


def test_pacing_keeps_order_and_rate() -> None:
    pacer = Pacer()
    pacer.set_rate(100_000)
    order: list[int] = []
    begin = time.monotonic()
    for i in range(20):
        pacer.submit(1000, lambda i=i: order.append(i))
    wait_until(lambda: len(order) == 20)
    assert 0.19 < time.monotonic() - begin < 1
    pacer.set_rate(1)
    for i in range(20, 25):
        pacer.submit(1000, lambda i=i: order.append(i))
    pacer.set_rate(0)
    wait_until(lambda: len(order) == 25)
    assert order == list(range(25))
    pacer.set_rate(1)
    pacer.submit(1000, lambda: order.append(25))
    pacer.close()
    assert order == list(range(26))
    pacer.submit(1000, lambda: order.append(26))
    assert order == list(range(27))


def test_a_slow_receiver_delays_no_other() -> None:
    outbox = Outbox(idle_seconds=0.1)
    stuck = threading.Event()
    sent: list[tuple[str, int]] = []
    outbox.submit("slow", lambda: stuck.wait(10) and None)
    for i in range(100):
        for receiver in ("slow", "fast"):
            outbox.submit(receiver, lambda r=receiver, i=i: sent.append((r, i)))
    wait_until(lambda: len(sent) == 100)
    assert sent == [("fast", i) for i in range(100)]
    stuck.set()
    wait_until(lambda: len(sent) == 200)
    assert sent[100:] == [("slow", i) for i in range(100)]
    wait_until(lambda: not any(t.name.startswith("tfwave-send") for t in threading.enumerate()))
    outbox.submit("fast", lambda: sent.append(("fast", 100)))
    wait_until(lambda: len(sent) == 201)


def test_a_response_that_fails_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    outbox = Outbox()
    sent: list[int] = []
    outbox.submit("receiver", [].pop)
    outbox.submit("receiver", lambda: sent.append(1))
    wait_until(lambda: sent == [1])
    assert "a response to receiver was not sent" in caplog.text
    outbox.close()


def test_without_a_thread_a_response_is_sent_by_who_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a container may have no more of them, for a while."""

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError(f"can't start new thread {thread.name}")

    outbox = Outbox()
    sent: list[int] = []
    with monkeypatch.context() as none_left:
        none_left.setattr(threading.Thread, "start", refused)
        outbox.submit("receiver", lambda: sent.append(1))
    outbox.submit("receiver", lambda: sent.append(2))
    wait_until(lambda: sent == [1, 2])
    outbox.close()


def test_nothing_is_lost_in_a_storm(log: HandOffLog) -> None:
    """Everything at once, with the plan, the switch and the clean-up changing: all must leave, none twice."""
    sequencer = Sequencer(log)
    sequencer.set_deadline(0.02)
    storm = threading.Event()
    gone: list[int] = []

    def change() -> None:
        i = 0
        while not storm.wait(0.0005):
            sequencer.install(plans(2) if i % 3 else None)
            sequencer.set_enabled(i % 5 != 0)
            i += 1

    def send(thread: int) -> None:
        chance = random.Random(thread)
        for i in range(2000):
            step = i // 50
            if i % 50 == 0:
                sequencer.start_step(step, sequencer.add_graph(every_nth(2, 2)))
            number = thread * 2000 + i
            arrival = at(step, chance.randrange(SIZE), c=chance.randrange(2))
            sequencer.arrive(arrival, lambda number=number: gone.append(number))
            if i % 97 == 0:
                sequencer.release(step)

    changer = threading.Thread(target=change)
    changer.start()
    with ThreadPoolExecutor(4) as pool:
        for job in [pool.submit(send, thread) for thread in range(4)]:
            job.result(timeout=60)
    storm.set()
    changer.join()
    sequencer.close()
    assert sorted(gone) == list(range(8000))
    assert sequencer.counters().held == 0
