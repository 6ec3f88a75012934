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

template <int VECTORS, bool ONE_TAP>
void sum_positions(const Correlation& s, const Run* runs, const TileTask& task, int64_t first_output,
                                 const Finish& finish) {
    Vector sum[TILE_OUTPUTS][VECTORS];
    const float* input[VECTORS];
    const float* weights = task.weights;
    UNROLLED for (int v = 0; v < VECTORS; ++v) input[v] = runs[v].input;
    UNROLLED for (int q = 0; q < TILE_OUTPUTS; ++q)
        UNROLLED for (int v = 0; v < VECTORS; ++v)
            sum[q][v] = task.begins ? Vector{} : load(task.sums + (q * VECTORS + v) * WIDTH);
    const int64_t taps = ONE_TAP ? 1 : s.taps;
    for (int64_t c = 0; c < task.channels; ++c) {
        for (int64_t t = 0; t < taps; ++t) {
            int64_t offset = ONE_TAP ? 0 : s.offsets[t];
            Vector x[VECTORS];
            UNROLLED for (int v = 0; v < VECTORS; ++v) x[v] = load(input[v] + offset);
            UNROLLED for (int q = 0; q < TILE_OUTPUTS; ++q) {
                Vector w = broadcast(weights[q]);
                UNROLLED for (int v = 0; v < VECTORS; ++v) sum[q][v] = fma(w, x[v], sum[q][v]);
            }
            weights += TILE_OUTPUTS;
        }
        UNROLLED for (int v = 0; v < VECTORS; ++v) input[v] += s.channel_pitch;
    }
    if (!task.ends) {
        UNROLLED for (int q = 0; q < TILE_OUTPUTS; ++q)
            UNROLLED for (int v = 0; v < VECTORS; ++v) store(task.sums + (q * VECTORS + v) * WIDTH, sum[q][v]);
        return;
    }
    UNROLLED for (int q = 0; q < TILE_OUTPUTS; ++q) {
        if (q >= task.outputs) continue;
        UNROLLED for (int v = 0; v < VECTORS; ++v) {
            Vector value = finished(sum[q][v], finish, first_output + q);
            if (task.count == WIDTH)
                store(runs[v].output + q * task.out_plane, value);
            else
                store_partial(runs[v].output + q * task.out_plane, value, task.count);
        }
    }
}

using SumPositions = void (*)(const Correlation&, const Run*, const TileTask&, int64_t, const Finish&);

// The first of a group of runs, in a walk over the rows from `row` on. The last run of a row overlaps the one before
// where the row is no multiple of WIDTH.
struct Walk {
    int64_t columns, row, column;
    int64_t start() const { return larger(smaller(column, columns - WIDTH), 0); }
    void next() {
        column += WIDTH;
        if (column >= columns) {
            column = 0;
            ++row;
        }
    }
};

}  // namespace

void run_over_positions(const Correlation& s, const float* image, const float* packed, int64_t first, int64_t last,
                        float* out, int64_t out_plane, int64_t out_row_pitch, const Finish& finish, float* scratch) {
    const int64_t block_rows = larger(POSITION_BLOCK / s.columns, 1);
    const int64_t channel_block = larger(TAP_BLOCK / s.taps, 1);
    const int64_t row_runs = (s.columns + WIDTH - 1) / WIDTH;
    const int64_t most_runs = round_up(block_rows * row_runs, TILE_VECTORS);
    // A single tap reads every pixel once per output group: gathered first, that is from one end to the other.
    const bool gathered = s.taps == 1;
    float* pixels = scratch + most_runs * TILE_OUTPUTS * WIDTH;
    const SumPositions whole_tile = gathered ? sum_positions<TILE_VECTORS, true> : sum_positions<TILE_VECTORS, false>;
    const SumPositions one_run = gathered ? sum_positions<1, true> : sum_positions<1, false>;

    for (int64_t top = 0; top < s.rows; top += block_rows) {
        const int64_t runs = smaller(block_rows, s.rows - top) * row_runs;
        Correlation block = s;
        if (gathered) {
            block.channel_pitch = runs * WIDTH;
            for (int64_t c = 0; c < s.channels; ++c) {
                Walk walk{s.columns, top, 0};
                const float* plane = image + s.offsets[0] + c * s.channel_pitch;
                for (int64_t r = 0; r < runs; ++r, walk.next()) {
                    const float* run = plane + walk.row * s.row_pitch + walk.start();
                    __builtin_prefetch(run + runs * WIDTH, 0, 2);  // the next block's
                    store(pixels + (c * runs + r) * WIDTH, load(run));
                }
            }
        }
        for (int64_t group = first; group < last; ++group) {
            int64_t q = group * TILE_OUTPUTS;
            for (int64_t c = 0; c < s.channels; c += channel_block) {
                TileTask task{smaller(s.channels - c, channel_block),
                              packed + (group * s.channels + c) * s.taps * TILE_OUTPUTS,
                              scratch,
                              c == 0,
                              c + channel_block >= s.channels,
                              smaller(s.outputs - q, TILE_OUTPUTS),
                              out_plane,
                              smaller(s.columns, WIDTH)};
                Walk walk{s.columns, top, 0};
                for (int64_t done = 0; done < runs;) {
                    Run tile[TILE_VECTORS];
                    int vectors = 0;
                    for (; vectors < TILE_VECTORS && done < runs; ++vectors, ++done, walk.next()) {
                        tile[vectors].input =
                            gathered ? pixels + (c * runs + done) * WIDTH
                                     : image + c * s.channel_pitch + walk.row * s.row_pitch + walk.start();
                        tile[vectors].output = out + q * out_plane + walk.row * out_row_pitch + walk.start();
                    }
                    if (vectors == TILE_VECTORS)
                        whole_tile(block, tile, task, q, finish);
                    else
                        for (int v = 0; v < vectors; ++v, task.sums += TILE_OUTPUTS * WIDTH)
                            one_run(block, tile + v, task, q, finish);
                    task.sums += TILE_OUTPUTS * TILE_VECTORS * WIDTH;
                }
            }
        }
    }
}

int64_t scratch_over_positions(const Correlation& s) {
    int64_t block_rows = larger(POSITION_BLOCK / s.columns, 1);
    int64_t runs = block_rows * ((s.columns + WIDTH - 1) / WIDTH);
    int64_t sums = round_up(runs, TILE_VECTORS) * TILE_OUTPUTS * WIDTH;
    return sums + (s.taps == 1 ? s.channels * runs * WIDTH : 0);
}

}  // namespace KERNELS
