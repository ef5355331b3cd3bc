// The all-to-all, among ranks in one process; exits with 0 if all holds.
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "../check.h"
#include "exchange/all_to_all.h"

using namespace tfwave;

namespace {

constexpr std::chrono::hours kNever{1};

struct Outcome {
  std::string error;
  std::vector<Split> splits;
};

bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// sockets[a][b] is a's end of the connection with b.
std::vector<std::vector<int>> Mesh(int ranks) {
  std::vector<std::vector<int>> sockets(ranks, std::vector<int>(ranks, -1));
  for (int a = 0; a < ranks; ++a) {
    for (int b = 0; b < a; ++b) {
      int pair[2];
      CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
      sockets[a][b] = pair[0];
      sockets[b][a] = pair[1];
    }
  }
  return sockets;
}

using Ranks = std::vector<std::unique_ptr<AllToAll>>;

// The first so many of the ranks of a mesh.
Ranks Joined(const std::vector<std::vector<int>>& sockets, int count, std::chrono::nanoseconds deadline = kNever) {
  Ranks ranks;
  for (int rank = 0; rank < count; ++rank) ranks.push_back(std::make_unique<AllToAll>(rank, sockets[rank], deadline));
  return ranks;
}

Split Text(const std::string& text) {
  const auto size = static_cast<int64_t>(text.size());
  return HeldSplit(1, size, size, text.data());
}

std::string TextOf(const Split& split) { return {split.data, split.data + split.bytes}; }

std::future<Outcome> Collected(AllToAll& rank, const std::string& tag, int64_t step,
                               std::chrono::nanoseconds patience = {}) {
  auto promise = std::make_shared<std::promise<Outcome>>();
  std::future<Outcome> outcome = promise->get_future();
  const auto done = [promise](const std::string& error, std::vector<Split> splits) {
    promise->set_value({error, std::move(splits)});
  };
  rank.Collect(tag, step, done, patience);
  return outcome;
}

// A split of each pair's own length; some are empty.
std::string Message(int from, int to, int64_t step) {
  return std::string((from * 7 + to * 3 + step) % 5 * 70000, static_cast<char>('a' + from * 4 + to));
}

void ScatterAll(AllToAll& rank, const std::string& tag, int64_t step) {
  for (int to = rank.ranks() - 1; to >= 0; --to) {
    CHECK(rank.Scatter(tag, step, to, Text(Message(rank.rank(), to, step))).empty());
  }
}

void UnevenSplitsOfManySteps() {
  constexpr int kRanks = 4, kSteps = 20;
  Ranks ranks = Joined(Mesh(kRanks), kRanks);
  std::vector<std::thread> threads;
  for (const auto& owned : ranks) {
    threads.emplace_back([&rank = *owned] {
      std::vector<std::future<Outcome>> outcomes;
      for (int step = 0; step < kSteps; ++step) {  // half are collected before they are scattered
        if (step % 2) outcomes.push_back(Collected(rank, "x", step));
        ScatterAll(rank, "x", step);
        if (step % 2 == 0) outcomes.push_back(Collected(rank, "x", step));
      }
      for (int step = 0; step < kSteps; ++step) {
        const Outcome outcome = outcomes[step].get();
        CHECK(outcome.error.empty() && outcome.splits.size() == kRanks);
        for (int from = 0; from < kRanks; ++from) {
          const Split& split = outcome.splits[from];
          CHECK(TextOf(split) == Message(from, rank.rank(), step));
          CHECK(split.rows == split.bytes && split.type == 1);
          CHECK(reinterpret_cast<uintptr_t>(split.data) % 64 == 0);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void AloneItCollectsItsOwn() {
  AllToAll alone(0, {-1}, kNever);
  CHECK(alone.NextStep("x") == 0 && alone.NextStep("x") == 1 && alone.NextStep("y") == 0);
  CHECK(alone.Scatter("x", 0, 0, Text("own")).empty());
  CHECK(TextOf(Collected(alone, "x", 0).get().splits[0]) == "own");
  CHECK(Contains(alone.Scatter("x", 1, 1, Text("")), "rank 1 is none of 1"));
}

void SendRaw(int socket, const std::string& bytes) {
  CHECK(write(socket, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
}

// As the third rank's, whose ends nobody else holds.
struct Stranger {
  explicit Stranger(const std::vector<std::vector<int>>& sockets)
      : to_first(sockets[2][0], kNever), to_second(sockets[2][1], kNever) {}
  SplitLink to_first, to_second;
};

void WhoTakesNothingHoldsNobodyUp() {
  const auto sockets = Mesh(3);
  Ranks ranks = Joined(sockets, 2);
  auto stranger = std::make_unique<Stranger>(sockets);  // it sends, and reads nothing of what comes
  for (int step = 0; step < 3; ++step) {
    CHECK(stranger->to_first.Send({false, step, "x", Text("late")}));
    CHECK(stranger->to_second.Send({false, step, "x", Text("late")}));
    std::vector<std::future<Outcome>> outcomes;
    for (auto& rank : ranks) {
      CHECK(rank->Scatter("x", step, 2, HeldSplit(1, 1, 1 << 23, nullptr)).empty());
      for (int to = 0; to < 2; ++to) CHECK(rank->Scatter("x", step, to, Text("soon")).empty());
      outcomes.push_back(Collected(*rank, "x", step));
    }
    for (auto& outcome : outcomes) {
      const Outcome found = outcome.get();
      CHECK(found.error.empty() && TextOf(found.splits[2]) == "late" && TextOf(found.splits[1]) == "soon");
    }
  }
  stranger.reset();
}

void ADeathEndsTheGroupAndANewOneMayForm() {
  const auto sockets = Mesh(3);
  Ranks ranks = Joined(sockets, 2);
  auto stranger = std::make_unique<Stranger>(sockets);
  auto first = Collected(*ranks[0], "x", 0), second = Collected(*ranks[1], "y", 7);
  stranger.reset();
  CHECK(Contains(first.get().error, "rank 2") && Contains(second.get().error, "rank 2"));
  CHECK(Contains(Collected(*ranks[0], "x", 1).get().error, "rank 2"));
  CHECK(Contains(ranks[0]->Scatter("x", 1, 1, Text("")), "rank 2") && Contains(ranks[0]->failure(), "rank 2"));
  ranks = Joined(Mesh(2), 2);
  ScatterAll(*ranks[0], "x", 0);
  ScatterAll(*ranks[1], "x", 0);
  CHECK(Collected(*ranks[0], "x", 0).get().error.empty() && Collected(*ranks[1], "x", 0).get().error.empty());
}

void ASilentRankIsNamedToAll() {
  const auto sockets = Mesh(3);
  Ranks ranks;
  ranks.push_back(std::make_unique<AllToAll>(0, sockets[0], std::chrono::milliseconds(20)));
  ranks.push_back(std::make_unique<AllToAll>(1, sockets[1], kNever));
  Stranger stranger(sockets);
  auto second = Collected(*ranks[1], "x", 5);
  ScatterAll(*ranks[1], "x", 5);
  ScatterAll(*ranks[0], "x", 5);
  const std::string first = Collected(*ranks[0], "x", 5).get().error;
  CHECK(Contains(first, "rank 2") && Contains(first, "sent nothing of step 5 of 'x' for 0.02 s"));
  CHECK(second.get().error == first);  // it would have waited for an hour
}

// Passes on what comes from one socket, a piece at a time.
void PassOnSlowly(int from, int to, std::chrono::milliseconds pause) {
  std::string piece(1 << 17, '\0');
  for (ssize_t came; (came = recv(from, &piece[0], piece.size(), 0)) > 0;) {
    SendRaw(to, piece.substr(0, came));
    std::this_thread::sleep_for(pause);
  }
}

void WhoStillSendsIsNotSilent() {
  const auto sockets = Mesh(2);
  int pair[2];
  CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  AllToAll rank(0, sockets[0], std::chrono::seconds(1));
  std::thread passing([&] { PassOnSlowly(pair[1], sockets[1][0], std::chrono::milliseconds(8)); });
  {
    SplitLink slow(pair[0], kNever);
    CHECK(rank.Scatter("x", 0, 0, Text("own")).empty());
    auto outcome = Collected(rank, "x", 0);
    CHECK(slow.Send({false, 0, "x", HeldSplit(1, 1, 12 << 20, nullptr)}));
    CHECK(outcome.get().error.empty());
  }
  passing.join();
  close(pair[1]);
  CHECK(Contains(Collected(rank, "x", 1).get().error, "for 1 s"));
  close(sockets[1][0]);
}

void WhoHasPatienceWaitsForLonger() {
  const auto sockets = Mesh(2);
  AllToAll rank(0, sockets[0], std::chrono::milliseconds(20));
  const std::string error = Collected(rank, "x", 0, std::chrono::milliseconds(200)).get().error;
  CHECK(Contains(error, "rank 0, rank 1 sent nothing of step 0 of 'x' for 0.2 s"));
  close(sockets[1][0]);
}

void WhoCannotGoOnOrLeavesEndsItForAll() {
  Ranks ranks = Joined(Mesh(3), 3);
  auto waiting = Collected(*ranks[0], "x", 0);
  ranks[1]->Abort("its step was cancelled");
  CHECK(waiting.get().error == "rank 1: its step was cancelled");
  WaitUntil([&] { return ranks[2]->failure() == "rank 1: its step was cancelled"; });

  ranks = Joined(Mesh(2), 2);
  CHECK(ranks[0]->Scatter("x", 0, 1, Text("before it left")).empty());
  ranks[0].reset();
  WaitUntil([&] { return ranks[1]->failure() == "rank 0 has left"; });
}

void WhatIsScatteredBeforeLeavingArrives() {
  Ranks ranks = Joined(Mesh(2), 2);
  auto last = Collected(*ranks[1], "x", 0);
  CHECK(ranks[1]->Scatter("x", 0, 1, Text("")).empty());
  CHECK(ranks[0]->Scatter("x", 0, 1, Text(std::string(1 << 22, 'z'))).empty());
  ranks[0]->Leave();
  const Outcome outcome = last.get();
  CHECK(outcome.error.empty() && outcome.splits[0].bytes == 1 << 22);
}

void WhatIsNoFrameEndsTheGroup() {
  const auto sockets = Mesh(2);
  AllToAll rank(0, sockets[0], kNever);
  SendRaw(sockets[1][0], std::string(64, '?'));
  WaitUntil([&] { return Contains(rank.failure(), "rank 1"); });
  close(sockets[1][0]);
}

void AFarewellWithoutAReasonIsNone() {
  const auto sockets = Mesh(2);
  AllToAll rank(0, sockets[0], kNever);
  auto waiting = Collected(rank, "x", 0);
  SplitLink other(sockets[1][0], kNever);
  CHECK(other.Send({true, 0, "", {}}));
  CHECK(Contains(waiting.get().error, "rank 1 is gone") && Contains(rank.failure(), "rank 1 is gone"));
}

void WhatCannotGoIsLetGoWithTheGroup() {
  const auto sockets = Mesh(2);
  AllToAll rank(0, sockets[0], std::chrono::milliseconds(20));
  std::vector<std::weak_ptr<const void>> held;
  for (int step = 0; step < 3; ++step) {
    Split split = HeldSplit(1, 1, 1 << 23, nullptr);
    held.push_back(split.holder);
    CHECK(rank.Scatter("x", step, 1, std::move(split)).empty() || step > 0);
  }
  rank.Leave();
  for (const auto& split : held) CHECK(split.expired());
  close(sockets[1][0]);
}

void WhereThreadsRunOutNoGroupForms() {
  const auto sockets = Mesh(3);
  for (const int enough : {0, 3, 4}) {
    const auto end = dup(sockets[0][1]), other = dup(sockets[0][2]);
    Thread::left = enough;
    std::string why;
    try {
      AllToAll rank(0, {-1, end, other}, kNever);
    } catch (const std::system_error& error) {
      why = error.what();
    }
    Thread::left = Thread::kAny;
    CHECK(Contains(why, "no more threads"));
    CHECK(fcntl(end, F_GETFD) == -1 && fcntl(other, F_GETFD) == -1);
  }
}

void NothingIsSentOrCollectedTwice() {
  Ranks ranks = Joined(Mesh(2), 2);
  auto waiting = Collected(*ranks[1], "x", 0);
  CHECK(Contains(Collected(*ranks[1], "x", 0).get().error, "collected twice"));
  CHECK(ranks[0]->Scatter("x", 0, 1, Text("one")).empty() && ranks[0]->Scatter("x", 0, 1, Text("two")).empty());
  CHECK(Contains(waiting.get().error, "rank 0 sent two splits of step 0 of 'x'"));
}

}  // namespace

int main() {
  UnevenSplitsOfManySteps();
  AloneItCollectsItsOwn();
  WhoTakesNothingHoldsNobodyUp();
  ADeathEndsTheGroupAndANewOneMayForm();
  ASilentRankIsNamedToAll();
  WhoStillSendsIsNotSilent();
  WhoHasPatienceWaitsForLonger();
  WhoCannotGoOnOrLeavesEndsItForAll();
  WhatIsScatteredBeforeLeavingArrives();
  WhatIsNoFrameEndsTheGroup();
  AFarewellWithoutAReasonIsNone();
  WhatCannotGoIsLetGoWithTheGroup();
  WhereThreadsRunOutNoGroupForms();
  NothingIsSentOrCollectedTwice();
  std::puts("all hold");
}
