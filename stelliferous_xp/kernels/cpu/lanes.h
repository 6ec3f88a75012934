// lanes(v_k) of docs/order.md: 32 partial sums, combined by halves.
#pragma once

#include "vector.h"

namespace KERNELS {

constexpr int LANES = 32;

struct Lanes {
    Vector part[LANES / WIDTH] = {};

    // Applies part = step(part, k) for the lanes of elements [0, count); step(acc, k, n) takes elements k to k + n,
    // n <= WIDTH, and must leave the lanes from n on unchanged.
    template <class Step>
    ALWAYS_INLINE void accumulate(int64_t count, Step step) {
        int64_t k = 0;
        for (; k + LANES <= count; k += LANES)
            for (int r = 0; r < LANES / WIDTH; ++r) part[r] = step(part[r], k + r * WIDTH, int64_t{WIDTH});
        for (int r = 0; k < count; ++r, k += WIDTH)
            part[r] = step(part[r], k, count - k < WIDTH ? count - k : int64_t{WIDTH});
    }

    ALWAYS_INLINE float combine() const {
        float lane[LANES];
        for (int r = 0; r < LANES / WIDTH; ++r) store(lane + r * WIDTH, part[r]);
        for (int h = LANES / 2; h > 0; h /= 2)
            for (int l = 0; l < h; ++l) lane[l] += lane[l + h];
        return lane[0];
    }
};

// values[0] = tree(values[0 .. count)), in place.
ALWAYS_INLINE float tree(float* values, int64_t count) {
    for (; count > 1; count = (count + 1) / 2) {
        for (int64_t i = 0; i < count / 2; ++i) values[i] = values[2 * i] + values[2 * i + 1];
        if (count % 2) values[count / 2] = values[count - 1];
    }
    return values[0];
}

}  // namespace KERNELS
