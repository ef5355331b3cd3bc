#include "process/api.h"

#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/guarded.h"
#include "process/process.h"
#include "base/sync.h"

namespace {

using tfwave::Guarded;
using tfwave::Mutex;
using tfwave::process;

constexpr int32_t kAbiVersion = 5;
constexpr double kLongestDeadline = 1e9;

static_assert(sizeof(tfwave_hand_off) == sizeof(tfwave::HandOff), "the log is copied as it is");
static_assert(offsetof(tfwave_hand_off, reason) == offsetof(tfwave::HandOff, reason), "the log is copied as it is");
static_assert(sizeof(tfwave_arrival) == sizeof(tfwave::LoggedArrival), "the log is copied as it is");
static_assert(offsetof(tfwave_arrival, transfer) == offsetof(tfwave::LoggedArrival, transfer),
              "the log is copied as it is");

// Changes the sequencer; sockets are limited as long as something may go by priority.
template <typename Change>
void ChangeOrder(const Change& change) {
  static Mutex one_at_a_time;
  std::lock_guard<Mutex> lock(one_at_a_time);
  change(process().sequencer);
  process().sockets.SetActive(process().sequencer.UsesPriority());
}

}  // namespace

extern "C" {

int32_t tfwave_abi_version() { return kAbiVersion; }

int32_t tfwave_install(const char* const* functions, int64_t function_count, const tfwave_row* rows, int64_t row_count,
                       char* message, int64_t size) {
  return Guarded(message, size, [&] {
    std::vector<tfwave::PlanRow> plan_rows;
    for (const tfwave_row* row = rows; row < rows + row_count; ++row) {
      plan_rows.push_back({row->source, row->destination, row->edge, row->function, row->window, row->channel});
    }
    std::string error;
    auto plans = tfwave::Plans::Make({functions, functions + function_count}, plan_rows, &error);
    if (plans) ChangeOrder([&](tfwave::Sequencer& sequencer) { sequencer.Install(std::move(plans)); });
    return error;
  });
}

int32_t tfwave_remove(char* message, int64_t size) {
  return Guarded(message, size,
                 [] { ChangeOrder([](tfwave::Sequencer& sequencer) { sequencer.Install(nullptr); }); });
}

int32_t tfwave_set_enabled(int32_t enabled, char* message, int64_t size) {
  return Guarded(message, size,
                 [=] { ChangeOrder([=](tfwave::Sequencer& sequencer) { sequencer.SetEnabled(enabled != 0); }); });
}

int32_t tfwave_set_deadline(double seconds, char* message, int64_t size) {
  return Guarded(message, size, [=]() -> std::string {
    if (!(seconds > 0 && seconds <= kLongestDeadline)) {
      return "the deadline must be more than 0 and at most 1e9 seconds";
    }
    process().sequencer.SetDeadline(seconds);
    return "";
  });
}

int32_t tfwave_set_rate(double bytes_per_second, char* message, int64_t size) {
  return Guarded(message, size, [=]() -> std::string {
    if (!(bytes_per_second == 0 || (bytes_per_second >= 1 && std::isfinite(bytes_per_second)))) {
      return "the rate must be 0 (no pacing) or at least 1 byte per second";
    }
    process().pacer.SetRate(bytes_per_second);
    return "";
  });
}

int32_t tfwave_get_status(tfwave_status* status, char* message, int64_t size) {
  return Guarded(message, size, [=] {
    tfwave::Process& hook = process();
    const tfwave::Counters counters = hook.sequencer.counters();
    *status = {counters.live_steps,
               counters.held,
               counters.ordered,
               counters.released,
               counters.late,
               counters.unplanned,
               counters.deadlines,
               hook.log.dropped(),
               hook.sequencer.installed() ? 1 : 0,
               hook.sequencer.enabled() ? 1 : 0,
               hook.sequencer.deadline_seconds(),
               hook.pacer.rate()};
  });
}

int32_t tfwave_read_log(int64_t* cursor, tfwave_hand_off* out, int64_t capacity, int64_t* count, int64_t* lost,
                        char* message, int64_t size) {
  return Guarded(message, size, [=] {
    *count = process().log.Read(cursor, reinterpret_cast<tfwave::HandOff*>(out), capacity, lost);
  });
}

int32_t tfwave_log_arrivals(int32_t active, char* message, int64_t size) {
  return Guarded(message, size, [=] { process().arrivals.SetActive(active != 0); });
}

int32_t tfwave_read_arrivals(int64_t* cursor, tfwave_arrival* out, int64_t capacity, int64_t* count, int64_t* lost,
                             char* message, int64_t size) {
  return Guarded(message, size, [=] {
    *count = process().arrivals.Read(cursor, reinterpret_cast<tfwave::LoggedArrival*>(out), capacity, lost);
  });
}

int32_t tfwave_transfer_name(int32_t transfer, tfwave_transfer* name, char* message, int64_t size) {
  return Guarded(message, size, [=] {
    const auto& [source, destination, edge] = process().arrivals.Name(transfer);
    *name = {source.c_str(), destination.c_str(), edge.c_str()};
  });
}

int32_t tfwave_last_function(char* function, int64_t capacity, char* message, int64_t size) {
  return Guarded(message, size, [=] { tfwave::CopyMessage(process().last_function.Get(), function, capacity); });
}

}  // extern "C"
