// The sum shared by forward and input gradient of a convolution, for one image:
// out[q, i, j] = chain over (c, t), t fastest, of weight[q, c, t] * image[c, i, j shifted by tap t].
// Two ways with equal bits: lanes over neighbouring outputs of a row, or lanes over q.
#pragma once

#include "activation.h"
#include "vector.h"

namespace KERNELS {

// Registers of sums with lanes over positions.
constexpr int TILE_OUTPUTS = REGISTERS == 32 ? 8 : 4;
constexpr int TILE_VECTORS = 2;

// Output positions handled together, so that their pixels and sums stay in the second cache.
constexpr int64_t POSITION_BLOCK = 256;

// What becomes of a sum before it is stored.
struct Finish {
    const float* bias;  // or null
    int64_t activation;
    float alpha;
};

// The activations done in registers; the others follow once the sums of an image are stored.
ALWAYS_INLINE bool is_cheap(int64_t activation) { return activation <= LEAKY_RELU; }

ALWAYS_INLINE Vector finished(Vector value, const Finish& finish, int64_t q) {
    if (finish.bias) value = value + broadcast(finish.bias[q]);
    if (finish.activation == RELU) return activate<RELU>(value, broadcast(finish.alpha));
    if (finish.activation == LEAKY_RELU) return activate<LEAKY_RELU>(value, broadcast(finish.alpha));
    return value;
}

struct Correlation {
    int64_t channels, channel_pitch, row_pitch;
    int64_t taps;
    const int64_t* offsets;  // of the taps
    int64_t rows, columns;   // of the output
    int64_t outputs;         // number of q
    int64_t across = 1;      // 2 or 3 where this many taps form a row, their pixels neighbours,
    int64_t split = 0;       // or, for stride 2, pixels of even and odd columns this far apart

    // Where rows of the output follow one another in the image without a gap (1 x 1 kernels), takes several as one.
    void join_rows();

    // Lanes over q waste nothing on narrow images but transpose their result.
    bool lanes_over_outputs() const;
    int64_t group() const;  // how many q are packed together
    int64_t packed_floats() const;
    int64_t scratch_floats() const;

    // weight[q, c, t] = w[q * q_pitch + c * c_pitch + order[t]], where order ascends or descends within [0, span);
    // packed as [q / group][c][t][q % group].
    void pack(const float* w, int64_t q_pitch, int64_t c_pitch, int64_t span, const int64_t* order, float* packed,
              int64_t workers) const;

    // For groups [first, last) of q. out[q, i, j] is at out + q * out_plane + i * out_row_pitch + j.
    void run(const float* image, const float* packed, int64_t first, int64_t last, float* out, int64_t out_plane,
             int64_t out_row_pitch, const Finish& finish, float* scratch) const;
};

// The two ways of Correlation::run, and the floats of scratch they need.
void run_over_positions(const Correlation& s, const float* image, const float* packed, int64_t first, int64_t last,
                        float* out, int64_t out_plane, int64_t out_row_pitch, const Finish& finish, float* scratch);
void run_over_outputs(const Correlation& s, const float* image, const float* packed, int64_t first, int64_t last,
                      float* out, int64_t out_plane, int64_t out_row_pitch, const Finish& finish, float* scratch);
int64_t scratch_over_positions(const Correlation& s);
int64_t scratch_over_outputs(const Correlation& s);

}  // namespace KERNELS
