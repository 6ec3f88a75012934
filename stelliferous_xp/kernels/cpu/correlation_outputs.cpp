// Correlation with lanes over outputs: 1 or 2 registers of q times a few neighbouring positions; pixels are broadcast.
#include "correlation.h"
#include "padded_image.h"

namespace KERNELS {
namespace {

// The packed weights of one tile are kept to this many floats, to stay in the first cache.
constexpr int64_t WEIGHT_BLOCK = 4096;

#if defined(ISA_AVX512) || defined(ISA_NEON)
constexpr int64_t WIDEST[] = {16, 12};  // tiles for 1 and 2 registers of q
#else
constexpr int64_t WIDEST[] = {8, 4};
#endif

struct Part {
    int64_t channels;
    const float* weights;
    int64_t weights_pitch;  // between registers of q
    bool begins;
};

// POSITIONS neighbouring positions for VECTORS registers of q. The sums live in memory between blocks of channels,
// VECTORS * WIDTH floats a position. ACROSS taps form a row: each pixel is broadcast once for all of its outputs, which
// keeps their order because pixels ascend. STEP is the stride; for STEP 2 even and odd columns are `split` apart.
template <int VECTORS, int POSITIONS, int ACROSS, int STEP>
void sum_outputs(const Correlation& s, const Part& part, const float* input, float* sums) {
    constexpr int PIXELS = (POSITIONS - 1) * STEP + ACROSS;
    Vector sum[POSITIONS][VECTORS];
    UNROLLED for (int p = 0; p < POSITIONS; ++p)
        UNROLLED for (int v = 0; v < VECTORS; ++v)
            sum[p][v] = part.begins ? Vector{} : load(sums + (p * VECTORS + v) * WIDTH);
    const float* weights = part.weights;
    for (int64_t c = 0; c < part.channels; ++c) {
        for (int64_t t = 0; t < s.taps; t += ACROSS) {
            const float* pixels = input + s.offsets[t];
            Vector w[ACROSS][VECTORS];
            UNROLLED for (int k = 0; k < ACROSS; ++k)
                UNROLLED for (int v = 0; v < VECTORS; ++v)
                    w[k][v] = load(weights + v * part.weights_pitch + k * WIDTH);
            UNROLLED for (int i = 0; i < PIXELS; ++i) {
                Vector x = broadcast(pixels[STEP == 1 ? i : i % STEP * s.split + i / STEP]);
                UNROLLED for (int k = ACROSS - 1; k >= 0; --k) {
                    int p = (i - k) / STEP;
                    if (i < k || (i - k) % STEP || p >= POSITIONS) continue;
                    UNROLLED for (int v = 0; v < VECTORS; ++v) sum[p][v] = fma(w[k][v], x, sum[p][v]);
                }
            }
            weights += ACROSS * WIDTH;
        }
        input += s.channel_pitch;
    }
    UNROLLED for (int p = 0; p < POSITIONS; ++p)
        UNROLLED for (int v = 0; v < VECTORS; ++v) store(sums + (p * VECTORS + v) * WIDTH, sum[p][v]);
}

using SumOutputs = void (*)(const Correlation&, const Part&, const float*, float*);

struct Tile {
    int64_t positions;
    SumOutputs sum;
};

template <int VECTORS, int POSITIONS>
SumOutputs kernel(const Correlation& s) {
    if (s.across == 3) return s.split ? sum_outputs<VECTORS, POSITIONS, 3, 2> : sum_outputs<VECTORS, POSITIONS, 3, 1>;
    if (s.across == 2) return sum_outputs<VECTORS, POSITIONS, 2, 1>;
    return sum_outputs<VECTORS, POSITIONS, 1, 1>;
}

// A tile for the next of `left` positions of a row.
template <int VECTORS>
Tile tile(const Correlation& s, int64_t left) {
    const bool single = VECTORS == 2 && s.across == 1 && REGISTERS == 32;  // needs the fewest registers for weights
    const int64_t widest = single ? 14 : WIDEST[VECTORS - 1];
    const int64_t tiles = (left + widest - 1) / widest;
    const int64_t wanted = (left + tiles - 1) / tiles;
#if defined(ISA_AVX512) || defined(ISA_NEON)
    if (VECTORS == 1 && wanted > 12 && left >= 16) return {16, kernel<1, 16>(s)};
    if (VECTORS == 1 && wanted > 12 && left >= 14) return {14, kernel<1, 14>(s)};
    if (single && wanted > 12 && left >= 14) return {14, sum_outputs<2, 14, 1, 1>};
    if (wanted > 10 && left >= 12) return {12, kernel<VECTORS, 12>(s)};
    if (wanted > 8 && left >= 10) return {10, kernel<VECTORS, 10>(s)};
    if (wanted == 7) return {7, kernel<VECTORS, 7>(s)};
#endif
    if (wanted > 6 && left >= 8 && widest >= 8) return {8, kernel<VECTORS, 8>(s)};
    if (left >= 4) return {4, kernel<VECTORS, 4>(s)};
    if (left >= 2) return {2, kernel<VECTORS, 2>(s)};
    return {1, kernel<VECTORS, 1>(s)};
}

// out = the finished transpose of the sums of one row, for one register of q.
void finish_row(const float* sums, int64_t pitch, int64_t columns, int64_t first_output, int64_t outputs, float* out,
                int64_t out_plane, const Finish& finish) {
    for (int64_t j = 0; j < columns; j += WIDTH) {
        int64_t count = smaller(columns - j, WIDTH);
        Vector block[WIDTH];
        for (int p = 0; p < WIDTH; ++p) block[p] = p < count ? load(sums + (j + p) * pitch) : Vector{};
        transpose_registers(block);
        for (int q = 0; q < outputs; ++q) {
            Vector value = finished(block[q], finish, first_output + q);
            if (count == WIDTH)
                store(out + q * out_plane + j, value);
            else
                store_partial(out + q * out_plane + j, value, count);
        }
    }
}

template <int VECTORS>
void run_group(const Correlation& s, const float* image, const float* weights, int64_t top, int64_t bottom,
               float* sums) {
    const int64_t weights_pitch = s.channels * s.taps * WIDTH;
    const int64_t channel_block = larger(WEIGHT_BLOCK / (VECTORS * WIDTH * s.taps), 1);
    for (int64_t c = 0; c < s.channels; c += channel_block) {
        Part part{smaller(s.channels - c, channel_block), weights + c * s.taps * WIDTH, weights_pitch, c == 0};
        for (int64_t j = 0; j < s.columns;) {
            Tile next = tile<VECTORS>(s, s.columns - j);
            for (int64_t i = top; i < bottom; ++i)
                next.sum(s, part, image + c * s.channel_pitch + i * s.row_pitch + j,
                         sums + ((i - top) * s.columns + j) * VECTORS * WIDTH);
            j += next.positions;
        }
    }
}

}  // namespace

void run_over_outputs(const Correlation& s, const float* image, const float* packed, int64_t first, int64_t last,
                      float* out, int64_t out_plane, int64_t out_row_pitch, const Finish& finish, float* sums) {
    const int64_t weights_pitch = s.channels * s.taps * WIDTH;
    const int64_t block_rows = larger(POSITION_BLOCK / s.columns, 1);
    for (int64_t top = 0; top < s.rows; top += block_rows) {
        int64_t bottom = smaller(top + block_rows, s.rows);
        for (int64_t group = first; group < last; group += 2) {
            int64_t vectors = smaller(last - group, 2);
            if (vectors == 2)
                run_group<2>(s, image, packed + group * weights_pitch, top, bottom, sums);
            else
                run_group<1>(s, image, packed + group * weights_pitch, top, bottom, sums);
            for (int64_t v = 0; v < vectors; ++v) {
                int64_t q = (group + v) * WIDTH;
                for (int64_t i = top; i < bottom; ++i)
                    finish_row(sums + ((i - top) * s.columns * vectors + v) * WIDTH, vectors * WIDTH, s.columns, q,
                               smaller(s.outputs - q, WIDTH), out + q * out_plane + i * out_row_pitch, out_plane,
                               finish);
            }
        }
    }
}

int64_t scratch_over_outputs(const Correlation& s) { return larger(POSITION_BLOCK / s.columns, 1) * s.columns * 2 * WIDTH; }

}  // namespace KERNELS
