// dw[o,i]: per block of 8 rows a chain of dy[n,o] * x[n,i], then the tree over blocks; db[o] by blocks alike.
#include "rows_tree.h"

using namespace KERNELS;

namespace {

constexpr int64_t BLOCK = 8;

// A task makes OUTPUTS x INPUTS of dw. It takes the rows in chunks of 32 blocks, which are whole subtrees.
constexpr int TILE_OUTPUTS = REGISTERS == 32 ? 12 : 6;
constexpr int TILE_VECTORS = 2;
constexpr int64_t OUTPUTS = 8 * TILE_OUTPUTS;
constexpr int64_t INPUTS = 512;
constexpr int64_t PANEL = TILE_VECTORS * WIDTH;
constexpr int CHUNK_LEVELS = 5;
constexpr int64_t CHUNK = BLOCK << CHUNK_LEVELS;

// target[o * pitch + column] for `outputs` <= TILE_OUTPUTS: the tree over the blocks of one chunk. dy lies as
// [row][TILE_OUTPUTS] and x as [row][PANEL]; the last vector of columns is `last` wide.
template <int VECTORS>
void chunk_tile(const float* dy, const float* x, int64_t rows, float* target, int64_t pitch, int64_t outputs,
                int64_t last) {
    Vector waiting[CHUNK_LEVELS + 1][TILE_OUTPUTS][VECTORS], node[TILE_OUTPUTS][VECTORS] = {};
    int top = 0;
    for (int64_t row = 0, blocks = 0; row < rows; ++blocks) {
        UNROLLED for (int o = 0; o < TILE_OUTPUTS; ++o)
            UNROLLED for (int v = 0; v < VECTORS; ++v) node[o][v] = Vector{};
        for (int64_t end = row + BLOCK < rows ? row + BLOCK : rows; row < end; ++row) {
            Vector b[VECTORS];
            UNROLLED for (int v = 0; v < VECTORS; ++v) b[v] = load(x + row * PANEL + v * WIDTH);
            UNROLLED for (int o = 0; o < TILE_OUTPUTS; ++o) {
                Vector factor = broadcast(dy[row * TILE_OUTPUTS + o]);
                UNROLLED for (int v = 0; v < VECTORS; ++v) node[o][v] = fma(factor, b[v], node[o][v]);
            }
        }
        // After the last block all that waits is joined.
        bool more = row < rows;
        for (int64_t size = 1; more ? (blocks & size) != 0 : top > 0; size *= 2) {
            --top;
            UNROLLED for (int o = 0; o < TILE_OUTPUTS; ++o)
                UNROLLED for (int v = 0; v < VECTORS; ++v) node[o][v] = waiting[top][o][v] + node[o][v];
        }
        if (more) {
            UNROLLED for (int o = 0; o < TILE_OUTPUTS; ++o)
                UNROLLED for (int v = 0; v < VECTORS; ++v) waiting[top][o][v] = node[o][v];
            ++top;
        }
    }
    UNROLLED for (int o = 0; o < TILE_OUTPUTS; ++o) {
        if (o >= outputs) break;
        UNROLLED for (int v = 0; v < VECTORS - 1; ++v) store(target + o * pitch + v * WIDTH, node[o][v]);
        store_partial(target + o * pitch + (VECTORS - 1) * WIDTH, node[o][VECTORS - 1], last);
    }
}

// target[row][i] = source[row * pitch + i] for i < count, and +0 up to SIZE.
template <int64_t SIZE>
void pack(const float* source, int64_t pitch, int64_t rows, int64_t count, float* target) {
    for (int64_t row = 0; row < rows; ++row, source += pitch, target += SIZE) {
        if (count == SIZE) {
            std::memcpy(target, source, SIZE * sizeof(float));
        } else {
            std::memcpy(target, source, count * sizeof(float));
            std::memset(target + count, 0, (SIZE - count) * sizeof(float));
        }
    }
}

// dy and x begin with the chunk's first row and the part's first output and input.
void chunk_gradient(const float* dy, int64_t O, const float* x, int64_t I, int64_t rows, float* target, int64_t pitch,
                    int64_t outputs, int64_t inputs, float* scratch) {
    float *panel = scratch, *tiles = scratch + CHUNK * PANEL;
    for (int64_t o = 0; o < outputs; o += TILE_OUTPUTS)
        pack<TILE_OUTPUTS>(dy + o, O, rows, outputs - o < TILE_OUTPUTS ? outputs - o : TILE_OUTPUTS, tiles + o * rows);
    for (int64_t i = 0; i < inputs; i += PANEL) {
        int64_t columns = inputs - i < PANEL ? inputs - i : PANEL;
        pack<PANEL>(x + i, I, rows, columns, panel);
        for (int64_t o = 0; o < outputs; o += TILE_OUTPUTS) {
            float* tile = target + o * pitch + i;
            if (columns > WIDTH)
                chunk_tile<2>(tiles + o * rows, panel, rows, tile, pitch, outputs - o, columns - WIDTH);
            else
                chunk_tile<1>(tiles + o * rows, panel, rows, tile, pitch, outputs - o, columns);
        }
    }
}

}  // namespace

extern "C" void KERNEL(linear_weight_gradient)(const float* dy, const float* x, float* dw, int64_t N, int64_t I,
                                               int64_t O, int64_t workers) {
    int64_t across = (I + INPUTS - 1) / INPUTS, down = (O + OUTPUTS - 1) / OUTPUTS;
    int64_t chunks = (N + CHUNK - 1) / CHUNK, part = OUTPUTS * INPUTS, levels = 0;
    while (chunks >> levels) ++levels;
    if (N == 0) std::memset(dw, 0, O * I * sizeof(float));
    int64_t packed = CHUNK * (PANEL + OUTPUTS), scratch_floats = packed + (chunks > 1 ? (levels + 1) * part : 0);
    workers = useful_workers(workers, N * I * O);
    parallel_for(N ? across * down : 0, workers, scratch_floats, [=](int64_t task, float* scratch) {
        int64_t o = task / across * OUTPUTS, outputs = O - o < OUTPUTS ? O - o : OUTPUTS;
        int64_t i = task % across * INPUTS, inputs = I - i < INPUTS ? I - i : INPUTS;
        float *waiting = scratch + packed, *result = dw + o * I + i;
        if (chunks == 1) return chunk_gradient(dy + o, O, x + i, I, N, result, I, outputs, inputs, scratch);

        int64_t top = 0, used = outputs * INPUTS;
        auto join = [&] {
            float *left = waiting + (top - 2) * part, *right = left + part;
            for_each_run(0, used, [=](int64_t k, auto run) { run.store(left + k, run.load(left + k) + run.load(right + k)); });
            --top;
        };
        for (int64_t chunk = 0; chunk < chunks; ++chunk) {
            int64_t row = chunk * CHUNK, rows = N - row < CHUNK ? N - row : CHUNK;
            chunk_gradient(dy + row * O + o, O, x + row * I + i, I, rows, waiting + top++ * part, INPUTS, outputs,
                           inputs, scratch);
            for (int64_t size = 1; chunk & size; size *= 2) join();
        }
        while (top > 1) join();
        for (int64_t r = 0; r < outputs; ++r)
            std::memcpy(result + r * I, waiting + r * INPUTS, inputs * sizeof(float));
    });
}

extern "C" void KERNEL(linear_bias_gradient)(const float* dy, float* db, int64_t N, int64_t O, int64_t workers) {
    struct Sum {
        Vector v;
    };
    tree_over_rows<Sum>(
        (N + BLOCK - 1) / BLOCK, O, workers,
        [=](int64_t block, int64_t o, auto run) {
            Sum sum = {};
            int64_t end = (block + 1) * BLOCK < N ? (block + 1) * BLOCK : N;
            for (int64_t n = block * BLOCK; n < end; ++n) sum.v += run.load(dy + n * O + o);
            return sum;
        },
        [](Sum a, int64_t, Sum b, int64_t) { return Sum{a.v + b.v}; },
        [=](int64_t o, auto run, Sum root) { run.store(db + o, root.v); });
}
