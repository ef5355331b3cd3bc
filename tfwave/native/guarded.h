// What the C interface says, such as why something failed: at most `size` bytes, the closing zero included.
#ifndef TFWAVE_NATIVE_GUARDED_H_
#define TFWAVE_NATIVE_GUARDED_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>

namespace tfwave {

inline void CopyMessage(const std::string& text, char* message, int64_t size) {
  if (size <= 0) return;
  const size_t length = std::min<size_t>(text.size(), size - 1);
  std::memcpy(message, text.data(), length);
  message[length] = '\0';
}

inline int32_t Fail(const std::string& why, char* message, int64_t size) {
  CopyMessage(why, message, size);
  return -1;
}

// `work` returns what failed, or "".
template <typename Work>
int32_t Guarded(char* message, int64_t size, const Work& work) {
  try {
    const std::string error = work();
    return error.empty() ? 0 : Fail(error, message, size);
  } catch (const std::exception& e) {
    return Fail(e.what(), message, size);
  }
}

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_GUARDED_H_
