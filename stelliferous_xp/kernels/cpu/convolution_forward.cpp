// y[n,o,i,j] = chain over (c, ky, kx) of w[o,c,ky,kx] * xpad[n,c,i*sh+ky,j*sw+kx], then + b[o], then the activation.
#include "correlation.h"
#include "elementwise.h"
#include "padded_image.h"
#include "parallel.h"

using namespace KERNELS;

extern "C" void KERNEL(conv2d_forward)(const float* x, const float* w, const float* b, float* y, int64_t N, int64_t C,
                                       int64_t H, int64_t W, int64_t O, int64_t kh, int64_t kw, int64_t sh, int64_t sw,
                                       int64_t ph, int64_t pw, int64_t activation, float alpha, int64_t workers) {
    int64_t OH = (H + 2 * ph - kh) / sh + 1, OW = (W + 2 * pw - kw) / sw + 1;
    if (N == 0 || O == 0 || OH <= 0 || OW <= 0) return;
    const PaddedImage padded(C, H, W, OH, OW, kh, kw, sh, sw, ph, pw);
    const int64_t taps = kh * kw;
    Array<int64_t> offsets(taps), order(taps);
    for (int64_t t = 0; t < taps; ++t) {
        offsets[t] = padded.tap_offset(t / kw, t % kw);
        order[t] = t;
    }
    Correlation sums{C, padded.channel_pitch, padded.output_row_pitch(), taps, offsets.data(), OH, OW, O};
    if (kw == 3 && sw <= 2) {
        sums.across = 3;
        sums.split = sw == 2 ? padded.run : 0;
    }
    sums.join_rows();
    const bool copied = !padded.is_plain() || sums.columns < WIDTH;

    float* packed = shared_buffer(sums.packed_floats());
    sums.pack(w, C * taps, taps, taps, order.data(), packed, workers);

    const int64_t groups = (O + sums.group() - 1) / sums.group();
    workers = useful_workers(workers, N * O * OH * OW * C * taps / WIDTH);
    const int64_t pieces = N >= 2 * workers ? 1 : smaller(workers, (groups + 1) / 2);
    const int64_t image_floats = copied ? round_up(padded.floats(), WIDTH) : 0;
    parallel_for(N * pieces, workers, image_floats + sums.scratch_floats(), [&](int64_t index, float* scratch) {
        int64_t n = index / pieces, piece = index % pieces;
        const float* image = x + n * C * H * W;
        if (copied) {
            padded.fill(image, scratch);
            image = scratch;
        }
        float* target = y + n * O * OH * OW;
        int64_t first = groups * piece / pieces, last = groups * (piece + 1) / pieces;
        sums.run(image, packed, first, last, target, OH * OW, sums.columns, Finish{b, activation, alpha},
                 scratch + image_floats);
        if (is_cheap(activation)) return;
        with_activation(activation, [=, &sums](auto code) {
            for_each_run(first * sums.group() * OH * OW, smaller(last * sums.group(), O) * OH * OW,
                         [=](int64_t k, auto run) {
                             run.store(target + k, activate<decltype(code)::value>(run.load(target + k), broadcast(alpha)));
                         });
        });
    });
}
