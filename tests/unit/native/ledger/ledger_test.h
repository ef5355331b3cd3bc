// What the ledger's tests share.
#ifndef TFWAVE_TESTS_LEDGER_TEST_H_
#define TFWAVE_TESTS_LEDGER_TEST_H_

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "../check.h"
#include "pool/ledger.h"

namespace tfwave {

// An open ledger, and what it answered late, in order: "a 1 go" or "a 1 cancelled".
class Desk {
 public:
  explicit Desk(const LedgerRooms& rooms, double wait_seconds = 1e6) {
    std::string error;
    ledger.Open(rooms, wait_seconds, &error);
    CHECK(error.empty());
  }

  // False: it has to wait.
  bool Add(const std::string& name, int64_t resident, std::vector<int64_t> held, const std::vector<int64_t>& transients,
           int64_t priority = 0) {
    std::string error;
    const int64_t request =
        ledger.Add(name, Footprint(resident, std::move(held), transients), priority, Late(name + " joins"), &error);
    CHECK(error.empty());
    return request == 0;
  }
  void Begin(const std::string& name) {
    std::string error;
    steps_[name] = ledger.BeginStep(name, &error);
    CHECK(error.empty());
  }
  void End(const std::string& name) { ledger.EndStep(name, steps_[name]); }
  // The number of the request if it has to wait, or 0.
  int64_t Ask(const std::string& name, int group) {
    std::string error;
    const int64_t request = ledger.Ask(name, group, Late(name + " " + std::to_string(group)), &error);
    CHECK(error.empty());
    return request;
  }
  int64_t Start(const std::string& name) {
    Begin(name);
    return Ask(name, 0);
  }
  LedgerEntry Entry(const std::string& name) const { return ledger.Entries({name})[0]; }
  std::vector<std::string> Said() {
    std::lock_guard<std::mutex> lock(mu_);
    return std::exchange(said_, {});
  }

 private:
  std::mutex mu_;
  std::vector<std::string> said_;
  std::map<std::string, int64_t> steps_;

  Answered Late(const std::string& what) {
    return [this, what](Verdict verdict) {
      std::lock_guard<std::mutex> lock(mu_);
      said_.push_back(what + (verdict == Verdict::kGo ? " go" : " cancelled"));
    };
  }

 public:
  Ledger ledger;  // goes first: it still answers
};

using Said = std::vector<std::string>;

void TestSoak();

}  // namespace tfwave

#endif  // TFWAVE_TESTS_LEDGER_TEST_H_
