// Many jobs at random: against an oracle that tries all orders, and under threads.
#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <random>

#include "ledger_test.h"

namespace tfwave {
namespace {

using Bytes = std::vector<int64_t>;

struct Model {
  int64_t resident = 0, priority = 0;
  Bytes held, transients;
  int group = 0;
  bool joins = false, begun = false, running = false, waiting = false;
  int64_t asked = 0;  // when
  int64_t request = 0;

  int groups() const { return static_cast<int>(transients.size()); }
  bool IsMidStep() const { return running || group > 0; }
  int64_t At(int g) const { return resident + std::max(held[0], held[g]); }
  int64_t In(int g) const { return std::max({At(g), At(g + 1), resident + held[g] + transients[g]}); }
  int64_t Most() const {
    int64_t most = 0;
    for (int g = 0; g < groups(); ++g) most = std::max(most, In(g) - At(0));
    return most;
  }
  int64_t Now() const { return joins ? 0 : running ? In(group) : At(group); }
};
using Models = std::map<std::string, Model>;

int64_t Total(const Models& models) {
  int64_t total = 0;
  for (const auto& [name, model] : models) total += model.Now();
  return total;
}

int64_t Running(const Models& models) {
  return std::count_if(models.begin(), models.end(), [](const auto& entry) { return entry.second.running; });
}

bool IsWithin(const Models& models, const LedgerRooms& rooms) {
  return Total(models) <= (Running(models) > 1 ? rooms.shared : rooms.alone);
}

// What is left of a step: bytes that its job holds now, at most until its end, and then.
struct Left {
  int64_t now, most, then;
};

// Runs the steps one after the other, each to its end, in each order there is.
bool SomeOrderFinishes(const Models& models, int64_t room) {
  int64_t start = 0;
  std::vector<Left> left;
  for (auto [name, model] : models) {
    const bool is_mid_step = model.IsMidStep();
    model.group += std::exchange(model.running, false);
    start += model.Now();
    if (!is_mid_step) continue;
    left.push_back({model.Now(), model.Now(), model.At(model.groups())});
    for (int g = model.group; g < model.groups(); ++g) left.back().most = std::max(left.back().most, model.In(g));
  }
  std::vector<int> order(left.size());
  std::iota(order.begin(), order.end(), 0);
  do {
    int64_t total = start;
    bool fits = total <= room;
    for (const int i : order) {
      fits = fits && total - left[i].now + left[i].most <= room;
      total += left[i].then - left[i].now;
      fits = fits && total <= room;
    }
    if (fits) return true;
  } while (std::next_permutation(order.begin(), order.end()));
  return false;
}

bool TakeTurns(const std::string& one, const std::string& other) {
  return (one == "a" && other == "b") || (one == "b" && other == "a");
}

bool MayStart(const Models& models, const std::string& name, const LedgerRooms& rooms) {
  const Model& asking = models.at(name);
  for (const auto& [other, model] : models) {
    const bool older = model.waiting && model.asked < asking.asked;
    if (asking.group == 0 && older && model.priority >= asking.priority) return false;
    const bool apart = !asking.joins && TakeTurns(name, other);
    if (apart && model.running && model.priority >= asking.priority) return false;
  }
  Models started = models;
  started[name].joins = false;
  started[name].running = !asking.joins;
  return IsWithin(started, rooms) && SomeOrderFinishes(started, rooms.alone);
}

class Soak {
 public:
  explicit Soak(int seed) : random_(seed), rooms_{100, Between(60, 100)}, desk_(rooms_) {
    desk_.ledger.TakeTurns("a", "b");
  }

  void Run() {
    for (int i = 0; i < 400; ++i) {
      Event();
      Check();
    }
    Drain();
  }

 private:
  void Event() {
    const std::string name(1, static_cast<char>('a' + Between(0, 4)));
    const auto found = models_.find(name);
    const int64_t dice = Between(0, 99);
    if (found == models_.end()) return Join(name);
    if (dice < 4) {
      desk_.ledger.Remove(name);
      models_.erase(name);
    } else if (dice < 10 && found->second.begun) {
      End(name, &found->second);
    } else if (dice < 14 && found->second.waiting && !found->second.joins) {
      desk_.ledger.Cancel(found->second.request);
      End(name, &found->second);
    } else {
      Advance(name, &found->second);
    }
  }

  void Join(const std::string& name) {
    Model model;
    model.resident = Between(0, 12);
    model.priority = Between(0, 1);
    const int64_t groups = Between(1, 5);
    for (int64_t i = 0; i <= groups; ++i) model.held.push_back(i == 0 ? 0 : Between(-5, 30));
    for (int64_t i = 0; i < groups; ++i) model.transients.push_back(Between(0, 30));
    std::string error;
    const Footprint footprint(model.resident, model.held, model.transients);
    const auto joined = [this, name](Verdict) { models_[name].joins = models_[name].waiting = false; };
    model.request = desk_.ledger.Add(name, footprint, model.priority, joined, &error);
    CHECK(FitsBetweenSteps(name, model) == error.empty());
    if (!error.empty()) return;
    model.joins = model.waiting = model.request != 0;
    model.asked = ++clock_;
    models_[name] = model;
  }

  bool FitsBetweenSteps(const std::string& name, const Model& joining) const {
    int64_t idle = joining.At(0), most = joining.Most();
    for (const auto& [other, model] : models_) {
      CHECK(other != name);
      idle += model.At(0);
      most = std::max(most, model.Most());
    }
    return idle + most <= rooms_.alone;
  }

  void Advance(const std::string& name, Model* model) {
    if (model->waiting) return;
    if (!model->begun) {
      desk_.Begin(name);
      model->begun = true;
    } else if (!model->running) {
      return End(name, model);  // a cancelled one
    } else if (++model->group == model->groups()) {
      model->group = 0;
      model->running = false;
      return End(name, model);
    }
    model->running = false;
    model->waiting = true;
    model->asked = ++clock_;
    model->request = desk_.Ask(name, model->group);
    if (model->request == 0) std::swap(model->waiting, model->running);
  }

  void End(const std::string& name, Model* model) {
    model->begun = model->running = model->waiting = false;
    model->group = 0;
    desk_.End(name);
  }

  void Check() {
    for (const std::string& said : desk_.Said()) {
      const auto found = models_.find(said.substr(0, 1));
      if (found == models_.end() || !found->second.waiting || said.substr(4) != "go") continue;
      found->second.waiting = false;
      found->second.running = true;
    }
    CHECK(IsWithin(models_, rooms_));
    for (const auto& [name, model] : models_) {
      const LedgerEntry entry = desk_.Entry(name);
      CHECK(entry.known && entry.group == (model.running ? model.group : -1) && entry.held == model.Now());
      CHECK(!model.waiting || !MayStart(models_, name, rooms_));
    }
    CHECK(desk_.ledger.counters().released == 0);
  }

  // No new steps: those that have begun, or wait to, all end.
  void Drain() {
    const auto under_way = [](const auto& entry) { return entry.second.begun; };
    while (std::any_of(models_.begin(), models_.end(), under_way)) {
      std::vector<std::string> goes_on;
      for (const auto& [name, model] : models_) {
        if (model.begun && !model.waiting) goes_on.push_back(name);
      }
      CHECK(!goes_on.empty());
      const std::string& name = goes_on[Between(0, goes_on.size() - 1)];
      Advance(name, &models_[name]);
      Check();
    }
  }

  int64_t Between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }

  std::mt19937 random_;
  const LedgerRooms rooms_;
  Models models_;
  int64_t clock_ = 0;
  Desk desk_;  // goes first: it still answers
};

// A step of a job, from thread to thread: each group's end asks for the next one.
class Looping {
 public:
  Looping(Ledger* ledger, std::string name, int seed) : ledger_(ledger), name_(std::move(name)), random_(seed) {}

  void Run(int steps) {
    for (int i = 0; i < steps; ++i) {
      if (i % 7 == 0) Join();
      Step();
      if (i % 7 == 6) ledger_->Remove(name_);
    }
  }

 private:
  void Join() {
    std::string error;
    std::atomic<bool> joined{false};
    const auto answered = [&](Verdict) { joined = true; };
    if (ledger_->Add(name_, Footprint(2, {0, 20, 30, 0}, {20, 20, 5}), random_() % 2, answered, &error)) {
      WaitUntil([&] { return joined.load(); });
    }
    CHECK(error.empty());
  }

  void Step() {
    std::string error;
    const int64_t step = ledger_->BeginStep(name_, &error);
    for (int group = 0; group < 3 && error.empty(); ++group) {
      const auto answer = std::make_shared<std::atomic<int>>(-1);
      const auto answered = [answer](Verdict verdict) { answer->store(static_cast<int>(verdict)); };
      const int64_t request = ledger_->Ask(name_, group, answered, &error);
      if (random_() % 8 == 0) {
        if (request != 0 && random_() % 2) ledger_->Cancel(request);
        break;
      }
      while (request != 0 && *answer < 0) std::this_thread::yield();
    }
    CHECK(error.empty());
    ledger_->EndStep(name_, step);
  }

  Ledger* const ledger_;
  const std::string name_;
  std::mt19937 random_;
};

void NothingIsLostInAStorm() {
  Ledger ledger;
  std::string error;
  ledger.Open({100, 90}, 1e6, &error);
  std::atomic<bool> stop{false};
  std::thread watcher([&] {
    while (!stop) {
      const auto entries = ledger.Entries({"a", "b", "c", "d"});
      const auto add = [](int64_t sum, const LedgerEntry& entry) { return sum + entry.held; };
      CHECK(std::accumulate(entries.begin(), entries.end(), int64_t{0}, add) <= 100);
    }
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&ledger, i] { Looping(&ledger, std::string(1, static_cast<char>('a' + i)), i).Run(140); });
  }
  for (auto& thread : threads) thread.join();
  stop = true;
  watcher.join();
  for (const LedgerEntry& entry : ledger.Entries({"a", "b", "c", "d"})) CHECK(!entry.known);
  CHECK(ledger.counters().released == 0);
}

}  // namespace

void TestSoak() {
  for (int seed = 0; seed < 300; ++seed) Soak(seed).Run();
  NothingIsLostInAStorm();
}

}  // namespace tfwave
