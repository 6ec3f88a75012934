// Correlation with lanes over neighbouring positions of an output row: TILE_OUTPUTS x TILE_VECTORS registers of sums.
#include "correlation.h"
#include "padded_image.h"

namespace KERNELS {
namespace {

// (channel, tap) pairs handled together, so that their pixels stay in the first cache.
constexpr int64_t TAP_BLOCK = 144;

// One run of up to WIDTH neighbouring positions.
struct Run {
    const float* input;
    float* output;
};

// What a tile of runs is to do for channels [0, channels) of its input.
struct TileTask {
    int64_t channels;
    const float* weights;
    float* sums;  // between blocks of channels
    bool begins, ends;
    int64_t outputs, out_plane, count;
};

template <int VECTORS>
ALWAYS_INLINE void sum_positions(const Correlation& s, const Run* runs, const TileTask& task, int64_t first_output,
                                 const Finish& finish) {
    Vector sum[TILE_OUTPUTS][VECTORS] = {};
    const float* input[VECTORS];
    const float* weights = task.weights;
    for (int v = 0; v < VECTORS; ++v) input[v] = runs[v].input;
    if (!task.begins)
        for (int q = 0; q < TILE_OUTPUTS; ++q)
            for (int v = 0; v < VECTORS; ++v) sum[q][v] = load(task.sums + (q * VECTORS + v) * WIDTH);
    for (int64_t c = 0; c < task.channels; ++c) {
        for (int64_t t = 0; t < s.taps; ++t) {
            int64_t offset = s.offsets[t];
            Vector x[VECTORS];
            for (int v = 0; v < VECTORS; ++v) x[v] = load(input[v] + offset);
            for (int q = 0; q < TILE_OUTPUTS; ++q) {
                Vector w = broadcast(weights[q]);
                for (int v = 0; v < VECTORS; ++v) sum[q][v] = fma(w, x[v], sum[q][v]);
            }
            weights += TILE_OUTPUTS;
        }
        for (int v = 0; v < VECTORS; ++v) input[v] += s.channel_pitch;
    }
    if (!task.ends) {
        for (int q = 0; q < TILE_OUTPUTS; ++q)
            for (int v = 0; v < VECTORS; ++v) store(task.sums + (q * VECTORS + v) * WIDTH, sum[q][v]);
        return;
    }
    for (int q = 0; q < TILE_OUTPUTS; ++q) {
        if (q == task.outputs) break;
        for (int v = 0; v < VECTORS; ++v) {
            Vector value = finished(sum[q][v], finish, first_output + q);
            if (task.count == WIDTH)
                store(runs[v].output + q * task.out_plane, value);
            else
                store_partial(runs[v].output + q * task.out_plane, value, task.count);
        }
    }
}

}  // namespace

void run_over_positions(const Correlation& s, const float* image, const float* packed, int64_t first, int64_t last,
                        float* out, int64_t out_plane, int64_t out_row_pitch, const Finish& finish, float* sums) {
    const int64_t block_rows = larger(POSITION_BLOCK / s.columns, 1);
    const int64_t channel_block = larger(TAP_BLOCK / s.taps, 1);
    const int64_t row_runs = (s.columns + WIDTH - 1) / WIDTH;
    for (int64_t top = 0; top < s.rows; top += block_rows) {
        const int64_t runs = smaller(block_rows, s.rows - top) * row_runs;
        for (int64_t group = first; group < last; ++group) {
            int64_t q0 = group * TILE_OUTPUTS;
            for (int64_t c = 0; c < s.channels; c += channel_block) {
                TileTask task{smaller(s.channels - c, channel_block),
                              packed + (group * s.channels + c) * s.taps * TILE_OUTPUTS,
                              sums,
                              c == 0,
                              c + channel_block >= s.channels,
                              smaller(s.outputs - q0, TILE_OUTPUTS),
                              out_plane,
                              smaller(s.columns, WIDTH)};
                int64_t row = top, column = 0;
                for (int64_t done = 0; done < runs;) {
                    Run tile[TILE_VECTORS];
                    int vectors = 0;
                    for (; vectors < TILE_VECTORS && done < runs; ++vectors, ++done) {
                        // The last run of a row overlaps the one before where the row is no multiple of WIDTH.
                        int64_t start = larger(smaller(column, s.columns - WIDTH), 0);
                        tile[vectors].input = image + c * s.channel_pitch + row * s.row_pitch + start;
                        tile[vectors].output = out + q0 * out_plane + row * out_row_pitch + start;
                        column += WIDTH;
                        if (column >= s.columns) {
                            column = 0;
                            ++row;
                        }
                    }
                    if (vectors == TILE_VECTORS)
                        sum_positions<TILE_VECTORS>(s, tile, task, q0, finish);
                    else
                        for (int v = 0; v < vectors; ++v, task.sums += TILE_OUTPUTS * WIDTH)
                            sum_positions<1>(s, tile + v, task, q0, finish);
                    task.sums += TILE_OUTPUTS * TILE_VECTORS * WIDTH;
                }
            }
        }
    }
}

int64_t sums_over_positions(const Correlation& s) {
    int64_t block_rows = larger(POSITION_BLOCK / s.columns, 1);
    return (block_rows * round_up(s.columns, WIDTH) + TILE_VECTORS * WIDTH) * TILE_OUTPUTS;
}

}  // namespace KERNELS
