// Copies between the host and a GPU, by CUDA's driver as this process has it: the library is built without CUDA.
#ifndef TFWAVE_NATIVE_GPU_MOVER_H_
#define TFWAVE_NATIVE_GPU_MOVER_H_

#include <memory>
#include <string>

#include "pool/mover.h"

namespace tfwave {

enum class Direction { kToHost, kToGpu };

// Copies on a stream of the direction's own, behind all that `computing`, a CUstream, was given until now, and beside
// what it is given later. Null with an error.
std::unique_ptr<Mover> GpuMover(void* computing, Direction direction, std::string* error);

// Pins memory of the host for all GPUs, which then read and write it by themselves; `computing` is a stream of one of
// them. Null with an error.
std::unique_ptr<Pinner> GpuPinner(void* computing, std::string* error);

}  // namespace tfwave

#endif  // TFWAVE_NATIVE_GPU_MOVER_H_
