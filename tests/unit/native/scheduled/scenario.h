// What a program runs under many schedules: defined once in each. It ends the program if something does not hold.
#ifndef TFWAVE_TESTS_SCHEDULED_SCENARIO_H_
#define TFWAVE_TESTS_SCHEDULED_SCENARIO_H_

#include <cstdint>

namespace tfwave {

void RunScenario(uint64_t seed);

}  // namespace tfwave

#endif  // TFWAVE_TESTS_SCHEDULED_SCENARIO_H_
