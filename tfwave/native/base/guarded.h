// What the C interface says, such as why something failed: at most `size` bytes, the closing zero included.
#ifndef TFWAVE_NATIVE_GUARDED_H_
#define TFWAVE_NATIVE_GUARDED_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace tfwave {

inline void CopyMessage(std::string_view text, char* message, int64_t size) {
  if (size <= 0) return;
  const size_t length = std::min<size_t>(text.size(), size - 1);
  std::memcpy(message, text.data(), length);
  message[length] = '\0';
}

inline int32_t Fail(std::string_view why, char* message, int64_t size) {
  CopyMessage(why, message, size);
  return -1;
}

// `work` returns what failed, or "", or nothing. No exception leaves it: it would end the process.
template <typename Work>
int32_t Guarded(char* message, int64_t size, const Work& work) noexcept {
  try {
    if constexpr (std::is_void_v<decltype(work())>) {
      work();
      return 0;
    } else {
      const std::string error = work();
      return error.empty() ? 0 : Fail(error, message, size);
    }
  } catch (const std::system_error&) {  // all that throws it here is the start of a thread
    return Fail("the system gives this process no more threads: raise its limit (ulimit -u, or its container's)",
                message, size);
  } catch (const std::exception& e) {
    return Fail(e.what(), message, size);
  } catch (...) {
    return Fail("an exception of an unknown kind", message, size);
  }
}

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_GUARDED_H_
