// The C interface, of which no exception may leave: it would end the process. Each call is made again and again, and
// each time memory runs out a little later in it. (Inlined, operators of our own look mismatched to g++.)
#include "process/api.h"

#include <cstdlib>
#include <future>
#include <new>
#include <string>
#include <vector>

#include "process/ledger_api.h"
#include "process/process.h"
#include "sequencer_test.h"

namespace {

thread_local int64_t left_to_allocate = INT64_MAX;

}  // namespace

[[gnu::noinline]] void* operator new(size_t size) {
  if (left_to_allocate-- <= 0) throw std::bad_alloc();
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept { return std::malloc(size); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace tfwave {
namespace {

constexpr int kBytes = 256;

struct Answer {
  int32_t status;
  std::string message;
};

template <typename Call, typename... Arguments>
Answer Ask(const Call& call, Arguments... arguments) {
  char message[kBytes] = "";
  const int32_t status = call(arguments..., message, kBytes);
  return {status, message};
}

template <typename Call, typename... Arguments>
void MustDo(const Call& call, Arguments... arguments) {
  CHECK(Ask(call, arguments...).status == 0);
}

// Returns how often memory ran out in it before it could be done.
template <typename Repair, typename Call, typename... Arguments>
int SurvivesAnyFailureWith(const Repair& repair, const Call& call, Arguments... arguments) {
  for (int allocations = 0;; ++allocations) {
    char message[kBytes] = "";
    left_to_allocate = allocations;
    const int32_t status = call(arguments..., message, kBytes);
    left_to_allocate = INT64_MAX;
    if (status == 0) return allocations;
    CHECK(std::string(message) == "std::bad_alloc");
    repair();
  }
}

template <typename Call, typename... Arguments>
int SurvivesAnyFailure(const Call& call, Arguments... arguments) {
  return SurvivesAnyFailureWith([] {}, call, arguments...);
}

// In a process that has asked for none yet. What TensorFlow brings behind it would find no way to fail.
void WhereThreadsRunOutTheCallerIsTold() {
  const char* const functions[] = {""};
  const tfwave_row row = {"a", "b", "edge_1_x", "", 8, 0};
  const auto refused = [](const Answer& answer) {
    return answer.status == -1 && answer.message.find("no more threads") != std::string::npos;
  };
  tfwave_status status = {};
  for (const int enough : {0, 1}) {  // for the deadline of counters, and for priorities, too
    Thread::left = enough;
    CHECK(refused(Ask(tfwave_install, functions, 1, &row, 1)));
    CHECK(refused(Ask(tfwave_set_rate, 1e9)));
    CHECK(refused(Ask(tfwave_ledger_open, 100, 50, 10)));
    MustDo(tfwave_get_status, &status);
    CHECK(!status.installed && status.bytes_per_second == 0);
  }
  Thread::left = Thread::kAny;
  MustDo(tfwave_install, functions, 1, &row, 1);
  MustDo(tfwave_set_rate, 1e9);
  MustDo(tfwave_ledger_open, 100, 50, 10);
  Thread::left = 0;
  std::promise<void> left;
  process().sequencer.Arrive({1, row.source, row.destination, row.edge, 8, false}, [&](const Receipt&) {
    process().pacer.Submit(8, [&] { left.set_value(); });
  });
  left.get_future().wait();
  Thread::left = Thread::kAny;
  MustDo(tfwave_ledger_close);
  MustDo(tfwave_set_rate, 0);
  MustDo(tfwave_remove);
}

void AllOfTheHookSurvives() {
  const char* const functions[] = {"", "__inference_a_function_whose_name_is_long_42"};
  const tfwave_row rows[] = {{"/job:ps/task:0", "/job:worker/task:0", "edge_1_a_long_name", "", 8, 0},
                             {"/job:ps/task:0", "/job:worker/task:0", "edge_2_a_long_name", functions[1], 0, 1}};
  const auto function = "__inference_a_function_whose_name_is_long_42";
  const int64_t graph = process().sequencer.AddGraph(function, {{rows[1].source, rows[1].destination, rows[1].edge}});
  CHECK(SurvivesAnyFailure(tfwave_install, functions, 2, rows, 2) > 10);
  tfwave_status status = {};
  SurvivesAnyFailure(tfwave_get_status, &status);
  CHECK(status.installed && status.enabled);
  SurvivesAnyFailure(tfwave_set_deadline, 2.5);
  SurvivesAnyFailure(tfwave_set_rate, 0);
  for (const int on : {0, 1}) SurvivesAnyFailure(tfwave_set_enabled, on);
  process().sequencer.StartStep(1, graph);
  process().sequencer.Arrive({1, rows[1].source, rows[1].destination, rows[1].edge, 8, false}, [](const Receipt&) {});
  tfwave_hand_off hand_off = {};
  int64_t cursor = 0, count = 0, lost = 0;
  SurvivesAnyFailure(tfwave_read_log, &cursor, &hand_off, 1, &count, &lost);
  CHECK(count == 1 && cursor == 2 && hand_off.channel == 1);  // behind one of a plan before
  SurvivesAnyFailure(tfwave_remove);
  MustDo(tfwave_get_status, &status);
  CHECK(!status.installed);
  process().sequencer.DropGraph(graph);
}

void WhatArrivedSurvives() {
  SurvivesAnyFailure(tfwave_log_arrivals, 1);
  CHECK(process().arrivals.active());
  const int32_t number = process().arrivals.Number({"a", "b", "x"});
  process().arrivals.Append(1, 2, 3, number);
  tfwave_arrival arrival = {};
  tfwave_transfer name = {};
  int64_t cursor = 0, count = 0, lost = 0;
  SurvivesAnyFailure(tfwave_read_arrivals, &cursor, &arrival, 1, &count, &lost);
  SurvivesAnyFailure(tfwave_transfer_name, number, &name);
  CHECK(count == 1 && arrival.bytes == 3 && name.edge == std::string("x"));
  CHECK(Ask(tfwave_transfer_name, number + 1, &name).status == -1);
  CHECK(Ask(tfwave_transfer_name, -1, &name).status == -1);
}

void TheLastFunctionIsTold() {
  const std::string name(100, 'f');
  char told[kBytes];
  MustDo(tfwave_last_function, told, kBytes);
  CHECK(told == std::string());
  process().last_function.Set(name);
  CHECK(SurvivesAnyFailure(tfwave_last_function, told, kBytes) > 0);
  CHECK(told == name);
}

void AllOfTheLedgerSurvives() {
  const char* const name = "a job whose name is longer than a short string";
  const int64_t held[] = {0, 2, 1}, transients[] = {3, 3};
  SurvivesAnyFailure(tfwave_ledger_open, 100, 50, 10);
  const auto remove = [=] { MustDo(tfwave_ledger_remove, name); };  // it may have got half in
  CHECK(SurvivesAnyFailureWith(remove, tfwave_ledger_add, name, 0, 10, held, transients, 2) > 0);
  int64_t step = 0;
  SurvivesAnyFailure(tfwave_ledger_begin_step, name, &step);
  SurvivesAnyFailure(tfwave_ledger_end_step, name, step);
  tfwave_ledger_counters counters = {};
  tfwave_ledger_entry entry = {};
  CHECK(SurvivesAnyFailure(tfwave_ledger_figures, &counters, &name, 1, &entry) > 0);
  CHECK(entry.known && entry.group == -1);
  char text[kBytes];
  SurvivesAnyFailure(tfwave_ledger_release, 0, text, kBytes);
  CHECK(text == std::string());
  SurvivesAnyFailure(tfwave_ledger_remove, name);
  SurvivesAnyFailure(tfwave_ledger_close);
}

void AnyExceptionIsAnAnswer() {
  char message[kBytes];
  CHECK(Guarded(message, kBytes, [] { throw 1; }) == -1 && message == std::string("an exception of an unknown kind"));
  CHECK(Guarded(message, 4, [] { throw std::runtime_error("broken"); }) == -1 && message == std::string("bro"));
  CHECK(Guarded(nullptr, 0, [] { return std::string("broken"); }) == -1);
}

void SocketsAreLimitedWhileSomethingGoesByPriority() {
  const char* const functions[] = {""};
  tfwave_row row = {"a", "b", "edge_1_x", "", 8, 0};
  const auto uses = [] { return process().sequencer.UsesPriority(); };
  MustDo(tfwave_install, functions, 1, &row, 1);
  CHECK(uses());
  MustDo(tfwave_set_enabled, 0);
  CHECK(!uses());
  MustDo(tfwave_set_enabled, 1);
  CHECK(uses());
  row.window = 0;
  MustDo(tfwave_install, functions, 1, &row, 1);
  CHECK(!uses());
  MustDo(tfwave_remove);
  CHECK(!uses());
}

}  // namespace

void TestApi() {
  WhereThreadsRunOutTheCallerIsTold();
  AllOfTheHookSurvives();
  WhatArrivedSurvives();
  TheLastFunctionIsTold();
  AllOfTheLedgerSurvives();
  AnyExceptionIsAnAnswer();
  SocketsAreLimitedWhileSomethingGoesByPriority();
}

}  // namespace tfwave
