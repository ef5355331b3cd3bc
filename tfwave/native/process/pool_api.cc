#include "process/pool_api.h"

#include <atomic>
#include <string>
#include <vector>

#include "base/guarded.h"
#include "process/pool_allocator.h"
#include "tensorflow/core/framework/allocator_registry.h"

using tfwave::Guarded;

namespace {

using tfwave::PoolAllocator;

constexpr int kPriority = 400;  // above those of TensorFlow: 100 and, with oneDNN, 200
constexpr char kNotOpen[] = "the planned pool is not open in this process";

std::atomic<int64_t> limit_of_pool{0};
std::atomic<PoolAllocator*> pool{nullptr};

// TensorFlow's registry owns both, and is never destroyed.
class Factory : public tensorflow::AllocatorFactory {
 public:
  tensorflow::Allocator* CreateAllocator() override {
    pool = new PoolAllocator(limit_of_pool);
    return pool;
  }
  // TensorFlow asks for one only where the CPU's pool is its own.
  tensorflow::SubAllocator* CreateSubAllocator(int) override { return nullptr; }
};

}  // namespace

extern "C" {

int32_t tfwave_pool_open(int64_t limit, char* message, int64_t size) {
  return Guarded(message, size, [=]() -> std::string {
    if (int64_t none = 0; !limit_of_pool.compare_exchange_strong(none, limit)) {
      return "the planned pool is open in this process already";
    }
    tsl::AllocatorFactoryRegistry::singleton()->Register(__FILE__, __LINE__, "TfwavePool", kPriority, new Factory);
    return "";
  });
}

int32_t tfwave_pool_is_used(int32_t* used, char* message, int64_t size) {
  return Guarded(message, size, [=] { *used = pool.load() != nullptr; });
}

int32_t tfwave_pool_install(const tfwave_pool_place* places, int64_t count, int64_t region_bytes, char* message,
                            int64_t size) {
  return Guarded(message, size, [=]() -> std::string {
    if (pool.load() == nullptr) return kNotOpen;
    std::vector<tfwave::PlannedPlace> planned;
    for (const tfwave_pool_place* place = places; place != places + count; ++place) {
      planned.push_back({place->op, place->offset, place->bytes, place->is_scratch != 0});
    }
    return pool.load()->Install(planned, region_bytes);
  });
}

int32_t tfwave_pool_remove(char* message, int64_t size) {
  return Guarded(message, size, [] {
    if (PoolAllocator* const open = pool) open->Remove();
  });
}

int32_t tfwave_pool_figures(tfwave_pool_counters* counters, char* message, int64_t size) {
  return Guarded(message, size, [=]() -> std::string {
    if (pool.load() == nullptr) return kNotOpen;
    const tfwave::PlannedPoolFigures f = pool.load()->figures();
    const tfwave::HeldFigures held = pool.load()->held();
    *counters = {f.served, f.served_bytes, f.unknown, f.unknown_bytes, f.conflicts, f.conflict_bytes, f.live,
                 f.live_bytes, f.reach, held.region, held.elsewhere_before, held.elsewhere_most, held.together_most};
    return "";
  });
}

}  // extern "C"
