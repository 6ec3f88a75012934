// exp, log and their kin from IEEE operations alone: the same bits on every CPU and on CUDA, at most 1 ulp from the
// correctly rounded value over all float32 arguments (docs/elementary.md has the measured errors).
//
// F is float, or on a CPU a register of floats. scripts/fit_elementary.py made the coefficients.
#pragma once

#include "arithmetic.h"

namespace KERNELS {

constexpr float LOG2_E = 0x1.715476p+0f;
constexpr float LN2_HIGH = 0x1.62e43p-1f;
constexpr float LN2_LOW = -0x1.05c61p-29f;
constexpr int32_t SIGN = static_cast<int32_t>(0x80000000u);
constexpr int32_t INFINITY_BITS = 0x7f800000;
constexpr int32_t NAN_BITS = 0x7fc00000;

template <class F> ARITHMETIC F magnitude(F x) { return number(bits(x) & ~SIGN); }
template <class F> ARITHMETIC F with_sign_of(F x, F sign) { return number(bits(x) | (bits(sign) & SIGN)); }
template <class F> ARITHMETIC F infinity() { return broadcast<F>(number(INFINITY_BITS)); }

// NaN stays NaN in both.
template <class F> ARITHMETIC F at_least(F x, float low) { return select(less(x, broadcast<F>(low)), broadcast<F>(low), x); }
template <class F> ARITHMETIC F at_most(F x, float high) { return select(less(broadcast<F>(high), x), broadcast<F>(high), x); }

template <class I> ARITHMETIC auto power_of_two(I n) { return number((n + 127) << 23); }

// e^x = (1 + p + low) * 2^n with |p| < 0.42 and low below p's last digit, for |x| < 2^20.
template <class F> struct ExpParts {
    F p, low;
    decltype(bits(F{})) n;
};
template <class F> ARITHMETIC ExpParts<F> exp_parts(F x) {
    constexpr float shift = 0x1.8p23f;  // adding it rounds to a whole number, held in the low bits
    F shifted = fma(x, broadcast<F>(LOG2_E), broadcast<F>(shift));
    F n = sub(shifted, broadcast<F>(shift));
    F exact = fma(n, broadcast<F>(-LN2_HIGH), x);
    F r = fma(n, broadcast<F>(-LN2_LOW), exact);
    F r_low = fma(n, broadcast<F>(-LN2_LOW), sub(exact, r));
    constexpr float q[] = {0x1.fffffep-2f, 0x1.5554bp-3f, 0x1.555674p-5f, 0x1.122776p-7f, 0x1.6becp-10f};
    F square = mul(r, r), series = polynomial(r, q);
    F p = fma(square, series, r);
    F low = add(fma(square, series, sub(r, p)), r_low);
    return {p, low, bits(shifted) - bits(shift)};
}

// x 2^n in two factors, so that neither the smallest nor the largest results are lost on the way.
template <class F, class I> ARITHMETIC F scale(F x, I n) {
    auto half = n >> 1;
    return mul(mul(x, power_of_two(half)), power_of_two(n - half));
}

template <class F> ARITHMETIC F exp(F x) {
    auto [p, low, n] = exp_parts(at_most(at_least(x, -104.0f), 89.0f));
    return scale(add(p, broadcast<F>(1.0f)), n);
}

template <class F> ARITHMETIC F expm1(F x) {
    auto [p, low, n] = exp_parts(at_most(at_least(x, -20.0f), 89.0f));
    // Half the result, since 2^128 is no float32; with what the roundings lost, since p and 2^n - 1 may cancel.
    F factor = power_of_two(n - 1);
    F base = sub(factor, broadcast<F>(0.5f));
    F base_low = sub(sub(factor, base), broadcast<F>(0.5f));
    F half = add(fma(p, factor, base), fma(low, factor, base_low));
    // Near 0, where half the result might be subnormal, n = 0 and p is all.
    return with_sign_of(select(n == 0, p, add(half, half)), x);
}

// k ln 2 + log(1 + f) for -0.25 <= f < 0.5; +0 for k = f = 0.
template <class F> ARITHMETIC F log_of_parts(F k, F f) {
    constexpr float p[] = {-0.5f,          0x1.5555a4p-2f, -0x1.00004p-2f,  0x1.9969bp-3f, -0x1.54efdep-3f,
                           0x1.28847cp-3f, -0x1.0d8a82p-3f, 0x1.ac909p-4f, -0x1.714088p-5f};
    F low = fma(mul(f, f), polynomial(f, p), mul(k, broadcast<F>(LN2_LOW)));
    return fma(k, broadcast<F>(LN2_HIGH), add(f, low));
}

// What a logarithm of x is beyond its domain, which begins above `low`.
template <class F> ARITHMETIC F log_specials(F result, F x, float low) {
    F outside = select(less(x, broadcast<F>(low)), broadcast<F>(number(NAN_BITS)), -infinity<F>());
    result = select(less(broadcast<F>(low), x), result, outside);
    return select(less(x, infinity<F>()), result, add(x, x));
}

// The multiple of 2^23 that brings u's bits into [0.75, 1.5) when taken away.
template <class F> ARITHMETIC auto exponent_above(F u) {
    return (bits(u) - bits(0.75f)) & static_cast<int32_t>(0xff800000u);
}

template <class F> ARITHMETIC F log(F x) {
    auto subnormal = less(x, broadcast<F>(0x1p-126f));
    F scaled = select(subnormal, mul(x, broadcast<F>(0x1p23f)), x);
    auto exponent = exponent_above(scaled);
    F k = add(whole(exponent >> 23), select(subnormal, broadcast<F>(-23.0f), broadcast<F>(0.0f)));
    F f = sub(number(bits(scaled) - exponent), broadcast<F>(1.0f));
    return log_specials(log_of_parts(k, f), x, 0.0f);
}

template <class F> ARITHMETIC F log1p(F x) {
    auto exponent = exponent_above(add(x, broadcast<F>(1.0f)));
    // (1 + x) 2^-k - 1, rounded once: x 2^-k and 2^-k - 1 are both exact, or one of them does not matter.
    F power = number(bits(4.0f) - exponent);
    F f = add(number(bits(x) - exponent), fma(power, broadcast<F>(0.25f), broadcast<F>(-1.0f)));
    return log_specials(with_sign_of(log_of_parts(whole(exponent >> 23), f), x), x, -1.0f);
}

// e / (1 + e) or 1 / (1 + e) with e = exp(-|x|); e and 1 + e each carry what their rounding lost.
template <class F> ARITHMETIC F sigmoid(F x) {
    F one = broadcast<F>(1.0f), zero = broadcast<F>(0.0f);
    auto [p, low, n] = exp_parts(at_least(number(bits(x) | SIGN), -104.0f));
    F rounded = add(p, one);
    F e = scale(rounded, n), e_low = scale(sub(p, sub(rounded, one)), n);
    F below = add(e, one), below_low = add(sub(e, sub(below, one)), e_low);
    auto negative = less(x, zero);
    F above = select(negative, e, one), above_low = select(negative, e_low, zero);
    F inverse = div(one, below);
    F quotient = mul(above, inverse);
    F rest = add(fma(-quotient, below_low, fma(-quotient, below, above)), above_low);
    return fma(rest, inverse, quotient);
}

template <class F> ARITHMETIC F tanh(F x) {
    F a = at_most(magnitude(x), 10.0f);
    constexpr float c[] = {-0x1.555532p-2f, 0x1.110726p-3f, -0x1.b83c5ap-5f, 0x1.5226a2p-6f, -0x1.75e1e8p-8f};
    F square = mul(a, a);
    F near = fma(mul(square, a), polynomial(square, c), a);
    auto [p, low, n] = exp_parts(add(a, a));
    F factor = power_of_two(n);
    F far = sub(broadcast<F>(1.0f), div(broadcast<F>(2.0f), add(fma(p, factor, factor), broadcast<F>(1.0f))));
    return with_sign_of(select(less(a, broadcast<F>(0.625f)), near, far), x);
}

// Float64 from here on: D is double, or a register of doubles.

template <class D> ARITHMETIC D magnitude64(D x) { return number(bits(x) & int64_t{0x7fffffffffffffff}); }

// e^x for -700 < x <= 0, to 2^-39.
template <class D> ARITHMETIC D exp64(D x) {
    constexpr double shift = 0x1.8p52;
    D shifted = fma(x, broadcast<D>(0x1.71547652b82fep+0), broadcast<D>(shift));
    D r = fma(sub(shifted, broadcast<D>(shift)), broadcast<D>(-0x1.62e42fefa39efp-1), x);
    constexpr double q[] = {1.0, 1.0, 0x1.ffffffffeae09p-2, 0x1.5555557e8e76bp-3, 0x1.5555558a9a963p-5,
                            0x1.1110a14166f9cp-7, 0x1.6c1622877ad20p-10, 0x1.a186f3810b1dap-13, 0x1.a18b8853ade76p-16};
    return mul(polynomial(r, q), number((bits(shifted) - bits(shift) + 1023) << 52));
}

// Beyond 14.5 both the density and the tail are 0 in float32.
template <class D> ARITHMETIC D normal_argument(D x) {
    D a = magnitude64(x);
    return select(less(broadcast<D>(14.5), a), broadcast<D>(14.5), a);
}

template <class D> ARITHMETIC D normal_density64(D x) {
    D a = normal_argument(x);
    return mul(exp64(mul(mul(a, a), broadcast<D>(-0.5))), broadcast<D>(0x1.9884533d43651p-2));
}

template <class D> ARITHMETIC D normal_cdf64(D x) {
    // (1 + a) exp(a^2 / 2) Phi(-a) is a polynomial in (a - 5) / (a + 5).
    constexpr double c[] = {0x1.d8979b0f37d99p-2,   -0x1.76ff867c2ab02p-4, 0x1.fc66cbcc8ca97p-6,  0x1.47c1bc7d94027p-7,
                            -0x1.b08df2caee16bp-6,  0x1.92043caccaf12p-6,  -0x1.f11ac67cc9397p-7, 0x1.ab5452e1d91c4p-8,
                            -0x1.b7ac46393fb1cp-10, 0x1.ae159e646fbdap-17, 0x1.8e967dedede8ep-13, -0x1.e0d2054dc4132p-15,
                            -0x1.987fa0ea3c93fp-16};
    D a = normal_argument(x);
    D above_1 = add(a, broadcast<D>(1.0)), above_5 = add(a, broadcast<D>(5.0));
    D inverse = div(broadcast<D>(1.0), mul(above_1, above_5));
    D q = mul(mul(sub(a, broadcast<D>(5.0)), above_1), inverse);
    D mills = mul(mul(polynomial(q, c), above_5), inverse);
    D tail = mul(exp64(mul(mul(a, a), broadcast<D>(-0.5))), mills);
    return select(less(x, broadcast<D>(0.0)), tail, sub(broadcast<D>(1.0), tail));
}

// The normal distribution, for gelu and its derivative.
template <class F> ARITHMETIC F normal_cdf(F x) {
    return through_float64(x, [](auto d) { return normal_cdf64(d); });
}
template <class F> ARITHMETIC F normal_density(F x) {
    return through_float64(x, [](auto d) { return normal_density64(d); });
}

// sin(r + n pi/2) for |r| < 0.79.
template <class D, class I> ARITHMETIC D sin_of_parts(D r, I n) {
    constexpr double s[] = {1.0, -0x1.5555554c70017p-3, 0x1.111108690e4b2p-7, -0x1.a00f7e166a6f5p-13, 0x1.6cd1b0f98b8f8p-19};
    constexpr double c[] = {1.0, -0x1.ffffffffe9853p-2, 0x1.55555545c1e7dp-5, -0x1.6c16b3469304ep-10, 0x1.a00eb88968b6ap-16,
                            -0x1.23c949041711dp-22};
    D square = mul(r, r);
    D value = select((n & 1) == 0, mul(r, polynomial(square, s)), polynomial(square, c));
    return number(bits(value) ^ ((n & 2) << 62));
}

// sin(x + turns pi/2) for |x| < 2^30: n pi/2 is taken away in two pieces, the first without error.
template <class D> ARITHMETIC D sin64(D x, int64_t turns) {
    constexpr double shift = 0x1.8p52;
    D shifted = fma(x, broadcast<D>(0x1.45f306dc9c883p-1), broadcast<D>(shift));
    D n = sub(shifted, broadcast<D>(shift));
    D r = fma(n, broadcast<D>(-0x1.921fb54442d18p+0), x);
    r = fma(n, broadcast<D>(-0x1.1a62633145c07p-54), r);
    return sin_of_parts(r, bits(shifted) + turns);
}

// The same for 2^30 <= |x| < infinity, NaN beyond: the 94 binary digits of 2/pi that matter are cut out and
// multiplied by x's significand.
ARITHMETIC float sin_large(float x, int64_t turns) {
    constexpr uint32_t two_over_pi[] = {0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
    int32_t exponent = ((bits(x) >> 23) & 255) - 150;
    if (exponent > 104) return sub(x, x);
    int32_t first = exponent - 2, word = first >> 5, offset = first & 31;
    uint64_t high = uint64_t{two_over_pi[word]} << 32 | two_over_pi[word + 1];
    uint64_t low = uint64_t{two_over_pi[word + 2]} << 32 | two_over_pi[word + 3];
    high = high << offset | (low >> 32) >> (32 - offset);
    low = (low << offset) >> 32;
    uint64_t significand = (bits(x) & 0x7fffff) | 0x800000;
    uint64_t turn = significand * high + (significand * low >> 32);  // in units of pi/2 2^-62
    int64_t n = static_cast<int64_t>((turn + (uint64_t{1} << 61)) >> 62);
    double r = mul(static_cast<double>(static_cast<int64_t>(turn - (static_cast<uint64_t>(n) << 62))), 0x1.921fb54442d18p-62);
    return narrow(bits(x) < 0 ? sin_of_parts(-r, turns - n) : sin_of_parts(r, turns + n));
}

ARITHMETIC float large_sines(float result, float x, int64_t turns) {
    return less(magnitude(x), 0x1p30f) ? result : sin_large(x, turns);
}
#ifdef ISA
ARITHMETIC Vector large_sines(Vector result, Vector x, int64_t turns) {
    Integers large = bits(magnitude(x)) >= bits(0x1p30f);
    if (__builtin_expect(any(large), 0))
        for (int lane = 0; lane < WIDTH; ++lane)
            if (large[lane]) result[lane] = sin_large(x[lane], turns);
    return result;
}
#endif

template <class F> ARITHMETIC F sin(F x) {
    return large_sines(through_float64(x, [](auto d) { return sin64(d, 0); }), x, 0);
}
template <class F> ARITHMETIC F cos(F x) {
    return large_sines(through_float64(x, [](auto d) { return sin64(d, 1); }), x, 1);
}

}  // namespace KERNELS
