// Losses and their gradients; both arrays are [rows, columns].
#include "../elementary.h"
#include "elementwise.h"

using namespace KERNELS;

namespace {

// body(row) for each row, then the tree over what it returned, divided by `count`.
template <class Body>
ALWAYS_INLINE float mean_of_rows(int64_t rows, int64_t columns, int64_t cost, float count, int64_t workers, Body body) {
    int64_t group = columns < 4096 ? 4096 / (columns + 1) + 1 : 1;
    float* losses = shared_buffer(rows + 1);
    losses[0] = 0.0f;
    workers = useful_workers(workers, rows * columns * cost);
    parallel_for((rows + group - 1) / group, workers, columns, [=](int64_t task, float* scratch) {
        int64_t end = (task + 1) * group < rows ? (task + 1) * group : rows;
        for (int64_t row = task * group; row < end; ++row) losses[row] = body(row, scratch);
    });
    float mean = 0.0f;
    parallel_for(1, 1, 0, [&](int64_t, float*) { mean = tree(losses, rows) / count; });
    return mean;
}

// NaN where any of z is.
ALWAYS_INLINE float largest(const float* z, int64_t count) {
    float m = -__builtin_inff();
    int nan = 0;
    for (int64_t k = 0; k < count; ++k) {
        nan |= z[k] != z[k];
        m = z[k] > m ? z[k] : m;
    }
    return nan ? __builtin_nanf("") : m;
}

}  // namespace

extern "C" void KERNEL(softmax_cross_entropy)(const float* logits, const float* target, float* loss, float* gradient,
                                              int64_t N, int64_t K, int64_t workers) {
    float count = static_cast<float>(N);
    *loss = mean_of_rows(N, K, 60, count, workers, [=](int64_t row, float* e) {
        const float *z = logits + row * K, *t = target + row * K;
        Vector m = broadcast(largest(z, K)), zero = {};
        Lanes sum, targets, losses;
        for_each_lane_run(K, [&](int part, int64_t k, auto run) {
            Vector value = exp(run.load(z + k) - m);
            run.store(e + k, value);
            sum.part[part] += run.keep(value, zero);
            targets.part[part] += run.load(t + k);
        });
        float total = sum.combine();
        Vector logarithm = broadcast(log(total));
        for_each_lane_run(K, [&](int part, int64_t k, auto run) {
            Vector share = run.load(t + k), term = share * (logarithm - (run.load(z + k) - m));
            losses.part[part] += run.keep(share == zero ? zero : term, zero);
        });
        Vector all_targets = broadcast(targets.combine()), s = broadcast(total), rows = broadcast(count);
        for_each_run(0, K, [=](int64_t k, auto run) {
            run.store(gradient + row * K + k, fma(all_targets, run.load(e + k) / s, -run.load(t + k)) / rows);
        });
        return losses.combine();
    });
}

extern "C" void KERNEL(mse)(const float* prediction, const float* target, float* loss, float* gradient, int64_t rows,
                            int64_t columns, int64_t workers) {
    float count = static_cast<float>(rows * columns);
    *loss = mean_of_rows(rows, columns, 4, count, workers, [=](int64_t row, float*) {
        Vector half = broadcast(count / 2.0f);
        Lanes sum;
        for_each_lane_run(columns, [&](int part, int64_t k, auto run) {
            Vector d = run.load(prediction + row * columns + k) - run.load(target + row * columns + k);
            run.store(gradient + row * columns + k, d / half);
            sum.part[part] = run.keep(fma(d, d, sum.part[part]), sum.part[part]);
        });
        return sum.combine();
    });
}
