// What a rendezvous key says beyond what TensorFlow takes apart.
#ifndef TFWAVE_NATIVE_RENDEZVOUS_KEY_H_
#define TFWAVE_NATIVE_RENDEZVOUS_KEY_H_

#include <string_view>

namespace tfwave {

// A key ends with its frame and iteration: "...;0:0" outside of all loops.
inline bool IsInWhileLoop(std::string_view key) { return key.substr(key.rfind(';') + 1) != "0:0"; }

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_RENDEZVOUS_KEY_H_
