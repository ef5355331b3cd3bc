// The planned pool's C interface; as in api.h, each returns 0, or -1 with a message. Bytes.
#ifndef TFWAVE_NATIVE_POOL_API_H_
#define TFWAVE_NATIVE_POOL_API_H_

#include <cstdint>

extern "C" {

struct tfwave_pool_place {
  const char* op;
  int64_t offset;
  int64_t bytes;
  int64_t is_scratch;
};

struct tfwave_pool_counters {
  int64_t served, served_bytes;
  int64_t unknown, unknown_bytes;
  int64_t conflicts, conflict_bytes;
  int64_t live, live_bytes;
  int64_t reach;
  int64_t region, elsewhere_before, elsewhere_most, together_most;
};

// Makes this library's pool the CPU's allocator: once in a process, and before TensorFlow allocates anything, or
// TensorFlow ends the process.
int32_t tfwave_pool_open(int64_t limit, char* message, int64_t size);
// Whether TensorFlow has asked for the pool.
int32_t tfwave_pool_is_used(int32_t* used, char* message, int64_t size);

int32_t tfwave_pool_install(const tfwave_pool_place* places, int64_t count, int64_t region_bytes, char* message,
                            int64_t size);
int32_t tfwave_pool_remove(char* message, int64_t size);
int32_t tfwave_pool_figures(tfwave_pool_counters* counters, char* message, int64_t size);

}  // extern "C"

#endif  // TFWAVE_NATIVE_POOL_API_H_
