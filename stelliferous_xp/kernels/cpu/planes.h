// Work that goes plane by plane.
#pragma once

#include "parallel.h"

namespace KERNELS {

// body(plane, scratch) for each of so many planes of P elements; `cost` is the operations an element takes.
template <class Body>
ALWAYS_INLINE void for_each_plane(int64_t planes, int64_t P, int64_t cost, int64_t workers, int64_t scratch_floats,
                                  Body body) {
    int64_t group = 8192 / (P + 1) + 1;
    workers = useful_workers(workers, planes * P * cost);
    parallel_for((planes + group - 1) / group, workers, scratch_floats, [=](int64_t task, float* scratch) {
        int64_t end = (task + 1) * group < planes ? (task + 1) * group : planes;
        for (int64_t plane = task * group; plane < end; ++plane) body(plane, scratch);
    });
}

}  // namespace KERNELS
