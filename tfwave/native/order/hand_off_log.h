// The last hand-offs, in a ring of fixed capacity.
#ifndef TFWAVE_NATIVE_HAND_OFF_LOG_H_
#define TFWAVE_NATIVE_HAND_OFF_LOG_H_

#include <cstddef>
#include <cstdint>

#include "base/ring.h"
#include "base/sync.h"

namespace tfwave {

// As in control.proto.
enum class Reason : int32_t { kOrdered = 0, kReleased = 1, kLate = 2, kOff = 3 };

struct HandOff {
  int64_t time_nanos;   // monotonic clock
  int64_t ready_nanos;  // on a channel without a counter: since when it could have left; else 0
  int64_t step;
  int64_t bytes;
  int32_t channel;  // of the installed plan
  int32_t rank;     // in the installed plan
  Reason reason;
};

// Thread-safe. Read by cursor: a hand-off's position since the process started.
class HandOffLog {
 public:
  explicit HandOffLog(size_t capacity) : ring_(capacity) {}

  // Hand-offs of an earlier plan than the one last begun are not kept: its channels are gone.
  void Append(const HandOff& hand_off, int64_t plan_generation);
  void BeginPlan(int64_t plan_generation);

  // Copies up to `size` hand-offs from *cursor on and moves it past them; returns how many.
  // *lost grows by those that were overwritten since *cursor.
  int64_t Read(int64_t* cursor, HandOff* out, int64_t size, int64_t* lost);

  // Hand-offs overwritten before anyone read them.
  int64_t dropped() const;

 private:
  mutable Mutex mu_;
  Ring<HandOff> ring_;
  int64_t generation_ = 0;
  int64_t begin_ = 0;  // first of the present plan
  int64_t read_ = 0;   // the furthest that anyone has read
  int64_t dropped_ = 0;
};

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_HAND_OFF_LOG_H_
