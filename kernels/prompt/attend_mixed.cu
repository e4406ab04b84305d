// Attention of a prompt's rows over a cache in which either the keys or the values are quants.
#include "prompt/attend.cuh"

#define KERNEL(T, NAME, K, V, D, M, KEYS, AHEAD, W) \
    extern "C" __global__ void __launch_bounds__(32 * ATTEND_WARPS) \
        prompt_attend_##NAME##_##D(const __grid_constant__ AttendArgs a) { \
        prompt_attend<T, K, V, D, M, KEYS, AHEAD, W>(a); \
    }
// For few rows, and for many.
#define WIDTH(T, NAME, K, V, D) \
    KERNEL(T, few_##NAME, K, V, D, 1, 64, true, D) \
    KERNEL(T, NAME, K, V, D, 2, 64, false, D)
#define KERNELS(T, NAME, K, V) \
    WIDTH(T, NAME, K, V, 64) \
    WIDTH(T, NAME, K, V, 80) \
    WIDTH(T, NAME, K, V, 96) \
    WIDTH(T, NAME, K, V, 128) \
    KERNEL(T, NAME, K, V, 256, 1, 32, false, 256) \
    KERNEL(T, NAME, K, V, 512, 1, 16, false, 256)
KERNELS(half, f16_f16_q8, half, Q8)
KERNELS(half, f16_q8_f16, Q8, half)
KERNELS(__nv_bfloat16, bf16_bf16_q8, __nv_bfloat16, Q8)
KERNELS(__nv_bfloat16, bf16_q8_bf16, Q8, __nv_bfloat16)
