// Jobs that share a pool, whose steps ask group by group, while one of them ends early, is cancelled or leaves.
#include <map>
#include <string>
#include <vector>

#include "../check.h"
#include "pool/footprint.h"
#include "pool/ledger.h"
#include "scenario.h"
#include "sync.h"
#include "world.h"

namespace tfwave {
namespace {

constexpr int kMostJobs = 3, kMostGroups = 3, kSteps = 2;
constexpr double kDeadlineSeconds = 1e3;  // of virtual time: it passes only if all wait

enum Fault { kNone, kEndEarly, kCancel, kRemove, kTurns, kFaults };

// An answer that somebody waits for.
class Reply {
 public:
  Answered Answer() {
    return [this](Verdict verdict) {
      std::lock_guard<Mutex> lock(mu_);
      CHECK(!come_);
      come_ = true;
      verdict_ = verdict;
      came_.notify_all();
    };
  }

  Verdict Wait() {
    std::unique_lock<Mutex> lock(mu_);
    came_.wait(lock, [this] { return come_; });
    return verdict_;
  }

 private:
  Mutex mu_;
  Condition came_;
  bool come_ = false;
  Verdict verdict_ = Verdict::kGo;
};

class Pool {
 public:
  explicit Pool(Fault fault) : fault_(fault) {
    World& world = World::Instance();
    const int64_t jobs = 2 + world.Below(kMostJobs - 1);
    int64_t resident = 0, most = 0;
    for (int64_t i = 0; i < jobs; ++i) {
      const Footprint footprint = Drawn();
      resident += footprint.Before(0);
      most = std::max(most, footprint.NeedFrom(0) - footprint.Before(0));
      footprints_[std::string(1, static_cast<char>('a' + i))] = footprint;
    }
    rooms_ = {resident + most, resident + most - world.Below(3)};
    std::string error;
    ledger_.Open(rooms_, kDeadlineSeconds, &error);
    CHECK(error.empty());
    if (fault == kTurns) ledger_.TakeTurns("a", "b");
  }

  void Run() {
    std::vector<Thread> threads;
    int64_t priority = 0;
    for (const auto& [name, footprint] : footprints_) {
      threads.emplace_back([this, name = name, priority] { RunJob(name, priority); });
      priority = World::Instance().Below(2);
    }
    if (fault_ == kRemove) threads.emplace_back([this] { RemoveOne(); });
    for (Thread& thread : threads) thread.join();
  }

  // Nobody had to be let through, so nobody waited for ever; and nothing is held.
  void CheckEnd() const {
    const LedgerCounters c = ledger_.counters();
    CHECK(c.released == 0);
    for (const auto& [name, footprint] : footprints_) {
      const LedgerEntry entry = ledger_.Entries({name})[0];
      CHECK(!entry.known && entry.held == 0);
    }
  }

 private:
  static Footprint Drawn() {
    World& world = World::Instance();
    const int64_t groups = 1 + world.Below(kMostGroups);
    std::vector<int64_t> held = {0}, transients;
    for (int64_t g = 0; g < groups; ++g) {
      held.push_back(g + 1 == groups ? 0 : world.Below(5));
      transients.push_back(world.Below(5));
    }
    return Footprint(1 + world.Below(2), held, transients);
  }

  void RunJob(const std::string& name, int64_t priority) {
    const bool joins = Answers([&](Answered answered, std::string* error) {
      return ledger_.Add(name, footprints_.at(name), priority, std::move(answered), error);
    });
    for (int step = 0; joins && step < kSteps; ++step) RunStep(name);
    ledger_.Remove(name);
  }

  void RunStep(const std::string& name) {
    std::string error;
    const int64_t step = ledger_.BeginStep(name, &error);
    CHECK(step != 0 || removed_ == name);
    if (step == 0) return;
    const int groups = footprints_.at(name).groups();
    const bool ends_early = fault_ == kEndEarly && World::Instance().OneOf(3);
    for (int group = 0; group < (ends_early ? 1 : groups); ++group) {
      const bool may = Answers([&](Answered answered, std::string* why) {
        return ledger_.Ask(name, group, std::move(answered), why);
      });
      if (!may) break;
      CHECK(IsWithin());
      World::Instance().Point();
    }
    ledger_.EndStep(name, step);
  }

  // What it holds in its step is its own from now on: the others' bytes only are counted.
  void RemoveOne() {
    for (int64_t i = World::Instance().Below(16); i > 0; --i) World::Instance().Point();
    if (!ledger_.Entries({"a"})[0].known) return;
    removed_ = "a";
    ledger_.Remove("a");
  }

  // Whether what was asked for is granted, now or later; false: it was cancelled.
  template <typename Ask>
  bool Answers(const Ask& ask) {
    Reply reply;
    std::string error;
    const int64_t request = ask(reply.Answer(), &error);
    CHECK(error.empty());
    if (request == 0) return true;
    if (fault_ == kCancel && World::Instance().OneOf(4)) ledger_.Cancel(request);
    return reply.Wait() == Verdict::kGo;
  }

  // What the jobs hold by their own footprints, asked at once.
  bool IsWithin() const {
    std::vector<std::string> names;
    for (const auto& [name, footprint] : footprints_) names.push_back(name);
    int64_t held = 0, running = 0;
    for (const LedgerEntry& entry : ledger_.Entries(names)) {
      held += entry.held;
      running += entry.group >= 0;
    }
    return held <= (running > 1 ? rooms_.shared : rooms_.alone);
  }

  const Fault fault_;
  std::map<std::string, Footprint> footprints_;
  LedgerRooms rooms_ = {0, 0};
  Ledger ledger_;
  std::string removed_;
};

}  // namespace

void RunScenario(uint64_t seed) {
  World::Instance().Run(seed, false, [&] {
    Pool pool(static_cast<Fault>(seed % kFaults));
    pool.Run();
    pool.CheckEnd();
  });
}

}  // namespace tfwave
