// What threads wait with, and the clock that they wait by: all of the library's, so that a test can put others in
// their place and decide itself who runs next, and what time it is.
#ifndef TFWAVE_NATIVE_SYNC_H_
#define TFWAVE_NATIVE_SYNC_H_

#ifdef TFWAVE_SYNC
#include TFWAVE_SYNC
#else

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace tfwave {

using Mutex = std::mutex;
using Condition = std::condition_variable;
using Thread = std::thread;
using Clock = std::chrono::steady_clock;

}  // namespace tfwave

#endif  // TFWAVE_SYNC

#endif  // TFWAVE_NATIVE_SYNC_H_
