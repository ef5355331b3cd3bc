#include "pool/stash.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

namespace tfwave {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kMostBytes = int64_t{1} << 60;

// A container's own limit, where there is one (cgroups, version 2 and 1).
int64_t HalfOfTheMachine() {
  int64_t bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  for (const char* const file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    int64_t most = 0;
    if (std::ifstream(file) >> most) bytes = std::min(bytes, most);  // "max" is no number
  }
  return bytes / 2;
}

}  // namespace

Stash::Stash() : limit_(HalfOfTheMachine()) {}

Stash::~Stash() { Trim(); }

void Stash::SetLimit(int64_t bytes, std::string* error) {
  std::lock_guard<Mutex> lock(mu_);
  if (bytes < held_ || bytes < 1 || bytes > kMostBytes) {
    *error = "a limit of " + std::to_string(bytes) + " bytes for the stash, which holds " + std::to_string(held_) +
             ": give more, and at most 2^60";
    return;
  }
  limit_ = bytes;
  UnmapFree(limit_);
}

void Stash::Reserve(const std::vector<int64_t>& sizes, std::string* error) {
  std::map<int64_t, int64_t> missing;
  int64_t total = 0;
  for (const int64_t bytes : sizes) {
    if (bytes < 1) continue;
    ++missing[Rounded(bytes)];
    total = std::min(kMostBytes, total + std::min(kMostBytes, Rounded(bytes)));
  }
  std::unique_lock<Mutex> lock(mu_);
  if (total > limit_) {
    *error = "the host stash cannot keep " + std::to_string(total) + " bytes ready, as its limit is " +
             std::to_string(limit_) + ": raise the limit";
    return;
  }
  for (auto& [bytes, count] : missing) {
    for (count -= sizes_[bytes].mapped; count > 0; --count) {
      char* const memory = Map(bytes, error);
      if (memory == nullptr) return;
      lock.unlock();
      for (int64_t offset = 0; offset < bytes; offset += kPage) static_cast<volatile char*>(memory)[offset] = 0;
      lock.lock();
      sizes_[bytes].free.push_back(memory);
    }
  }
}

void Stash::PinWith(std::unique_ptr<Pinner> pinner, std::string* error) {
  std::lock_guard<Mutex> lock(mu_);
  if (pinner_ != nullptr) return;
  pinner_ = std::move(pinner);
  for (const auto& [bytes, size] : sizes_) {
    for (char* const memory : size.free) {
      if (error->empty()) Pin(memory, bytes, error);
    }
  }
}

void Stash::Trim() {
  std::lock_guard<Mutex> lock(mu_);
  UnmapFree(0);
}

void Stash::AddUser() {
  std::lock_guard<Mutex> lock(mu_);
  ++users_;
}

void Stash::DropUser() {
  std::lock_guard<Mutex> lock(mu_);
  if (--users_ == 0) UnmapFree(0);
}

int64_t Stash::Open(Stashed stashed, std::string* error) {
  std::lock_guard<Mutex> lock(mu_);
  char* const memory = Take(stashed.bytes, error);
  if (!error->empty()) {
    *error = "slot '" + stashed.slot + "': " + *error;
    return 0;
  }
  tickets_[++last_ticket_] = {std::move(stashed), memory};
  ++kept_;
  return last_ticket_;
}

void Stash::CopyOut(int64_t ticket, const void* from, Turn turn) {
  std::unique_lock<Mutex> lock(mu_);
  const Ticket& found = tickets_.at(ticket);
  Copy copy = {found.memory, from, static_cast<size_t>(found.stashed.bytes), std::move(turn.cancelled),
               std::move(turn.mover), std::move(turn.done)};
  lock.unlock();
  out_.Add(std::move(copy));
}

Stashed Stash::Find(int64_t ticket, std::string* error) const {
  std::lock_guard<Mutex> lock(mu_);
  *error = Refusal(ticket);
  return error->empty() ? tickets_.at(ticket).stashed : Stashed();
}

void Stash::CopyIn(int64_t ticket, void* to, Turn turn, std::string* error) {
  std::unique_lock<Mutex> lock(mu_);
  *error = Refusal(ticket);
  if (!error->empty()) return;
  Ticket& found = tickets_.at(ticket);
  found.state = State::kComesIn;
  --kept_;
  const auto end = [this, ticket, done = std::move(turn.done)](Copied copied, const std::string& why) {
    EndCopyIn(ticket);
    done(copied, why);
  };
  Copy copy = {to, found.memory, static_cast<size_t>(found.stashed.bytes), std::move(turn.cancelled),
               std::move(turn.mover), end};
  lock.unlock();
  in_.Add(std::move(copy));
}

void Stash::EndCopyIn(int64_t ticket) {
  std::lock_guard<Mutex> lock(mu_);
  Ticket& found = tickets_.at(ticket);
  GiveBack(found.memory, found.stashed.bytes);
  found.state = State::kFetched;
  if (found.dropped) tickets_.erase(ticket);
}

void Stash::Drop(int64_t ticket) {
  std::lock_guard<Mutex> lock(mu_);
  Ticket& found = tickets_.at(ticket);
  if (found.state == State::kComesIn) {
    found.dropped = true;
    return;
  }
  if (found.state == State::kKept) {
    GiveBack(found.memory, found.stashed.bytes);
    --kept_;
  }
  tickets_.erase(ticket);
}

StashCounters Stash::counters() const {
  std::lock_guard<Mutex> lock(mu_);
  return {out_.counters(), in_.counters(), kept_, held_, high_water_, mapped_, pinned_bytes_, limit_};
}

std::string Stash::Refusal(int64_t ticket) const {
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end()) {
    return "the host stash has no ticket " + std::to_string(ticket) + ": fetch what a TfwaveStash of the step gave";
  }
  if (found->second.state == State::kKept) return "";
  return "slot '" + found->second.stashed.slot + "': its ticket " + std::to_string(ticket) +
         " was fetched before: use what that fetch gave";
}

int64_t Stash::Rounded(int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

char* Stash::Take(int64_t bytes, std::string* error) {
  const int64_t rounded = Rounded(bytes);
  if (rounded == 0) return nullptr;
  std::vector<char*>& free = sizes_[rounded].free;
  char* memory = nullptr;
  if (free.empty()) {
    memory = Map(rounded, error);
    if (memory == nullptr) return nullptr;
  } else {
    memory = free.back();
    free.pop_back();
  }
  held_ += rounded;
  high_water_ = std::max(high_water_, held_);
  return memory;
}

void Stash::GiveBack(char* memory, int64_t bytes) {
  if (memory == nullptr) return;
  sizes_[Rounded(bytes)].free.push_back(memory);
  held_ -= Rounded(bytes);
}

// What is kept for others makes room.
char* Stash::Map(int64_t rounded, std::string* error) {
  if (held_ + rounded <= limit_) UnmapFree(limit_ - rounded);
  if (mapped_ + rounded > limit_) {
    *error = std::to_string(rounded) + " bytes more than the " + std::to_string(held_) +
             " that the host stash holds are over its limit of " + std::to_string(limit_) + ": raise the limit";
    return nullptr;
  }
  void* const memory = mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    *error = "the host has no " + std::to_string(rounded) + " bytes for the stash: " + std::strerror(errno);
    return nullptr;
  }
  madvise(memory, rounded, MADV_HUGEPAGE);
  mapped_ += rounded;
  ++sizes_[rounded].mapped;
  Pin(static_cast<char*>(memory), rounded, error);
  if (error->empty()) return static_cast<char*>(memory);
  Unmap(static_cast<char*>(memory), rounded);
  return nullptr;
}

void Stash::Unmap(char* memory, int64_t rounded) {
  const auto pinned = pinned_.find(memory);
  if (pinned != pinned_.end()) {
    pinner_->Unpin(memory);
    pinned_bytes_ -= rounded;
    pinned_.erase(pinned);
  }
  munmap(memory, rounded);
  mapped_ -= rounded;
  --sizes_[rounded].mapped;
}

void Stash::Pin(char* memory, int64_t rounded, std::string* error) {
  if (pinner_ == nullptr) return;
  const std::string why = pinner_->Pin(memory, rounded);
  if (why.empty()) {
    pinned_.insert(memory);
    pinned_bytes_ += rounded;
  } else {
    *error = "the host cannot pin " + std::to_string(rounded) + " bytes of the stash for the GPU (" + why +
             "): limit the stash";
  }
}

// The largest first.
void Stash::UnmapFree(int64_t until_mapped) {
  for (auto size = sizes_.rbegin(); size != sizes_.rend(); ++size) {
    std::vector<char*>& free = size->second.free;
    for (; mapped_ > until_mapped && !free.empty(); free.pop_back()) Unmap(free.back(), size->first);
  }
}

}  // namespace tfwave
