// The names that tell the copies of a kernel apart, one copy per instruction set. The build defines ISA.
#pragma once

#define ISA_JOIN_(a, b) a##_##b
#define ISA_JOIN(a, b) ISA_JOIN_(a, b)

// Everything a kernel source defines goes into this namespace, so that the linker never picks, say, the AVX-512
// copy of an inline function for the plain build. For the same reason kernels use no standard library templates.
#define KERNELS ISA_JOIN(kernels, ISA)

#if defined(_WIN32)
#define EXPORTED __declspec(dllexport)
#else
#define EXPORTED __attribute__((visibility("default")))
#endif

// extern "C" void KERNEL(conv2d_forward)(...) defines conv2d_forward_avx512 and its siblings.
#define KERNEL(name) EXPORTED ISA_JOIN(name, ISA)

#define ALWAYS_INLINE inline __attribute__((always_inline))

// Before a loop of constant length over an array of registers, so that the array never goes to memory.
#if defined(__clang__)
#define UNROLLED _Pragma("unroll")
#else
#define UNROLLED _Pragma("GCC unroll 64")
#endif
