// IEEE arithmetic in writing: add(a, b) rounds once, whatever the compiler's flags. elementary.h and the kernels that
// C++ and CUDA share are written in these words, for one float or, on a CPU, a register of them.
//
// select(mask, a, b) takes a where the mask holds. bits(x) and number(i) reinterpret; whole(i) converts an integer.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

// NVRTC contracts a*b+c, and CuPy compiles with -ftz=true: PTX instructions without .ftz are immune to both.
#define KERNELS kernels_cuda
#define ARITHMETIC __device__ __forceinline__

namespace KERNELS {

using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long long;
using uint64_t = unsigned long long;

#define BINARY(name, instruction)                                                 \
    ARITHMETIC float name(float a, float b) {                                     \
        float result;                                                             \
        asm(instruction " %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b)); \
        return result;                                                            \
    }
BINARY(add, "add.rn.f32")
BINARY(sub, "sub.rn.f32")
BINARY(mul, "mul.rn.f32")
BINARY(div, "div.rn.f32")
#undef BINARY

ARITHMETIC float fma(float a, float b, float c) {
    float result;
    asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(a), "f"(b), "f"(c));
    return result;
}
ARITHMETIC float sqrt(float a) {
    float result;
    asm("sqrt.rn.f32 %0, %1;" : "=f"(result) : "f"(a));
    return result;
}
ARITHMETIC bool less(float a, float b) {
    int result;
    asm("{ .reg .pred p; setp.lt.f32 p, %1, %2; selp.s32 %0, 1, 0, p; }" : "=r"(result) : "f"(a), "f"(b));
    return result;
}
ARITHMETIC double add(double a, double b) { return __dadd_rn(a, b); }
ARITHMETIC double sub(double a, double b) { return __dsub_rn(a, b); }
ARITHMETIC double mul(double a, double b) { return __dmul_rn(a, b); }
ARITHMETIC double div(double a, double b) { return __ddiv_rn(a, b); }
ARITHMETIC double fma(double a, double b, double c) { return __fma_rn(a, b, c); }
ARITHMETIC bool less(double a, double b) { return a < b; }

ARITHMETIC int32_t bits(float x) { return __float_as_int(x); }
ARITHMETIC float number(int32_t i) { return __int_as_float(i); }
ARITHMETIC int64_t bits(double x) { return __double_as_longlong(x); }
ARITHMETIC double number(int64_t i) { return __longlong_as_double(i); }
ARITHMETIC float whole(int32_t i) { return __int2float_rn(i); }

// cvt.f64.f32 and cvt.rn.f32.f64 would flush subnormals under -ftz.
ARITHMETIC double widen(float x) {
    double result;
    asm("cvt.f64.f32 %0, %1;" : "=d"(result) : "f"(x));
    return result;
}
ARITHMETIC float narrow(double x) {
    float result;
    asm("cvt.rn.f32.f64 %0, %1;" : "=f"(result) : "d"(x));
    return result;
}

#else

#include "cpu/vector.h"

#define ARITHMETIC ALWAYS_INLINE

namespace KERNELS {

// The build keeps these apart with -ffp-contract=off.
template <class F> ARITHMETIC F add(F a, F b) { return a + b; }
template <class F> ARITHMETIC F sub(F a, F b) { return a - b; }
template <class F> ARITHMETIC F mul(F a, F b) { return a * b; }
template <class F> ARITHMETIC F div(F a, F b) { return a / b; }
template <class F> ARITHMETIC auto less(F a, F b) { return a < b; }

ARITHMETIC float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
ARITHMETIC double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
ARITHMETIC float sqrt(float a) { return __builtin_sqrtf(a); }

template <class To, class From> ARITHMETIC To reinterpret(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}
ARITHMETIC int32_t bits(float x) { return reinterpret<int32_t>(x); }
ARITHMETIC float number(int32_t i) { return reinterpret<float>(i); }
ARITHMETIC int64_t bits(double x) { return reinterpret<int64_t>(x); }
ARITHMETIC double number(int64_t i) { return reinterpret<double>(i); }
ARITHMETIC float whole(int32_t i) { return static_cast<float>(i); }
ARITHMETIC double widen(float x) { return x; }
ARITHMETIC float narrow(double x) { return static_cast<float>(x); }

typedef float HalfVector __attribute__((vector_size(2 * WIDTH)));
typedef double Doubles __attribute__((vector_size(4 * WIDTH)));
typedef int64_t LongIntegers __attribute__((vector_size(4 * WIDTH)));

ARITHMETIC Doubles fma(Doubles a, Doubles b, Doubles c) {
#if defined(ISA_AVX512)
    return (Doubles)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(ISA_AVX2)
    return (Doubles)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#elif defined(ISA_NEON)
    return (Doubles)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#else
    Doubles result;
    for (int lane = 0; lane < WIDTH / 2; ++lane) result[lane] = __builtin_fma(a[lane], b[lane], c[lane]);
    return result;
#endif
}
ARITHMETIC Vector sqrt(Vector a) {
    Vector result;
    for (int lane = 0; lane < WIDTH; ++lane) result[lane] = __builtin_sqrtf(a[lane]);
    return result;
}
ARITHMETIC bool any(Integers mask) {
#if defined(ISA_AVX512)
    return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask);
#elif defined(ISA_AVX2)
    return !_mm256_testz_si256((__m256i)mask, (__m256i)mask);
#else
    int32_t some = 0;
    for (int lane = 0; lane < WIDTH; ++lane) some |= mask[lane];
    return some;
#endif
}
ARITHMETIC Integers bits(Vector x) { return (Integers)x; }
ARITHMETIC Vector number(Integers i) { return (Vector)i; }
ARITHMETIC LongIntegers bits(Doubles x) { return (LongIntegers)x; }
ARITHMETIC Doubles number(LongIntegers i) { return (Doubles)i; }
ARITHMETIC Vector whole(Integers i) { return __builtin_convertvector(i, Vector); }

#endif

template <class M, class T> ARITHMETIC T select(M mask, T a, T b) { return mask ? a : b; }

// A number in every lane of an F (its sign kept when it is -0).
template <class F, class S> ARITHMETIC F broadcast(S value) { return value - F{}; }

// c[0] + c[1] x + c[2] x^2 + ..., each step one fma.
template <class F, class S, int n> ARITHMETIC F polynomial(F x, const S (&c)[n]) {
    F sum = broadcast<F>(c[n - 1]);
    for (int i = n - 2; i >= 0; --i) sum = fma(sum, x, broadcast<F>(c[i]));
    return sum;
}

// f(x) computed in float64, then rounded to float32.
template <class Function> ARITHMETIC float through_float64(float x, Function f) { return narrow(f(widen(x))); }

#ifdef ISA
template <class Function> ARITHMETIC Vector through_float64(Vector x, Function f) {
    HalfVector half[2];
    std::memcpy(half, &x, sizeof x);
    for (int i = 0; i < 2; ++i)
        half[i] = __builtin_convertvector(f(__builtin_convertvector(half[i], Doubles)), HalfVector);
#if defined(ISA_AVX512)
    // Through memory this would wait for both stores.
    return (Vector)_mm512_insertf32x8(_mm512_castps256_ps512((__m256)half[0]), (__m256)half[1], 1);
#elif defined(ISA_AVX2)
    return (Vector)_mm256_set_m128((__m128)half[1], (__m128)half[0]);
#else
    std::memcpy(&x, half, sizeof x);
    return x;
#endif
}
#endif

}  // namespace KERNELS
