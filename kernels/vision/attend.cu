// Attention of vision towers, for heads of up to 128 columns: padded to a multiple of 16.
#include "vision/attend.cuh"

#define KERNEL(T, NAME, D, M) \
    extern "C" __global__ void __launch_bounds__(ATTEND_THREADS) \
        vision_attend_##NAME##_##D(const __grid_constant__ VisionAttendArgs a) { \
        attend_all<T, D, M>(a); \
    }
#define KERNELS(T, NAME) \
    KERNEL(T, NAME, 16, 2) \
    KERNEL(T, NAME, 32, 2) \
    KERNEL(T, NAME, 48, 2) \
    KERNEL(T, NAME, 64, 2) \
    KERNEL(T, NAME, 80, 2) \
    KERNEL(T, NAME, 96, 2) \
    KERNEL(T, NAME, 112, 1) \
    KERNEL(T, NAME, 128, 1)
KERNELS(half, f16)
KERNELS(__nv_bfloat16, bf16)
