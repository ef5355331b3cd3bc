// How memory is copied, and kept where others can copy it: on the host, if nothing says otherwise.
#ifndef TFWAVE_NATIVE_MOVER_H_
#define TFWAVE_NATIVE_MOVER_H_

#include <cstddef>
#include <cstring>
#include <string>

namespace tfwave {

// Of one piece of memory.
class Mover {
 public:
  virtual ~Mover() = default;

  // Returns when what is copied is written, and nobody uses any more where it goes.
  virtual void Await() {}
  // Returns when it is copied; what went wrong, or "".
  virtual std::string Move(void* to, const void* from, size_t bytes) {
    std::memcpy(to, from, bytes);
    return "";
  }
};

// Thread-safe.
class Pinner {
 public:
  virtual ~Pinner() = default;

  // Keeps the memory where it is until it is let go; what went wrong, or "".
  virtual std::string Pin(void* memory, size_t bytes) = 0;
  virtual void Unpin(void* memory) = 0;
};

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_MOVER_H_
