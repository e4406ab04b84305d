// RMS norm of the rows of a step of several: one block a row. It sums in the order in which a product of one row norms on the
// way, so that a row has the same bits alone.
#include "common.cuh"

template <typename T> __device__ __forceinline__ void norm(const NormArgs &a) {
    Stopwatch stopwatch(a.stamp);
    __shared__ float scratch[WARPS];
    const float *x = at<const float>(a.x) + (u64)blockIdx.x * a.hidden, *weight = at<const float>(a.weight);
    T *out = at<T>(a.out) + (u64)blockIdx.x * a.stride;
    constexpr u32 EACH = 8 * THREADS;
    float sum = 0.0f;
    // Eight columns a thread, and so on.
    for (u32 first = 8 * threadIdx.x; first < a.hidden; first += EACH) {
        float eight[8];
#pragma unroll
        for (u32 i = 0; i < 8; ++i) eight[i] = first + i < a.hidden ? x[first + i] : 0.0f;
#pragma unroll
        for (u32 i = 0; i < 8; ++i) sum = fmaf(eight[i], eight[i], sum);
    }
    float scale = 1.0f / sqrtf(block_sum(sum, scratch) / (float)a.hidden + a.epsilon);
    for (u32 i = threadIdx.x; i < a.stride; i += THREADS) out[i] = round_to<T>(i < a.hidden ? x[i] * scale * weight[i] : 0.0f);
}

extern "C" __global__ void __launch_bounds__(THREADS) step_norm_f16(const __grid_constant__ NormArgs a) { norm<half>(a); }
extern "C" __global__ void __launch_bounds__(THREADS) step_norm_bf16(const __grid_constant__ NormArgs a) { norm<__nv_bfloat16>(a); }
