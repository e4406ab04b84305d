// Attention of a step's rows by lanes, over a cache with one type for keys and values.
#include "step/attend.cuh"

#define KERNEL(T, NAME, C, CACHE, LANES, PIECES) \
    extern "C" __global__ void __launch_bounds__(THREADS, 2) \
        step_attend_##NAME##_##CACHE##_##LANES##x##PIECES(const __grid_constant__ AttendArgs a) { \
        attend<T, C, C, LANES, PIECES>(a); \
    }
// Named by the type that the cache's integers become.
#define QUANTS(T, NAME) \
    KERNEL(T, q8, Q8, NAME, 8, 1) \
    KERNEL(T, q8, Q8, NAME, 16, 1) \
    KERNEL(T, q8, Q8, NAME, 32, 1)
#define KERNELS(T, NAME) \
    KERNEL(T, NAME, float, f32, 8, 1) \
    KERNEL(T, NAME, float, f32, 16, 1) \
    KERNEL(T, NAME, float, f32, 32, 1) \
    KERNEL(T, NAME, float, f32, 32, 2) \
    KERNEL(T, NAME, half, f16, 8, 1) \
    KERNEL(T, NAME, half, f16, 16, 1) \
    KERNEL(T, NAME, half, f16, 32, 1) \
    KERNEL(T, NAME, __nv_bfloat16, bf16, 8, 1) \
    KERNEL(T, NAME, __nv_bfloat16, bf16, 16, 1) \
    KERNEL(T, NAME, __nv_bfloat16, bf16, 32, 1)
KERNELS(half, f16)
KERNELS(__nv_bfloat16, bf16)
QUANTS(half, f16)
QUANTS(__nv_bfloat16, bf16)
