// Average pooling over whole planes: y[n,c] = lanes(x plane) / P.
#include "elementwise.h"
#include "planes.h"

using namespace KERNELS;

extern "C" void KERNEL(average_pool_forward)(const float* x, float* y, int64_t N, int64_t C, int64_t P,
                                             int64_t workers) {
    for_each_plane(N * C, P, 1, workers, 0, [=](int64_t plane, float*) {
        Lanes sum;
        for_each_lane_run(P, [&](int part, int64_t k, auto run) { sum.part[part] += run.load(x + plane * P + k); });
        y[plane] = sum.combine() / static_cast<float>(P);
    });
}

extern "C" void KERNEL(average_pool_backward)(const float* dy, float* dx, int64_t N, int64_t C, int64_t P,
                                              int64_t workers) {
    for_each_plane(N * C, P, 1, workers, 0, [=](int64_t plane, float*) {
        Vector share = broadcast(dy[plane] / static_cast<float>(P));
        for_each_run(plane * P, plane * P + P, [=](int64_t k, auto run) { run.store(dx + k, share); });
    });
}
