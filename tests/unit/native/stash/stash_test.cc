// The stash, by hand and under threads; exits with 0 if all holds.
#include <atomic>
#include <cstring>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../check.h"
#include "pool/stash.h"

using namespace tfwave;

namespace {

constexpr int64_t kPage = 4096;

bool Never() { return false; }
bool Always() { return true; }

bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

int64_t Open(Stash& stash, int64_t bytes, std::string* error) { return stash.Open({"x", 1, {bytes}, bytes}, error); }

int64_t OpenWell(Stash& stash, int64_t bytes) {
  std::string error;
  const int64_t ticket = Open(stash, bytes, &error);
  CHECK(error.empty() && ticket > 0);
  return ticket;
}

Stash::Turn TurnOf(std::function<bool()> cancelled, std::function<void(Copied, const std::string&)> done) {
  return {std::move(cancelled), std::make_shared<Mover>(), std::move(done)};
}

// How it ended.
Copied Moved(const std::function<void(Stash::Turn)>& copy, std::function<bool()> cancelled) {
  std::promise<Copied> ended;
  copy(TurnOf(std::move(cancelled), [&](Copied copied, const std::string&) { ended.set_value(copied); }));
  return ended.get_future().get();
}

bool Out(Stash& stash, int64_t ticket, const void* from, std::function<bool()> cancelled = Never) {
  const auto copy = [&](Stash::Turn turn) { stash.CopyOut(ticket, from, std::move(turn)); };
  return Moved(copy, std::move(cancelled)) == Copied::kYes;
}

bool In(Stash& stash, int64_t ticket, void* to, std::function<bool()> cancelled = Never) {
  std::string error;
  const auto copy = [&](Stash::Turn turn) { stash.CopyIn(ticket, to, std::move(turn), &error); };
  const bool copied = Moved(copy, std::move(cancelled)) == Copied::kYes;
  CHECK(error.empty());
  return copied;
}

void WhatGoesOutComesIn() {
  Stash stash;
  std::vector<char> value(3 * kPage + 1), back(value.size());
  for (size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>(i % 101);
  std::string error;
  const int64_t ticket = stash.Open({"slot", 7, {3, 4}, static_cast<int64_t>(value.size())}, &error);
  CHECK(Out(stash, ticket, value.data()));
  CHECK(stash.counters().tickets == 1 && stash.counters().held == 4 * kPage);
  const Stashed found = stash.Find(ticket, &error);
  CHECK(error.empty() && found.slot == "slot" && found.type == 7 && found.shape == std::vector<int64_t>({3, 4}));
  CHECK(In(stash, ticket, back.data()) && back == value);
  const StashCounters counted = stash.counters();
  CHECK(counted.tickets == 0 && counted.held == 0 && counted.high_water == 4 * kPage && counted.mapped == 4 * kPage);
  CHECK(counted.out.bytes == 3 * kPage + 1 && counted.in.bytes == 3 * kPage + 1 && counted.in.copies == 1);
  stash.Drop(ticket);
}

void ATicketIsFetchedOnce() {
  Stash stash;
  char value = 1;
  const int64_t ticket = OpenWell(stash, 1);
  CHECK(Out(stash, ticket, &value) && In(stash, ticket, &value));
  std::string error;
  stash.CopyIn(ticket, &value, TurnOf(Never, [](Copied, const std::string&) { CHECK(false); }), &error);
  CHECK(Contains(error, "slot 'x'") && Contains(error, "was fetched before"));
  stash.Drop(ticket);
  stash.Find(ticket, &error);
  CHECK(Contains(error, "has no ticket 1"));
  stash.Find(99, &error);
  CHECK(Contains(error, "has no ticket 99"));
}

void WhatIsNotFetchedGoesWithItsTicket() {
  Stash stash;
  char value = 1;
  const int64_t ticket = OpenWell(stash, 1);
  CHECK(Out(stash, ticket, &value));
  stash.Drop(ticket);
  CHECK(stash.counters().tickets == 0 && stash.counters().held == 0 && stash.counters().mapped == kPage);
}

void ATicketThatIsDroppedComesInFirst() {
  Stash stash;
  char value = 5, back = 0;
  const int64_t ticket = OpenWell(stash, 1);
  CHECK(Out(stash, ticket, &value));
  std::promise<void> go, ended;
  std::string error;
  const auto wait = [&] {
    go.get_future().wait();
    return false;
  };
  stash.CopyIn(ticket, &back, TurnOf(wait, [&](Copied, const std::string&) { ended.set_value(); }), &error);
  stash.Drop(ticket);
  CHECK(stash.counters().held == kPage);
  go.set_value();
  ended.get_future().wait();
  CHECK(back == 5 && stash.counters().held == 0);
  stash.Find(ticket, &error);
  CHECK(Contains(error, "has no ticket"));
}

void ACancelledCopyIsNone() {
  Stash stash;
  char value = 5, back = 0;
  const int64_t never = OpenWell(stash, 1), ticket = OpenWell(stash, 1);
  CHECK(!Out(stash, never, &value, Always));
  stash.Drop(never);
  CHECK(Out(stash, ticket, &value) && !In(stash, ticket, &back, Always) && back == 0);
  stash.Drop(ticket);
  const StashCounters counted = stash.counters();
  CHECK(counted.held == 0 && counted.out.cancelled == 1 && counted.in.cancelled == 1 && counted.in.bytes == 0);
}

void TheLimitHolds() {
  Stash stash;
  std::string error;
  stash.SetLimit(3 * kPage, &error);
  const int64_t one = OpenWell(stash, kPage), two = OpenWell(stash, 2 * kPage);
  CHECK(Open(stash, 1, &error) == 0);
  CHECK(Contains(error, "slot 'x': 4096 bytes more than the 12288") && Contains(error, "limit of 12288"));
  CHECK(stash.counters().tickets == 2 && stash.counters().mapped == 3 * kPage);
  stash.Drop(two);
  const int64_t other = OpenWell(stash, kPage);  // what was kept of two makes room
  CHECK(stash.counters().held == 2 * kPage && stash.counters().mapped == 2 * kPage);
  error.clear();
  stash.SetLimit(kPage, &error);
  CHECK(Contains(error, "which holds 8192") && stash.counters().limit == 3 * kPage);
  stash.Drop(one);
  stash.Drop(other);
}

void WhatIsReservedIsUsed() {
  Stash stash;
  std::string error;
  stash.SetLimit(8 * kPage, &error);
  stash.Reserve({kPage, 2, 2 * kPage, 0}, &error);
  CHECK(error.empty() && stash.counters().mapped == 4 * kPage && stash.counters().held == 0);
  stash.Reserve({2 * kPage, kPage, kPage}, &error);
  CHECK(error.empty() && stash.counters().mapped == 4 * kPage);
  const int64_t tickets[] = {OpenWell(stash, 1), OpenWell(stash, kPage), OpenWell(stash, 2 * kPage)};
  CHECK(stash.counters().mapped == 4 * kPage && stash.counters().held == 4 * kPage);
  for (const int64_t ticket : tickets) stash.Drop(ticket);
  stash.Reserve({9 * kPage}, &error);
  CHECK(Contains(error, "cannot keep 36864 bytes ready"));
  stash.Trim();
  CHECK(stash.counters().mapped == 0);
}

void TheLastUserFreesWhatIsKept() {
  Stash stash;
  stash.AddUser();
  stash.AddUser();
  const int64_t kept = OpenWell(stash, 1);
  stash.Drop(OpenWell(stash, 1));
  stash.DropUser();
  CHECK(stash.counters().mapped == 2 * kPage);
  stash.DropUser();
  CHECK(stash.counters().mapped == kPage && stash.counters().held == kPage);
  stash.Drop(kept);
}

void NothingHasNoMemory() {
  Stash stash;
  const int64_t ticket = OpenWell(stash, 0);
  CHECK(Out(stash, ticket, nullptr) && In(stash, ticket, nullptr) && stash.counters().mapped == 0);
  stash.Drop(ticket);
}

// A mover whose copies are awaited, and fail where they are told to.
class Device : public Mover {
 public:
  Device(std::string error, bool* awaited) : error_(std::move(error)), awaited_(awaited) {}
  void Await() override { *awaited_ = true; }
  std::string Move(void* to, const void* from, size_t bytes) override {
    CHECK(*awaited_);
    return error_.empty() ? Mover::Move(to, from, bytes) : error_;
  }

 private:
  const std::string error_;
  bool* const awaited_;
};

void WhatADeviceCannotCopyIsSaid() {
  Stash stash;
  char value = 5;
  const int64_t ticket = OpenWell(stash, 1);
  for (const std::string& error : {std::string("the bus is gone"), std::string()}) {
    bool awaited = false;
    std::promise<std::string> said;
    const auto done = [&](Copied copied, const std::string& why) {
      CHECK(copied == (error.empty() ? Copied::kYes : Copied::kFailed));
      said.set_value(why);
    };
    stash.CopyOut(ticket, &value, {Never, std::make_shared<Device>(error, &awaited), done});
    CHECK(said.get_future().get() == error && awaited);
  }
  CHECK(stash.counters().out.copies == 1 && stash.counters().out.bytes == 1 && stash.counters().out.cancelled == 0);
  stash.Drop(ticket);
}

// What is pinned, in bytes; nothing over `most`.
class Counted : public Pinner {
 public:
  Counted(std::map<void*, size_t>* pinned, size_t most) : pinned_(pinned), most_(most) {}
  std::string Pin(void* memory, size_t bytes) override {
    if (bytes > most_) return "too much";
    CHECK(pinned_->emplace(memory, bytes).second);
    return "";
  }
  void Unpin(void* memory) override { CHECK(pinned_->erase(memory) == 1); }

 private:
  std::map<void*, size_t>* const pinned_;
  const size_t most_;
};

void WhatIsMappedIsPinned() {
  std::map<void*, size_t> pinned;
  Stash stash;
  std::string error;
  const int64_t before = OpenWell(stash, 1);
  stash.Reserve({2 * kPage}, &error);
  stash.PinWith(std::make_unique<Counted>(&pinned, 4 * kPage), &error);
  CHECK(error.empty() && pinned.size() == 1 && stash.counters().pinned == 2 * kPage);  // what is held stays as it is
  stash.PinWith(std::make_unique<Counted>(nullptr, 0), &error);
  CHECK(error.empty() && stash.counters().pinned == 2 * kPage);
  const int64_t ticket = OpenWell(stash, 3 * kPage);
  CHECK(pinned.size() == 2 && stash.counters().pinned == 5 * kPage && stash.counters().mapped == 6 * kPage);
  CHECK(Open(stash, 5 * kPage, &error) == 0);
  CHECK(Contains(error, "slot 'x': the host cannot pin 20480 bytes of the stash for the GPU (too much)"));
  CHECK(stash.counters().mapped == 6 * kPage);
  stash.Drop(before);
  stash.Drop(ticket);
  stash.Trim();
  CHECK(pinned.empty() && stash.counters().pinned == 0 && stash.counters().mapped == 0);
}

void WhatIsKeptAndCannotBePinnedIsSaid() {
  std::map<void*, size_t> pinned;
  Stash stash;
  std::string error;
  stash.Reserve({kPage, 2 * kPage}, &error);
  stash.PinWith(std::make_unique<Counted>(&pinned, kPage), &error);
  CHECK(Contains(error, "cannot pin 8192 bytes") && stash.counters().pinned == kPage);
}

// Steps in several threads: some end between the two copies, some are cancelled within.
void Soak() {
  Stash stash;
  std::string error;
  stash.SetLimit(64 * kPage, &error);
  std::atomic<int64_t> refused{0}, fetched{0};
  const auto work = [&](int seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 300; ++i) {
      std::vector<char> value(1 + random() % (12 * kPage), static_cast<char>(random())), back(value.size());
      std::string why;
      const int64_t ticket = Open(stash, value.size(), &why);
      if (ticket == 0) {
        ++refused;
        continue;
      }
      const bool cancel = random() % 5 == 0;
      if (Out(stash, ticket, value.data(), [cancel] { return cancel; }) && random() % 4 != 0) {
        CHECK(In(stash, ticket, back.data()) && back == value);
        ++fetched;
      }
      if (random() % 50 == 0) stash.Trim();
      if (random() % 50 == 0) stash.Reserve({kPage, 2 * kPage}, &why);
      CHECK(stash.counters().mapped <= 64 * kPage);
      stash.Drop(ticket);
    }
  };
  std::vector<std::thread> threads;
  for (int seed = 0; seed < 8; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
  CHECK(fetched > 0 && refused > 0 && stash.counters().held == 0 && stash.counters().tickets == 0);
  stash.Trim();
  CHECK(stash.counters().mapped == 0);
}

}  // namespace

int main() {
  WhatGoesOutComesIn();
  ATicketIsFetchedOnce();
  WhatIsNotFetchedGoesWithItsTicket();
  ATicketThatIsDroppedComesInFirst();
  ACancelledCopyIsNone();
  TheLimitHolds();
  WhatIsReservedIsUsed();
  TheLastUserFreesWhatIsKept();
  NothingHasNoMemory();
  WhatADeviceCannotCopyIsSaid();
  WhatIsMappedIsPinned();
  WhatIsKeptAndCannotBePinnedIsSaid();
  Soak();
  std::puts("all hold");
}
