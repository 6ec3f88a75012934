// Hands out independent tasks to a pool of threads. No result may depend on which thread runs a task.
#pragma once

#include <cstdint>

#include "isa.h"

namespace stelliferous {

using Task = void (*)(void* context, int64_t index, float* scratch);

// Runs task(context, i, scratch) once for each i in [0, tasks) on at most `workers` threads, the caller among them,
// and returns when all are done. Each thread passes its own scratch of `scratch_floats` floats, aligned to 64 bytes,
// with whatever an earlier task left in it. A nested call, or a call made while another thread's call is
// running, stays on its own thread. All tasks run with subnormals kept and round-to-nearest, so a kernel does all its
// arithmetic in tasks: its caller may have switched to flushing.
void run_tasks(int64_t tasks, int64_t workers, int64_t scratch_floats, Task task, void* context);

// A buffer of the calling thread, aligned to 64 bytes and apart from its scratch: for what one kernel call shares
// among its tasks (packed weights, partial sums). It lasts until the thread's next call of shared_buffer.
float* shared_buffer(int64_t floats);

}  // namespace stelliferous

#ifdef ISA
namespace KERNELS {

using stelliferous::shared_buffer;

// parallel_for(tasks, workers, scratch_floats, [&](int64_t index, float* scratch) { ... });
template <class Function>
ALWAYS_INLINE void parallel_for(int64_t tasks, int64_t workers, int64_t scratch_floats, Function function) {
    stelliferous::run_tasks(
        tasks, workers, scratch_floats,
        [](void* context, int64_t index, float* scratch) { (*static_cast<Function*>(context))(index, scratch); },
        &function);
}

// The workers worth waking for this many elementary operations (about one nanosecond per sixteen).
ALWAYS_INLINE int64_t useful_workers(int64_t workers, int64_t operations) {
    int64_t most = 1 + operations / 131072;
    return workers < most ? workers : most;
}

}  // namespace KERNELS
#endif
