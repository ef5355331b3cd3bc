// The CPU's allocator of this process: a BFC pool with a limit, and in it a region whose buffers lie as planned.
#ifndef TFWAVE_NATIVE_POOL_ALLOCATOR_H_
#define TFWAVE_NATIVE_POOL_ALLOCATOR_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "pool/planned_pool.h"
#include "base/sync.h"
#include "tensorflow/core/common_runtime/bfc_allocator.h"
#include "tensorflow/core/framework/allocator.h"

namespace tfwave {

// Bytes: of the region; what was held elsewhere when the plan was installed, and since then at most; and together with
// what was held in the region at most.
struct HeldFigures {
  int64_t region, elsewhere_before, elsewhere_most, together_most;
};

class PoolAllocator : public tensorflow::Allocator {
 public:
  explicit PoolAllocator(int64_t limit);

  // As those of PlannedPool. Installing fails, too, if the pool has no such region in one piece: then there is no plan.
  std::string Install(const std::vector<PlannedPlace>& places, int64_t region_bytes);
  void Remove();
  PlannedPoolFigures figures() const { return planned_.figures(); }
  HeldFigures held() const;

  std::string Name() override { return pool_.Name(); }
  void* AllocateRaw(size_t alignment, size_t bytes) override;
  void* AllocateRaw(size_t alignment, size_t bytes, const tensorflow::AllocationAttributes& attributes) override;
  void DeallocateRaw(void* pointer) override;
  using tensorflow::Allocator::DeallocateRaw;
  bool TracksAllocationSizes() const override { return true; }
  size_t RequestedSize(const void* pointer) const override;
  size_t AllocatedSize(const void* pointer) const override;
  int64_t AllocationId(const void* pointer) const override;
  std::optional<tensorflow::AllocatorStats> GetStats() override;
  bool ClearStats() override;
  tensorflow::AllocatorMemoryType GetMemoryType() const override { return pool_.GetMemoryType(); }

 private:
  struct Region {
    char* begin;
    int64_t bytes;
  };

  bool IsPlanned(const void* pointer) const;
  int64_t OffsetOf(const void* pointer) const { return static_cast<const char*>(pointer) - region_.load()->begin; }
  void* TakePlanned(size_t alignment, size_t bytes);
  void FreeRegion();
  void CountAnew();
  void CountElsewhere(int64_t bytes);
  void CountTogether();

  tensorflow::BFCAllocator pool_;
  PlannedPool planned_;
  Mutex installing_;
  std::atomic<bool> active_{false};
  std::deque<Region> regions_;  // all that there were: who asks about one of them while it goes still reads it whole
  std::atomic<const Region*> region_{nullptr};
  std::atomic<int64_t> elsewhere_now_{0}, elsewhere_before_{0}, elsewhere_most_{0}, together_most_{0};
};

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_POOL_ALLOCATOR_H_
