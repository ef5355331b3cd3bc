// Asks the planned pool by hand, at random against a map of bytes, and under threads; exits with 0 if all holds.
#include "pool/planned_pool.h"

#include <algorithm>
#include <atomic>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "../check.h"

using namespace tfwave;

namespace {

constexpr int64_t kPiece = PlannedPool::kAlignment;
constexpr int64_t kElsewhere = PlannedPool::kElsewhere;

void EachOpHasItsOwnPlaces() {
  PlannedPool pool;
  CHECK(pool.Take("a", 1) == kElsewhere && pool.figures().unknown == 0);  // nothing is installed
  CHECK(pool.Install({{"a", 0, kPiece}, {"b", 2 * kPiece, 3 * kPiece}}, 5 * kPiece).empty());
  CHECK(pool.Take("a", 1) == 0 && pool.Take("b", 2 * kPiece + 1) == 2 * kPiece);
  CHECK(pool.BytesAt(0) == kPiece && pool.BytesAt(2 * kPiece) == 3 * kPiece && pool.BytesAt(kPiece) == 0);
  CHECK(pool.Take("c", 1) == kElsewhere && pool.Take("a", kPiece + 1) == kElsewhere);
  const PlannedPoolFigures figures = pool.figures();
  CHECK(figures.served == 2 && figures.served_bytes == 4 * kPiece && figures.reach == 5 * kPiece);
  CHECK(figures.unknown == 2 && figures.unknown_bytes == 3 * kPiece && figures.conflicts == 0);
}

void WhatIsLiveIsNeverGivenAgain() {
  PlannedPool pool;
  CHECK(pool.Install({{"a", 0, 2 * kPiece}, {"b", kPiece, 2 * kPiece}}, 3 * kPiece).empty());
  CHECK(pool.Take("a", 2 * kPiece) == 0);
  CHECK(pool.Take("b", 2 * kPiece) == kElsewhere && pool.Take("a", 2 * kPiece) == kElsewhere);
  CHECK(pool.figures().conflicts == 2 && pool.figures().conflict_bytes == 4 * kPiece);
  CHECK(!pool.Give(0) && pool.Take("b", 2 * kPiece) == kPiece);
  CHECK(!pool.Give(0) && pool.figures().live == 1);  // nothing begins there
}

void TheSmallestPlaceWithRoomIsTaken() {
  PlannedPool pool;
  const int64_t scratch = 2 * kPiece;
  CHECK(pool.Install({{"a", scratch, 4 * kPiece}, {"a", 0, kPiece}, {"a", kPiece, kPiece}}, 6 * kPiece).empty());
  CHECK(pool.Take("a", kPiece) == 0 && pool.Take("a", kPiece) == kPiece);
  CHECK(pool.Take("a", 2 * kPiece) == scratch && pool.Take("a", kPiece) == scratch + 2 * kPiece);
  pool.Give(scratch);
  CHECK(pool.Take("a", 3 * kPiece) == kElsewhere && pool.Take("a", 2 * kPiece) == scratch);
}

void ScratchAndOutputsHavePlacesOfTheirOwn() {
  PlannedPool pool;
  const int64_t scratch = 2 * kPiece;
  CHECK(pool.Install({{"a", 0, 2 * kPiece}, {"a", scratch, kPiece, true}}, 3 * kPiece).empty());
  CHECK(pool.Take("a", kPiece, Use::kOutput) == 0 && pool.Take("a", kPiece, Use::kScratch) == scratch);
  CHECK(pool.Take("a", kPiece, Use::kScratch) == kElsewhere && pool.figures().conflicts == 1);
  CHECK(pool.Take("a", 2 * kPiece, Use::kScratch) == kElsewhere && pool.figures().unknown == 1);
  CHECK(pool.Take("a", kPiece, Use::kTemporary) == kPiece);  // it may become an output
  pool.Give(scratch);
  CHECK(pool.Take("a", kPiece, Use::kOutput) == kElsewhere && pool.Take("a", kPiece, Use::kTemporary) == scratch);
}

void WhatIsSmallerThanAllPlacesLiesElsewhere() {
  PlannedPool pool;
  CHECK(pool.Install({{"a", 0, 2 * kPiece}}, 2 * kPiece).empty());
  CHECK(pool.Take("a", kPiece) == kElsewhere && pool.figures().unknown == 1);
}

void APlanThatCannotBeIsRefused() {
  PlannedPool pool;
  const auto refused = [&pool](int64_t offset, int64_t bytes) {
    return !pool.Install({{"a", offset, bytes}}, 4 * kPiece).empty();
  };
  CHECK(refused(-kPiece, kPiece) && refused(0, 0) && refused(1, kPiece) && refused(4 * kPiece, 1));
  CHECK(refused(kPiece, 3 * kPiece + 1) && refused(kPiece, INT64_MAX) && !refused(kPiece, 3 * kPiece));
  CHECK(pool.Take("a", 1) == kElsewhere && pool.Take("a", 3 * kPiece) == kPiece);
  CHECK(refused(0, kPiece));  // while something is held
  CHECK(pool.Vacate() == 1 && pool.Take("a", 3 * kPiece) == kElsewhere && pool.figures().conflicts == 1);  // it stays
  CHECK(pool.Remove() == 1 && pool.Take("a", 3 * kPiece) == kElsewhere);
  CHECK(pool.Give(kPiece) && !refused(0, kPiece));
  CHECK(pool.Vacate() == 0 && pool.Take("a", kPiece) == kElsewhere && pool.figures().unknown == 0);
}

std::vector<PlannedPlace> RandomPlaces(std::mt19937* random, int64_t pieces) {
  std::vector<PlannedPlace> places;
  for (int i = 0; i < 12; ++i) {
    const int64_t begin = (*random)() % pieces;
    const int64_t size = 1 + (*random)() % (pieces - begin);
    places.push_back({"op" + std::to_string((*random)() % 5), begin * kPiece, size * kPiece});
  }
  return places;
}

bool IsWithinAPlace(const std::vector<PlannedPlace>& places, const std::string& op, int64_t offset, int64_t bytes) {
  return std::any_of(places.begin(), places.end(), [&](const PlannedPlace& place) {
    return place.op == op && offset >= place.offset && offset + bytes <= place.offset + place.bytes;
  });
}

// A map of pieces knows what is free: what is given lies in a place of the op; what is refused has room in none.
void ItAgreesWithAMapOfPieces() {
  constexpr int64_t kPieces = 24;
  for (int seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto places = RandomPlaces(&random, kPieces);
    PlannedPool pool;
    CHECK(pool.Install(places, kPieces * kPiece).empty());
    std::vector<bool> held(kPieces);
    std::vector<std::pair<int64_t, int64_t>> live;
    const auto is_free = [&held](int64_t begin, int64_t size) {
      return std::none_of(held.begin() + begin, held.begin() + begin + size, [](bool is_held) { return is_held; });
    };
    for (int i = 0; i < 200; ++i) {
      if (!live.empty() && random() % 3 == 0) {
        const size_t which = random() % live.size();
        std::fill_n(held.begin() + live[which].first, live[which].second, false);
        pool.Give(live[which].first * kPiece);
        live.erase(live.begin() + which);
        continue;
      }
      const std::string op = "op" + std::to_string(random() % 6);
      const int64_t size = 1 + random() % 6, offset = pool.Take(op, size * kPiece - random() % kPiece);
      if (offset != kElsewhere) {
        CHECK(IsWithinAPlace(places, op, offset, size * kPiece) && is_free(offset / kPiece, size));
        std::fill_n(held.begin() + offset / kPiece, size, true);
        live.push_back({offset / kPiece, size});
        continue;
      }
      const bool any = std::any_of(places.begin(), places.end(), [&](const PlannedPlace& smaller) {
        return smaller.bytes <= size * kPiece;
      });
      for (int64_t begin = 0; any && begin + size <= kPieces; ++begin) {
        CHECK(!is_free(begin, size) || !IsWithinAPlace(places, op, begin * kPiece, size * kPiece));
      }
    }
    const auto figures = pool.figures();
    CHECK(figures.live == static_cast<int64_t>(live.size()));
  }
}

// Threads write into what they got, and find it there when they give it back, while plans come and go.
void NoTwoThreadsShareAByte() {
  constexpr int64_t kPieces = 16;
  std::vector<std::atomic<int>> owner(kPieces);
  PlannedPool pool;
  std::atomic<bool> done{false};
  const auto work = [&](int me) {
    std::mt19937 random(me);
    for (int i = 0; i < 20000; ++i) {
      const int64_t size = 1 + random() % 4, offset = pool.Take("op" + std::to_string(random() % 5), size * kPiece);
      if (offset == kElsewhere) continue;
      for (int64_t piece = offset / kPiece; piece < offset / kPiece + size; ++piece) CHECK(owner[piece].exchange(me) == 0);
      for (int64_t piece = offset / kPiece; piece < offset / kPiece + size; ++piece) CHECK(owner[piece].exchange(0) == me);
      pool.Give(offset);
    }
  };
  std::mt19937 random(7);
  CHECK(pool.Install(RandomPlaces(&random, kPieces), kPieces * kPiece).empty());
  std::vector<std::thread> threads;
  for (int me = 1; me <= 4; ++me) threads.emplace_back(work, me);
  std::thread planner([&] {
    while (!done) {
      pool.Remove();
      (void)pool.Install(RandomPlaces(&random, kPieces), kPieces * kPiece);
      CHECK(pool.figures().live >= 0);
      std::this_thread::yield();
    }
  });
  for (std::thread& thread : threads) thread.join();
  done = true;
  planner.join();
  CHECK(pool.Remove() == 0);
}

}  // namespace

int main() {
  EachOpHasItsOwnPlaces();
  WhatIsLiveIsNeverGivenAgain();
  TheSmallestPlaceWithRoomIsTaken();
  ScratchAndOutputsHavePlacesOfTheirOwn();
  WhatIsSmallerThanAllPlacesLiesElsewhere();
  APlanThatCannotBeIsRefused();
  ItAgreesWithAMapOfPieces();
  NoTwoThreadsShareAByte();
  std::puts("all hold");
}
