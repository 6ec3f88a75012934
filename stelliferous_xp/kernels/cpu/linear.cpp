// Linear layers: y = x w^T + b and the gradient of x. Both are products c = a * panels, a chain of fma for each output.
#include "elementwise.h"
#include "shuffle.h"

using namespace KERNELS;

namespace {

// A tile of sums kept in registers: TILE_ROWS rows by up to TILE_VECTORS vectors of columns.
constexpr int TILE_ROWS = 6;
constexpr int TILE_VECTORS = REGISTERS == 32 ? 4 : 2;
constexpr int64_t PANEL = TILE_VECTORS * WIDTH;
// Terms added before the sums are put down, so that their part of a panel stays in the second cache.
constexpr int64_t TERMS = 512;

// Columns of c = sum over `terms` of a[row, k] * panel[k, column]. The panel has a multiple of WIDTH columns.
struct Product {
    const float* a;
    int64_t a_pitch;
    const float* panel;
    int64_t panel_pitch, terms;
    float* c;
    int64_t c_pitch, columns;
    bool first;         // the sums begin here instead of going on from c
    const float* bias;  // added in the end, if there is one
};

template <int ROWS, int VECTORS> ALWAYS_INLINE void multiply_tile(const Product& p, int64_t row) {
    Vector sum[ROWS][VECTORS] = {};
    float* c = p.c + row * p.c_pitch;
    int64_t last = p.columns - (VECTORS - 1) * WIDTH;
    if (!p.first)
        for (int r = 0; r < ROWS; ++r) {
            for (int v = 0; v < VECTORS - 1; ++v) sum[r][v] = load(c + r * p.c_pitch + v * WIDTH);
            sum[r][VECTORS - 1] = load_partial(c + r * p.c_pitch + (VECTORS - 1) * WIDTH, last);
        }
    const float *a = p.a + row * p.a_pitch, *panel = p.panel;
    for (int64_t k = 0; k < p.terms; ++k, panel += p.panel_pitch) {
        Vector b[VECTORS];
        for (int v = 0; v < VECTORS; ++v) b[v] = load(panel + v * WIDTH);
        for (int r = 0; r < ROWS; ++r) {
            Vector factor = broadcast(a[r * p.a_pitch + k]);
            for (int v = 0; v < VECTORS; ++v) sum[r][v] = fma(factor, b[v], sum[r][v]);
        }
    }
    for (int v = 0; v < VECTORS; ++v) {
        int64_t count = v < VECTORS - 1 ? int64_t{WIDTH} : last;
        Vector bias = p.bias ? load_partial(p.bias + v * WIDTH, count) : Vector{};
        for (int r = 0; r < ROWS; ++r)
            store_partial(c + r * p.c_pitch + v * WIDTH, p.bias ? sum[r][v] + bias : sum[r][v], count);
    }
}

template <int VECTORS> void multiply_rows(const Product& p, int64_t rows) {
    int64_t row = 0;
    for (; row + TILE_ROWS <= rows; row += TILE_ROWS) multiply_tile<TILE_ROWS, VECTORS>(p, row);
    if (rows - row >= 3) multiply_tile<3, VECTORS>(p, row), row += 3;
    if (rows - row == 2) multiply_tile<2, VECTORS>(p, row);
    if (rows - row == 1) multiply_tile<1, VECTORS>(p, row);
}

struct Panel {
    const float* start;
    int64_t pitch;
};

// c [rows, columns] = a [rows, terms] * b, plus a bias if there is one. pack(scratch, column, columns, k, terms) says
// where that part of b lies, its columns filled up with anything to a multiple of WIDTH.
template <class Pack>
ALWAYS_INLINE void multiply(const float* a, float* c, const float* bias, int64_t rows, int64_t terms, int64_t columns,
                            int64_t workers, Pack pack) {
    if (rows == 0) return;
    int64_t panels = (columns + PANEL - 1) / PANEL;
    // Rows of one task: enough to pay for the packing, few enough to leave work for several workers.
    int64_t fewest = rows / (80 * TILE_ROWS), most = rows / (16 * TILE_ROWS), groups = 16 / (panels + 1);
    groups = groups < fewest ? fewest : groups > most ? most : groups;
    if (groups < 1) groups = 1;
    int64_t group = ((rows + groups - 1) / groups + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
    groups = (rows + group - 1) / group;
    workers = useful_workers(workers, rows * terms * columns);
    parallel_for(panels * groups, workers, PANEL * TERMS, [=](int64_t task, float* scratch) {
        int64_t row = task % groups * group, count = rows - row < group ? rows - row : group;
        int64_t column = task / groups * PANEL, end = column + PANEL < columns ? column + PANEL : columns;
        while (column < end) {
            int64_t left = end - column;
            int64_t vectors = left > 3 * WIDTH ? 4 : left > WIDTH ? 2 : 1;
            int64_t width = left < vectors * WIDTH ? left : vectors * WIDTH;
            for (int64_t k = 0; k == 0 || k < terms; k += TERMS) {
                int64_t some = terms - k < TERMS ? terms - k : TERMS;
                Panel panel = pack(scratch, column, width, k, some);
                Product p{a + row * terms + k, terms,   panel.start, panel.pitch,
                          some,                c + row * columns + column, columns, width,
                          k == 0,              bias && k + some >= terms ? bias + column : nullptr};
                if (vectors == 1) multiply_rows<1>(p, count);
                else if (vectors == 2) multiply_rows<2>(p, count);
                else multiply_rows<TILE_VECTORS>(p, count);
            }
            column += width;
        }
    });
}

}  // namespace

extern "C" void KERNEL(linear_forward)(const float* x, const float* w, const float* b, float* y, int64_t N, int64_t I,
                                       int64_t O, int64_t workers) {
    multiply(x, y, b, N, I, O, workers, [=](float* scratch, int64_t o, int64_t outputs, int64_t i, int64_t inputs) {
        transpose(w + o * I + i, I, outputs, inputs, scratch, PANEL);
        return Panel{scratch, PANEL};
    });
}

extern "C" void KERNEL(linear_input_gradient)(const float* dy, const float* w, float* dx, int64_t N, int64_t I,
                                              int64_t O, int64_t workers) {
    multiply(dy, dx, nullptr, N, O, I, workers, [=](float* scratch, int64_t i, int64_t inputs, int64_t o, int64_t outputs) {
        const float* corner = w + o * I + i;
        // Few rows do not pay for a copy; many would meet cache lines that push each other out.
        if (N <= 2 * TILE_ROWS && inputs % WIDTH == 0) return Panel{corner, I};
        for (int64_t k = 0; k < outputs; ++k)
            if (inputs == PANEL)
                std::memcpy(scratch + k * PANEL, corner + k * I, PANEL * sizeof(float));
            else
                for_each_run(0, inputs, [=](int64_t j, auto run) {
                    store(scratch + k * PANEL + j, run.load(corner + k * I + j));
                });
        return Panel{scratch, PANEL};
    });
}
