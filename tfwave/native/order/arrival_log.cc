#include "order/arrival_log.h"

#include "base/monotonic.h"

namespace tfwave {

int32_t ArrivalLog::Number(const TransferName& name) {
  std::lock_guard<Mutex> lock(mu_);
  const auto [entry, is_new] = numbers_.try_emplace(name, static_cast<int32_t>(names_.size()));
  if (is_new) names_.push_back(&entry->first);
  return entry->second;
}

const TransferName& ArrivalLog::Name(int32_t transfer) const {
  std::lock_guard<Mutex> lock(mu_);
  return *names_.at(transfer);
}

void ArrivalLog::Append(int64_t requested_nanos, int64_t step, int64_t bytes, int32_t transfer) {
  std::lock_guard<Mutex> lock(mu_);
  ring_.Append({requested_nanos, MonotonicNanos(), step, bytes, transfer});
}

int64_t ArrivalLog::Read(int64_t* cursor, LoggedArrival* out, int64_t size, int64_t* lost) const {
  std::lock_guard<Mutex> lock(mu_);
  return ring_.Read(0, cursor, out, size, lost);
}

}  // namespace tfwave
