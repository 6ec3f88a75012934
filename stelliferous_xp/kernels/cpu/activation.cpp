// Activations and their backward on whole arrays.
#include "activation.h"

#include "elementwise.h"

using namespace KERNELS;

extern "C" void KERNEL(activation_forward)(const float* x, float* y, int64_t n, int64_t activation, float alpha,
                                           int64_t workers) {
    with_activation(activation, [=](auto chosen) {
        constexpr int code = decltype(chosen)::value;
        for_each_run_parallel(n, activation_cost(code), workers, [=](int64_t k, auto run) {
            run.store(y + k, activate<code>(run.load(x + k), broadcast(alpha)));
        });
    });
}

extern "C" void KERNEL(activation_backward)(const float* dy, const float* saved, float* dx, int64_t n,
                                            int64_t activation, float alpha, int64_t workers) {
    with_activation(activation, [=](auto chosen) {
        constexpr int code = decltype(chosen)::value;
        for_each_run_parallel(n, activation_cost(code), workers, [=](int64_t k, auto run) {
            Vector gradient = run.load(dy + k);
            Vector kept = code == IDENTITY ? gradient : run.load(saved + k);
            run.store(dx + k, activation_gradient<code>(gradient, kept, broadcast(alpha)));
        });
    });
}
