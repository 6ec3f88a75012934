// dw[o,c,ky,kx]: per block of 8 images chain over (n, i, j) of dy[n,o,i,j] * xpad[n,c,i*sh+ky,j*sw+kx]; tree over blocks.
// Lanes run over o: dy is transposed to [position][o] and x broadcast.
#include "padded_image.h"
#include "parallel.h"
#include "shuffle.h"

namespace KERNELS {
namespace {

constexpr int64_t BLOCK = 8;
// Positions handled together, so that their dy stays in the first cache.
constexpr int64_t POSITION_BLOCK = 256;

// A piece of one or more images.
struct Piece {
    const float* x;          // pixel that the tap at offset 0 reads for the first position
    const int64_t* offsets;  // of the rows of dw: (c, ky, kx)
    int64_t row_pitch;
    const float* dy;  // [position][o]
    int64_t dy_pitch;
    int64_t rows, columns;
    bool is_3x3;  // with neighbouring taps
    int64_t images, x_image_pitch, dy_image_pitch;

    Piece image(int64_t n) const {
        Piece one = *this;
        one.x += n * x_image_pitch;
        one.dy += n * dy_image_pitch;
        return one;
    }
};

// RUN rows of dw for VECTORS registers of o. sums[v * sums_pitch + k * WIDTH + lane]
template <int VECTORS, int RUN>
void add_products(const Piece& piece, int64_t k, float* sums, int64_t sums_pitch) {
    const float* dy = piece.dy;
    Vector sum[RUN][VECTORS];
    const float* x[RUN];
    UNROLLED for (int r = 0; r < RUN; ++r) {
        x[r] = piece.x + piece.offsets[k + r];
        UNROLLED for (int v = 0; v < VECTORS; ++v) sum[r][v] = load(sums + v * sums_pitch + (k + r) * WIDTH);
    }
    for (int64_t i = 0; i < piece.rows; ++i) {
        int64_t first = i * piece.row_pitch, last = first + piece.columns;
        for (int64_t j = first; j < last; ++j, dy += piece.dy_pitch) {
            Vector d[VECTORS];
            UNROLLED for (int v = 0; v < VECTORS; ++v) d[v] = load(dy + v * WIDTH);
            UNROLLED for (int r = 0; r < RUN; ++r) {
                Vector pixel = broadcast(x[r][j]);
                UNROLLED for (int v = 0; v < VECTORS; ++v) sum[r][v] = fma(d[v], pixel, sum[r][v]);
            }
        }
    }
    UNROLLED for (int r = 0; r < RUN; ++r)
        UNROLLED for (int v = 0; v < VECTORS; ++v) store(sums + v * sums_pitch + (k + r) * WIDTH, sum[r][v]);
}

// All 9 taps of CHANNELS channels of a 3 x 3 kernel: each pixel is broadcast once for the taps of its row. Positions
// ascend for every sum because pixels do. For row step 1; needs 2 columns or more.
template <int VECTORS, int CHANNELS>
void add_3x3(const Piece& piece, int64_t k, float* sums, int64_t sums_pitch) {
    const float* dy = piece.dy;
    constexpr int ROWS = 3 * CHANNELS;
    Vector sum[ROWS][3][VECTORS];
    const float* x[ROWS];
    UNROLLED for (int r = 0; r < ROWS; ++r) {
        x[r] = piece.x + piece.offsets[k + 3 * r];
        UNROLLED for (int kx = 0; kx < 3; ++kx)
            UNROLLED for (int v = 0; v < VECTORS; ++v)
                sum[r][kx][v] = load(sums + v * sums_pitch + (k + 3 * r + kx) * WIDTH);
    }
    struct Gradient {
        Vector part[VECTORS];
    };
    auto next = [&]() __attribute__((always_inline)) {
        Gradient d;
        UNROLLED for (int v = 0; v < VECTORS; ++v) d.part[v] = load(dy + v * WIDTH);
        dy += piece.dy_pitch;
        return d;
    };
    auto add = [&](int kx, const Gradient& d, int r, Vector pixel) __attribute__((always_inline)) {
        UNROLLED for (int v = 0; v < VECTORS; ++v) sum[r][kx][v] = fma(d.part[v], pixel, sum[r][kx][v]);
    };
    auto add_three = [&](int64_t j, const Gradient& d0, const Gradient& d1, const Gradient& d2)
        __attribute__((always_inline)) {
        UNROLLED for (int r = 0; r < ROWS; ++r) {
            Vector pixel = broadcast(x[r][j]);
            add(0, d0, r, pixel);
            add(1, d1, r, pixel);
            add(2, d2, r, pixel);
        }
    };
    for (int64_t i = 0; i < piece.rows; ++i) {
        int64_t j = i * piece.row_pitch, end = j + piece.columns;
        Gradient a = next();
        UNROLLED for (int r = 0; r < ROWS; ++r) add(0, a, r, broadcast(x[r][j]));
        Gradient b = next();
        UNROLLED for (int r = 0; r < ROWS; ++r) {
            Vector pixel = broadcast(x[r][j + 1]);
            add(0, b, r, pixel);
            add(1, a, r, pixel);
        }
        for (j += 2; j + 2 < end; j += 3) {
            Gradient c = next();
            add_three(j, c, b, a);
            a = next();
            add_three(j + 1, a, c, b);
            b = next();
            add_three(j + 2, b, a, c);
        }
        for (; j < end; ++j) {
            Gradient c = next();
            add_three(j, c, b, a);
            a = b;
            b = c;
        }
        UNROLLED for (int r = 0; r < ROWS; ++r) {
            Vector pixel = broadcast(x[r][end]);
            add(1, b, r, pixel);
            add(2, a, r, pixel);
        }
        UNROLLED for (int r = 0; r < ROWS; ++r) add(2, b, r, broadcast(x[r][end + 1]));
    }
    UNROLLED for (int r = 0; r < ROWS; ++r)
        UNROLLED for (int kx = 0; kx < 3; ++kx)
            UNROLLED for (int v = 0; v < VECTORS; ++v)
                store(sums + v * sums_pitch + (k + 3 * r + kx) * WIDTH, sum[r][kx][v]);
}

#if defined(ISA_AVX512) || defined(ISA_NEON)
constexpr int LONG_RUN = 9, RUN = 8;
#else
constexpr int LONG_RUN = 6, RUN = 4;
#endif

// The sums of a few rows of dw take in all images before the next rows' turn.
template <int VECTORS>
void add_all_products(const Piece& piece, int64_t rows, float* sums, int64_t sums_pitch) {
    using Add = void (*)(const Piece&, int64_t, float*, int64_t);
    int64_t k = 0;
    auto add_while_fitting = [&](Add add, int64_t run) {
        for (; k + run <= rows; k += run)
            for (int64_t n = 0; n < piece.images; ++n) add(piece.image(n), k, sums, sums_pitch);
    };
    if (REGISTERS == 32 && piece.is_3x3 && piece.columns >= 2) {
        constexpr int CHANNELS = VECTORS == 1 ? 2 : 1;
        add_while_fitting(add_3x3<VECTORS, CHANNELS>, 9 * CHANNELS);
    }
    if ((rows - k) % LONG_RUN == 0) add_while_fitting(add_products<VECTORS, LONG_RUN>, LONG_RUN);
    add_while_fitting(add_products<VECTORS, RUN>, RUN);
    add_while_fitting(add_products<VECTORS, 1>, 1);
}

}  // namespace
}  // namespace KERNELS

using namespace KERNELS;

extern "C" void KERNEL(conv2d_weight_gradient)(const float* dy, const float* x, float* dw, int64_t N, int64_t C,
                                               int64_t H, int64_t W, int64_t O, int64_t kh, int64_t kw, int64_t sh,
                                               int64_t sw, int64_t ph, int64_t pw, int64_t workers) {
    const int64_t OH = (H + 2 * ph - kh) / sh + 1, OW = (W + 2 * pw - kw) / sw + 1;
    const int64_t T = kh * kw, K = C * T, P = OH * OW;
    if (O * K == 0) return;
    if (P <= 0 || N == 0) {
        for (int64_t i = 0; i < O * K; ++i) dw[i] = 0.0f;
        return;
    }
    const PaddedImage padded(C, H, W, OH, OW, kh, kw, sh, sw, ph, pw);
    Array<int64_t> offsets(K);
    for (int64_t k = 0; k < K; ++k)
        offsets[k] = k / T * padded.channel_pitch + padded.tap_offset(k % T / kw, k % kw);
    const bool copied = !padded.is_plain();
    int64_t rows = OH, columns = OW;
    if (padded.output_row_pitch() == OW) {
        // 1 x 1: one long row, cut into blocks.
        columns = P;
        rows = 1;
    }

    const int64_t groups = (O + WIDTH - 1) / WIDTH, sums_pitch = K * WIDTH;
    const int64_t blocks = (N + BLOCK - 1) / BLOCK;
    workers = useful_workers(workers, N * O * K * P / WIDTH);
    const int64_t pairs = (groups + 1) / 2;
    const int64_t pieces = blocks >= 2 * workers ? 1 : smaller(workers, pairs);
    const int64_t piece_outputs = (pairs + pieces - 1) / pieces * 2 * WIDTH;
    // Where dw outgrows the second cache, small images are taken several at a time: its sums are then read less often.
    const bool large = K * groups * WIDTH > 1 << 18;
    const int64_t together = large ? larger(smaller(POSITION_BLOCK / P, BLOCK), 1) : 1;
    const int64_t x_pitch = copied ? round_up(padded.floats(), WIDTH) : C * H * W;
    const int64_t copy_floats = copied ? together * x_pitch : 0;
    float* partial = shared_buffer(blocks * groups * sums_pitch);

    parallel_for(blocks * pieces, workers, copy_floats + together * P * piece_outputs, [&](int64_t index, float* scratch) {
        int64_t block = index / pieces, piece_index = index % pieces;
        int64_t first = pairs * piece_index / pieces * 2, last = smaller(pairs * (piece_index + 1) / pieces * 2, groups);
        float* sums = partial + block * groups * sums_pitch;
        for (int64_t i = first * sums_pitch; i < last * sums_pitch; ++i) sums[i] = 0.0f;
        float* transposed = scratch + copy_floats;
        const int64_t dy_pitch = (last - first) * WIDTH;
        const int64_t end = smaller((block + 1) * BLOCK, N);
        for (int64_t n = block * BLOCK; n < end; n += together) {
            const int64_t images = smaller(together, end - n);
            const float* image = copied ? scratch : x + n * x_pitch;
            for (int64_t m = 0; m < images; ++m) {
                if (copied) padded.fill(x + (n + m) * C * H * W, scratch + m * x_pitch);
                transpose(dy + ((n + m) * O + first * WIDTH) * P, P, smaller(O - first * WIDTH, dy_pitch), P,
                          transposed + m * P * dy_pitch, dy_pitch);
            }
            const int64_t block_rows = larger(POSITION_BLOCK / columns, 1);
            const int64_t block_columns = smaller(columns, POSITION_BLOCK);
            for (int64_t i = 0; i < rows; i += block_rows) {
                for (int64_t j = 0; j < columns; j += block_columns) {
                    Piece piece{image + i * padded.output_row_pitch() + j,
                                offsets.data(),
                                padded.output_row_pitch(),
                                transposed + (i * columns + j) * dy_pitch,
                                dy_pitch,
                                smaller(block_rows, rows - i),
                                smaller(block_columns, columns - j),
                                kh == 3 && kw == 3 && sw == 1,
                                images,
                                x_pitch,
                                P * dy_pitch};
                    for (int64_t g = first; g < last; g += 2, piece.dy += 2 * WIDTH) {
                        if (g + 1 < last)
                            add_all_products<2>(piece, K, sums + g * sums_pitch, sums_pitch);
                        else
                            add_all_products<1>(piece, K, sums + g * sums_pitch, sums_pitch);
                    }
                }
            }
        }
    });

    // Tree over the blocks, then from [o / WIDTH][k][o % WIDTH] to [o][k].
    const int64_t total = groups * sums_pitch;
    constexpr int64_t CHUNK = 64;  // rows of dw
    const int64_t chunks = (K + CHUNK - 1) / CHUNK;
    parallel_for(groups * chunks, useful_workers(workers, blocks * total / WIDTH), 0, [&](int64_t index, float*) {
        int64_t g = index / chunks, k = index % chunks * CHUNK, count = smaller(K - k, CHUNK);
        float* sums = partial + g * sums_pitch + k * WIDTH;
        for (int64_t left = blocks; left > 1; left = (left + 1) / 2) {
            for (int64_t b = 0; b < left; b += 2) {
                const float* a = sums + b * total;
                float* target = sums + b / 2 * total;
                for (int64_t i = 0; i < count * WIDTH; i += WIDTH)
                    store(target + i, b + 1 < left ? load(a + i) + load(a + total + i) : load(a + i));
            }
        }
        float columns_first[CHUNK * WIDTH];
        transpose(sums, WIDTH, count, WIDTH, columns_first, CHUNK);
        for (int64_t o = 0; o < smaller(O - g * WIDTH, WIDTH); ++o)
            std::memcpy(dw + (g * WIDTH + o) * K + k, columns_first + o * CHUNK, count * sizeof(float));
    });
}
