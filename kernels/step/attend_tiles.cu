// Attention of a step's rows on the tensor cores, over a cache with one type for keys and values.
#include "step/attend_tiles.cuh"

#define KERNEL(T, NAME, C, D, BLOCKS) \
    extern "C" __global__ void __launch_bounds__(TILE_THREADS, BLOCKS) \
        step_attend_##NAME##_##D(const __grid_constant__ AttendArgs a) { \
        attend<T, C, C, D>(a); \
    }
#define KERNELS(T, NAME, C) \
    KERNEL(T, NAME, C, 64, 3) \
    KERNEL(T, NAME, C, 80, 3) \
    KERNEL(T, NAME, C, 96, 3) \
    KERNEL(T, NAME, C, 128, 3) \
    KERNEL(T, NAME, C, 256, 2)
KERNELS(half, f16_f16, half)
KERNELS(__nv_bfloat16, bf16_bf16, __nv_bfloat16)
KERNELS(half, q8_f16, Q8)
KERNELS(__nv_bfloat16, q8_bf16, Q8)
