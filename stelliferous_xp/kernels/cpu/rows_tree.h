// Trees over the rows (images) of a batch, one column (channel) a lane.
#pragma once

#include "elementwise.h"

namespace KERNELS {

// A node of a tree over rows holds `Values` for WIDTH columns and the number of rows below it. For each run of
// columns: leaf(row, column, run) makes a leaf, join(a, rows_of_a, b, rows_of_b) a node from two neighbours, and
// finish(column, run, root) takes the root.
template <class Values, class Leaf, class Join, class Finish>
ALWAYS_INLINE void tree_over_rows(int64_t rows, int64_t columns, int64_t workers, Leaf leaf, Join join, Finish finish) {
    workers = useful_workers(workers, rows * columns * 4);
    parallel_for((columns + WIDTH - 1) / WIDTH, workers, 0, [=](int64_t task, float*) {
        int64_t begin = task * WIDTH, end = begin + WIDTH;
        for_each_run(begin, end < columns ? end : columns, [=](int64_t column, auto run) {
            // Complete subtrees not yet joined: the bits of the number of rows read so far are their sizes.
            Values waiting[64] = {};
            int top = 0;
            for (int64_t row = 0; row < rows; ++row) {
                Values node = leaf(row, column, run);
                int64_t size = 1;
                for (; row & size; size *= 2) node = join(waiting[--top], size, node, size);
                waiting[top++] = node;
            }
            int64_t size = rows & -rows;
            for (int64_t done = size; top > 1; --top) {
                do size *= 2;
                while (!(rows & size));
                waiting[top - 2] = join(waiting[top - 2], size, waiting[top - 1], done);
                done += size;
            }
            finish(column, run, waiting[0]);
        });
    });
}

}  // namespace KERNELS
