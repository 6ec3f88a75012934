// For benchmarks: 16 independent chains of fused multiply-adds in registers, `rounds` long, on every worker at once.
#include "parallel.h"
#include "vector.h"

using namespace KERNELS;

extern "C" void KERNEL(fma_rate_probe)(int64_t rounds, int64_t workers) {
    parallel_for(workers, workers, WIDTH, [=](int64_t, float* scratch) {
        constexpr int CHAINS = REGISTERS == 32 ? 16 : 12;
        Vector sum[CHAINS], factor = broadcast(0.5f), term = broadcast(1.0f);
        for (int c = 0; c < CHAINS; ++c) sum[c] = broadcast(static_cast<float>(c));
        for (int64_t round = 0; round < rounds; ++round)
            for (int c = 0; c < CHAINS; ++c) sum[c] = fma(sum[c], factor, term);
        Vector all = sum[0];
        for (int c = 1; c < CHAINS; ++c) all = all + sum[c];
        store(scratch, all);
    });
}
