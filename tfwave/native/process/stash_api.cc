#include "process/stash_api.h"

#include <string>

#include "base/guarded.h"
#include "process/process.h"

using tfwave::Guarded;
using tfwave::process;

namespace {

tfwave_stash_copies CopiesOf(const tfwave::CopyCounters& counted) {
  return {counted.copies, counted.bytes, counted.copying_nanos, counted.waited_nanos, counted.cancelled};
}

}  // namespace

extern "C" {

int32_t tfwave_stash_set_limit(int64_t bytes, char* message, int64_t size) {
  return Guarded(message, size, [=] {
    std::string error;
    process().stash.SetLimit(bytes, &error);
    return error;
  });
}

int32_t tfwave_stash_reserve(const int64_t* sizes, int64_t count, char* message, int64_t size) {
  return Guarded(message, size, [=] {
    std::string error;
    process().stash.Reserve({sizes, sizes + count}, &error);
    return error;
  });
}

int32_t tfwave_stash_trim(char* message, int64_t size) {
  return Guarded(message, size, [] { process().stash.Trim(); });
}

int32_t tfwave_stash_figures(tfwave_stash_counters* counters, char* message, int64_t size) {
  return Guarded(message, size, [=] {
    const tfwave::StashCounters counted = process().stash.counters();
    *counters = {CopiesOf(counted.out), CopiesOf(counted.in), counted.tickets, counted.held,
                 counted.high_water,    counted.mapped,       counted.pinned,  counted.limit};
  });
}

}  // extern "C"
