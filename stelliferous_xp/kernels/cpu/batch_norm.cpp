// Batch norm of x [N,C,P]: moments, normalisation, gradients; an activation may follow in the same pass.
#include "activation.h"
#include "planes.h"
#include "rows_tree.h"

using namespace KERNELS;

namespace {

struct Moments {
    Vector mean, m2;
};

struct Sums {
    Vector s1, s2;
};

// Some arrays [C], and their values for one run of x.
template <int COUNT> struct PerChannel {
    const float* arrays[COUNT];
};
template <int COUNT> struct Values {
    Vector v[COUNT];
};

// body(k, run, values) for every run of x; its lanes are positions or, where P = 1, channels.
template <int COUNT, class Body>
ALWAYS_INLINE void for_each_element(int64_t N, int64_t C, int64_t P, int64_t cost, int64_t workers,
                                    PerChannel<COUNT> channels, Body body) {
    if (P == 1)
        for_each_plane(N, C, cost, workers, 0, [=](int64_t n, float*) {
            for_each_run(0, C, [=](int64_t c, auto run) {
                Values<COUNT> values;
                for (int i = 0; i < COUNT; ++i) values.v[i] = run.load(channels.arrays[i] + c);
                body(n * C + c, run, values);
            });
        });
    else
        for_each_plane(N * C, P, cost, workers, 0, [=](int64_t plane, float*) {
            Values<COUNT> values;
            for (int i = 0; i < COUNT; ++i) values.v[i] = broadcast(channels.arrays[i][plane % C]);
            for_each_run(plane * P, plane * P + P, [=](int64_t k, auto run) { body(k, run, values); });
        });
}

// The first four values of a channel are always these.
template <int COUNT> ALWAYS_INLINE Vector normalised(const Values<COUNT>& c, Vector x) { return (x - c.v[0]) * c.v[1]; }
template <int COUNT> ALWAYS_INLINE Vector transformed(const Values<COUNT>& c, Vector xhat) {
    return fma(c.v[2], xhat, c.v[3]);
}
// dy behind the activation, from the dy in front of it.
template <int code, int COUNT>
ALWAYS_INLINE Vector before_activation(const Values<COUNT>& c, Vector dy, Vector xhat, Vector alpha) {
    if (code == IDENTITY) return dy;
    Vector z = transformed(c, xhat);
    return activation_gradient<code>(dy, reads_input(code) ? z : activate<code>(z, alpha), alpha);
}

ALWAYS_INLINE void plane_moments(const float* x, int64_t P, float* mean, float* m2) {
    Vector first = broadcast(x[0]);
    Lanes sum, squares;
    for_each_lane_run(P, [&](int part, int64_t k, auto run) {
        sum.part[part] += run.keep(run.load(x + k) - first, Vector{});
    });
    *mean = x[0] + sum.combine() / static_cast<float>(P);
    Vector m = broadcast(*mean);
    for_each_lane_run(P, [&](int part, int64_t k, auto run) {
        Vector d = run.keep(run.load(x + k) - m, Vector{});
        squares.part[part] = fma(d, d, squares.part[part]);
    });
    *m2 = squares.combine();
}

// The leaves of the tree of batch moments are planes; a plane of one element is worked out on the way.
ALWAYS_INLINE Moments element_moments(Vector x) {
    Vector zero = {};
    Vector mean = x + (zero + (x - x));
    Vector d = x - mean;
    return {mean, fma(d, d, zero)};
}

}  // namespace

extern "C" void KERNEL(batch_moments)(const float* x, float* mean, float* m2, int64_t N, int64_t C, int64_t P,
                                      int64_t workers) {
    float* means = P == 1 ? nullptr : shared_buffer(2 * N * C);
    float* m2s = means + N * C;
    if (P > 1)
        for_each_plane(N * C, P, 3, workers, 0, [=](int64_t plane, float*) {
            plane_moments(x + plane * P, P, means + plane, m2s + plane);
        });
    tree_over_rows<Moments>(
        N, C, workers,
        [=](int64_t n, int64_t c, auto run) {
            if (P == 1) return element_moments(run.load(x + n * C + c));
            return Moments{run.load(means + n * C + c), run.load(m2s + n * C + c)};
        },
        [=](Moments a, int64_t rows_a, Moments b, int64_t rows_b) {
            float count_a = static_cast<float>(rows_a * P), count = static_cast<float>((rows_a + rows_b) * P);
            float r = static_cast<float>(rows_b * P) / count;
            Vector delta = b.mean - a.mean;
            return Moments{fma(delta, broadcast(r), a.mean), fma(delta * delta, broadcast(count_a * r), a.m2 + b.m2)};
        },
        [=](int64_t c, auto run, Moments root) {
            run.store(mean + c, root.mean);
            run.store(m2 + c, root.m2);
        });
}

extern "C" void KERNEL(batch_norm_forward)(const float* x, const float* mean, const float* inv, const float* gamma,
                                           const float* beta, float* y, int64_t N, int64_t C, int64_t P,
                                           int64_t activation, float alpha, int64_t workers) {
    with_activation(activation, [=](auto chosen) {
        constexpr int code = decltype(chosen)::value;
        for_each_element(N, C, P, activation_cost(code) + 2, workers, PerChannel<4>{{mean, inv, gamma, beta}},
                         [=](int64_t k, auto run, const Values<4>& c) {
                             Vector z = transformed(c, normalised(c, run.load(x + k)));
                             run.store(y + k, activate<code>(z, broadcast(alpha)));
                         });
    });
}

template <int code>
static void backward_sums(const float* dy, const float* x, PerChannel<4> channels, float* s1, float* s2, int64_t N,
                          int64_t C, int64_t P, float alpha, int64_t workers) {
    float* s1s = P == 1 ? nullptr : shared_buffer(2 * N * C);
    float* s2s = s1s + N * C;
    if (P > 1)
        for_each_plane(N * C, P, activation_cost(code) + 4, workers, 0, [=](int64_t plane, float*) {
            Values<4> c;
            for (int i = 0; i < 4; ++i) c.v[i] = broadcast(channels.arrays[i][plane % C]);
            const float *plane_dy = dy + plane * P, *plane_x = x + plane * P;
            Lanes first, second;
            for_each_lane_run(P, [&](int part, int64_t k, auto run) {
                Vector xhat = normalised(c, run.load(plane_x + k));
                Vector g = before_activation<code>(c, run.load(plane_dy + k), xhat, broadcast(alpha));
                first.part[part] = run.keep(first.part[part] + g, first.part[part]);
                second.part[part] = run.keep(fma(g, xhat, second.part[part]), second.part[part]);
            });
            s1s[plane] = first.combine();
            s2s[plane] = second.combine();
        });
    tree_over_rows<Sums>(
        N, C, workers,
        [=](int64_t n, int64_t channel, auto run) {
            int64_t k = n * C + channel;
            if (P > 1) return Sums{run.load(s1s + k), run.load(s2s + k)};
            Values<4> c;
            for (int i = 0; i < 4; ++i) c.v[i] = run.load(channels.arrays[i] + channel);
            Vector xhat = normalised(c, run.load(x + k)), zero = {};
            Vector g = before_activation<code>(c, run.load(dy + k), xhat, broadcast(alpha));
            return Sums{zero + g, fma(g, xhat, zero) + zero};
        },
        [](Sums a, int64_t, Sums b, int64_t) { return Sums{a.s1 + b.s1, a.s2 + b.s2}; },
        [=](int64_t c, auto run, Sums root) {
            run.store(s1 + c, root.s1);
            run.store(s2 + c, root.s2);
        });
}

extern "C" void KERNEL(batch_norm_backward)(const float* dy, const float* x, const float* mean, const float* inv,
                                            const float* gamma, const float* beta, float* dx, float* dgamma,
                                            float* dbeta, int64_t N, int64_t C, int64_t P, int64_t activation,
                                            float alpha, int64_t workers) {
    with_activation(activation, [=](auto chosen) {
        constexpr int code = decltype(chosen)::value;
        backward_sums<code>(dy, x, {{mean, inv, gamma, beta}}, dbeta, dgamma, N, C, P, alpha, workers);
        float* factor = shared_buffer(3 * C);
        float *shift = factor + C, *slope = shift + C;
        float count = static_cast<float>(N * P);
        parallel_for(1, 1, 0, [=](int64_t, float*) {
            for (int64_t c = 0; c < C; ++c) {
                factor[c] = gamma[c] * inv[c];
                shift[c] = dbeta[c] / count;
                slope[c] = dgamma[c] / count;
            }
        });
        for_each_element(N, C, P, activation_cost(code) + 5, workers,
                         PerChannel<7>{{mean, inv, gamma, beta, factor, shift, slope}},
                         [=](int64_t k, auto run, const Values<7>& c) {
                             Vector xhat = normalised(c, run.load(x + k));
                             Vector g = before_activation<code>(c, run.load(dy + k), xhat, broadcast(alpha));
                             run.store(dx + k, c.v[4] * fma(-xhat, c.v[6], g - c.v[5]));
                         });
    });
}
