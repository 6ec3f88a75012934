#include "correlation.h"

#include "padded_image.h"
#include "parallel.h"
#include "shuffle.h"

namespace KERNELS {

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
    double transposition = 40.0 / (channels * taps + 40.0);
    double reuse = across > 1 ? 1.25 : 1.0;
    return over_outputs * (1.0 - transposition) * reuse > over_positions;
}

int64_t Correlation::group() const { return lanes_over_outputs() ? WIDTH : TILE_OUTPUTS; }

int64_t Correlation::packed_floats() const { return round_up(outputs, group()) * channels * taps; }

int64_t Correlation::scratch_floats() const {
    return lanes_over_outputs() ? scratch_over_outputs(*this) : scratch_over_positions(*this);
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
        run_over_positions(*this, image, packed, first, last, out, out_plane, out_row_pitch, finish, scratch);
}

}  // namespace KERNELS
