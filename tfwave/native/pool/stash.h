// Memory of the host, outside TensorFlow's pools, in which tensors lie between their last use in the forward pass and
// their first in the backward pass. Knows nothing of TensorFlow.
#ifndef TFWAVE_NATIVE_STASH_H_
#define TFWAVE_NATIVE_STASH_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "pool/copy_thread.h"
#include "base/sync.h"

namespace tfwave {

// What a ticket stands for.
struct Stashed {
  std::string slot;  // what to call it
  int type = 0;
  std::vector<int64_t> shape;
  int64_t bytes = 0;
};

// Totals since the start, but for held and mapped. Bytes, nanoseconds.
struct StashCounters {
  CopyCounters out, in;
  int64_t tickets = 0;     // that are neither fetched nor dropped
  int64_t held = 0;        // by them, and by what is copied in
  int64_t high_water = 0;  // the most that was held at once
  int64_t mapped = 0;      // held, and kept for what comes next
  int64_t pinned = 0;      // of these
  int64_t limit = 0;
};

// Thread-safe. Each direction has a thread of its own, which copies in order of arrival. Functions with an `error` set
// it, and change nothing, if they refuse.
class Stash {
 public:
  // Of a copy: when its step has ended, how, and what follows it.
  struct Turn {
    std::function<bool()> cancelled;
    std::shared_ptr<Mover> mover;
    std::function<void(Copied, const std::string& error)> done;
  };

  Stash();
  ~Stash();  // nothing may be held
  Stash(const Stash&) = delete;

  void SetLimit(int64_t bytes, std::string* error);
  // Maps a buffer for each of the sizes, as far as they are not there, and touches its pages: a first copy into pages
  // that were not touched takes up to ten times as long.
  void Reserve(const std::vector<int64_t>& sizes, std::string* error);
  // Pins all that is mapped from now on, and what is kept and not held; nothing, if there is a pinner already.
  void PinWith(std::unique_ptr<Pinner> pinner, std::string* error);
  // Unmaps what is kept and not held.
  void Trim();
  // What may use the memory is counted: as the last of it goes, what is kept is unmapped.
  void AddUser();
  void DropUser();

  // A ticket, from 1 on, and memory for what it stands for; 0 with an error.
  int64_t Open(Stashed stashed, std::string* error);
  // Copies to the ticket's memory; `from` lives until `done` is called. Once for each ticket.
  void CopyOut(int64_t ticket, const void* from, Turn turn);
  // What a ticket stands for, if it can be copied in.
  Stashed Find(int64_t ticket, std::string* error) const;
  // Copies it in, once; `to` lives until `done` is called. Before that, the memory is free for others.
  void CopyIn(int64_t ticket, void* to, Turn turn, std::string* error);
  // The ticket is gone, and its memory is free, unless it is being copied in. Nothing may be copied out to it now.
  void Drop(int64_t ticket);

  StashCounters counters() const;

 private:
  enum class State { kKept, kComesIn, kFetched };
  struct Ticket {
    Stashed stashed;
    char* memory = nullptr;  // null: of no bytes
    State state = State::kKept;
    bool dropped = false;  // while it is being copied in
  };
  struct Size {
    std::vector<char*> free;
    int64_t mapped = 0;  // of this size
  };

  static int64_t Rounded(int64_t bytes);  // to pages
  std::string Refusal(int64_t ticket) const;
  void EndCopyIn(int64_t ticket);
  char* Take(int64_t bytes, std::string* error);
  void GiveBack(char* memory, int64_t bytes);
  char* Map(int64_t rounded, std::string* error);
  void UnmapFree(int64_t until_mapped);
  void Unmap(char* memory, int64_t rounded);
  void Pin(char* memory, int64_t rounded, std::string* error);

  mutable Mutex mu_;
  int64_t limit_;
  int64_t held_ = 0, high_water_ = 0, mapped_ = 0;
  int64_t kept_ = 0;  // tickets
  int64_t last_ticket_ = 0;
  int64_t users_ = 0;
  std::map<int64_t, Ticket> tickets_;
  std::map<int64_t, Size> sizes_;  // by bytes, in pages
  std::unique_ptr<Pinner> pinner_;
  std::set<char*> pinned_;
  int64_t pinned_bytes_ = 0;
  CopyThread out_, in_;
};

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_STASH_H_
