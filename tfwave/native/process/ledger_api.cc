#include "process/ledger_api.h"

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/guarded.h"
#include "process/process.h"

using tfwave::Guarded;
using tfwave::process;

extern "C" {

int32_t tfwave_ledger_open(int64_t alone, int64_t shared, double wait_seconds, char* message, int64_t size) {
  return Guarded(message, size, [&] {
    std::string error;
    process().ledger.Open({alone, shared}, wait_seconds, &error);
    return error;
  });
}

int32_t tfwave_ledger_close(char* message, int64_t size) {
  return Guarded(message, size, [] { process().ledger.Close(); });
}

int32_t tfwave_ledger_add(const char* name, int64_t priority, int64_t resident, const int64_t* held,
                          const int64_t* transients, int64_t groups, char* message, int64_t size) {
  return Guarded(message, size, [&] {
    tfwave::Footprint footprint(resident, {held, held + groups + 1}, {transients, transients + groups});
    const auto joined = std::make_shared<std::promise<void>>();
    std::string error;
    const auto answered = [joined](tfwave::Verdict) { joined->set_value(); };
    if (process().ledger.Add(name, std::move(footprint), priority, answered, &error)) joined->get_future().wait();
    return error;
  });
}

int32_t tfwave_ledger_take_turns(const char* one, const char* other, char* message, int64_t size) {
  return Guarded(message, size, [=] { process().ledger.TakeTurns(one, other); });
}

int32_t tfwave_ledger_remove(const char* name, char* message, int64_t size) {
  return Guarded(message, size, [=] { process().ledger.Remove(name); });
}

int32_t tfwave_ledger_begin_step(const char* name, int64_t* step, char* message, int64_t size) {
  return Guarded(message, size, [&] {
    std::string error;
    *step = process().ledger.BeginStep(name, &error);
    return error;
  });
}

int32_t tfwave_ledger_end_step(const char* name, int64_t step, char* message, int64_t size) {
  return Guarded(message, size, [=] { process().ledger.EndStep(name, step); });
}

int32_t tfwave_ledger_figures(tfwave_ledger_counters* counters, const char* const* names, int64_t count,
                              tfwave_ledger_entry* entries, char* message, int64_t size) {
  return Guarded(message, size, [&] {
    const tfwave::LedgerCounters counted = process().ledger.counters();
    *counters = {counted.admitted, counted.waited, counted.waited_nanos, counted.longest_nanos, counted.released};
    for (const tfwave::LedgerEntry& found : process().ledger.Entries({names, names + count})) {
      *entries++ = {found.known, found.group, found.held, found.waited_nanos};
    }
  });
}

int32_t tfwave_ledger_release(int64_t number, char* text, int64_t capacity, char* message, int64_t size) {
  return Guarded(message, size, [=] {
    const std::vector<std::string> releases = process().ledger.messages();
    const bool kept = number >= 0 && number < static_cast<int64_t>(releases.size());
    tfwave::CopyMessage(kept ? releases[number] : "", text, capacity);
  });
}

}  // extern "C"
