// The functions of elementary.h on whole arrays, numbered as in elementary.py.
#include "../elementary.h"
#include "parallel.h"

using namespace KERNELS;

template <class Function> static void apply(const float* x, float* y, int64_t n, int64_t workers, Function f) {
    constexpr int64_t piece = 4096;
    parallel_for((n + piece - 1) / piece, useful_workers(workers, n * 16), 0, [=](int64_t task, float*) {
        int64_t k = task * piece, end = k + piece < n ? k + piece : n;
        for (; k + WIDTH <= end; k += WIDTH) store(y + k, f(load(x + k)));
        if (k < end) store_partial(y + k, f(load_partial(x + k, end - k)), end - k);
    });
}

#define APPLY(name) apply(x, y, n, workers, [](Vector v) { return KERNELS::name(v); })

extern "C" void KERNEL(elementary)(const float* x, float* y, int64_t n, int64_t function, int64_t workers) {
    switch (function) {
        case 0: return APPLY(exp);
        case 1: return APPLY(expm1);
        case 2: return APPLY(log);
        case 3: return APPLY(log1p);
        case 4: return APPLY(sigmoid);
        case 5: return APPLY(tanh);
        case 6: return APPLY(sin);
        case 7: return APPLY(cos);
        case 8: return APPLY(normal_cdf);
        case 9: return APPLY(normal_density);
    }
}
