// The sum shared by forward and input gradient of a convolution, for one image:
// out[q, i, j] = chain over (c, t), t fastest, of weight[q, c, t] * image[c, i, j shifted by tap t].
// Two ways with equal bits: lanes over neighbouring outputs of a row, or lanes over q.
#pragma once

#include "parallel.h"
#include "shuffle.h"
#include "vector.h"

namespace KERNELS {

// What becomes of a sum before it is stored.
struct Finish {
    const float* bias;  // or null
    int64_t activation;
    float alpha;
};

struct Correlation {
    int64_t channels, channel_pitch, row_pitch;
    int64_t taps;
    const int64_t* offsets;  // of the taps
    int64_t rows, columns;   // of the output
    int64_t outputs;         // number of q

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

}  // namespace KERNELS
