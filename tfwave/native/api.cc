#include "api.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "process.h"
#include "rendezvous.h"
#include "tensorflow/c/c_api_internal.h"

namespace {

constexpr int32_t kAbiVersion = 1;
constexpr double kLongestDeadline = 1e9;

static_assert(sizeof(tfwave_hand_off) == sizeof(tfwave::HandOff), "the log is copied as it is");
static_assert(offsetof(tfwave_hand_off, reason) == offsetof(tfwave::HandOff, reason), "the log is copied as it is");

int32_t Fail(const std::string& why, char* message, int64_t size) {
  if (size <= 0) return -1;
  const size_t length = std::min<size_t>(why.size(), size - 1);
  std::memcpy(message, why.data(), length);
  message[length] = '\0';
  return -1;
}

template <typename Work>
int32_t Guarded(char* message, int64_t size, const Work& work) {
  try {
    const std::string error = work();
    return error.empty() ? 0 : Fail(error, message, size);
  } catch (const std::exception& e) {
    return Fail(e.what(), message, size);
  }
}

}  // namespace

extern "C" {

int32_t tfwave_abi_version() { return kAbiVersion; }

int32_t tfwave_install(const tfwave_row* rows, int64_t count, char* message, int64_t size) {
  return Guarded(message, size, [&] {
    std::vector<tfwave::PlanRow> plan_rows;
    for (int64_t i = 0; i < count; ++i) plan_rows.push_back({rows[i].source, rows[i].destination, rows[i].edge});
    std::string error;
    auto plan = tfwave::Plan::Make(plan_rows, &error);
    if (plan) tfwave::process().sequencer.Install(std::move(plan));
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

int32_t tfwave_wrap(TF_Server* server, char* message, int64_t size) {
  return Guarded(message, size, [&]() -> std::string {
    if (server == nullptr || server->server == nullptr) return "there is no server to wrap";
    tfwave::WrapServer(server->server.get());
    return "";
  });
}

}  // extern "C"
