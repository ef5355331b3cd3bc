// What of the C interface needs TensorFlow.
#include <set>
#include <string>
#include <typeinfo>
#include <utility>

#include "process/api.h"
#include "base/guarded.h"
#include "process/process.h"
#include "process/rendezvous.h"
#include "tensorflow/c/c_api_internal.h"
#include "tensorflow/core/util/device_name_utils.h"

namespace {

using tfwave::Guarded;

// "/job:ps/replica:0/task:0" as TensorFlow spells it; empty if it is no whole task.
std::string TaskName(const std::string& text) {
  tensorflow::DeviceNameUtils::ParsedName parsed;
  std::string task;
  if (!tensorflow::DeviceNameUtils::ParseFullName(text, &parsed) || parsed.has_type || parsed.has_id) return "";
  return tensorflow::DeviceNameUtils::GetTaskName(parsed, &task) ? task : "";
}

}  // namespace

extern "C" {

int32_t tfwave_set_hooked_tasks(const char* const* tasks, int64_t count, char* message, int64_t size) {
  return Guarded(message, size, [&]() -> std::string {
    std::set<std::string> names;
    for (int64_t i = 0; i < count; ++i) {
      const std::string name = TaskName(tasks[i]);
      if (name.empty()) return "'" + std::string(tasks[i]) + "' is no task: write /job:NAME/replica:N/task:N";
      names.insert(name);
    }
    tfwave::process().hooked_tasks.Set(std::move(names));
    return "";
  });
}

int32_t tfwave_wrap(TF_Server* server, char* message, int64_t size) {
  return Guarded(message, size, [&]() -> std::string {
    if (server == nullptr || server->server == nullptr) return "there is no server to wrap";
    tfwave::WrapServer(server->server.get());
    return "";
  });
}

const void* tfwave_server_type() { return &typeid(TF_Server); }

}  // extern "C"
