// How copies use CUDA's driver, on a table of functions that stand in for it; exits with 0 if all holds.
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "../check.h"
#include "pool/cuda_driver.h"
#include "pool/gpu_mover.h"

using namespace tfwave;

namespace {

// What the driver was asked; a call of the name `failing` fails.
struct Asked {
  std::string failing, missing;
  std::vector<CuContext> contexts;  // of this thread
  std::vector<std::string> calls;
  std::set<CuEvent> events;
  std::set<const void*> pinned;
  CuStream copied_on = nullptr;
} asked;

intptr_t made = 0;  // streams and events

const auto kContext = reinterpret_cast<CuContext>(0x10);
const auto kComputing = reinterpret_cast<CuStream>(0x20);

CuResult Call(const std::string& name) {
  asked.calls.push_back(name);
  return name == asked.failing ? 7 : 0;
}
CuResult InContext(const std::string& name) {
  CHECK(!asked.contexts.empty() && asked.contexts.back() == kContext);
  return Call(name);
}

CuResult ErrorString(CuResult, const char** text) {
  *text = "out of luck";
  return 0;
}
CuResult StreamGetContext(CuStream stream, CuContext* context) {
  CHECK(stream == kComputing);
  *context = kContext;
  return Call("cuStreamGetCtx");
}
CuResult PushContext(CuContext context) {
  const CuResult result = Call("cuCtxPushCurrent");
  if (result == 0) asked.contexts.push_back(context);
  return result;
}
CuResult PopContext(CuContext*) {
  asked.contexts.pop_back();
  return 0;
}
CuResult StreamCreate(CuStream* stream, unsigned flags) {
  CHECK(flags == kStreamNonBlocking);
  const CuResult result = InContext("cuStreamCreate");
  if (result == 0) *stream = reinterpret_cast<CuStream>(0x100 + ++made);
  return result;
}
CuResult EventCreate(CuEvent* event, unsigned flags) {
  CHECK(flags == (kEventBlockingSync | kEventDisableTiming));
  const CuResult result = InContext("cuEventCreate");
  if (result == 0) asked.events.insert(*event = reinterpret_cast<CuEvent>(0x1000 + ++made));
  return result;
}
CuResult EventRecord(CuEvent event, CuStream stream) {
  CHECK(asked.events.count(event) == 1);
  return InContext(stream == kComputing ? "cuEventRecord" : "cuEventRecord behind the copy");
}
CuResult EventSynchronize(CuEvent event) {
  CHECK(asked.events.count(event) == 1);
  return InContext("cuEventSynchronize");
}
CuResult EventDestroy(CuEvent event) {
  CHECK(asked.events.erase(event) == 1);
  return InContext("cuEventDestroy");
}
CuResult CopyToHost(void* to, CuDevicePointer from, size_t bytes, CuStream stream) {
  asked.copied_on = stream;
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return InContext("cuMemcpyDtoHAsync");
}
CuResult CopyToGpu(CuDevicePointer to, const void* from, size_t bytes, CuStream stream) {
  asked.copied_on = stream;
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return InContext("cuMemcpyHtoDAsync");
}
CuResult HostRegister(void* memory, size_t, unsigned flags) {
  CHECK(flags == kHostRegisterPortable);
  const CuResult result = InContext("cuMemHostRegister");
  if (result == 0) asked.pinned.insert(memory);
  return result;
}
CuResult HostUnregister(void* memory) {
  CHECK(asked.pinned.erase(memory) == 1);
  return InContext("cuMemHostUnregister");
}

// Forgets what was asked before.
void Begin(const std::string& failing = "") {
  asked = Asked();
  asked.failing = failing;
}

bool Contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

bool NothingIsLeft() { return asked.contexts.empty() && asked.events.empty(); }

// What goes wrong, or "".
std::string Copied(Direction direction, char* to, const char* from) {
  std::string error;
  const auto mover = GpuMover(kComputing, direction, &error);
  CHECK((mover == nullptr) == !error.empty());
  if (mover == nullptr) return error;
  mover->Await();
  return mover->Move(to, from, 1);
}

void ACopyWaitsAndHasAStreamOfItsOwn() {
  CuStream streams[2];
  for (const Direction direction : {Direction::kToHost, Direction::kToGpu}) {
    Begin();
    const char from = 5;
    char to = 0;
    CHECK(Copied(direction, &to, &from).empty() && to == 5 && NothingIsLeft());
    CHECK(asked.copied_on != nullptr && asked.copied_on != kComputing);
    streams[direction == Direction::kToGpu] = asked.copied_on;
    std::vector<std::string> calls;
    for (const std::string& call : asked.calls) {
      if (!Contains(call, "Ctx") && !Contains(call, "Create")) calls.push_back(call);
    }
    const std::string copy = direction == Direction::kToHost ? "cuMemcpyDtoHAsync" : "cuMemcpyHtoDAsync";
    CHECK(calls == std::vector<std::string>({"cuEventRecord", "cuEventSynchronize", copy,
                                             "cuEventRecord behind the copy", "cuEventSynchronize", "cuEventDestroy",
                                             "cuEventDestroy"}));
  }
  CHECK(streams[0] != streams[1]);
}

void WhatFailsIsSaid() {
  for (const char* const call : {"cuStreamCreate", "cuStreamGetCtx", "cuCtxPushCurrent", "cuEventCreate",
                                 "cuEventRecord", "cuEventSynchronize", "cuMemcpyDtoHAsync"}) {
    Begin(call);
    const char from = 5;
    char to = 0;
    CHECK(Contains(Copied(Direction::kToHost, &to, &from), std::string(call) + " failed: out of luck"));
    CHECK(NothingIsLeft());
  }
}

void WhatIsPinnedIsLetGo() {
  Begin();
  std::string error;
  char memory = 0;
  const auto pinner = GpuPinner(kComputing, &error);
  CHECK(error.empty() && pinner->Pin(&memory, 1).empty() && asked.pinned.size() == 1);
  pinner->Unpin(&memory);
  CHECK(asked.pinned.empty() && NothingIsLeft());
  asked.failing = "cuMemHostRegister";
  CHECK(pinner->Pin(&memory, 1) == "cuMemHostRegister failed: out of luck" && NothingIsLeft());
}

void WithoutADriverThereIsNone() {
  Begin();
  asked.missing = "no driver";
  std::string error;
  CHECK(GpuMover(kComputing, Direction::kToHost, &error) == nullptr && error == "no driver");
  CHECK(GpuPinner(kComputing, &error) == nullptr && error == "no driver");
}

}  // namespace

namespace tfwave {

const CudaDriver* CudaDriver::Get(std::string* error) {
  static const CudaDriver driver = {ErrorString,  StreamGetContext, PushContext,      PopContext,   StreamCreate,
                                    EventCreate,  EventRecord,      EventSynchronize, EventDestroy, CopyToHost,
                                    CopyToGpu,    HostRegister,     HostUnregister};
  *error = asked.missing;
  return error->empty() ? &driver : nullptr;
}

}  // namespace tfwave

int main() {
  WhatFailsIsSaid();  // before there is a stream
  ACopyWaitsAndHasAStreamOfItsOwn();
  WhatIsPinnedIsLetGo();
  WithoutADriverThereIsNone();
  std::puts("all hold");
}
