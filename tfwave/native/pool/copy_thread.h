#ifndef TFWAVE_NATIVE_COPY_THREAD_H_
#define TFWAVE_NATIVE_COPY_THREAD_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/sync.h"
#include "pool/mover.h"

namespace tfwave {

// Totals since the start. Bytes, nanoseconds.
struct CopyCounters {
  int64_t copies = 0;
  int64_t bytes = 0;
  int64_t copying_nanos = 0;
  int64_t waited_nanos = 0;  // from request to begin, for what is copied, too
  int64_t cancelled = 0;     // before their turn
};

enum class Copied { kYes, kCancelled, kFailed };

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
  std::function<bool()> cancelled;  // asked when it is its turn
  std::shared_ptr<Mover> mover;
  std::function<void(Copied, const std::string& error)> done;
};

// Copies memory, one piece after the other, in order of arrival. Thread-safe. `done` is called without a lock.
class CopyThread {
 public:
  CopyThread() = default;
  ~CopyThread();  // what waits is copied first
  CopyThread(const CopyThread&) = delete;

  void Add(Copy copy);
  CopyCounters counters() const;

 private:
  struct Waiting {
    Copy copy;
    int64_t since_nanos;
  };

  void Run();
  std::optional<Waiting> Next();  // none: it is to stop
  void Perform(const Waiting& waiting);
  void Count(Copied copied, int64_t bytes, int64_t waited_nanos, int64_t copying_nanos);

  mutable Mutex mu_;
  Condition wake_;
  std::deque<Waiting> queue_;
  CopyCounters counters_;
  bool stopping_ = false;
  Thread thread_;  // started by the first copy
};

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_COPY_THREAD_H_
