// The groups that this process belongs to, by the names that ops know them by.
#ifndef TFWAVE_NATIVE_ALL_TO_ALL_GROUPS_H_
#define TFWAVE_NATIVE_ALL_TO_ALL_GROUPS_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "exchange/all_to_all.h"
#include "base/sync.h"

namespace tfwave {

// Thread-safe.
class AllToAllGroups {
 public:
  // Null if there is none of this name.
  std::shared_ptr<AllToAll> Find(const std::string& name) const {
    std::lock_guard<Mutex> lock(mu_);
    const auto found = groups_.find(name);
    return found == groups_.end() ? nullptr : found->second;
  }

  // In place of the one that there was, which has left.
  void Put(const std::string& name, std::shared_ptr<AllToAll> group) {
    std::lock_guard<Mutex> lock(mu_);
    groups_[name] = std::move(group);
  }

  void Leave(const std::string& name) {
    const std::shared_ptr<AllToAll> group = Find(name);
    if (group != nullptr) group->Leave();
  }

 private:
  mutable Mutex mu_;
  std::map<std::string, std::shared_ptr<AllToAll>> groups_;
};

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_ALL_TO_ALL_GROUPS_H_
