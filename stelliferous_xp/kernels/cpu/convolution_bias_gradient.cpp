// db[o] = tree over images of lanes(dy plane).
#include "lanes.h"
#include "parallel.h"
#include "vector.h"

using namespace KERNELS;

extern "C" void KERNEL(conv2d_bias_gradient)(const float* dy, float* db, int64_t N, int64_t O, int64_t P,
                                             int64_t workers) {
    float* sums = shared_buffer(O * N);
    workers = useful_workers(workers, N * O * P);
    parallel_for(N, workers, 0, [=](int64_t n, float*) {
        for (int64_t o = 0; o < O; ++o) {
            const float* plane = dy + (n * O + o) * P;
            Lanes sum;
            // The +0 in the lanes beyond a partial load changes nothing: no lane, starting at +0, ever becomes -0.
            sum.accumulate(P, [=](Vector lane, int64_t k, int64_t count) {
                return count == WIDTH ? lane + load(plane + k) : lane + load_partial(plane + k, count);
            });
            sums[o * N + n] = sum.combine();
        }
    });
    parallel_for(O, useful_workers(workers, N * O), 0, [=](int64_t o, float*) { db[o] = N ? tree(sums + o * N, N) : 0.0f; });
}
