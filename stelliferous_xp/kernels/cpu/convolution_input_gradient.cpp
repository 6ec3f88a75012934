// dx[n,c,y,x] = chain over (o, i, j) of w[o,c,y+ph-i*sh,x+pw-j*sw] * dy[n,o,i,j], dy +0 beyond its borders.
// Pixels are taken by phase, the remainder of (y+ph, x+pw) modulo the stride: all pixels of a phase meet the same taps.
#include "correlation.h"
#include "padded_image.h"
#include "parallel.h"

namespace KERNELS {
namespace {

// Along one axis, the pixels first, first + stride, ... of a phase. Tap m is kernel element phase + m * stride; it
// takes element shift + r - m of dy to pixel r.
struct Axis {
    int64_t taps, first, count, shift;

    Axis() = default;
    Axis(int64_t phase, int64_t size, int64_t kernel, int64_t stride, int64_t padding) {
        taps = phase < kernel ? (kernel - phase + stride - 1) / stride : 0;
        first = ((phase - padding) % stride + stride) % stride;
        count = first < size ? (size - first + stride - 1) / stride : 0;
        shift = (first + padding - phase) / stride;
    }
};

// The elements of dy that any phase reads along one axis: from `begin` on, enough for `count` pixels.
struct Reach {
    int64_t most_taps, begin, count;

    Reach(int64_t size, int64_t kernel, int64_t stride, int64_t padding) {
        most_taps = (kernel - 1) / stride + 1;
        int64_t least = INT64_MAX, end = 0;
        for (int64_t phase = 0; phase < stride; ++phase) {
            Axis axis(phase, size, kernel, stride, padding);
            if (axis.count == 0) continue;
            least = smaller(least, axis.shift);
            end = larger(end, axis.shift + axis.count);
        }
        begin = least - (most_taps - 1);
        count = end - least;
    }
};

struct Phase {
    Axis rows, columns;
    Correlation sums;
    int64_t start;  // of its first pixel and last taps, in the padded dy
    float* packed;
};

// row[l * stride + phase_first] for all phases of a row; a phase without taps is +0.
void merge_columns(const Phase* phases, int64_t stride, const float* const* parts, int64_t width, float* row) {
    if (stride == 2) {
        int even = phases[0].columns.first == 0 ? 0 : 1;
        const float* a = parts[even];
        const float* b = parts[1 - even];
        int64_t pairs = width / 2;
        if (width % 2) row[width - 1] = a ? a[pairs] : 0.0f;
        if (pairs < WIDTH) {
            if (pairs == 0) return;
            float both[2 * WIDTH];
            store_interleaved(both, a ? load_partial(a, pairs) : Vector{}, b ? load_partial(b, pairs) : Vector{});
            std::memcpy(row, both, 2 * pairs * sizeof(float));
            return;
        }
        // The last time overlaps the one before.
        for (int64_t done = 0; done < pairs; done += WIDTH) {
            int64_t l = smaller(done, pairs - WIDTH);
            store_interleaved(row + 2 * l, a ? load(a + l) : Vector{}, b ? load(b + l) : Vector{});
        }
        return;
    }
    for (int64_t p = 0; p < stride; ++p)
        for (int64_t l = 0; l < phases[p].columns.count; ++l)
            row[phases[p].columns.first + l * stride] = parts[p] ? parts[p][l] : 0.0f;
}

}  // namespace
}  // namespace KERNELS

using namespace KERNELS;

extern "C" void KERNEL(conv2d_input_gradient)(const float* dy, const float* w, float* dx, int64_t N, int64_t C,
                                              int64_t H, int64_t W, int64_t O, int64_t kh, int64_t kw, int64_t sh,
                                              int64_t sw, int64_t ph, int64_t pw, int64_t workers) {
    if (N * C * H * W == 0) return;
    const int64_t OH = (H + 2 * ph - kh) / sh + 1, OW = (W + 2 * pw - kw) / sw + 1, T = kh * kw;
    const Reach down(H, kh, sh, ph), across(W, kw, sw, pw);
    const PaddedImage padded(O, OH, OW, down.count, across.count, down.most_taps, across.most_taps, 1, 1, -down.begin,
                             -across.begin);

    Array<Phase> phases(sh * sw);
    Array<int64_t> offsets(T), order(T);
    int64_t packed_floats = 0, sum_floats = 0;
    int64_t* next = offsets.data();
    for (int64_t p = 0; p < sh * sw; ++p) {
        Phase& phase = phases[p];
        phase.rows = Axis(p / sw, H, kh, sh, ph);
        phase.columns = Axis(p % sw, W, kw, sw, pw);
        int64_t taps = phase.rows.taps * phase.columns.taps;
        // The last tap reads the first element.
        phase.start = (phase.rows.shift - phase.rows.taps + 1 - down.begin) * padded.row_pitch +
                      phase.columns.shift - phase.columns.taps + 1 - across.begin;
        for (int64_t t = 0; t < taps; ++t) {
            int64_t row = t / phase.columns.taps, column = t % phase.columns.taps;
            next[t] = row * padded.row_pitch + column;
            int64_t ky = p / sw + (phase.rows.taps - 1 - row) * sh;
            int64_t kx = p % sw + (phase.columns.taps - 1 - column) * sw;
            order[next - offsets.data() + t] = ky * kw + kx;
        }
        phase.sums = Correlation{O,    padded.channel_pitch, padded.row_pitch,    taps,
                                 next, phase.rows.count,     phase.columns.count, C};
        if (phase.columns.taps == 2 || phase.columns.taps == 3) phase.sums.across = phase.columns.taps;
        next += taps;
        if (sh == 1 && sw == 1) phase.sums.join_rows();
        if (phase.rows.count * phase.columns.count == 0) continue;
        packed_floats += round_up(phase.sums.packed_floats(), WIDTH);
        sum_floats = larger(sum_floats, phase.sums.scratch_floats());
    }
    float* packed = shared_buffer(packed_floats);
    for (int64_t p = 0; p < sh * sw; ++p) {
        Phase& phase = phases[p];
        if (phase.rows.count * phase.columns.count == 0) continue;
        phase.packed = packed;
        packed += round_up(phase.sums.packed_floats(), WIDTH);
        phase.sums.pack(w, T, C * T, T, order.data() + (phase.sums.offsets - offsets.data()), phase.packed, workers);
    }

    const bool direct = sh == 1 && sw == 1;
    const bool copied = !padded.is_plain() || phases[0].sums.columns < WIDTH;
    const int64_t groups = (C + phases[0].sums.group() - 1) / phases[0].sums.group();
    workers = useful_workers(workers, N * C * O * OH * OW * T / WIDTH);
    const int64_t pieces = N >= 2 * workers || !direct ? 1 : smaller(workers, (groups + 1) / 2);
    const int64_t image_floats = copied ? round_up(padded.floats(), WIDTH) : 0;
    const int64_t part_pitch = direct ? 0 : (H / sh + 1) * (W / sw + 1);
    const int64_t part_floats = round_up(part_pitch * C, WIDTH);
    const Finish nothing{nullptr, 0, 0.0f};

    parallel_for(N * pieces, workers, image_floats + sum_floats + sw * part_floats, [&](int64_t index, float* scratch) {
        int64_t n = index / pieces, piece = index % pieces;
        const float* image = dy + n * O * OH * OW;
        float* sums = scratch + image_floats;
        if (copied) {
            padded.fill(image, scratch);
            image = scratch;
        }
        float* target = dx + n * C * H * W;
        if (direct) {
            const Phase& all = phases[0];
            all.sums.run(image, all.packed, groups * piece / pieces, groups * (piece + 1) / pieces, target, H * W,
                         all.sums.columns, nothing, sums);
            return;
        }
        float* parts = sums + sum_floats;
        Array<const float*> row_parts(sw);
        for (int64_t down_phase = 0; down_phase < sh; ++down_phase) {
            const Phase* row_phases = phases.data() + down_phase * sw;
            const Axis& rows = row_phases[0].rows;
            for (int64_t p = 0; p < sw; ++p) {
                const Phase& phase = row_phases[p];
                if (phase.sums.taps * rows.count * phase.columns.count == 0) continue;
                int64_t all = (C + phase.sums.group() - 1) / phase.sums.group();
                phase.sums.run(image + phase.start, phase.packed, 0, all, parts + p * part_floats, part_pitch,
                               phase.columns.count, nothing, sums);
            }
            for (int64_t c = 0; c < C; ++c) {
                for (int64_t r = 0; r < rows.count; ++r) {
                    for (int64_t p = 0; p < sw; ++p)
                        row_parts[p] = row_phases[p].sums.taps
                                           ? parts + p * part_floats + c * part_pitch + r * row_phases[p].columns.count
                                           : nullptr;
                    merge_columns(row_phases, sw, row_parts.data(), W, target + (c * H + rows.first + r * sh) * W);
                }
            }
        }
    });
}
