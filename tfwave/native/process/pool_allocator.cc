#include "process/pool_allocator.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "absl/strings/string_view.h"
#include "tsl/profiler/lib/scoped_memory_debug_annotation.h"

namespace tfwave {
namespace {

using tensorflow::AllocationAttributes;

constexpr size_t kPage = 4096;

// The memory of the one region that the pool has: its pages are mapped when they are touched.
class HostMemory : public tensorflow::SubAllocator {
 public:
  HostMemory() : SubAllocator({}, {}) {}

  void* Alloc(size_t alignment, size_t bytes, size_t* received) override {
    *received = bytes;
    const size_t aligned = std::max(alignment, kPage);
    return std::aligned_alloc(aligned, (bytes + aligned - 1) / aligned * aligned);
  }
  void Free(void* pointer, size_t) override { std::free(pointer); }
  bool SupportsCoalescing() const override { return false; }
  tensorflow::AllocatorMemoryType GetMemoryType() const override {
    return tensorflow::AllocatorMemoryType::kHostPageable;
  }
};

// Pieces are cut to what is asked for, so that what is traced in this pool is what was asked for: one is given whole
// only if what would be left is less than the least piece. Less than a byte would be too little: it cuts off nothing.
tensorflow::BFCAllocator::Options OneRegion(int64_t limit) {
  tensorflow::BFCAllocator::Options options;
  options.allow_growth = false;
  options.fragmentation_fraction = static_cast<double>(PlannedPool::kAlignment) / limit;
  return options;
}

// TensorFlow 2.19 tells the name of the op that allocates as a C string, if at all; later ones as a view.
[[maybe_unused]] std::string_view Named(const char* op) { return op == nullptr ? std::string_view() : op; }
[[maybe_unused]] std::string_view Named(absl::string_view op) { return {op.data(), op.size()}; }

// A kernel says what it asks for (`allocate_output`, `allocate_temp`); what it calls to compute says nothing.
Use UseOf(std::string_view region) {
  if (region == "output") return Use::kOutput;
  return region == "temp" ? Use::kTemporary : Use::kScratch;
}

void RaiseTo(int64_t value, std::atomic<int64_t>* most) {
  for (int64_t found = *most; found < value && !most->compare_exchange_weak(found, value);) continue;
}

}  // namespace

PoolAllocator::PoolAllocator(int64_t limit)
    : pool_(std::make_unique<HostMemory>(), limit, "tfwave_pool", OneRegion(limit)) {}

std::string PoolAllocator::Install(const std::vector<PlannedPlace>& places, int64_t region_bytes) {
  const std::lock_guard<Mutex> lock(installing_);
  if (const int64_t live = planned_.Vacate(); live > 0) return PlannedPool::StillHeld(live);
  active_ = false;
  FreeRegion();
  AllocationAttributes at_once;
  at_once.retry_on_failure = false;
  void* const region = pool_.AllocateRaw(PlannedPool::kAlignment, region_bytes, at_once);
  if (region == nullptr) {
    return "the pool has not " + std::to_string(region_bytes) +
           " bytes in one piece for the plan: give it a larger limit, or install the plan earlier";
  }
  region_ = &regions_.emplace_back(Region{static_cast<char*>(region), region_bytes});
  if (std::string wrong = planned_.Install(places, region_bytes); !wrong.empty()) {
    FreeRegion();
    return wrong;
  }
  CountAnew();
  active_ = true;
  return "";
}

void PoolAllocator::Remove() {
  const std::lock_guard<Mutex> lock(installing_);
  active_ = false;
  if (planned_.Remove() == 0) FreeRegion();
}

HeldFigures PoolAllocator::held() const {
  const Region* const region = region_.load();
  return {region == nullptr ? 0 : region->bytes, elsewhere_before_, elsewhere_most_, together_most_};
}

void* PoolAllocator::AllocateRaw(size_t alignment, size_t bytes) {
  return AllocateRaw(alignment, bytes, AllocationAttributes());
}

void* PoolAllocator::AllocateRaw(size_t alignment, size_t bytes, const AllocationAttributes& attributes) {
  if (active_.load(std::memory_order_acquire) && bytes > 0) {
    if (void* const planned = TakePlanned(alignment, bytes)) return planned;
  }
  void* const pointer = pool_.AllocateRaw(alignment, bytes, attributes);
  if (pointer != nullptr) CountElsewhere(pool_.AllocatedSize(pointer));
  return pointer;
}

void PoolAllocator::DeallocateRaw(void* pointer) {
  if (pointer == nullptr) return;
  if (!IsPlanned(pointer)) {
    CountElsewhere(-static_cast<int64_t>(pool_.AllocatedSize(pointer)));
    pool_.DeallocateRaw(pointer);
    return;
  }
  if (!planned_.Give(OffsetOf(pointer))) return;
  const std::lock_guard<Mutex> lock(installing_);
  if (!active_ && planned_.Remove() == 0) FreeRegion();
}

size_t PoolAllocator::RequestedSize(const void* pointer) const {
  return IsPlanned(pointer) ? planned_.BytesAt(OffsetOf(pointer)) : pool_.RequestedSize(pointer);
}

size_t PoolAllocator::AllocatedSize(const void* pointer) const {
  return IsPlanned(pointer) ? planned_.BytesAt(OffsetOf(pointer)) : pool_.AllocatedSize(pointer);
}

// 0: not known. A buffer that goes on in the same place is told by its address.
int64_t PoolAllocator::AllocationId(const void* pointer) const {
  return IsPlanned(pointer) ? 0 : pool_.AllocationId(pointer);
}

std::optional<tensorflow::AllocatorStats> PoolAllocator::GetStats() { return pool_.GetStats(); }

bool PoolAllocator::ClearStats() { return pool_.ClearStats(); }

bool PoolAllocator::IsPlanned(const void* pointer) const {
  const Region* const region = region_.load(std::memory_order_acquire);
  return region != nullptr && pointer >= region->begin && pointer < region->begin + region->bytes;
}

void* PoolAllocator::TakePlanned(size_t alignment, size_t bytes) {
  if (alignment > static_cast<size_t>(PlannedPool::kAlignment)) return nullptr;
  const auto& annotation = tsl::profiler::ScopedMemoryDebugAnnotation::CurrentAnnotation();
  const int64_t offset =
      planned_.Take(Named(annotation.pending_op_name), bytes, UseOf(Named(annotation.pending_region_type)));
  if (offset == PlannedPool::kElsewhere) return nullptr;
  CountTogether();
  return region_.load()->begin + offset;
}

// Nothing lies in it, and nobody takes from it.
void PoolAllocator::FreeRegion() {
  if (const Region* const region = region_.exchange(nullptr)) pool_.DeallocateRaw(region->begin);
}

void PoolAllocator::CountAnew() {
  const int64_t elsewhere = elsewhere_now_;
  elsewhere_before_ = elsewhere, elsewhere_most_ = elsewhere, together_most_ = elsewhere;
}

void PoolAllocator::CountElsewhere(int64_t bytes) {
  RaiseTo(elsewhere_now_ += bytes, &elsewhere_most_);
  CountTogether();
}

void PoolAllocator::CountTogether() { RaiseTo(planned_.live_bytes() + elsewhere_now_, &together_most_); }

}  // namespace tfwave
