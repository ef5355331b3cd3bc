#include "process/all_to_all_api.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/guarded.h"
#include "process/process.h"

using tfwave::AllToAll;
using tfwave::Guarded;
using tfwave::process;

extern "C" {

int32_t tfwave_all_to_all_form(const char* name, int32_t rank, const int32_t* sockets, int32_t ranks,
                               double deadline_seconds, char* message, int64_t size) {
  return Guarded(message, size, [=] {
    const auto deadline =
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(deadline_seconds));
    process().groups.Leave(name);
    process().groups.Put(name,
                         std::make_shared<AllToAll>(rank, std::vector<int>(sockets, sockets + ranks), deadline));
  });
}

int32_t tfwave_all_to_all_leave(const char* name, char* message, int64_t size) {
  return Guarded(message, size, [=] { process().groups.Leave(name); });
}

int32_t tfwave_all_to_all_check(const char* name, char* message, int64_t size) {
  return Guarded(message, size, [=] {
    const std::shared_ptr<AllToAll> group = process().groups.Find(name);
    return group == nullptr ? std::string("it was not formed") : group->failure();
  });
}

}  // extern "C"
