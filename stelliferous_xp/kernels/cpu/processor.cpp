// Which of the built instruction sets can this processor run?
#include <cstring>

#include "isa.h"

namespace {

bool runs(const char* isa) {
    if (!std::strcmp(isa, "plain")) return true;
#if defined(HAS_NEON)
    if (!std::strcmp(isa, "neon")) return true;
#endif
#if defined(HAS_AVX512) || defined(HAS_AVX2)
    __builtin_cpu_init();
#endif
#if defined(HAS_AVX2)
    if (!std::strcmp(isa, "avx2")) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
#if defined(HAS_AVX512)
    if (!std::strcmp(isa, "avx512"))
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("fma");
#endif
    return false;
}

}  // namespace

extern "C" EXPORTED int runs_isa(const char* isa) { return runs(isa); }
