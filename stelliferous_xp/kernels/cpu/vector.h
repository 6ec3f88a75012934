// One register of float32 lanes, per instruction set.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "isa.h"

#if defined(ISA_AVX512) || defined(ISA_AVX2)
#include <immintrin.h>
#elif defined(ISA_NEON)
#include <arm_neon.h>
#endif

namespace KERNELS {

#if defined(ISA_AVX512)
constexpr int WIDTH = 16;
constexpr int REGISTERS = 32;
#elif defined(ISA_AVX2)
constexpr int WIDTH = 8;
constexpr int REGISTERS = 16;
#elif defined(ISA_NEON)
constexpr int WIDTH = 4;
constexpr int REGISTERS = 32;
#else
constexpr int WIDTH = 4;
constexpr int REGISTERS = 16;
#endif

// +, -, *, /, comparisons and `mask ? a : b` work lane by lane on these types.
typedef float Vector __attribute__((vector_size(4 * WIDTH)));
typedef int32_t Integers __attribute__((vector_size(4 * WIDTH)));

ALWAYS_INLINE Vector load(const float* source) {
    Vector v;
    std::memcpy(&v, source, sizeof v);
    return v;
}

ALWAYS_INLINE void store(float* target, Vector v) { std::memcpy(target, &v, sizeof v); }

ALWAYS_INLINE Vector broadcast(float value) { return value - Vector{}; }

ALWAYS_INLINE Vector fma(Vector a, Vector b, Vector c) {
#if defined(ISA_AVX512)
    return (Vector)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(ISA_AVX2)
    return (Vector)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(ISA_NEON)
    return (Vector)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    Vector result;
    for (int lane = 0; lane < WIDTH; ++lane) result[lane] = fmaf(a[lane], b[lane], c[lane]);
    return result;
#endif
}

// The first `count` lanes, 0 < count <= WIDTH; the others are +0 and touch no memory.
ALWAYS_INLINE Vector load_partial(const float* source, int64_t count) {
#if defined(ISA_AVX512)
    return (Vector)_mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), source);
#else
    Vector v = {};
    std::memcpy(&v, source, count * sizeof(float));
    return v;
#endif
}

ALWAYS_INLINE void store_partial(float* target, Vector v, int64_t count) {
#if defined(ISA_AVX512)
    _mm512_mask_storeu_ps(target, (__mmask16)((1u << count) - 1), (__m512)v);
#else
    std::memcpy(target, &v, count * sizeof(float));
#endif
}

}  // namespace KERNELS
