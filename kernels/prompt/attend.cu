// Attention of a prompt's rows over a cache with one type for keys and values.
#include "prompt/attend.cuh"

#define KERNEL(T, NAME, C, D, M, KEYS, AHEAD, W) \
    extern "C" __global__ void __launch_bounds__(32 * ATTEND_WARPS) \
        prompt_attend_##NAME##_##D(const __grid_constant__ AttendArgs a) { \
        prompt_attend<T, C, C, D, M, KEYS, AHEAD, W>(a); \
    }
// For few rows, and for many.
#define WIDTH(T, NAME, C, D) \
    KERNEL(T, few_##NAME, C, D, 1, 64, true, D) \
    KERNEL(T, NAME, C, D, 2, 64, false, D)
#define KERNELS(T, NAME, C) \
    WIDTH(T, NAME, C, 64) \
    WIDTH(T, NAME, C, 80) \
    WIDTH(T, NAME, C, 96) \
    WIDTH(T, NAME, C, 128) \
    KERNEL(T, NAME, C, 256, 1, 32, false, 256) \
    KERNEL(T, NAME, C, 512, 1, 16, false, 256)
KERNELS(half, f16, half)
KERNELS(__nv_bfloat16, bf16, __nv_bfloat16)
KERNELS(half, q8_f16, Q8)
KERNELS(__nv_bfloat16, q8_bf16, Q8)
