// The ledger's C interface; as in api.h, each returns 0, or -1 with a message. Bytes, nanoseconds.
#ifndef TFWAVE_NATIVE_LEDGER_API_H_
#define TFWAVE_NATIVE_LEDGER_API_H_

#include <cstdint>

extern "C" {

struct tfwave_ledger_counters {
  int64_t admitted;
  int64_t waited;
  int64_t waited_nanos;
  int64_t longest_nanos;
  int64_t released;
};

struct tfwave_ledger_entry {
  int64_t known;
  int64_t group;  // -1: none runs
  int64_t held;
  int64_t waited_nanos;
};

int32_t tfwave_ledger_open(int64_t alone, int64_t shared, double wait_seconds, char* message, int64_t size);
int32_t tfwave_ledger_close(char* message, int64_t size);

// `held` has one more than the groups. Waits, at most `wait_seconds`, until the begun steps leave room for the job.
int32_t tfwave_ledger_add(const char* name, int64_t priority, int64_t resident, const int64_t* held,
                          const int64_t* transients, int64_t groups, char* message, int64_t size);
int32_t tfwave_ledger_take_turns(const char* one, const char* other, char* message, int64_t size);
int32_t tfwave_ledger_remove(const char* name, char* message, int64_t size);

int32_t tfwave_ledger_begin_step(const char* name, int64_t* step, char* message, int64_t size);
int32_t tfwave_ledger_end_step(const char* name, int64_t step, char* message, int64_t size);

// The counters, and an entry for each name.
int32_t tfwave_ledger_figures(tfwave_ledger_counters* counters, const char* const* names, int64_t count,
                              tfwave_ledger_entry* entries, char* message, int64_t size);
// What is kept of a release, from 0 on, in at most `capacity` bytes; "" past the last.
int32_t tfwave_ledger_release(int64_t number, char* text, int64_t capacity, char* message, int64_t size);

}  // extern "C"

#endif  // TFWAVE_NATIVE_LEDGER_API_H_
