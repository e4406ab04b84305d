// Attention of a step's rows by lanes, over a cache in which either the keys or the values are quants.
#include "step/attend.cuh"

// Two types need more registers than two blocks of a multiprocessor have. src/cuda/step_attend.rs counts on one block.
#define KERNEL(T, NAME, K, V, LANES) \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) \
        step_attend_##NAME##_##LANES##x1(const __grid_constant__ AttendArgs a) { \
        attend<T, K, V, LANES, 1>(a); \
    }
#define WIDTHS(T, NAME, K, V) \
    KERNEL(T, NAME, K, V, 8) \
    KERNEL(T, NAME, K, V, 16) \
    KERNEL(T, NAME, K, V, 32)
#define KERNELS(T, NAME) \
    WIDTHS(T, NAME##_f16_q8, half, Q8) \
    WIDTHS(T, NAME##_bf16_q8, __nv_bfloat16, Q8) \
    WIDTHS(T, NAME##_q8_f16, Q8, half) \
    WIDTHS(T, NAME##_q8_bf16, Q8, __nv_bfloat16)
KERNELS(half, f16)
KERNELS(__nv_bfloat16, bf16)
