// The input of a convolution, copied into scratch: padded with +0, rows and columns that no tap reads left out, and
// columns split by their remainder modulo the stride, so that a tap reads neighbouring outputs' pixels from neighbouring
// addresses whatever the stride.
#pragma once

#include "shuffle.h"
#include "vector.h"

namespace KERNELS {

ALWAYS_INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
ALWAYS_INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
ALWAYS_INLINE int64_t round_up(int64_t a, int64_t multiple) { return (a + multiple - 1) / multiple * multiple; }

// An array that frees itself.
template <class T>
class Array {
  public:
    explicit Array(int64_t size) : values_(new T[size]) {}
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;
    ~Array() { delete[] values_; }
    T& operator[](int64_t i) { return values_[i]; }
    T* data() { return values_; }

  private:
    T* values_;
};

struct PaddedImage {
    int64_t channels, height, width;
    int64_t top, left;                 // padding; negative crops
    int64_t row_stride, column_stride;
    int64_t row_phases, column_phases;  // kept remainders modulo the stride
    int64_t rows, run;                  // kept rows; length of one row's run of columns of one phase
    int64_t row_pitch, channel_pitch;

    PaddedImage(int64_t channels, int64_t height, int64_t width, int64_t out_rows, int64_t out_columns, int64_t kh,
                int64_t kw, int64_t sh, int64_t sw, int64_t top, int64_t left)
        : channels(channels), height(height), width(width), top(top), left(left), row_stride(sh), column_stride(sw),
          row_phases(smaller(sh, kh)), column_phases(smaller(sw, kw)) {
        rows = row_index((out_rows - 1) * sh + kh - 1) + 1;
        run = out_columns + (kw - 1) / sw;
        row_pitch = run * column_phases;
        channel_pitch = rows * row_pitch;
    }

    int64_t row_index(int64_t row) const { return row / row_stride * row_phases + row % row_stride; }
    int64_t tap_offset(int64_t ky, int64_t kx) const {
        return row_index(ky) * row_pitch + kx % column_stride * run + kx / column_stride;
    }
    // Is the copy the same as the image itself?
    bool is_plain() const {
        return top == 0 && left == 0 && row_stride == 1 && column_stride == 1 && rows == height && run == width;
    }
    int64_t output_row_pitch() const { return row_phases * row_pitch; }
    // Vector loads and stores may reach this far beyond the last pixel.
    int64_t floats() const { return channels * channel_pitch + 2 * WIDTH; }

    void fill(const float* image, float* target) const {
        Array<Run> runs(column_phases);
        for (int64_t phase = 0; phase < column_phases; ++phase) runs[phase] = run_of(phase);
        for (int64_t c = 0; c < channels; ++c) {
            for (int64_t i = 0, group = -top; i < rows; group += row_stride) {
                for (int64_t y = group; y < group + row_phases && i < rows; ++y, ++i) {
                    bool inside = y >= 0 && y < height;
                    const float* row = image + (c * height + y) * width;
                    for (int64_t phase = 0; phase < column_phases; ++phase, target += run)
                        fill_run(inside ? row : nullptr, runs[phase], target);
                }
            }
        }
    }

  private:
    // Elements [first, last) of a run are row[l * column_stride + shift], the others padding.
    struct Run {
        int64_t shift, first, last;
    };

    Run run_of(int64_t phase) const {
        int64_t shift = phase - left;
        int64_t first = shift >= 0 ? 0 : (-shift + column_stride - 1) / column_stride;
        int64_t last = width - shift > 0 ? (width - shift + column_stride - 1) / column_stride : 0;
        first = smaller(first, run);
        return {shift, first, larger(smaller(last, run), first)};
    }

    // May write WIDTH floats beyond the run: runs are filled in ascending order.
    ALWAYS_INLINE void fill_run(const float* row, const Run& part, float* target) const {
        int64_t l = 0;
        if (row) {
            for (; l < part.first; l += WIDTH) store(target + l, Vector{});
            l = part.last;
            if (column_stride == 1)
                copy(part, target, [=](int64_t k, int64_t count) {
                    return count == WIDTH ? load(row + part.shift + k) : load_partial(row + part.shift + k, count);
                });
            else if (column_stride == 2)
                copy(part, target,
                     [=](int64_t k, int64_t count) { return load_every_second(row + part.shift + 2 * k, count); });
            else
                for (int64_t k = part.first; k < part.last; ++k) target[k] = row[k * column_stride + part.shift];
        }
        for (; l < run; l += WIDTH) store(target + l, Vector{});
    }

    // WIDTH elements at a time; the last time overlapping the one before.
    template <class Load>
    ALWAYS_INLINE static void copy(const Run& part, float* target, Load load_elements) {
        int64_t count = part.last - part.first;
        if (count >= WIDTH) {
            for (int64_t k = part.first; k < part.last; k += WIDTH) {
                int64_t start = smaller(k, part.last - WIDTH);
                store(target + start, load_elements(start, WIDTH));
            }
        } else if (count > 0) {
            store(target + part.first, load_elements(part.first, count));
        }
    }
};

}  // namespace KERNELS
