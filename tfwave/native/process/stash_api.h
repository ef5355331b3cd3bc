// The stash's C interface; as in api.h, each returns 0, or -1 with a message. Bytes, nanoseconds.
#ifndef TFWAVE_NATIVE_STASH_API_H_
#define TFWAVE_NATIVE_STASH_API_H_

#include <cstdint>

extern "C" {

struct tfwave_stash_copies {
  int64_t copies;
  int64_t bytes;
  int64_t copying_nanos;
  int64_t waited_nanos;
  int64_t cancelled;
};

struct tfwave_stash_counters {
  tfwave_stash_copies out;
  tfwave_stash_copies in;
  int64_t tickets;
  int64_t held;
  int64_t high_water;
  int64_t mapped;
  int64_t pinned;
  int64_t limit;
};

int32_t tfwave_stash_set_limit(int64_t bytes, char* message, int64_t size);
// Maps a buffer for each size, and touches its pages.
int32_t tfwave_stash_reserve(const int64_t* sizes, int64_t count, char* message, int64_t size);
// Unmaps what is kept and not held.
int32_t tfwave_stash_trim(char* message, int64_t size);
int32_t tfwave_stash_figures(tfwave_stash_counters* counters, char* message, int64_t size);

}  // extern "C"

#endif  // TFWAVE_NATIVE_STASH_API_H_
