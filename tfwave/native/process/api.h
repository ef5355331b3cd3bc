// The library's C interface. A function that takes a message returns 0, or -1 with the message in at most `size`
// bytes, the closing zero included; no exception leaves it. Raise kAbiVersion with any change.
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
  int64_t channel;
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
// within each channel (source, destination, function); `channel` is its number in the log, from 0 on without a gap.
// The rows of a channel agree in its number and its window: the most bytes in flight where the most urgent of what
// is ready leaves first; 0 where a counter waits for each in its turn.
int32_t tfwave_install(const char* const* functions, int64_t function_count, const tfwave_row* rows, int64_t row_count,
                       char* message, int64_t size);
int32_t tfwave_remove(char* message, int64_t size);

int32_t tfwave_set_enabled(int32_t enabled, char* message, int64_t size);
int32_t tfwave_set_deadline(double seconds, char* message, int64_t size);
int32_t tfwave_set_rate(double bytes_per_second, char* message, int64_t size);

int32_t tfwave_get_status(tfwave_status* status, char* message, int64_t size);

// Copies up to `capacity` hand-offs of the plans last installed from *cursor on, and moves it past them;
// adds to *lost those that were overwritten. *count: how many were copied.
int32_t tfwave_read_log(int64_t* cursor, tfwave_hand_off* out, int64_t capacity, int64_t* count, int64_t* lost,
                        char* message, int64_t size);

// Whether to log what arrives from other tasks; a step that has begun may go on as it was.
int32_t tfwave_log_arrivals(int32_t active, char* message, int64_t size);
// As tfwave_read_log.
int32_t tfwave_read_arrivals(int64_t* cursor, tfwave_arrival* out, int64_t capacity, int64_t* count, int64_t* lost,
                             char* message, int64_t size);
// What a logged arrival's `transfer` is called.
int32_t tfwave_transfer_name(int32_t transfer, tfwave_transfer* name, char* message, int64_t size);

// The function whose graph this library was shown last, in at most `capacity` bytes; "" before the first.
int32_t tfwave_last_function(char* function, int64_t capacity, char* message, int64_t size);

// Those below need TensorFlow.

// The tasks that may be sent functions with this library's op in them.
int32_t tfwave_set_hooked_tasks(const char* const* tasks, int64_t count, char* message, int64_t size);

// Hooks a running server; hooking it twice does nothing.
int32_t tfwave_wrap(TF_Server* server, char* message, int64_t size);
// The std::type_info of TF_Server.
const void* tfwave_server_type();

}  // extern "C"

#endif  // TFWAVE_NATIVE_API_H_
