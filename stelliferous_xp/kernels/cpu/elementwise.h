// Runs of at most one vector, and the loop of every elementwise kernel.
#pragma once

#include "lanes.h"
#include "parallel.h"

namespace KERNELS {

struct WholeRun {
    ALWAYS_INLINE Vector load(const float* source) const { return KERNELS::load(source); }
    ALWAYS_INLINE void store(float* target, Vector v) const { KERNELS::store(target, v); }
    ALWAYS_INLINE Vector keep(Vector v, Vector) const { return v; }
};

struct PartialRun {
    int64_t count;
    ALWAYS_INLINE Vector load(const float* source) const { return load_partial(source, count); }
    ALWAYS_INLINE void store(float* target, Vector v) const { store_partial(target, v, count); }
    // v in the lanes of the run, `other` beyond it.
    ALWAYS_INLINE Vector keep(Vector v, Vector other) const {
        Integers lane;
        for (int l = 0; l < WIDTH; ++l) lane[l] = l;
        return lane < static_cast<int32_t>(count) ? v : other;
    }
};

// body(k, run) for consecutive runs of [begin, end).
template <class Body> ALWAYS_INLINE void for_each_run(int64_t begin, int64_t end, Body body) {
    int64_t k = begin;
    for (; k + WIDTH <= end; k += WIDTH) body(k, WholeRun{});
    if (k < end) body(k, PartialRun{end - k});
}

// body(part, k, run) for the runs of [0, count), `part` the place of a run among the LANES / WIDTH vectors of lanes(...).
template <class Body> ALWAYS_INLINE void for_each_lane_run(int64_t count, Body body) {
    int64_t k = 0;
    for (; k + LANES <= count; k += LANES)
        for (int part = 0; part < LANES / WIDTH; ++part) body(part, k + part * WIDTH, WholeRun{});
    for (int part = 0; part < LANES / WIDTH; ++part) {
        int64_t left = count - (k + part * WIDTH);
        if (left >= WIDTH) body(part, k + part * WIDTH, WholeRun{});
        else if (left > 0) body(part, k + part * WIDTH, PartialRun{left});
    }
}

// for_each_run for [0, n) on several workers; `cost` is the operations an element takes.
template <class Body> ALWAYS_INLINE void for_each_run_parallel(int64_t n, int64_t cost, int64_t workers, Body body) {
    constexpr int64_t piece = 8192;
    parallel_for((n + piece - 1) / piece, useful_workers(workers, n * cost), 0, [=](int64_t task, float*) {
        int64_t begin = task * piece, end = begin + piece;
        for_each_run(begin, end < n ? end : n, body);
    });
}

}  // namespace KERNELS
