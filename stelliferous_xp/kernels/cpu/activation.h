// The activations of docs/order.md, one vector (or float) at a time. The codes are those of activation.py.
#pragma once

#include "../elementary.h"

enum Activation {
    IDENTITY = 0,
    RELU = 1,
    LEAKY_RELU = 2,
    ELU = 3,
    SIGMOID = 4,
    TANH = 5,
    SOFTPLUS = 6,
    SILU = 7,
    GELU = 8,
    SINUSOID = 9,
};

namespace KERNELS {

// Backward reads the input of these activations and the output of the others.
ARITHMETIC constexpr bool reads_input(int code) { return code == SILU || code == GELU || code == SINUSOID; }

// The operations an element takes, roughly.
constexpr int64_t activation_cost(int code) { return code <= LEAKY_RELU ? 2 : 40; }

// `alpha` is the slope of leaky relu, the alpha of elu.
template <int code, class F> ARITHMETIC F activate(F x, [[maybe_unused]] F alpha) {
    [[maybe_unused]] F zero = broadcast<F>(0.0f);
    if constexpr (code == RELU) return select(less(x, zero), zero, x);
    if constexpr (code == LEAKY_RELU) return select(less(zero, x), x, mul(alpha, x));
    if constexpr (code == ELU) return select(less(zero, x), x, mul(alpha, expm1(x)));
    if constexpr (code == SIGMOID) return sigmoid(x);
    if constexpr (code == TANH) return tanh(x);
    if constexpr (code == SOFTPLUS) return add(select(less(x, zero), zero, x), log1p(exp(-magnitude(x))));
    if constexpr (code == SILU || code == GELU) {
        F weight = code == SILU ? sigmoid(x) : normal_cdf(x);
        return select(less(x, broadcast<F>(-0x1.fffffep+127f)), -zero, mul(x, weight));
    }
    if constexpr (code == SINUSOID) return sin(x);
    return x;
}

// dy times the derivative; `saved` is what backward reads.
template <int code, class F> ARITHMETIC F activation_gradient(F dy, [[maybe_unused]] F saved, [[maybe_unused]] F alpha) {
    [[maybe_unused]] F zero = broadcast<F>(0.0f), one = broadcast<F>(1.0f);
    if constexpr (code == RELU) return select(less(zero, saved), dy, zero);
    if constexpr (code == LEAKY_RELU) return select(less(zero, saved), dy, mul(dy, alpha));
    if constexpr (code == ELU) return select(less(zero, saved), dy, mul(dy, add(saved, alpha)));
    if constexpr (code == SIGMOID) return mul(dy, mul(saved, sub(one, saved)));
    if constexpr (code == TANH) return mul(dy, fma(-saved, saved, one));
    if constexpr (code == SOFTPLUS) return mul(dy, -expm1(-saved));
    // Both derivatives have reached their limits at 128; an infinity would make them NaN.
    [[maybe_unused]] F x = reads_input(code) ? at_most(at_least(saved, -128.0f), 128.0f) : saved;
    if constexpr (code == SILU) {
        F s = sigmoid(x);
        return mul(dy, mul(s, fma(x, sub(one, s), one)));
    }
    if constexpr (code == GELU) return mul(dy, fma(x, normal_density(x), normal_cdf(x)));
    if constexpr (code == SINUSOID) return mul(dy, cos(saved));
    return dy;
}

template <int code> struct Code {
    static constexpr int value = code;
};

// call(Code<code>{}), the code known to the compiler.
template <class Call> ARITHMETIC void with_activation(int64_t code, Call call) {
    switch (code) {
        case IDENTITY: return call(Code<IDENTITY>{});
        case RELU: return call(Code<RELU>{});
        case LEAKY_RELU: return call(Code<LEAKY_RELU>{});
        case ELU: return call(Code<ELU>{});
        case SIGMOID: return call(Code<SIGMOID>{});
        case TANH: return call(Code<TANH>{});
        case SOFTPLUS: return call(Code<SOFTPLUS>{});
        case SILU: return call(Code<SILU>{});
        case GELU: return call(Code<GELU>{});
        case SINUSOID: return call(Code<SINUSOID>{});
    }
}

}  // namespace KERNELS
