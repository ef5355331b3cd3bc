// One schedule of a few threads: chosen by a seed, with a time of its own.
#ifndef TFWAVE_TESTS_SCHEDULED_WORLD_H_
#define TFWAVE_TESTS_SCHEDULED_WORLD_H_

#include <setjmp.h>
#include <ucontext.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace tfwave {

// Runs fibers, one at a time, each on a stack of its own; they change places only inside the calls below.
class World {
 public:
  static World& Instance();

  // Runs `work`, and all threads that it starts, to their end. How they take turns depends on nothing but the seed.
  // If all wait for ever, or go on for ever, the program ends with the seed. With `hurry` a deadline may pass
  // although others could go on.
  void Run(uint64_t seed, bool hurry, const std::function<void()>& work);

  // Somebody else may run now.
  void Point();
  // The caller waits until woken, or until the time; 0: no time.
  void Block(const void* on, int64_t until_nanos = 0);
  void Wake(const void* on);
  int Start(std::function<void()> work);
  void Join(int number);
  void Sleep(int64_t nanos);
  // From now on time passes only when all wait.
  void DoNotHurry() { hurry_ = false; }
  int64_t NowNanos() { return ++now_; }

  uint64_t Random();
  int64_t Below(int64_t count) { return static_cast<int64_t>(Random() % count); }
  bool OneOf(int64_t count) { return Below(count) == 0; }

  uint64_t seed() const { return seed_; }
  int64_t choices() const { return choices_; }  // of who runs next, in all schedules

 private:
  struct Fiber {
    std::vector<char> stack;
    std::function<void()> work;
    jmp_buf at;
    bool made = false;  // the stack has a context, which waits at `at` for work
    bool begun = false;
    bool done = false;
    const void* waits_on = nullptr;
    int64_t until = 0;  // 0: no time
  };
  static constexpr int kStackBytes = 1 << 17;
  static constexpr int kMostChoices = 100000;  // of one schedule

  static void Enter();
  void Work();
  int Next();
  bool PassTime();
  void SwitchTo(int next);
  [[noreturn]] void Fail(const char* what) const;

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<std::unique_ptr<Fiber>> spare_;
  std::vector<int> ready_;
  int current_ = 0;
  uint64_t seed_ = 0;
  uint64_t state_ = 0;
  int64_t calm_ = 1;  // one of so many points is a change
  bool hurry_ = false;
  int64_t now_ = 0;
  int64_t choices_ = 0;
  int64_t most_choices_ = 0;
  jmp_buf outside_;
};

}  // namespace tfwave

#endif  // TFWAVE_TESTS_SCHEDULED_WORLD_H_
