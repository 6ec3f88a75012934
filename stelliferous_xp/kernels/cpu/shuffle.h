// Rearranging float32 values through registers.
#pragma once

#include <utility>

#include "vector.h"

namespace KERNELS {

// The lanes LANE of a and b in a row: lane l of a is l, lane l of b is WIDTH + l.
template <int... LANE>
ALWAYS_INLINE Vector pick(Vector a, Vector b) {
#if defined(__clang__)
    return __builtin_shufflevector(a, b, LANE...);
#else
    return __builtin_shuffle(a, b, Integers{LANE...});
#endif
}

template <int H, int... L>
ALWAYS_INLINE void exchange_lanes(Vector& a, Vector& b, std::integer_sequence<int, L...>) {
    Vector first = pick<(L & H ? WIDTH + L - H : L)...>(a, b);
    b = pick<(L & H ? WIDTH + L : L + H)...>(a, b);
    a = first;
}

template <int... L>
ALWAYS_INLINE void interleave_lanes(Vector a, Vector b, float* target, std::integer_sequence<int, L...>) {
    store(target, pick<(L / 2 + L % 2 * WIDTH)...>(a, b));
    store(target + WIDTH, pick<(L / 2 + L % 2 * WIDTH + WIDTH / 2)...>(a, b));
}

// target = a0 b0 a1 b1 ...
ALWAYS_INLINE void store_interleaved(float* target, Vector a, Vector b) {
    interleave_lanes(a, b, target, std::make_integer_sequence<int, WIDTH>{});
}

template <int... L>
ALWAYS_INLINE Vector pick_even(Vector a, Vector b, std::integer_sequence<int, L...>) {
    return pick<(L < WIDTH / 2 ? 2 * L : 2 * L + 1)...>(a, b);
}

// source[0], source[2], ... source[2 * count - 2], 0 < count <= WIDTH, then +0; reads nothing beyond.
ALWAYS_INLINE Vector load_every_second(const float* source, int64_t count) {
    int64_t reach = 2 * count - 1;
    Vector a = reach >= WIDTH ? load(source) : load_partial(source, reach);
    Vector b = {};
    if (count == WIDTH)
        b = load(source + WIDTH - 1);
    else if (reach >= WIDTH)
        b = load_partial(source + WIDTH - 1, reach - WIDTH + 1);
    return pick_even(a, b, std::make_integer_sequence<int, WIDTH>{});
}

// Exchanges the off-diagonal H x H blocks of every 2H x 2H block.
template <int H>
ALWAYS_INLINE void transpose_step(Vector* rows) {
    for (int i = 0; i < WIDTH; ++i)
        if (!(i & H)) exchange_lanes<H>(rows[i], rows[i + H], std::make_integer_sequence<int, WIDTH>{});
    if constexpr (H > 1) transpose_step<H / 2>(rows);
}

// A WIDTH x WIDTH matrix held in registers, one row each.
ALWAYS_INLINE void transpose_registers(Vector* rows) { transpose_step<WIDTH / 2>(rows); }

// target[j * target_pitch + i] = source[i * source_pitch + j] for i < rows, j < columns; where rows is not a
// multiple of WIDTH, each row of the target is filled up with +0 to such a multiple.
inline void transpose(const float* source, int64_t source_pitch, int64_t rows, int64_t columns, float* target,
                      int64_t target_pitch) {
    for (int64_t i = 0; i < rows; i += WIDTH) {
        for (int64_t j = 0; j < columns; j += WIDTH) {
            Vector block[WIDTH];
            const float* corner = source + i * source_pitch + j;
            float* result = target + j * target_pitch + i;
            if (rows - i >= WIDTH && columns - j >= WIDTH) {
                for (int r = 0; r < WIDTH; ++r) block[r] = load(corner + r * source_pitch);
                transpose_registers(block);
                for (int r = 0; r < WIDTH; ++r) store(result + r * target_pitch, block[r]);
            } else {
                int64_t height = rows - i < WIDTH ? rows - i : WIDTH;
                int64_t width = columns - j < WIDTH ? columns - j : WIDTH;
                for (int r = 0; r < WIDTH; ++r)
                    block[r] = r < height ? load_partial(corner + r * source_pitch, width) : Vector{};
                transpose_registers(block);
                for (int r = 0; r < width; ++r) store(result + r * target_pitch, block[r]);
            }
        }
    }
}

}  // namespace KERNELS
