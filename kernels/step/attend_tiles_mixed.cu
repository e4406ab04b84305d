// Attention of a step's rows on the tensor cores, over a cache in which either the keys or the values are quants.
#include "step/attend_tiles.cuh"

#define KERNEL(T, NAME, K, V, D, BLOCKS) \
    extern "C" __global__ void __launch_bounds__(TILE_THREADS, BLOCKS) \
        step_attend_##NAME##_##D(const __grid_constant__ AttendArgs a) { \
        attend<T, K, V, D>(a); \
    }
#define KERNELS(T, NAME, K, V) \
    KERNEL(T, NAME, K, V, 64, 3) \
    KERNEL(T, NAME, K, V, 80, 3) \
    KERNEL(T, NAME, K, V, 96, 3) \
    KERNEL(T, NAME, K, V, 128, 3) \
    KERNEL(T, NAME, K, V, 256, 2)
KERNELS(half, f16_f16_q8, half, Q8)
KERNELS(half, f16_q8_f16, Q8, half)
KERNELS(__nv_bfloat16, bf16_bf16_q8, __nv_bfloat16, Q8)
KERNELS(__nv_bfloat16, bf16_q8_bf16, Q8, __nv_bfloat16)
