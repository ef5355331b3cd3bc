// main FIRST COUNT: runs the program's scenario under so many schedules, from one seed on.
#include <cstdio>
#include <cstdlib>

#include "scenario.h"
#include "world.h"

namespace {

bool over = false;

void SayWhichSchedule() {
  if (over) return;
  const auto seed = static_cast<unsigned long long>(tfwave::World::Instance().seed());
  std::fprintf(stderr, "in the schedule of seed %llu\n", seed);
}

}  // namespace

int main(int, char** arguments) {
  const uint64_t first = std::strtoull(arguments[1], nullptr, 10);
  const uint64_t count = std::strtoull(arguments[2], nullptr, 10);
  std::atexit(SayWhichSchedule);
  for (uint64_t seed = first; seed < first + count; ++seed) tfwave::RunScenario(seed);
  over = true;
  const auto choices = static_cast<unsigned long long>(tfwave::World::Instance().choices());
  std::printf("%llu schedules, %llu choices\n", static_cast<unsigned long long>(count), choices);
}
