// Attention by lanes for heads of up to 512 elements (Gemma 4). One block fits a multiprocessor, as
// src/cuda/step_attend.rs assumes.
#define HELD_PAIRS 8
#include "step/attend.cuh"

#define KERNEL(T, NAME, K, V, PIECES) \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) \
        step_attend_wide_##NAME(const __grid_constant__ AttendArgs a) { \
        attend<T, K, V, 32, PIECES>(a); \
    }
#define KERNELS(T, NAME) \
    KERNEL(T, NAME##_f32, float, float, 4) \
    KERNEL(T, NAME##_f16, half, half, 2) \
    KERNEL(T, NAME##_bf16, __nv_bfloat16, __nv_bfloat16, 2) \
    KERNEL(T, q8_##NAME, Q8, Q8, 2) \
    KERNEL(T, NAME##_f16_q8, half, Q8, 2) \
    KERNEL(T, NAME##_bf16_q8, __nv_bfloat16, Q8, 2) \
    KERNEL(T, NAME##_q8_f16, Q8, half, 2) \
    KERNEL(T, NAME##_q8_bf16, Q8, __nv_bfloat16, 2)
KERNELS(half, f16)
KERNELS(__nv_bfloat16, bf16)
