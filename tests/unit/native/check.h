// What all tests of the native library share.
#ifndef TFWAVE_TESTS_CHECK_H_
#define TFWAVE_TESTS_CHECK_H_

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#define CHECK(condition)                                                                    \
  do {                                                                                      \
    if (condition) break;                                                                   \
    std::fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);      \
    std::exit(1);                                                                           \
  } while (false)

namespace tfwave {

template <typename Condition>
void WaitUntil(const Condition& condition) {
  for (int i = 0; i < 6000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(condition());
}

}  // namespace tfwave

#endif  // TFWAVE_TESTS_CHECK_H_
