// The library's C interface. Every function that may fail returns 0, or -1 with a message of at most `size`
// bytes, the closing zero included. Raise kAbiVersion with any change.
#ifndef TFWAVE_NATIVE_API_H_
#define TFWAVE_NATIVE_API_H_

#include <cstdint>

extern "C" {

struct TF_Server;

struct tfwave_row {
  const char* source;
  const char* destination;
  const char* edge;
  const char* function;
  int64_t window;
};

struct tfwave_status {
  int64_t live_steps;
  int64_t held;
  int64_t ordered;
  int64_t released;
  int64_t late;
  int64_t unplanned;
  int64_t deadlines;
  int64_t log_dropped;
  int32_t installed;
  int32_t enabled;
  double deadline_seconds;
  double bytes_per_second;
};

struct tfwave_hand_off {
  int64_t time_nanos;
  int64_t ready_nanos;
  int64_t step;
  int64_t bytes;
  int32_t channel;
  int32_t rank;
  int32_t reason;
};

struct tfwave_arrival {
  int64_t requested_nanos;
  int64_t arrived_nanos;
  int64_t step;
  int64_t bytes;
  int32_t transfer;
};

// Valid as long as the process.
struct tfwave_transfer {
  const char* source;
  const char* destination;
  const char* edge;
};

int32_t tfwave_abi_version();

// One plan for each of `functions`; the one of "" is for all graphs whose function has none. Rows in rank order
// within each channel (source, destination, function); channels are numbered in order of first mention. The rows of
// a channel agree in its window: the most bytes in flight where the most urgent of what is ready leaves first; 0 where
// a counter waits for each in its turn.
int32_t tfwave_install(const char* const* functions, int64_t function_count, const tfwave_row* rows, int64_t row_count,
                       char* message, int64_t size);
void tfwave_remove();

void tfwave_set_enabled(int32_t enabled);
int32_t tfwave_set_deadline(double seconds, char* message, int64_t size);
int32_t tfwave_set_rate(double bytes_per_second, char* message, int64_t size);
// The tasks that may be sent functions with this library's op in them.
int32_t tfwave_set_hooked_tasks(const char* const* tasks, int64_t count, char* message, int64_t size);

void tfwave_get_status(tfwave_status* status);

// Copies up to `count` hand-offs of the plans last installed from *cursor on, and moves it past them;
// adds to *lost those that were overwritten. Returns how many were copied.
int64_t tfwave_read_log(int64_t* cursor, tfwave_hand_off* out, int64_t count, int64_t* lost);

// Whether to log what arrives from other tasks; a step that has begun may go on as it was.
void tfwave_log_arrivals(int32_t active);
// As tfwave_read_log.
int64_t tfwave_read_arrivals(int64_t* cursor, tfwave_arrival* out, int64_t count, int64_t* lost);
// What a logged arrival's `transfer` is called.
tfwave_transfer tfwave_transfer_name(int32_t transfer);

// Hooks a running server; hooking it twice does nothing.
int32_t tfwave_wrap(TF_Server* server, char* message, int64_t size);

}  // extern "C"

#endif  // TFWAVE_NATIVE_API_H_
