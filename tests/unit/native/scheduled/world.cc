#include "world.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "sync.h"

namespace tfwave {
namespace {

constexpr int64_t kPointsToPassTime = 64;
constexpr int64_t kWakesWithoutReason = 64;

}  // namespace

World& World::Instance() {
  static World* const world = new World;  // a failed check ends the program from within a fiber
  return *world;
}

void World::Run(uint64_t seed, bool hurry, const std::function<void()>& work) {
  seed_ = state_ = seed;
  hurry_ = hurry;
  now_ = 1;
  current_ = 0;
  most_choices_ = choices_ + kMostChoices;
  calm_ = int64_t{1} << Below(4);
  Start(work);
  if (_setjmp(outside_) == 0) SwitchTo(0);
  for (auto& fiber : fibers_) spare_.push_back(std::move(fiber));
  fibers_.clear();
}

// splitmix64
uint64_t World::Random() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

int World::Start(std::function<void()> work) {
  if (spare_.empty()) {
    spare_.push_back(std::make_unique<Fiber>());
    spare_.back()->stack.resize(kStackBytes);
  }
  std::unique_ptr<Fiber> fiber = std::move(spare_.back());
  spare_.pop_back();
  fiber->work = std::move(work);
  fiber->begun = fiber->done = false;
  fiber->waits_on = nullptr;
  fibers_.push_back(std::move(fiber));
  return static_cast<int>(fibers_.size()) - 1;
}

void World::Point() {
  if (!OneOf(calm_)) return;
  if (hurry_ && OneOf(kPointsToPassTime)) PassTime();
  SwitchTo(Next());
}

void World::Block(const void* on, int64_t until) {
  Fiber& me = *fibers_[current_];
  me.waits_on = on;
  me.until = until;
  SwitchTo(Next());
}

void World::Wake(const void* on) {
  for (auto& fiber : fibers_) {
    if (fiber->waits_on == on) fiber->waits_on = nullptr;
  }
}

void World::Join(int number) {
  while (!fibers_[number]->done) Block(fibers_[number].get());
}

void World::Sleep(int64_t nanos) {
  const int64_t until = now_ + nanos;
  while (now_ < until) Block(this, until);
}

int World::Next() {
  do {
    ready_.clear();
    for (size_t i = 0; i < fibers_.size(); ++i) {
      if (!fibers_[i]->done && fibers_[i]->waits_on == nullptr) ready_.push_back(static_cast<int>(i));
    }
  } while (ready_.empty() && PassTime());
  if (ready_.empty()) Fail("all wait for ever");
  return ready_[Below(static_cast<int64_t>(ready_.size()))];
}

// To the first time that somebody waits for; false: nobody does.
bool World::PassTime() {
  int64_t first = std::numeric_limits<int64_t>::max();
  for (const auto& fiber : fibers_) {
    if (fiber->waits_on != nullptr && fiber->until != 0) first = std::min(first, fiber->until);
  }
  if (first == std::numeric_limits<int64_t>::max()) return false;
  now_ = std::max(now_, first);
  for (auto& fiber : fibers_) {
    if (fiber->waits_on != nullptr && fiber->until != 0 && fiber->until <= now_) fiber->waits_on = nullptr;
  }
  return true;
}

// A context is made once for each stack; from then on it is jumped to, which asks nothing of the kernel.
void World::SwitchTo(int next) {
  if (++choices_ > most_choices_) Fail("it goes on for ever");
  if (next == current_ && fibers_[next]->begun) return;
  Fiber& from = *fibers_[current_];
  Fiber& to = *fibers_[next];
  current_ = next;
  if (from.begun && _setjmp(from.at) != 0) return;
  to.begun = true;
  if (to.made) _longjmp(to.at, 1);
  to.made = true;
  ucontext_t context;
  if (getcontext(&context) != 0) Fail("no context");
  context.uc_stack.ss_sp = to.stack.data();
  context.uc_stack.ss_size = to.stack.size();
  context.uc_link = nullptr;
  makecontext(&context, &World::Enter, 0);
  setcontext(&context);
}

void World::Enter() {
  while (true) Instance().Work();
}

// Returns when the fiber has other work.
void World::Work() {
  Fiber& me = *fibers_[current_];
  me.work();
  me.work = nullptr;
  me.done = true;
  Wake(&me);
  const bool over = std::all_of(fibers_.begin(), fibers_.end(), [](const auto& f) { return f->done; });
  if (!over) return SwitchTo(Next());
  if (_setjmp(me.at) == 0) _longjmp(outside_, 1);
}

void World::Fail(const char* what) const {
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

Clock::time_point Clock::now() { return time_point(duration(World::Instance().NowNanos())); }

void Mutex::lock() {
  World& world = World::Instance();
  world.Point();
  while (taken_) world.Block(this);
  taken_ = true;
}

void Mutex::unlock() {
  Leave();
  World::Instance().Point();
}

void Mutex::Leave() {
  taken_ = false;
  World::Instance().Wake(this);
}

void Condition::wait(std::unique_lock<Mutex>& lock) { wait_until(lock, Clock::time_point()); }

// The lock is the caller's again when this returns: `lock` never learns that it was not.
std::cv_status Condition::wait_until(std::unique_lock<Mutex>& lock, Clock::time_point until) {
  World& world = World::Instance();
  const int64_t due = until.time_since_epoch().count();
  Mutex& mutex = *lock.mutex();
  mutex.Leave();
  if (world.OneOf(kWakesWithoutReason) || (due != 0 && world.NowNanos() >= due)) {
    world.Point();
  } else {
    world.Block(this, due);
  }
  mutex.lock();
  return due != 0 && world.NowNanos() >= due ? std::cv_status::timeout : std::cv_status::no_timeout;
}

void Condition::notify_all() { World::Instance().Wake(this); }

void Thread::join() {
  World::Instance().Join(number_);
  number_ = 0;
}

void Thread::Start(std::function<void()> work) { number_ = World::Instance().Start(std::move(work)); }

}  // namespace tfwave
