// Sums of a prompt's inputs over 32 columns each, which formats with a minimum multiply: a warp a sum.
#include "common.cuh"

template <typename T> __device__ __forceinline__ void column_sums(const SumsArgs &a) {
    Stopwatch stopwatch(a.stamp);
    u32 row = blockIdx.x;
    if (is_padding(a.count, row)) return;
    const T *from = at<const T>(a.input) + (u64)row * a.stride;
    float *to = at<float>(a.sums) + (u64)row * (a.stride / 32);
    for (u32 i = threadIdx.x; i < a.stride; i += THREADS) {
        float sum = warp_sum(widen(from[i]));
        if (i % 32 == 0) to[i / 32] = sum;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) column_sums_f16(const __grid_constant__ SumsArgs a) { column_sums<half>(a); }
extern "C" __global__ void __launch_bounds__(THREADS) column_sums_bf16(const __grid_constant__ SumsArgs a) { column_sums<__nv_bfloat16>(a); }
