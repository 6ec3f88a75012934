#include "correlation.h"

#include "activation.h"
#include "padded_image.h"

namespace KERNELS {
namespace {

// Tiles: with lanes over positions, TILE_OUTPUTS x up to TILE_VECTORS registers of sums; with lanes over outputs,
// 1 or 2 registers of q times one of TILE_POSITIONS.
#if defined(ISA_AVX512) || defined(ISA_NEON)
constexpr int TILE_OUTPUTS = 8;
constexpr int TILE_VECTORS = 2;
constexpr int WIDEST_TILE = 14;
#else
constexpr int TILE_OUTPUTS = 4;
constexpr int TILE_VECTORS = 2;
constexpr int WIDEST_TILE = 6;
#endif

// With lanes over outputs, the packed weights of one tile are kept to this many floats, to stay in the first cache.
constexpr int64_t WEIGHT_BLOCK = 4096;
// Output positions handled together, so that their pixels and sums stay in the second cache.
constexpr int64_t POSITION_BLOCK = 256;

ALWAYS_INLINE Vector finished(Vector value, const Finish& finish, int64_t q) {
    if (finish.bias) value = value + broadcast(finish.bias[q]);
    if (finish.activation == RELU) return value < Vector{} ? Vector{} : value;
    if (finish.activation == LEAKY_RELU) return value > Vector{} ? value : broadcast(finish.alpha) * value;
    return value;
}

// VECTORS runs of WIDTH positions, starting at inputs[v], for TILE_OUTPUTS outputs.
template <int VECTORS>
ALWAYS_INLINE void sum_positions(const Correlation& s, const float* const* inputs, const float* weights,
                                 Vector (*sums)[TILE_VECTORS]) {
    Vector sum[TILE_OUTPUTS][VECTORS] = {};
    const float* input[VECTORS];
    for (int v = 0; v < VECTORS; ++v) input[v] = inputs[v];
    for (int64_t c = 0; c < s.channels; ++c) {
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
    for (int q = 0; q < TILE_OUTPUTS; ++q)
        for (int v = 0; v < VECTORS; ++v) sums[q][v] = sum[q][v];
}

// Walks over the runs of WIDTH positions in the rows of an output. The last run of a row overlaps the one before it
// where the row is not a multiple of WIDTH; a row shorter than WIDTH is a single, partial run.
struct Runs {
    int64_t columns, row, last_row, column = 0;
    int64_t count() const { return columns < WIDTH ? columns : int64_t{WIDTH}; }
    bool done() const { return row == last_row; }
    int64_t start() const { return larger(smaller(column, columns - WIDTH), 0); }
    void next() {
        column += WIDTH;
        if (column >= columns) {
            column = 0;
            ++row;
        }
    }
};

void run_over_positions(const Correlation& s, const float* image, const float* packed, int64_t first, int64_t last,
                        float* out, int64_t out_plane, int64_t out_row_pitch, const Finish& finish) {
    int64_t block_rows = larger(POSITION_BLOCK / s.columns, 1);
    for (int64_t top = 0; top < s.rows; top += block_rows) {
        for (int64_t group = first; group < last; ++group) {
            const float* weights = packed + group * s.channels * s.taps * TILE_OUTPUTS;
            int64_t q0 = group * TILE_OUTPUTS;
            int64_t outputs = smaller(s.outputs - q0, TILE_OUTPUTS);
            Runs runs{s.columns, top, smaller(top + block_rows, s.rows)};
            while (!runs.done()) {
                const float* inputs[TILE_VECTORS];
                float* targets[TILE_VECTORS];
                int vectors = 0;
                for (; vectors < TILE_VECTORS && !runs.done(); ++vectors, runs.next()) {
                    inputs[vectors] = image + runs.row * s.row_pitch + runs.start();
                    targets[vectors] = out + q0 * out_plane + runs.row * out_row_pitch + runs.start();
                }
                Vector sums[TILE_OUTPUTS][TILE_VECTORS];
                if (vectors == TILE_VECTORS)
                    sum_positions<TILE_VECTORS>(s, inputs, weights, sums);
                else
                    sum_positions<1>(s, inputs, weights, sums);
                for (int64_t q = 0; q < outputs; ++q) {
                    for (int v = 0; v < vectors; ++v) {
                        Vector value = finished(sums[q][v], finish, q0 + q);
                        if (runs.count() == WIDTH)
                            store(targets[v] + q * out_plane, value);
                        else
                            store_partial(targets[v] + q * out_plane, value, runs.count());
                    }
                }
            }
        }
    }
}

// ROWS x COLUMNS positions for VECTORS registers of outputs, over channels [0, channels). The sums live in memory between
// blocks of channels, VECTORS * WIDTH floats a position.
template <int VECTORS, int ROWS, int COLUMNS>
void sum_outputs(const Correlation& s, int64_t channels, const float* input, const float* weights,
                 int64_t weights_pitch, float* sums, bool begin) {
    constexpr int POSITIONS = ROWS * COLUMNS;
    int64_t sums_row = s.columns * VECTORS * WIDTH;
    Vector sum[POSITIONS][VECTORS] = {};
    if (!begin)
        for (int p = 0; p < POSITIONS; ++p)
            for (int v = 0; v < VECTORS; ++v)
                sum[p][v] = load(sums + p / COLUMNS * sums_row + (p % COLUMNS * VECTORS + v) * WIDTH);
    for (int64_t c = 0; c < channels; ++c) {
        for (int64_t t = 0; t < s.taps; ++t) {
            const float* pixel = input + s.offsets[t];
            Vector w[VECTORS];
            for (int v = 0; v < VECTORS; ++v) w[v] = load(weights + v * weights_pitch);
            for (int p = 0; p < POSITIONS; ++p) {
                Vector x = broadcast(pixel[p / COLUMNS * s.row_pitch + p % COLUMNS]);
                for (int v = 0; v < VECTORS; ++v) sum[p][v] = fma(w[v], x, sum[p][v]);
            }
            weights += WIDTH;
        }
        input += s.channel_pitch;
    }
    for (int p = 0; p < POSITIONS; ++p)
        for (int v = 0; v < VECTORS; ++v)
            store(sums + p / COLUMNS * sums_row + (p % COLUMNS * VECTORS + v) * WIDTH, sum[p][v]);
}

using SumOutputs = void (*)(const Correlation&, int64_t, const float*, const float*, int64_t, float*, bool);

struct Tile {
    int rows, columns;
    SumOutputs one, two;  // registers of outputs
};

template <int ROWS, int COLUMNS>
constexpr Tile tile() {
    return {ROWS, COLUMNS, sum_outputs<1, ROWS, COLUMNS>, sum_outputs<2, ROWS, COLUMNS>};
}

// In the order of preference; the last fits everywhere.
constexpr Tile TILES[] = {
#if defined(ISA_AVX512) || defined(ISA_NEON)
    tile<1, 14>(), tile<2, 7>(), tile<1, 10>(), tile<1, 8>(), tile<1, 7>(), tile<2, 4>(),
#endif
    tile<1, 6>(),  tile<1, 4>(), tile<2, 2>(),  tile<1, 2>(), tile<4, 1>(), tile<1, 1>(),
};

const Tile& best_tile(int64_t rows, int64_t columns, int64_t columns_left) {
    for (const Tile& candidate : TILES) {
        bool fits = candidate.rows <= rows && candidate.columns <= columns_left;
        bool whole_rows = candidate.rows == 1 || columns % candidate.columns == 0;
        if (fits && whole_rows) return candidate;
    }
    return TILES[sizeof TILES / sizeof TILES[0] - 1];
}

void run_over_outputs(const Correlation& s, const float* image, const float* packed, int64_t first, int64_t last,
                      float* out, int64_t out_plane, int64_t out_row_pitch, const Finish& finish, float* sums) {
    int64_t weights_pitch = s.channels * s.taps * WIDTH;
    int64_t channel_block = larger(WEIGHT_BLOCK / (2 * WIDTH * s.taps), 1);
    int64_t block_rows = larger(POSITION_BLOCK / s.columns, 1);
    for (int64_t top = 0; top < s.rows; top += block_rows) {
        int64_t bottom = smaller(top + block_rows, s.rows);
        for (int64_t group = first; group < last; group += 2) {
            int64_t vectors = smaller(last - group, 2);
            for (int64_t c = 0; c < s.channels; c += channel_block) {
                int64_t channels = smaller(s.channels - c, channel_block);
                const float* weights = packed + group * weights_pitch + c * s.taps * WIDTH;
                for (int64_t i = top, height; i < bottom; i += height) {
                    height = best_tile(bottom - i, s.columns, s.columns).rows;
                    for (int64_t j = 0; j < s.columns;) {
                        const Tile& tile = best_tile(height, s.columns, s.columns - j);
                        SumOutputs sum = vectors == 2 ? tile.two : tile.one;
                        for (int64_t r = 0; r < height; r += tile.rows)
                            sum(s, channels, image + c * s.channel_pitch + (i + r) * s.row_pitch + j, weights,
                                weights_pitch, sums + ((i + r - top) * s.columns + j) * vectors * WIDTH, c == 0);
                        j += tile.columns;
                    }
                }
            }
            for (int64_t v = 0; v < vectors; ++v) {
                int64_t q0 = (group + v) * WIDTH;
                int64_t outputs = smaller(s.outputs - q0, WIDTH);
                for (int64_t i = top; i < bottom; ++i) {
                    for (int64_t j = 0; j < s.columns; j += WIDTH) {
                        int64_t count = smaller(s.columns - j, WIDTH);
                        const float* source = sums + (((i - top) * s.columns + j) * vectors + v) * WIDTH;
                        Vector block[WIDTH];
                        for (int p = 0; p < WIDTH; ++p)
                            block[p] = p < count ? load(source + p * vectors * WIDTH) : Vector{};
                        transpose_registers(block);
                        for (int q = 0; q < outputs; ++q) {
                            Vector value = finished(block[q], finish, q0 + q);
                            float* target = out + (q0 + q) * out_plane + i * out_row_pitch + j;
                            if (count == WIDTH)
                                store(target, value);
                            else
                                store_partial(target, value, count);
                        }
                    }
                }
            }
        }
    }
}

}  // namespace

void Correlation::join_rows() {
    if (row_pitch != columns) return;
    int64_t best = 1;
    double best_use = 0;
    for (int64_t joined = 1; joined <= rows && (joined == 1 || joined * columns <= POSITION_BLOCK); ++joined) {
        double use = double(joined * columns) / round_up(joined * columns, WIDTH);
        if (rows % joined == 0 && use >= best_use) {
            best = joined;
            best_use = use;
        }
    }
    rows /= best;
    columns *= best;
    row_pitch *= best;
}

bool Correlation::lanes_over_outputs() const {
    // The shares of the lanes that hold results, and some cost for the transposition.
    double over_positions = double(columns) / round_up(columns, WIDTH) * outputs / round_up(outputs, TILE_OUTPUTS);
    double over_outputs = double(outputs) / round_up(outputs, WIDTH);
    double transposition = 4.0 / (channels * taps + 4.0);
    return over_outputs * (1.0 - transposition) > over_positions;
}

int64_t Correlation::group() const { return lanes_over_outputs() ? WIDTH : TILE_OUTPUTS; }

int64_t Correlation::packed_floats() const { return round_up(outputs, group()) * channels * taps; }

int64_t Correlation::scratch_floats() const {
    int64_t positions = larger(POSITION_BLOCK / columns, 1) * columns;
    return lanes_over_outputs() ? positions * 2 * WIDTH : 0;
}

void Correlation::pack(const float* w, int64_t q_pitch, int64_t c_pitch, int64_t span, const int64_t* order,
                       float* packed, int64_t workers) const {
    const int64_t size = group(), sums = channels * taps;
    if (sums == 0) return;
    // Where the taps of a channel follow those of the one before, all channels are one matrix.
    const bool joined = c_pitch == taps && span == taps && order[0] == 0;
    const int64_t rows = joined ? 1 : channels, columns = joined ? sums : span;
    const int64_t chunk = joined ? smaller(sums, 64) : span;
    workers = useful_workers(workers, outputs * sums);
    parallel_for((outputs + size - 1) / size, workers, chunk * WIDTH, [=](int64_t g, float* transposed) {
        int64_t first = g * size, count = smaller(outputs - first, size);
        for (int64_t c = 0; c < rows; ++c) {
            float* target = packed + (g * sums + c * taps) * size;
            for (int64_t k = 0; k < columns; k += chunk) {
                int64_t width = smaller(columns - k, chunk);
                const float* source = w + first * q_pitch + c * c_pitch + k;
                if (q_pitch == 1 && !joined)
                    store(transposed, load_partial(source, count));
                else
                    transpose(source, q_pitch, count, width, transposed, WIDTH);
                for (int64_t t = 0; t < (joined ? width : taps); ++t, target += size) {
                    const float* values = transposed + (joined ? t : order[t]) * WIDTH;
                    if (size == WIDTH)
                        store(target, load(values));
                    else
                        std::memcpy(target, values, TILE_OUTPUTS * sizeof(float));
                }
            }
        }
    });
}

void Correlation::run(const float* image, const float* packed, int64_t first, int64_t last, float* out,
                      int64_t out_plane, int64_t out_row_pitch, const Finish& finish, float* scratch) const {
    if (lanes_over_outputs())
        run_over_outputs(*this, image, packed, first, last, out, out_plane, out_row_pitch, finish, scratch);
    else
        run_over_positions(*this, image, packed, first, last, out, out_plane, out_row_pitch, finish);
}

}  // namespace KERNELS
