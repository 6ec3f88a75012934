// Max pooling: the first maximum of a window wins, and its first NaN over all. Backward finds the winners again, which
// costs less than writing and reading their places.
#include "planes.h"
#include "vector.h"

using namespace KERNELS;

namespace {

struct Sizes {
    int64_t H, W, kh, kw, sh, sw, ph, pw;
    int64_t rows() const { return (H + 2 * ph - kh) / sh + 1; }
    int64_t columns() const { return (W + 2 * pw - kw) / sw + 1; }
};

// The outputs j of [0, count) whose tap j * stride + offset lies in [0, size).
struct Range {
    int64_t begin, end;
    Range(int64_t offset, int64_t stride, int64_t size, int64_t count) {
        begin = offset < 0 ? (-offset + stride - 1) / stride : 0;
        end = offset < size ? (size - 1 - offset) / stride + 1 : 0;
        if (end > count) end = count;
    }
};

// One tap for one row of windows. `stride` is known to the compiler where it matters.
ALWAYS_INLINE void take_tap(const float* pixels, int64_t stride, int64_t place, Range range, float* best,
                            int32_t* places) {
    for (int64_t j = range.begin; j < range.end; ++j) {
        float v = pixels[j * stride], b = best[j];
        bool better = (v > b) | ((v != v) & (b == b));
        best[j] = better ? v : b;
        if (places) places[j] = better ? static_cast<int32_t>(place + j * stride) : places[j];
    }
}

// best[j], and the place y*W + x it has, for row i of the windows of a plane; `places` may be null.
ALWAYS_INLINE void find_best(const float* plane, const Sizes& s, int64_t i, float* best, int32_t* places) {
    int64_t top = i * s.sh - s.ph, first_row = top < 0 ? 0 : top, columns = s.columns();
    for (int64_t j = 0; j < columns; ++j) {
        int64_t left = j * s.sw - s.pw;
        best[j] = -__builtin_inff();  // below or equal to any pixel, so that padding never wins
        if (places) places[j] = static_cast<int32_t>(first_row * s.W + (left < 0 ? 0 : left));
    }
    for (int64_t row = first_row; row < top + s.kh && row < s.H; ++row)
        for (int64_t kx = 0; kx < s.kw; ++kx) {
            int64_t offset = kx - s.pw, place = row * s.W + offset;
            Range range(offset, s.sw, s.W, columns);
            const float* pixels = plane + place;
            if (s.sw == 1) take_tap(pixels, 1, place, range, best, places);
            else if (s.sw == 2) take_tap(pixels, 2, place, range, best, places);
            else take_tap(pixels, s.sw, place, range, best, places);
        }
}

}  // namespace

extern "C" void KERNEL(max_pool_forward)(const float* x, float* y, int64_t planes, int64_t H, int64_t W, int64_t kh,
                                         int64_t kw, int64_t sh, int64_t sw, int64_t ph, int64_t pw, int64_t workers) {
    Sizes s{H, W, kh, kw, sh, sw, ph, pw};
    int64_t rows = s.rows(), columns = s.columns();
    for_each_plane(planes, H * W, kh * kw, workers, 0, [=](int64_t plane, float*) {
        for (int64_t i = 0; i < rows; ++i)
            find_best(x + plane * H * W, s, i, y + (plane * rows + i) * columns, nullptr);
    });
}

extern "C" void KERNEL(max_pool_backward)(const float* dy, const float* x, float* dx, int64_t planes, int64_t H,
                                          int64_t W, int64_t kh, int64_t kw, int64_t sh, int64_t sw, int64_t ph,
                                          int64_t pw, int64_t workers) {
    Sizes s{H, W, kh, kw, sh, sw, ph, pw};
    int64_t rows = s.rows(), columns = s.columns();
    for_each_plane(planes, H * W, 2 * kh * kw, workers, 2 * columns, [=](int64_t plane, float* scratch) {
        float *best = scratch, *target = dx + plane * H * W;
        auto* places = reinterpret_cast<int32_t*>(scratch + columns);
        std::memset(target, 0, H * W * sizeof(float));
        for (int64_t i = 0; i < rows; ++i) {
            const float* gradients = dy + (plane * rows + i) * columns;
            find_best(x + plane * H * W, s, i, best, places);
            for (int64_t j = 0; j < columns; ++j) target[places[j]] += gradients[j];
        }
    });
}
