// Optimiser steps, elementwise. The first array is the parameter; results go to the arrays named `new_...`.
#include "../arithmetic.h"
#include "elementwise.h"

using namespace KERNELS;

extern "C" void KERNEL(sgd)(const float* w, const float* g, float* new_w, int64_t n, float rate, int64_t workers) {
    for_each_run_parallel(n, 2, workers, [=](int64_t k, auto run) {
        run.store(new_w + k, run.load(w + k) - run.load(g + k) * broadcast(rate));
    });
}

extern "C" void KERNEL(momentum)(const float* w, const float* g, const float* v, float* new_w, float* new_v, int64_t n,
                                 float rate, float momentum, int64_t workers) {
    for_each_run_parallel(n, 4, workers, [=](int64_t k, auto run) {
        Vector velocity = broadcast(momentum) * run.load(v + k) + run.load(g + k);
        run.store(new_v + k, velocity);
        run.store(new_w + k, run.load(w + k) - velocity * broadcast(rate));
    });
}

extern "C" void KERNEL(nesterov)(const float* w, const float* g, const float* v, float* new_w, float* new_v, int64_t n,
                                 float rate, float momentum, int64_t workers) {
    for_each_run_parallel(n, 6, workers, [=](int64_t k, auto run) {
        Vector m = broadcast(momentum), gradient = run.load(g + k);
        Vector velocity = m * run.load(v + k) + gradient;
        run.store(new_v + k, velocity);
        run.store(new_w + k, run.load(w + k) - (m * velocity + gradient) * broadcast(rate));
    });
}

extern "C" void KERNEL(grenade_momentum)(const float* w, const float* g, const float* v, float* new_w, float* new_v,
                                         int64_t n, float rate, float momentum, float shrink, int64_t workers) {
    for_each_run_parallel(n, 6, workers, [=](int64_t k, auto run) {
        Vector old = run.load(w + k);
        Vector velocity = broadcast(momentum) * run.load(v + k) - run.load(g + k) * broadcast(rate);
        run.store(new_v + k, velocity);
        run.store(new_w + k, (old + velocity) - broadcast(shrink) * old);
    });
}

// adam with keep = 1, adamw otherwise; c1, c2, step and root are as in docs/order.md.
extern "C" void KERNEL(adam)(const float* w, const float* g, const float* m, const float* v, float* new_w, float* new_m,
                             float* new_v, int64_t n, float keep, float beta1, float c1, float beta2, float c2,
                             float step, float root, float epsilon, int64_t workers) {
    for_each_run_parallel(n, 32, workers, [=](int64_t k, auto run) {
        Vector gradient = run.load(g + k);
        Vector mean = broadcast(beta1) * run.load(m + k) + broadcast(c1) * gradient;
        Vector square = broadcast(beta2) * run.load(v + k) + broadcast(c2) * (gradient * gradient);
        run.store(new_m + k, mean);
        run.store(new_v + k, square);
        Vector down = sqrt(square) / broadcast(root) + broadcast(epsilon);
        run.store(new_w + k, run.load(w + k) * broadcast(keep) - (broadcast(step) * mean) / down);
    });
}
