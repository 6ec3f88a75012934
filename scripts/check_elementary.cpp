// check_elementary FUNCTION PART PARTS: FUNCTION at every float32 argument of one part of all 2^32, against the C
// library's float64, and long double where float64 cannot tell which float32 is nearest. Prints
//   checksum of the results, largest error in ulp, its argument, largest distance in float32 numbers from the
//   correctly rounded value, its argument, results not correctly rounded, references too close to a tie to tell
// `check_elementary FUNCTION PART PARTS hash` prints only the checksum, `scalar` that of the form for one float.
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../stelliferous_xp/kernels/elementary.h"

using namespace KERNELS;

template <class T> T reference_sigmoid(T x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
template <class T> T reference_cdf(T x) { return std::erfc(-x * 0.70710678118654752440084436210485L) / 2; }
template <class T> T reference_density(T x) { return std::exp(-x * x / 2) * 0.39894228040143267793994605993438L; }

struct Function {
    const char* name;
    Vector (*vector)(Vector);
    float (*scalar)(float);
    double (*reference)(double);
    long double (*fine)(long double);
    double doubt;  // the relative error of `reference` is below this
};

#define FUNCTION(name, reference, doubt)                                                             \
    Function {                                                                                       \
        #name, [](Vector x) { return KERNELS::name(x); }, [](float x) { return KERNELS::name(x); }, \
            [](double x) { return reference(x); }, [](long double x) { return reference(x); }, doubt \
    }

const Function functions[] = {
    FUNCTION(exp, std::exp, 0x1p-50),
    FUNCTION(expm1, std::expm1, 0x1p-50),
    FUNCTION(log, std::log, 0x1p-50),
    FUNCTION(log1p, std::log1p, 0x1p-50),
    FUNCTION(sigmoid, reference_sigmoid, 0x1p-49),
    FUNCTION(tanh, std::tanh, 0x1p-49),
    FUNCTION(normal_cdf, reference_cdf, 0x1p-42),
    FUNCTION(normal_density, reference_density, 0x1p-42),
    FUNCTION(sin, std::sin, 0x1p-50),
    FUNCTION(cos, std::cos, 0x1p-50),
};

// Consecutive float32 numbers have consecutive places; -0 and +0 differ.
int64_t place(float x) {
    int64_t b = bits(x);
    return b >= 0 ? b : -1 - (b & 0x7fffffff);
}

double error_in_ulp(float result, long double exact, float rounded) {
    int exponent;
    std::frexp(rounded, &exponent);
    double ulp = std::ldexp(1.0, exponent - 24 < -149 ? -149 : exponent - 24);
    return static_cast<double>(std::fabs(result - exact)) / ulp;
}

int main(int count, char** arguments) {
    const Function* f = functions;
    while (std::strcmp(f->name, arguments[1])) ++f;
    uint64_t part = std::atoi(arguments[2]), parts = std::atoi(arguments[3]);
    uint64_t begin = (part << 32) / parts, end = ((part + 1) << 32) / parts;
    bool scalar = count > 4 && !std::strcmp(arguments[4], "scalar"), hash_only = count > 4;

    uint64_t checksum = 0, inexact = 0, unsure = 0;
    double largest_error = 0.5;  // of a correctly rounded result
    int64_t largest_distance = 0;
    float worst_error = 0, worst_distance = 0;
    for (uint64_t first = begin; first < end; first += WIDTH) {
        float x[WIDTH], y[WIDTH];
        for (int i = 0; i < WIDTH; ++i) x[i] = number(static_cast<int32_t>(first + i));
        if (scalar)
            for (int i = 0; i < WIDTH; ++i) y[i] = f->scalar(x[i]);
        else
            store(y, f->vector(load(x)));
        for (int i = 0; i < WIDTH; ++i) {
            uint32_t result = y[i] != y[i] ? NAN_BITS : bits(y[i]);
            checksum += (result ^ (first + i)) * 0x9e3779b97f4a7c15u ^ checksum >> 29;
            if (hash_only) continue;
            double exact = f->reference(x[i]);
            float rounded = static_cast<float>(exact);
            if (exact != exact || y[i] != y[i]) {
                if ((exact != exact) != (y[i] != y[i])) largest_distance = INT64_MAX, worst_distance = x[i];
                continue;
            }
            long double finer = exact;
            if (static_cast<float>(exact * (1 - f->doubt)) != static_cast<float>(exact * (1 + f->doubt))) {
                finer = f->fine(x[i]);
                rounded = static_cast<float>(finer);
                unsure += static_cast<float>(finer * (1 - 0x1p-60L)) != static_cast<float>(finer * (1 + 0x1p-60L));
            }
            if (bits(y[i]) == bits(rounded)) continue;
            ++inexact;
            int64_t distance = std::llabs(place(y[i]) - place(rounded));
            if (distance > largest_distance) largest_distance = distance, worst_distance = x[i];
            if (!std::isfinite(y[i]) || !std::isfinite(rounded)) continue;
            double error = error_in_ulp(y[i], finer, rounded);
            if (error > largest_error) largest_error = error, worst_error = x[i];
        }
    }
    std::printf("%016llx", static_cast<unsigned long long>(checksum));
    if (!hash_only)
        std::printf(" %.4f %a %lld %a %llu %llu", largest_error, worst_error, static_cast<long long>(largest_distance),
                    worst_distance, static_cast<unsigned long long>(inexact), static_cast<unsigned long long>(unsure));
    std::printf("\n");
}
