#include "api.h"

#include <cmath>
#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "guarded.h"
#include "process.h"
#include "rendezvous.h"
#include "tensorflow/c/c_api_internal.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace {

using tfwave::Fail;
using tfwave::Guarded;

constexpr int32_t kAbiVersion = 3;
constexpr double kLongestDeadline = 1e9;

static_assert(sizeof(tfwave_hand_off) == sizeof(tfwave::HandOff), "the log is copied as it is");
static_assert(offsetof(tfwave_hand_off, reason) == offsetof(tfwave::HandOff, reason), "the log is copied as it is");
static_assert(sizeof(tfwave_arrival) == sizeof(tfwave::LoggedArrival), "the log is copied as it is");
static_assert(offsetof(tfwave_arrival, transfer) == offsetof(tfwave::LoggedArrival, transfer),
              "the log is copied as it is");

// "/job:ps/replica:0/task:0" as TensorFlow spells it; empty if it is no whole task.
std::string TaskName(const std::string& text) {
  tensorflow::DeviceNameUtils::ParsedName parsed;
  std::string task;
  if (!tensorflow::DeviceNameUtils::ParseFullName(text, &parsed) || parsed.has_type || parsed.has_id) return "";
  return tensorflow::DeviceNameUtils::GetTaskName(parsed, &task) ? task : "";
}

}  // namespace

extern "C" {

int32_t tfwave_abi_version() { return kAbiVersion; }

int32_t tfwave_install(const char* const* functions, int64_t function_count, const tfwave_row* rows, int64_t row_count,
                       char* message, int64_t size) {
  return Guarded(message, size, [&] {
    std::vector<tfwave::PlanRow> plan_rows;
    for (const tfwave_row* row = rows; row < rows + row_count; ++row) {
      plan_rows.push_back({row->source, row->destination, row->edge, row->function, row->window});
    }
    std::string error;
    auto plans = tfwave::Plans::Make({functions, functions + function_count}, plan_rows, &error);
    if (plans) tfwave::process().sequencer.Install(std::move(plans));
    return error;
  });
}

void tfwave_remove() { tfwave::process().sequencer.Install(nullptr); }

void tfwave_set_enabled(int32_t enabled) { tfwave::process().sequencer.SetEnabled(enabled != 0); }

int32_t tfwave_set_deadline(double seconds, char* message, int64_t size) {
  if (!(seconds > 0 && seconds <= kLongestDeadline)) {
    return Fail("the deadline must be more than 0 and at most 1e9 seconds", message, size);
  }
  tfwave::process().sequencer.SetDeadline(seconds);
  return 0;
}

int32_t tfwave_set_rate(double bytes_per_second, char* message, int64_t size) {
  if (!(bytes_per_second == 0 || (bytes_per_second >= 1 && std::isfinite(bytes_per_second)))) {
    return Fail("the rate must be 0 (no pacing) or at least 1 byte per second", message, size);
  }
  tfwave::process().pacer.SetRate(bytes_per_second);
  return 0;
}

int32_t tfwave_set_hooked_tasks(const char* const* tasks, int64_t count, char* message, int64_t size) {
  return Guarded(message, size, [&]() -> std::string {
    std::set<std::string> names;
    for (int64_t i = 0; i < count; ++i) {
      const std::string name = TaskName(tasks[i]);
      if (name.empty()) return "'" + std::string(tasks[i]) + "' is no task: write /job:NAME/replica:N/task:N";
      names.insert(name);
    }
    tfwave::process().hooked_tasks.Set(std::move(names));
    return "";
  });
}

void tfwave_get_status(tfwave_status* status) {
  tfwave::Process& hook = tfwave::process();
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
}

int64_t tfwave_read_log(int64_t* cursor, tfwave_hand_off* out, int64_t count, int64_t* lost) {
  return tfwave::process().log.Read(cursor, reinterpret_cast<tfwave::HandOff*>(out), count, lost);
}

void tfwave_log_arrivals(int32_t active) { tfwave::process().arrivals.SetActive(active != 0); }

int64_t tfwave_read_arrivals(int64_t* cursor, tfwave_arrival* out, int64_t count, int64_t* lost) {
  return tfwave::process().arrivals.Read(cursor, reinterpret_cast<tfwave::LoggedArrival*>(out), count, lost);
}

tfwave_transfer tfwave_transfer_name(int32_t transfer) {
  const auto& [source, destination, edge] = tfwave::process().arrivals.Name(transfer);
  return {source.c_str(), destination.c_str(), edge.c_str()};
}

int32_t tfwave_wrap(TF_Server* server, char* message, int64_t size) {
  return Guarded(message, size, [&]() -> std::string {
    if (server == nullptr || server->server == nullptr) return "there is no server to wrap";
    tfwave::WrapServer(server->server.get());
    return "";
  });
}

}  // extern "C"
